// Makes a model folder of an ONNX file: an LSTM, GRU or RNN stack with an embedding, a linear layer and a softmax
// around it, as exporters write them. What cannot be converted is said by the node's name, never left out.
//
// Plain functions; any thread; seconds and memory for the weights.
#ifndef CELLBATCH_SERVER_CONVERT_IMPORT_ONNX_H_
#define CELLBATCH_SERVER_CONVERT_IMPORT_ONNX_H_

#include "absl/status/statusor.h"
#include "server/convert/import_options.h"

namespace cellbatch {

// INVALID_ARGUMENT: no ONNX file, or which of its nodes, attributes or operands cannot be converted, a line each.
// ALREADY_EXISTS: that version is there.
absl::StatusOr<Imported> ImportOnnx(const ImportOptions& options);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_CONVERT_IMPORT_ONNX_H_
