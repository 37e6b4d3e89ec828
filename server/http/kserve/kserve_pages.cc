#include "server/http/kserve/kserve_pages.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "proto/grpc_service.pb.h"
#include "server/http/kserve/proto_json.h"
#include "server/requests/client_text.h"

namespace cellbatch {

namespace {

constexpr size_t kMaxBody = 4096;  // of what is no inference

int CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAborted:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    case absl::StatusCode::kCancelled:
      return 499;  // as Nginx and Triton say it; nobody reads it
    default:
      return 500;
  }
}

HttpReply JsonReply(const nlohmann::ordered_json& json) {
  return {.content_type = kJsonType, .body = TextOf(json)};
}

template <typename Response>
HttpReply ReplyOf(const absl::StatusOr<Response>& response) {
  return response.ok() ? JsonReply(JsonOf(*response)) : ErrorReply(response.status());
}

template <typename Request>
Request Named(const KServePath& path) {
  Request request;
  request.set_name(path.model);
  request.set_version(path.version);
  return request;
}

HttpReply Unserved(std::string_view what) {
  return ErrorReply(absl::UnimplementedError(fmt::format("{} is not served here", what)));
}

absl::Status CheckBody(std::string_view body) {
  if (body.size() <= kMaxBody) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("the body has {} bytes, the most is {}", body.size(), kMaxBody));
}

// {"parameters": {"NAME": true, ..}}: their names are what is looked at.
template <typename Request>
absl::Status ReadParameters(std::string_view body, Request& request) {
  if (absl::Status status = CheckBody(body); !status.ok()) return status;
  if (body.empty()) return absl::OkStatus();
  const auto asked = nlohmann::json::parse(body, nullptr, false);
  const bool good =
      asked.is_object() && (!asked.contains("parameters") || asked["parameters"].is_object());
  if (!good) {
    return absl::InvalidArgumentError(R"(the body is not {"parameters": {..}}, {} or empty)");
  }
  if (!asked.contains("parameters")) return absl::OkStatus();
  for (const auto& [name, value] : asked["parameters"].items()) {
    (*request.mutable_parameters())[name].set_string_param(value.dump());
  }
  return absl::OkStatus();
}

absl::Status ReadSettings(std::string_view body, inference::LogSettingsRequest& request) {
  if (absl::Status status = CheckBody(body); !status.ok()) return status;
  if (body.empty()) return absl::OkStatus();
  const auto asked = nlohmann::json::parse(body, nullptr, false);
  if (!asked.is_object()) {
    return absl::InvalidArgumentError(R"(the body is not {"log_info": true, ..}, {} or empty)");
  }
  for (const auto& [name, value] : asked.items()) {
    auto& setting = (*request.mutable_settings())[name];
    if (value.is_boolean()) {
      setting.set_bool_param(value.get<bool>());
    } else if (value.is_string()) {
      setting.set_string_param(value.get<std::string>());
    } else if (value.is_number_unsigned() &&
               value.get<uint64_t>() <= std::numeric_limits<uint32_t>::max()) {
      setting.set_uint32_param(value.get<uint32_t>());
    } else {
      return absl::InvalidArgumentError(fmt::format(
          "setting {} is {}: expected is true, false, a text or a whole number below 2^32",
          Quoted(name), Quoted(value.dump())));
    }
  }
  return absl::OkStatus();
}

std::string TextOfSetting(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// null: no value.
absl::Status ReadTraceSettings(std::string_view body, inference::TraceSettingRequest& request) {
  if (absl::Status status = CheckBody(body); !status.ok()) return status;
  if (body.empty()) return absl::OkStatus();
  const auto asked = nlohmann::json::parse(body, nullptr, false);
  if (!asked.is_object()) {
    return absl::InvalidArgumentError(
        R"(the body is not {"trace_level": ["TIMESTAMPS"], "trace_rate": "500", ..}, {} or empty)");
  }
  for (const auto& [name, value] : asked.items()) {
    auto& setting = (*request.mutable_settings())[name];
    if (value.is_array()) {
      for (const auto& one : value) setting.add_value(TextOfSetting(one));
    } else if (!value.is_null()) {
      setting.add_value(TextOfSetting(value));
    }
  }
  return absl::OkStatus();
}

// `said` in JSON, for clients; the status, for probes.
HttpReply ReadyReply(nlohmann::ordered_json said, bool ready) {
  said["ready"] = ready;
  HttpReply reply = JsonReply(said);
  if (!ready) reply.status = 503;
  return reply;
}

}  // namespace

HttpReply ErrorReply(const absl::Status& status, std::optional<int32_t> pushback_ms) {
  HttpReply reply{.status = CodeOf(status),
                  .content_type = kJsonType,
                  .body = TextOf({{"error", std::string(status.message())}})};
  if (absl::IsUnauthenticated(status)) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (pushback_ms.value_or(-1) >= 0) {
    const int32_t seconds = std::max(1, (*pushback_ms + 999) / 1000);
    reply.headers.emplace_back("Retry-After", std::to_string(seconds));
  }
  return reply;
}

