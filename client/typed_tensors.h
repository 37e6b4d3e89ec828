// From the tensors that ModelInfer takes to the typed input that stands for them (proto/cellbatch.proto). Pure.

#ifndef CELLBATCH_CLIENT_TYPED_TENSORS_H_
#define CELLBATCH_CLIENT_TYPED_TENSORS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "client/tensor.h"
#include "client/typed.h"

namespace cellbatch {

// A sequence, tree, lattice or graph, told by the tensors' names; tensors as they are where they are none of these.
// INVALID_ARGUMENT where a tensor's bytes and shape disagree, where its datatype or shape is another than the typed
// input's (what ModelInfer would refuse is not spelled as something that it takes), or a name comes twice.
absl::StatusOr<TypedInput> TypedFromTensors(const std::vector<Tensor>& tensors);

}  // namespace cellbatch

#endif  // CELLBATCH_CLIENT_TYPED_TENSORS_H_
