#include "server/import_torch.h"

#include <fmt/format.h>
#include <google/protobuf/text_format.h>

#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "cells/weights/safetensors.h"
#include "server/model_loader.h"

namespace cellbatch {
namespace {

namespace fs = std::filesystem;

absl::Status Wrong(std::string text) { return absl::InvalidArgumentError(std::move(text)); }

const char* CellFile(TorchCell cell) {
  switch (cell) {
    case TorchCell::kLstm:
      return "lstm";
    case TorchCell::kGru:
      return "gru";
    case TorchCell::kRnnTanh:
      return "elman";
    case TorchCell::kRnnRelu:
      return "elman_relu";
  }
  return "";
}

void AddParameter(disk::CellTypeConfig& type, const char* name,
                  std::initializer_list<std::string> tensors) {
  disk::ParameterSource* source = nullptr;
  for (const std::string& tensor : tensors) {
    if (tensor.empty()) continue;  // a module without biases
    if (source == nullptr) source = type.add_parameters();
    source->set_name(name);
    source->add_tensors(tensor);
  }
}

void AddReads(disk::CellTypeConfig& type, const char* through) {
  disk::ReadsThrough* reads = type.add_reads();
  reads->set_input("x");
  reads->set_through(through);
}

void AddChain(const TorchModel& model, const TorchChain& chain, size_t layer,
              disk::CellTypeConfig& type) {
  type.set_cell(CellFile(model.cell));
  type.set_priority(static_cast<int32_t>(layer));
  if (layer > 0) {
    AddReads(type, model.bidirectional() ? "pair" : "below");
  } else if (!model.embedding.empty()) {
    AddReads(type, "embed");
    AddParameter(type, "embed/table", {model.embedding});
  }
  AddParameter(type, "W", {chain.weight_ih});
  AddParameter(type, "U", {chain.weight_hh});
  if (model.cell == TorchCell::kGru) {
    AddParameter(type, "b_in", {chain.bias_ih});
    AddParameter(type, "b_rec", {chain.bias_hh});
  } else {
    AddParameter(type, "b", {chain.bias_ih, chain.bias_hh});
  }
}

absl::Status CheckOptions(const ImportOptions& options) {
  const std::string& name = options.name;
  const bool sane = !name.empty() && name.size() <= 128 && name[0] != '.' &&
                    std::all_of(name.begin(), name.end(), [](unsigned char c) {
                      return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
                    });
  if (!sane) {
    return Wrong(
        fmt::format("--name is \"{}\": a model's name has 1 to 128 letters, digits, _ - . and "
                    "starts with no dot",
                    name));
  }
  if (options.repository.empty()) return Wrong("--repository is missing: the folder of the models");
  if (options.from.empty()) return Wrong("--from is missing: a .safetensors file");
  if (options.version < 1)
    return Wrong(fmt::format("--version is {}, the least is 1", options.version));
  if (options.max_sequence_length < 0) {
    return Wrong(fmt::format("--max_sequence_length is {}", options.max_sequence_length));
  }
  if (options.precision == "FP32") return absl::OkStatus();
  if (options.precision == "BF16") return Wrong("--precision BF16 is not offered yet; FP32 is");
  return Wrong(fmt::format("--precision is \"{}\", FP32 is offered", options.precision));
}

// Copies the tensors that the model uses, as fp32.
absl::StatusOr<int64_t> CopyWeights(const SafetensorsFile& file,
                                    const disk::ModelDescription& config, const std::string& to,
                                    const std::string& from) {
  std::map<std::string, std::vector<float>> values;
  int64_t count = 0;
  for (const disk::CellTypeConfig& type : config.cell_types()) {
    for (const disk::ParameterSource& source : type.parameters()) {
      for (const std::string& tensor : source.tensors()) {
        if (values.contains(tensor)) continue;
        const SafetensorsEntry& entry = *file.Find(tensor);
        std::vector<float>& into = values[tensor];
        into.resize(static_cast<size_t>(entry.num_elements()));
        count += entry.num_elements();
        if (absl::Status s = file.ReadTensor(entry, absl::MakeSpan(into)); !s.ok()) return s;
        const auto bad =
            std::find_if(into.begin(), into.end(), [](float v) { return !std::isfinite(v); });
        if (bad == into.end()) continue;
        return Wrong(fmt::format("{}: tensor \"{}\" holds {} at element {}", from, tensor, *bad,
                                 bad - into.begin()));
      }
    }
  }
  std::vector<SafetensorsSource> sources;
  for (const auto& [name, data] : values) sources.push_back({name, file.Find(name)->shape, data});
  absl::Status s = WriteSafetensors(to, sources, {{{"made_by", "cellbatch-convert"}}});
  if (!s.ok()) return s;
  return count;
}

std::string ConfigText(const disk::ModelDescription& config, const ImportOptions& options) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(config, &text);
  return fmt::format(
      "# Made by cellbatch-convert from {}. The fields are explained in proto/model.proto.\n{}",
      fs::path(options.from).filename().string(), text);
}

absl::Status WriteText(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::trunc);
  out << text;
  out.close();
  if (out) return absl::OkStatus();
  return absl::InternalError(fmt::format("{}: cannot be written", path));
}

}  // namespace

