#include "server/convert/import_torch.h"

#include <fmt/format.h>

#include <map>

#include "cells/weights/safetensors.h"
#include "server/repository/model_loader.h"

namespace cellbatch {
namespace {

const char* CellFile(const TorchModel& model) {
  switch (model.cell) {
    case TorchCell::kLstm:
      return model.projection > 0 ? "lstmp" : "lstm";
    case TorchCell::kGru:
      return "gru";
    case TorchCell::kRnnTanh:
      return "elman";
    case TorchCell::kRnnRelu:
      return "elman_relu";
  }
  return "";
}

StackChain ChainOf(const TorchModel& model, const TorchChain& chain) {
  StackChain made{.cell = CellFile(model), .parameters = {}};
  made.parameters.push_back({"W", {chain.weight_ih}});
  made.parameters.push_back({"U", {chain.weight_hh}});
  if (model.cell == TorchCell::kGru) {
    made.parameters.push_back({"b_in", {chain.bias_ih}});
    made.parameters.push_back({"b_rec", {chain.bias_hh}});
  } else {
    made.parameters.push_back({"b", {chain.bias_ih, chain.bias_hh}});
  }
  if (model.projection > 0) made.parameters.push_back({"W_hr", {chain.weight_hr}});
  return made;
}

// The tensors of a file, by all of their names. safetensors.torch.save_model writes one that has several (a head that is the
// embedding) once, and {another name: the name it has} into the file's metadata.
class FileTensors : public TensorSource {
 public:
  explicit FileTensors(const SafetensorsFile& file) : file_(file), all_(file.header().tensors) {
    for (const auto& [name, kept] : file.header().metadata) {
      const SafetensorsEntry* entry = file.Find(kept);
      if (entry == nullptr || file.Find(name) != nullptr) continue;  // a remark of another kind
      if (!others_.emplace(name, kept).second) continue;
      all_.push_back(*entry);
      all_.back().name = name;
    }
  }
  const std::vector<SafetensorsEntry>& all() const { return all_; }
  std::vector<int64_t> ShapeOf(const std::string& tensor) const override {
    return Find(tensor).shape;
  }
  absl::Status Read(const std::string& tensor, absl::Span<float> out) const override {
    return file_.ReadTensor(Find(tensor), out);
  }
  // What a person should know of these.
  std::vector<std::string> NotesOf(const TorchModel& model) const {
    std::vector<std::string> notes;
    for (const std::string& name : {model.embedding, model.head}) {
      const auto other = others_.find(name);
      if (other == others_.end()) continue;
      notes.push_back(fmt::format("\"{}\" is \"{}\", as the file says", name, other->second));
    }
    return notes;
  }

 private:
  const SafetensorsEntry& Find(const std::string& tensor) const {
    const auto other = others_.find(tensor);
    return *file_.Find(other == others_.end() ? tensor : other->second);
  }

  const SafetensorsFile& file_;
  std::vector<SafetensorsEntry> all_;
  std::map<std::string, std::string> others_;
};

// A file of torch.save, say, has no header to be wrong.
absl::Status WithWhatItTakes(const absl::Status& status, const std::string& from) {
  if (!absl::IsInvalidArgument(status) || from.ends_with(".safetensors")) return status;
  return absl::InvalidArgumentError(
      fmt::format("{}; --from takes a state_dict as .safetensors (safetensors.torch.save_file), or "
                  "an .onnx file",
                  std::string(status.message())));
}

// What the linear head is over is said by no tensor.
absl::Status SetHeadReads(const std::string& from, StackModel& model) {
  if (from.empty()) return absl::OkStatus();
  if (from != "final" && from != "every") {
    return absl::InvalidArgumentError(
        fmt::format("--head-reads is \"{}\": it takes \"final\" or \"every\"", from));
  }
  if (!model.head) {
    return absl::InvalidArgumentError(fmt::format(
        "--head-reads {}: the model has no linear head; ALL_HIDDEN is what every step leaves",
        from));
  }
  model.head->every_step = from == "every";
  return absl::OkStatus();
}

// `out[:, -1]` of both directions is no h_n, and looks like it in PyTorch: the last step is the backward direction's first.
constexpr char kEndsOfBoth[] =
    "the head reads h_n, the state that each direction ends in; of a model that reads out[:, -1], "
    "the answer is the last row of --head-reads every";

}  // namespace

StackModel StackOf(const TorchModel& model) {
  StackModel made{.kind = Name(model.cell),
                  .embedding = model.embedding,
                  .vocabulary = model.vocabulary,
                  .layers = {},
                  .head = {}};
  for (const TorchLayer& layer : model.layers) {
    StackLayer& to = made.layers.emplace_back();
    to.input = layer.input;
    to.hidden = layer.hidden;
    to.width = model.width(layer);
    to.state = model.cell == TorchCell::kLstm ? layer.hidden : 0;
    to.forward = ChainOf(model, layer.forward);
    if (layer.reverse) to.backward = ChainOf(model, *layer.reverse);
  }
  if (model.head.empty()) return made;
  made.head = {
      .cell = "linear", .weight = model.head, .bias = model.head_bias, .classes = model.classes};
  return made;
}

absl::StatusOr<Imported> ImportTorch(const ImportOptions& options) {
  if (absl::Status s = CheckImportOptions(options); !s.ok()) return s;
  if (!options.zeros.empty()) {
    return absl::InvalidArgumentError("--zeros is for inputs of an ONNX graph");
  }
  const auto file =
      SafetensorsFile::Open(options.from, static_cast<uint64_t>(LoaderLimits().max_weight_bytes));
  if (!file.ok()) return WithWhatItTakes(file.status(), options.from);
  const FileTensors tensors(*file);
  const absl::StatusOr<TorchModel> model = ReadTorchNames(tensors.all(), options.hints);
  if (!model.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{}:\n{}", options.from, std::string(model.status().message())));
  }
  StackModel stack = StackOf(*model);
  if (absl::Status s = SetHeadReads(options.head_reads, stack); !s.ok()) return s;
  absl::StatusOr<Imported> imported = WriteModel(stack, tensors, options);
  if (imported.ok()) {
    std::vector<std::string> notes = tensors.NotesOf(*model);
    if (stack.head && options.head_reads.empty() && stack.layers.back().directions() == 2) {
      notes.emplace_back(kEndsOfBoth);
    }
    imported->notes.insert(imported->notes.begin(), notes.begin(), notes.end());
  }
  return imported;
}

}  // namespace cellbatch
