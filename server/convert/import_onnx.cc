#include "server/convert/import_onnx.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/convert/onnx_graph.h"
#include "server/convert/write_model.h"

namespace cellbatch {
namespace {

class GraphTensors : public TensorSource {
 public:
  explicit GraphTensors(const OnnxStack& stack) : stack_(stack) {}
  std::vector<int64_t> ShapeOf(const std::string& tensor) const override {
    return stack_.tensors.at(tensor).dims;
  }
  absl::Status Read(const std::string& tensor, absl::Span<float> out) const override {
    const std::vector<float>& values = *stack_.tensors.at(tensor).floats;
    std::copy(values.begin(), values.end(), out.begin());
    return absl::OkStatus();
  }

 private:
  const OnnxStack& stack_;
};

absl::Status At(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), fmt::format("{}:\n{}", path, std::string(status.message())));
}

}  // namespace

absl::StatusOr<Imported> ImportOnnx(const ImportOptions& options) {
  if (absl::Status s = CheckImportOptions(options); !s.ok()) return s;
  const TorchHints& hints = options.hints;
  if (!hints.rnn_prefix.empty() || !hints.nonlinearity.empty() || !hints.embedding.empty() ||
      !hints.head.empty() || !options.head_reads.empty()) {
    return absl::InvalidArgumentError(
        "--rnn, --nonlinearity, --embedding, --head and --head-reads are for a state_dict: an ONNX "
        "graph says these itself");
  }
  const absl::StatusOr<OnnxFile> file = OnnxFile::Read(options.from);
  if (!file.ok()) return file.status();
  const absl::StatusOr<OnnxWalked> walked = WalkOnnx(*file, options.zeros);
  if (!walked.ok()) return At(options.from, walked.status());
  const absl::StatusOr<OnnxStack> stack = FindStack(*walked, options.hints.ignored);
  if (!stack.ok()) return At(options.from, stack.status());
  absl::StatusOr<Imported> imported = WriteModel(stack->model, GraphTensors(*stack), options);
  if (imported.ok()) {
    imported->notes.insert(imported->notes.begin(), stack->notes.begin(), stack->notes.end());
  }
  return imported;
}

}  // namespace cellbatch
