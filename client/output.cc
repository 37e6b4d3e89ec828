#include "client/output.h"

#include <fmt/format.h>

#include <algorithm>

#include "client/table.h"

namespace cellbatch {
namespace {

using Json = nlohmann::json;

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : ", ") + word;
  }
  return text;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text;
  for (int64_t dim : shape) {
    text += (text.empty() ? "" : ", ") + (dim < 0 ? std::string("?") : std::to_string(dim));
  }
  return "[" + text + "]";
}

std::string ValuesText(const Tensor& tensor, int64_t most) {
  std::vector<std::string> words;
  size_t count = 0;
  if (tensor.datatype == "BYTES") {
    const auto texts = tensor.AsTexts();
    count = texts.ok() ? texts->size() : 0;
    for (size_t i = 0; i < count && static_cast<int64_t>(i) < most; ++i) {
      words.push_back(fmt::format("\"{}\"", (*texts)[i]));
    }
  } else if (const auto numbers = tensor.AsDoubles(); numbers.ok()) {
    count = numbers->size();
    for (size_t i = 0; i < count && static_cast<int64_t>(i) < most; ++i) {
      words.push_back(fmt::format("{:.6g}", (*numbers)[i]));
    }
  }
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : "  ") + word;
  }
  return count > words.size() ? fmt::format("{}  … ({} values)", text, count) : text;
}

Json ValuesJson(const Tensor& tensor) {
  if (tensor.datatype == "BYTES") {
    const auto texts = tensor.AsTexts();
    return texts.ok() ? Json(*texts) : Json();
  }
  const auto numbers = tensor.AsDoubles();
  if (!numbers.ok()) {
    return Json();
  }
  if (tensor.datatype.find("INT") == std::string::npos) {
    return Json(*numbers);
  }
  return Json(std::vector<int64_t>(numbers->begin(), numbers->end()));
}

Json ToJson(const CountedTime& time) { return {{"count", time.count}, {"ns", time.ns}}; }

std::string Mean(const CountedTime& time) {
  return time.count == 0 ? std::string(kNothing)
                         : FormatDuration(static_cast<double>(time.ns) / time.count);
}

Json TensorsJson(const std::vector<TensorMetadata>& tensors) {
  Json list = Json::array();
  for (const TensorMetadata& tensor : tensors) {
    list.push_back({{"name", tensor.name}, {"datatype", tensor.datatype}, {"shape", tensor.shape}});
  }
  return list;
}

std::string YesNo(bool truth) { return truth ? "yes" : "no"; }

}  // namespace

std::string ToText(const InferResult& result, int64_t most_values) {
  TextTable table({"output", "datatype", "shape", "values"});
  for (const Tensor& tensor : result.outputs) {
    table.AddRow({tensor.name, tensor.datatype, ShapeText(tensor.shape),
                  // A leading blank keeps the column of values to the left.
                  " " + ValuesText(tensor, most_values)});
  }
  return fmt::format("{} version {}\n{}", result.model, result.version, table.ToText());
}

std::string ToText(const ServerHealth& health) {
  return fmt::format("live    {}\nready   {}\nhealth  {}\n", YesNo(health.live),
                     YesNo(health.ready), health.serving);
}

std::string ToText(const ServerMetadata& server, const std::vector<IndexedModel>& models) {
  return fmt::format("{} {}\nextensions  {}\n\n{}", server.name, server.version,
                     server.extensions.empty() ? kNothing : Joined(server.extensions),
                     ToText(models));
}

std::string ToText(const ModelMetadata& metadata) {
  TextTable table({"tensor", "name", "datatype", "shape"});
  for (const TensorMetadata& tensor : metadata.inputs) {
    table.AddRow({"input", tensor.name, tensor.datatype, ShapeText(tensor.shape)});
  }
  for (const TensorMetadata& tensor : metadata.outputs) {
    table.AddRow({"output", tensor.name, tensor.datatype, ShapeText(tensor.shape)});
  }
  return fmt::format("{}  platform {}  versions {}\n{}", metadata.name, metadata.platform,
                     Joined(metadata.versions), table.ToText());
}

std::string ToText(const ModelConfiguration& config) {
  TextTable table({"parameter", "value"});
  for (const auto& [key, value] : config.parameters) {
    table.AddRow({key, value});
  }
  return fmt::format("{}  platform {}\n{}", config.name, config.platform, table.ToText());
}

std::string ToText(const std::vector<ModelCounts>& counts) {
  TextTable table({"model", "version", "requests", "tasks", "requests/task", "failed", "mean",
                   "queue", "compute"});
  for (const ModelCounts& model : counts) {
    table.AddRow(
        {model.name, model.version, FormatCount(model.inferences), FormatCount(model.executions),
         model.executions == 0 ? std::string(kNothing)
                               : fmt::format("{:.2f}", static_cast<double>(model.inferences) /
                                                           static_cast<double>(model.executions)),
         FormatCount(model.fail.count), Mean(model.success), Mean(model.queue),
         Mean(model.compute_infer)});
  }
  return table.ToText();
}

