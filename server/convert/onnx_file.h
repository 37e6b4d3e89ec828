// An .onnx file, read with suspicion: its size, the number of its parts and every tensor's shape, type and bytes are
// checked before they are believed or memory is taken for them.
//
//   OnnxFile::Read --> graph() as messages (proto/onnx.proto)
//                      Tensor(..) --> OnnxConstant: dims and numbers, from the message or from a file beside it
//
// Read blocks and takes memory for the file; one thread.
#ifndef CELLBATCH_SERVER_CONVERT_ONNX_FILE_H_
#define CELLBATCH_SERVER_CONVERT_ONNX_FILE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/onnx.pb.h"
#include "server/convert/onnx_value.h"

namespace cellbatch {

inline constexpr int64_t kMaxOnnxBytes =
    (int64_t{1} << 31) - 1;  // of the file: what protobuf reads at most
// Bytes of the file that are no tensor data. They become messages many times their size.
inline constexpr int64_t kMaxOnnxStructure = 16 << 20;
inline constexpr int64_t kMaxOnnxElements = int64_t{1} << 30;  // of one tensor

class OnnxFile {
 public:
  // NOT_FOUND, INVALID_ARGUMENT (too large, malformed, an opset below 7). Texts start with the path.
  static absl::StatusOr<OnnxFile> Read(const std::string& path);
  // The same of bytes that are here; external data is looked for in `folder`.
  static absl::StatusOr<OnnxFile> Parse(std::string_view bytes, const std::string& folder);

  const onnx::Graph& graph() const { return model_->graph(); }
  int64_t opset() const { return opset_; }
  // INVALID_ARGUMENT: a type that is neither float nor integer nor true or false, or numbers that do not fill the shape.
  absl::StatusOr<OnnxConstant> Tensor(const onnx::Tensor& tensor) const;

 private:
  absl::StatusOr<std::string> External(const onnx::Tensor& tensor, int64_t bytes) const;

  std::shared_ptr<const onnx::Model> model_;
  std::string folder_;
  int64_t opset_ = 0;
};

// Of an element, as ONNX calls it ("INT8"), or its number.
std::string OnnxTypeText(int type);
// The number of a tensor of one float, of any width; none: it is another tensor, or its number lies in a file of its own.
std::optional<float> OneFloat(const onnx::Tensor& tensor);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_CONVERT_ONNX_FILE_H_
