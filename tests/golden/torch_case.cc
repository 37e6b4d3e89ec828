#include "tests/golden/torch_case.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cells/unfold/chain_unfolder.h"
#include "cells/weights/safetensors.h"
#include "server/convert/import_onnx.h"
#include "server/convert/import_torch.h"
#include "server/repository/model_loader.h"

namespace cellbatch::golden {
namespace {

using Json = nlohmann::json;

// As in torch_cases.py: splitmix64 from the FNV-1a hash of "seed/name".
class Numbers {
 public:
  Numbers(uint64_t seed, const std::string& name) {
    for (const unsigned char byte : fmt::format("{}/{}", seed, name)) {
      state_ = (state_ ^ byte) * 1099511628211ull;
    }
  }
  uint64_t Next() {
    state_ += 0x9E3779B97F4A7C15ull;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  std::vector<float> Weights(int64_t count, int shift) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& v : values) {
      const int64_t whole = static_cast<int64_t>(Next() >> 40) - (int64_t{1} << 23);
      v = std::ldexp(static_cast<float>(whole), -23 - shift);
    }
    return values;
  }

 private:
  uint64_t state_ = 14695981039346656037ull;
};

TorchCase FromJson(const Json& json, const std::string& folder) {
  TorchCase made;
  made.name = json.at("name");
  made.nonlinearity = json.at("nonlinearity");
  if (json.contains("onnx")) made.onnx = folder + "/" + json.at("onnx").get<std::string>();
  made.seed = json.at("seed");
  made.input = json.at("input");
  made.vocabulary = json.at("vocabulary");
  for (const Json& t : json.at("tensors")) made.tensors.push_back({t.at(0), t.at(1), t.at(2)});
  for (const Json& r : json.at("runs")) {
    TorchRun& run = made.runs.emplace_back();
    run.length = r.at("length");
    for (const auto& [key, value] : r.items()) {
      if (key != "length") run.answers[key] = value.get<std::vector<double>>();
    }
  }
  return made;
}

}  // namespace

absl::StatusOr<std::vector<TorchCase>> ReadTorchCases(const std::string& path) {
  std::ifstream file(path);
  const Json json = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    return absl::InvalidArgumentError(fmt::format("{}: no file of cases", path));
  }
  std::vector<TorchCase> cases;
  const std::string folder = std::filesystem::path(path).parent_path().string();
  for (const Json& c : json.at("cases")) cases.push_back(FromJson(c, folder));
  return cases;
}

absl::StatusOr<std::shared_ptr<const Model>> ConvertTorchCase(const TorchCase& torch_case,
                                                              const std::string& folder,
                                                              ModelId id) {
  std::filesystem::create_directories(folder);
  std::vector<std::vector<float>> values;
  std::vector<SafetensorsSource> sources;
  values.reserve(torch_case.tensors.size());
  for (const TorchTensor& t : torch_case.tensors) {
    int64_t count = 1;
    for (const int64_t d : t.shape) count *= d;
    values.push_back(Numbers(torch_case.seed, t.name).Weights(count, t.shift));
    sources.push_back({t.name, t.shape, values.back()});
  }
  ImportOptions options;
  options.from = fmt::format("{}/{}.safetensors", folder, torch_case.name);
  options.repository = folder;
  options.name = torch_case.name;
  options.overwrite = true;
  if (torch_case.onnx.empty()) {
    options.hints.nonlinearity = torch_case.nonlinearity;
    if (absl::Status s = WriteSafetensors(options.from, sources); !s.ok()) return s;
  } else {
    options.from = torch_case.onnx;
  }
  const absl::StatusOr<Imported> imported =
      torch_case.onnx.empty() ? ImportTorch(options) : ImportOnnx(options);
  if (!imported.ok()) return imported.status();
  return LoadModel(imported->folder, options.name, options.version, id, LoaderLimits());
}

TorchInput::TorchInput(const TorchCase& torch_case, int64_t length)
    : length_(length), width_(torch_case.input) {
  if (torch_case.vocabulary == 0) {
    x_ = Numbers(torch_case.seed, fmt::format("X/{}", length)).Weights(length * width_, 0);
    return;
  }
  Numbers numbers(torch_case.seed, fmt::format("TOKENS/{}", length));
  for (int64_t i = 0; i < length; ++i) {
    tokens_.push_back(
        static_cast<int32_t>(numbers.Next() % static_cast<uint64_t>(torch_case.vocabulary)));
  }
}

TorchInput::TorchInput(const std::vector<const TorchInput*>& sequences) {
  for (const TorchInput* s : sequences) {
    length_ += s->length_;
    width_ = s->width_;
    tokens_.insert(tokens_.end(), s->tokens_.begin(), s->tokens_.end());
    x_.insert(x_.end(), s->x_.begin(), s->x_.end());
    lengths_.push_back(static_cast<int32_t>(s->length_));
  }
}

RequestInput TorchInput::Request(const std::vector<std::string>& outputs) const {
  RequestInput input;
  if (tokens_.empty()) {
    input.tensors.push_back({kVectorsInput,
                             WireType::kFp32,
                             {length_, width_},
                             {reinterpret_cast<const std::byte*>(x_.data()), x_.size() * 4}});
  } else {
    input.tensors.push_back(
        {kTokensInput,
         WireType::kInt32,
         {length_},
         {reinterpret_cast<const std::byte*>(tokens_.data()), tokens_.size() * 4}});
  }
  if (!lengths_.empty()) {
    input.tensors.push_back(
        {kLengthsInput,
         WireType::kInt32,
         {static_cast<int64_t>(lengths_.size())},
         {reinterpret_cast<const std::byte*>(lengths_.data()), lengths_.size() * 4}});
  }
  input.outputs.assign(outputs.begin(), outputs.end());
  return input;
}

absl::StatusOr<CellGraph> Unfolded(const Model& model, const RequestInput& input) {
  CellGraph graph;
  if (absl::Status s = model.unfolder->Unfold(input, graph); !s.ok()) return s;
  constexpr int kTasksInFlight = 2;
  if (absl::Status s = graph.Seal(model, kTasksInFlight); !s.ok()) return s;
  return graph;
}

std::vector<double> Doubles(const ReturnedTensor& tensor) {
  std::vector<double> values;
  for (size_t at = 0; at < tensor.bytes.size(); at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, tensor.bytes.data() + at, sizeof(value));
    values.push_back(value);
  }
  return values;
}

}  // namespace cellbatch::golden