std::string ToText(const std::vector<IndexedModel>& models) {
  TextTable table({"model", "version", "state", "reason"});
  for (const IndexedModel& model : models) {
    table.AddRow({model.name, model.version, model.state, model.reason});
  }
  return models.empty() ? "no models\n" : table.ToText();
}

std::string ToText(const std::vector<ModelTimes>& times) {
  TextTable table(
      {"model", "version", "phase", "requests", "mean", "p50", "p90", "p99", "p99.9", "max"});
  std::string failures;
  for (const ModelTimes& model : times) {
    for (const PhaseTimes& phase : model.phases) {
      std::vector<std::string> row = {model.name, model.version, phase.phase,
                                      FormatCount(phase.count)};
      for (uint64_t ns :
           {phase.mean_ns, phase.p50_ns, phase.p90_ns, phase.p99_ns, phase.p999_ns, phase.max_ns}) {
        row.push_back(phase.count == 0 ? kNothing : FormatDuration(static_cast<double>(ns)));
      }
      table.AddRow(std::move(row));
    }
    if (model.failed > 0) {
      failures += fmt::format("{} version {}: {} more began and ended otherwise\n", model.name,
                              model.version, FormatCount(model.failed));
    }
  }
  return table.ToText() + failures;
}

std::string ToText(const absl::Status& error) {
  return fmt::format("{}: {}\n", absl::StatusCodeToString(error.code()),
                     std::string(error.message()));
}

Json ToJson(const InferResult& result) {
  Json outputs = Json::array();
  for (const Tensor& tensor : result.outputs) {
    outputs.push_back({{"name", tensor.name},
                       {"datatype", tensor.datatype},
                       {"shape", tensor.shape},
                       {"data", ValuesJson(tensor)}});
  }
  return {{"model_name", result.model},
          {"model_version", result.version},
          {"id", result.id},
          {"outputs", outputs}};
}

Json ToJson(const ServerHealth& health) {
  return {{"live", health.live}, {"ready", health.ready}, {"health", health.serving}};
}

Json ToJson(const ServerMetadata& server) {
  return {{"name", server.name}, {"version", server.version}, {"extensions", server.extensions}};
}

Json ToJson(const ModelMetadata& metadata) {
  return {{"name", metadata.name},
          {"versions", metadata.versions},
          {"platform", metadata.platform},
          {"inputs", TensorsJson(metadata.inputs)},
          {"outputs", TensorsJson(metadata.outputs)}};
}

Json ToJson(const ModelConfiguration& config) {
  const Json parsed = Json::parse(config.json, nullptr, /*allow_exceptions=*/false);
  return parsed.is_discarded() ? Json::object() : parsed;
}

Json ToJson(const std::vector<ModelCounts>& counts) {
  Json list = Json::array();
  for (const ModelCounts& model : counts) {
    Json batches = Json::array();
    for (const ModelCounts::Batch& batch : model.batches) {
      batches.push_back({{"size", batch.size}, {"compute", ToJson(batch.compute)}});
    }
    list.push_back({{"name", model.name},
                    {"version", model.version},
                    {"inference_count", model.inferences},
                    {"execution_count", model.executions},
                    {"last_inference_ms", model.last_inference_ms},
                    {"success", ToJson(model.success)},
                    {"fail", ToJson(model.fail)},
                    {"queue", ToJson(model.queue)},
                    {"compute_input", ToJson(model.compute_input)},
                    {"compute_infer", ToJson(model.compute_infer)},
                    {"compute_output", ToJson(model.compute_output)},
                    {"batches", batches}});
  }
  return {{"models", list}};
}

Json ToJson(const std::vector<IndexedModel>& models) {
  Json list = Json::array();
  for (const IndexedModel& model : models) {
    list.push_back({{"name", model.name},
                    {"version", model.version},
                    {"state", model.state},
                    {"reason", model.reason}});
  }
  return {{"models", list}};
}

Json ToJson(const std::vector<ModelTimes>& times) {
  Json list = Json::array();
  for (const ModelTimes& model : times) {
    Json phases = Json::object();
    for (const PhaseTimes& phase : model.phases) {
      phases[phase.phase] = {{"count", phase.count},   {"mean_ns", phase.mean_ns},
                             {"p50_ns", phase.p50_ns}, {"p90_ns", phase.p90_ns},
                             {"p99_ns", phase.p99_ns}, {"p99.9_ns", phase.p999_ns},
                             {"max_ns", phase.max_ns}};
    }
    list.push_back({{"name", model.name},
                    {"version", model.version},
                    {"covered_seconds", model.covered_seconds},
                    {"failed", model.failed},
                    {"phases", phases}});
  }
  return {{"models", list}};
}

Json ToJson(const absl::Status& error) {
  return {
      {"error",
       {{"code", absl::StatusCodeToString(error.code())}, {"text", std::string(error.message())}}}};
}

}  // namespace cellbatch
