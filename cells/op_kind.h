// The operators that cells are made of. What each of them means is the interpreter's (cells/kernels/reference), which
// shapes it takes and makes cell_definition.cc's.
//
// A new one is a compile error wherever operators are told apart: switches over OpKind have no default.
// Plain values; any thread.
#ifndef CELLBATCH_CELLS_OP_KIND_H_
#define CELLBATCH_CELLS_OP_KIND_H_

#include <cstdint>
#include <optional>

namespace cellbatch {

enum class OpKind : uint8_t {
  // Leaves.
  kInput,  // attr = {input id, index into that input's `reads`}; a shape given may fold it to a matrix
  kParameter,  // attr = {parameter id, -}
  kConstant,  // attr = {bits of the value, -}; `shape` filled with that value; `type` may be kInt32
  // Products and lookups.
  kLookup,  // (table [V, E], index int32 [1]) -> [E]; an index outside the table is clamped to it
  kMatMul,  // (x [K], w [N, K]) -> [N], w row-major as PyTorch stores it; x [M, K] -> [M, N]
  // Element-wise; one operand may be [1], which is broadcast.
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMax,
  kSigmoid,
  kTanh,
  kRelu,
  kExp,
  kLog,
  // Rearranging.
  kSlice,      // attr = {begin, end} along the last dimension
  kConcat,     // two or three vectors, end to end, or matrices of one width, one below the other
  kTranspose,  // [r, c] -> [c, r]
  // Reductions over all elements; kSoftmax keeps its shape, kArgMax gives int32 [1]: of equals the
  // lowest index; NaN is never larger, and of nothing but NaN it is 0.
  kSum,
  kMean,
  kSoftmax,
  kArgMax,
};

// What an operator is, as far as arguments, costs and compilers tell operators apart.
enum class OpFamily : uint8_t {
  kLeaf,
  kLookup,
  kProduct,
  kUnary,   // element-wise, of one value
  kBinary,  // element-wise, of two
  kRearranging,
  kReduction,  // of all elements of a value
};

struct OpFacts {
  const char* name;
  OpFamily family;
  int least_arguments, most_arguments;
};

// Nothing for a kind that does not exist (a number that somebody cast).
std::optional<OpFacts> FactsOf(OpKind kind);

const char* Name(OpKind kind);  // "?" for one that does not exist
OpFamily Family(OpKind kind);   // REQUIRES: `kind` exists

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_OP_KIND_H_