disk::ModelDescription DescribeTorchModel(const TorchModel& model, const std::string& name) {
  disk::ModelDescription config;
  config.set_name(name);
  disk::ChainUnfolder& chain = *config.mutable_chain();
  chain.set_input(model.embedding.empty() ? disk::VECTORS : disk::TOKENS);
  for (size_t l = 0; l < model.layers.size(); ++l) {
    disk::ChainLayer& layer = *chain.add_layers();
    disk::CellTypeConfig& forward = *config.add_cell_types();
    const char* end = model.bidirectional() ? "_forward" : "";
    forward.set_name(fmt::format("{}_l{}{}", CellFile(model.cell), l, end));
    AddChain(model, model.layers[l].forward, l, forward);
    layer.set_forward(forward.name());
    if (!model.bidirectional()) continue;
    disk::CellTypeConfig& backward = *config.add_cell_types();
    backward.set_name(fmt::format("{}_l{}_backward", CellFile(model.cell), l));
    AddChain(model, *model.layers[l].reverse, l, backward);
    layer.set_backward(backward.name());
  }
  if (model.head.empty()) return config;
  disk::CellTypeConfig& head = *config.add_cell_types();
  head.set_name("head");
  head.set_cell("linear");
  head.set_priority(static_cast<int32_t>(model.layers.size()));
  AddReads(head, model.bidirectional() ? "pair" : "below");
  AddParameter(head, "W", {model.head});
  AddParameter(head, "b", {model.head_bias});
  chain.set_head("head");
  return config;
}

absl::StatusOr<Imported> ImportTorch(const ImportOptions& options) {
  if (absl::Status s = CheckOptions(options); !s.ok()) return s;
  const LoaderLimits limits;
  const auto file =
      SafetensorsFile::Open(options.from, static_cast<uint64_t>(limits.max_weight_bytes));
  if (!file.ok()) return file.status();
  absl::StatusOr<TorchModel> model = ReadTorchNames(file->header().tensors, options.hints);
  if (!model.ok()) {
    return Wrong(fmt::format("{}:\n{}", options.from, std::string(model.status().message())));
  }
  Imported imported{.model = *std::move(model),
                    .folder = (fs::path(options.repository) / options.name).string()};
  disk::ModelDescription config = DescribeTorchModel(imported.model, options.name);
  config.set_max_sequence_length(options.max_sequence_length);

  const std::string version = fmt::format("{}/{}", imported.folder, options.version);
  std::error_code error;
  if (fs::exists(version + "/weights.safetensors", error) && !options.overwrite) {
    return absl::AlreadyExistsError(
        fmt::format("{} is there; --overwrite replaces it, --version N makes another", version));
  }
  fs::create_directories(version, error);
  if (error) return absl::InternalError(fmt::format("{}: {}", version, error.message()));
  const auto count = CopyWeights(*file, config, version + "/weights.safetensors", options.from);
  if (!count.ok()) return count.status();
  imported.parameters = *count;
  absl::Status s = WriteText(imported.folder + "/config.textproto", ConfigText(config, options));
  if (!s.ok()) return s;
  // What was made must load: whoever starts the server later should not be the one to find out.
  const auto loaded = LoadModel(imported.folder, options.name, options.version, ModelId(0), limits);
  if (!loaded.ok()) return loaded.status();
  return imported;
}

std::string Summary(const Imported& imported, const ImportOptions& options) {
  const TorchModel& m = imported.model;
  const int64_t width = m.hidden * (m.bidirectional() ? 2 : 1);
  std::string text = fmt::format(
      "model    {} (version {}) in {}\n"
      "cells    {}, {} layer{}, {}, {} -> {} units, {} parameters\n",
      options.name, options.version, imported.folder, Name(m.cell), m.layers.size(),
      m.layers.size() == 1 ? "" : "s", m.bidirectional() ? "both directions" : "one direction",
      m.input, m.hidden, imported.parameters);
  text += m.embedding.empty() ? fmt::format("input    X FP32 [T, {}]\n", m.input)
                              : fmt::format("input    TOKENS INT32 [T], 0 to {} (\"{}\")\n",
                                            m.vocabulary - 1, m.embedding);
  text += m.head.empty()
              ? fmt::format("output   OUTPUT FP32 [{}], the last hidden state\n", width)
              : fmt::format("output   OUTPUT FP32 [{}], the logits of \"{}\"\n", m.classes, m.head);
  text += fmt::format("         on request ALL_HIDDEN [T, {}], FINAL_H{} [{}, {}]\n", width,
                      m.cell == TorchCell::kLstm ? ", FINAL_C" : "",
                      m.layers.size() * (m.bidirectional() ? 2 : 1), m.hidden);
  return text;
}

}  // namespace cellbatch
