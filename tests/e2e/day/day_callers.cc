#include "tests/e2e/day/day_callers.h"

#include <chrono>
#include <map>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "tests/fault/served_models.h"

namespace cellbatch {

namespace {

using Json = nlohmann::json;

// So that a call that is never answered is a call that was lost, and no test that hangs.
constexpr std::chrono::seconds kLimit(60);

void Prepare(grpc::ClientContext& context, const std::string& token) {
  context.set_deadline(std::chrono::system_clock::now() + kLimit);
  if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
}

DayReply ReplyOf(const grpc::Status& status) {
  return {.code = status.error_code(), .text = status.error_message()};
}

std::string HeaderOf(const std::string& head, const std::string& name) {
  const size_t at = head.find("\r\n" + name + ": ");
  if (at == head.npos) return "";
  const size_t begin = at + 2 + name.size() + 2;
  return head.substr(begin, head.find("\r\n", begin) - begin);
}

// An error over HTTP, as gRPC would have said it.
DayReply ErrorOf(const DayPage& page) {
  static const std::map<int, int> kCodes = {{400, 3}, {401, 16}, {403, 7},
                                            {404, 5}, {429, 8},  {503, 14}};
  const auto code = kCodes.find(page.status);
  const Json said = Json::parse(page.body, nullptr, false);
  const std::string text = said.is_object() ? said.value("error", "") : page.body;
  if (code != kCodes.end()) return {.code = code->second, .text = text};
  return {.code = grpc::StatusCode::UNKNOWN,
          .text = fmt::format("HTTP {} \"{}\" {}", page.status, page.head, text)};
}

}  // namespace

std::unique_ptr<GrpcCaller> DayWay::Grpc() const {
  return std::make_unique<GrpcCaller>(
      grpc,
      ::grpc::SslCredentials(
          {.pem_root_certs = root, .pem_private_key = own.key, .pem_cert_chain = own.certificate}));
}

std::unique_ptr<TlsClient> DayWay::Http() const {
  return std::make_unique<TlsClient>(
      http, TlsClientOptions{.root = root,
                             .own = own,
                             .protocol = "http/1.1",
                             .silence_seconds = static_cast<int>(kLimit.count())});
}

GrpcCaller& DayGrpcCaller::Caller() {
  const bool enough = calls_each_ > 0 && calls_ % calls_each_ == 0;
  if (caller_ == nullptr || enough) caller_ = way_.Grpc();
  ++calls_;
  return *caller_;
}

DayReply DayGrpcCaller::Ask(int model, int version, int question, const std::string& token) {
  inference::ModelInferRequest request = Words(DayTokens(question), DayName(model));
  if (version > 0) request.set_model_version(std::to_string(version));
  inference::ModelInferResponse answer;
  const grpc::Status status = Caller().Infer(
      request, answer, [&](grpc::ClientContext& context) { Prepare(context, token); });
  if (!status.ok()) return ReplyOf(status);
  if (answer.model_name() != DayName(model)) return {.code = -1, .text = "of another model"};
  return {.version = std::stoi(answer.model_version()), .bits = answer.raw_output_contents(0)};
}

DayReply DayGrpcCaller::Change(int model, bool load, const std::string& token) {
  grpc::ClientContext context;
  Prepare(context, token);
  if (load) {
    inference::RepositoryModelLoadRequest request;
    inference::RepositoryModelLoadResponse answer;
    request.set_model_name(DayName(model));
    return ReplyOf(Caller().stub().RepositoryModelLoad(&context, request, &answer));
  }
  inference::RepositoryModelUnloadRequest request;
  inference::RepositoryModelUnloadResponse answer;
  request.set_model_name(DayName(model));
  return ReplyOf(Caller().stub().RepositoryModelUnload(&context, request, &answer));
}

std::string DayGrpcCaller::State(int model, const std::string& token) {
  grpc::ClientContext context;
  Prepare(context, token);
  inference::RepositoryIndexResponse index;
  const grpc::Status status = Caller().stub().RepositoryIndex(&context, {}, &index);
  if (!status.ok()) return status.error_message();
  for (const auto& entry : index.models()) {
    if (entry.name() != DayName(model)) continue;
    return entry.state() == "READY" ? "READY " + entry.version() : entry.state();
  }
  return "";
}

TlsClient& DayHttpCaller::Connection() {
  const bool enough = calls_each_ > 0 && calls_ % calls_each_ == 0;
  if (connection_ == nullptr || enough) connection_ = way_.Http();
  ++calls_;
  return *connection_;
}

DayPage DayHttpCaller::Call(const std::string& request, const std::string& body,
                            const std::string& token) {
  TlsClient& connection = Connection();
  const std::string bearer = token.empty() ? "" : "Authorization: Bearer " + token + "\r\n";
  DayPage page;
  if (!connection.shaken() ||
      !connection.Send(fmt::format("{} HTTP/1.1\r\nHost: a\r\n{}Content-Length: {}\r\n\r\n{}",
                                   request, bearer, body.size(), body))) {
    return page;
  }
  while (!page.head.ends_with("\r\n\r\n")) {
    const std::string next = connection.Receive(1);
    if (next.empty()) return page;
    page.head += next;
  }
  const std::string length = HeaderOf(page.head, "Content-Length");
  if (length.empty()) return page;
  page.body = connection.Receive(std::stoul(length));
  // After a refusal that did not read what was sent.
  if (HeaderOf(page.head, "Connection") == "close") connection_.reset();
  if (page.body.size() == std::stoul(length)) page.status = std::stoi(page.head.substr(9, 3));
  return page;
}

DayReply DayHttpCaller::Ask(int model, int version, int question, const std::string& token) {
  const std::vector<int32_t>& tokens = DayTokens(question);
  const std::string named = version == 0 ? "" : fmt::format("/versions/{}", version);
  const DayPage page = Call(
      fmt::format("POST /v2/models/{}{}/infer", DayName(model), named),
      fmt::format(
          R"({{"inputs":[{{"name":"TOKENS","shape":[{}],"datatype":"INT32","data":[{}]}}],"parameters":{{"binary_data_output":true}}}})",
          tokens.size(), fmt::join(tokens, ",")),
      token);
  if (page.status != 200) return ErrorOf(page);
  const std::string json_bytes = HeaderOf(page.head, "Inference-Header-Content-Length");
  if (json_bytes.empty()) return {.code = -1, .text = "no binary: " + page.head};
  const Json said = Json::parse(page.body.substr(0, std::stoul(json_bytes)), nullptr, false);
  if (!said.is_object() || said.value("model_name", "") != DayName(model)) {
    return {.code = -1, .text = "of another model: " + said.dump()};
  }
  const size_t bytes = said["outputs"][0]["parameters"].value("binary_data_size", size_t{0});
  return {.version = std::stoi(said.value("model_version", "0")),
          .bits = page.body.substr(std::stoul(json_bytes), bytes)};
}

DayReply DayHttpCaller::Change(int model, bool load, const std::string& token) {
  const DayPage page = Call(
      fmt::format("POST /v2/repository/models/{}/{}", DayName(model), load ? "load" : "unload"), "",
      token);
  return page.status == 200 ? DayReply() : ErrorOf(page);
}

std::string DayHttpCaller::ServerName() { return Connection().ServerName(); }

}  // namespace cellbatch