HttpReply KServePages::Answer(const KServePath& path, std::string_view body,
                              const Access* by) const {
  switch (path.ask) {
    case KServeAsk::kServer:
      return JsonReply(JsonOf(kserve_.ServerMetadata()));
    case KServeAsk::kLive:
      return JsonReply(JsonOf(kserve_.ServerLive()));
    case KServeAsk::kReady:
      return ReadyReply(nlohmann::ordered_json::object(), kserve_.ServerReady().ready());
    case KServeAsk::kModelReady: {
      const auto ready = kserve_.ModelReady(Named<inference::ModelReadyRequest>(path));
      return ready.ok() ? ReadyReply({{"name", path.model}}, ready->ready())
                        : ErrorReply(ready.status());
    }
    case KServeAsk::kMetadata:
      return ReplyOf(kserve_.ModelMetadata(Named<inference::ModelMetadataRequest>(path)));
    case KServeAsk::kConfig: {
      const auto response = kserve_.ModelConfig(Named<inference::ModelConfigRequest>(path));
      return response.ok() ? JsonReply(JsonOf(response->config())) : ErrorReply(response.status());
    }
    case KServeAsk::kStatistics:
      return ReplyOf(kserve_.ModelStatistics(Named<inference::ModelStatisticsRequest>(path)));
    case KServeAsk::kIndex:
      return Index(body, by);
    case KServeAsk::kLogging:
      return Logging(body);
    case KServeAsk::kTrace:
      return Tracing(path.model, body);
    case KServeAsk::kUnserved:
    case KServeAsk::kInfer:
    case KServeAsk::kLoad:
    case KServeAsk::kUnload:
      break;
  }
  return Unserved("this part of Triton's protocol");
}

void KServePages::Change(const KServePath& path, std::string_view body,
                         std::function<void(HttpReply)> reply) const {
  ModelChangeDone done = [reply = std::move(reply)](const absl::Status& status) {
    reply(status.ok() ? JsonReply(nlohmann::ordered_json::object()) : ErrorReply(status));
  };
  const auto change = [&](auto request, const auto& make) {
    request.set_model_name(path.model);
    const absl::Status status = ReadParameters(body, request);
    if (!status.ok()) return done(status);
    make(request, std::move(done));
  };
  if (path.ask == KServeAsk::kLoad) {
    return change(inference::RepositoryModelLoadRequest(), [this](const auto& request, auto then) {
      kserve_.RepositoryModelLoad(request, std::move(then));
    });
  }
  change(inference::RepositoryModelUnloadRequest(), [this](const auto& request, auto then) {
    kserve_.RepositoryModelUnload(request, std::move(then));
  });
}

// {"log_info": false, "log_verbose_level": 0, ..}; nothing: they are read.
HttpReply KServePages::Logging(std::string_view body) const {
  inference::LogSettingsRequest request;
  if (absl::Status status = ReadSettings(body, request); !status.ok()) return ErrorReply(status);
  const auto response = kserve_.LogSettings(request);
  if (!response.ok()) return ErrorReply(response.status());
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const char* name : {"log_file", "log_info", "log_warning", "log_error", "log_verbose_level",
                           "log_format", "log_failed_requests"}) {  // in Triton's order, then ours
    const auto found = response->settings().find(name);
    if (found == response->settings().end()) continue;
    const auto& value = found->second;
    if (value.has_bool_param()) {
      json[name] = value.bool_param();
    } else if (value.has_uint32_param()) {
      json[name] = value.uint32_param();
    } else {
      json[name] = value.string_param();
    }
  }
  return JsonReply(json);
}

HttpReply KServePages::Tracing(const std::string& model, std::string_view body) const {
  inference::TraceSettingRequest request;
  request.set_model_name(model);
  if (absl::Status s = ReadTraceSettings(body, request); !s.ok()) return ErrorReply(s);
  const auto response = kserve_.TraceSetting(request);
  if (!response.ok()) return ErrorReply(response.status());
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const char* name : {"trace_level", "trace_rate", "trace_count", "log_frequency",
                           "trace_file", "trace_mode", "url"}) {
    const auto found = response->settings().find(name);
    if (found == response->settings().end()) continue;
    const auto& values = found->second.value();
    if (std::string_view(name) == "trace_level") {
      json[name] = std::vector<std::string>(values.begin(), values.end());
    } else {
      json[name] = values.empty() ? std::string() : values[0];
    }
  }
  return JsonReply(json);
}

// {"ready": true}: of those alone that are.
HttpReply KServePages::Index(std::string_view body, const Access* by) const {
  inference::RepositoryIndexRequest request;
  if (!body.empty()) {
    if (const absl::Status status = CheckBody(body); !status.ok()) return ErrorReply(status);
    const auto asked = nlohmann::json::parse(body, nullptr, false);
    const bool good =
        asked.is_object() && (!asked.contains("ready") || asked["ready"].is_boolean());
    if (!good) {
      return ErrorReply(absl::InvalidArgumentError(
          R"(the body is not {"ready": true}, {"ready": false} or empty)"));
    }
    request.set_ready(asked.value("ready", false));
  }
  return JsonReply(JsonOf(kserve_.RepositoryIndex(request, by))["models"]);
}

}  // namespace cellbatch
