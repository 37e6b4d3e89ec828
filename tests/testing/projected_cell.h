// A cell of which a part may be computed later, for tests of models that are served: an Elman cell whose h, which layers above and
// answers read, is a projection of m, which alone it carries.
#ifndef CELLBATCH_TESTS_TESTING_PROJECTED_CELL_H_
#define CELLBATCH_TESTS_TESTING_PROJECTED_CELL_H_

namespace cellbatch {

inline constexpr char kProjectedCell[] = R"(name: "projected"
inputs { name: "x" columns { name: "x" type: FP32 dims: "D" } }
inputs { name: "before" columns { name: "m" type: FP32 dims: "H" } }
parameters { name: "W" dims: "H" dims: "D" }
parameters { name: "U" dims: "H" dims: "H" }
parameters { name: "P" dims: "N" dims: "H" }
ops { name: "from_x" kind: MATMUL args: "x.x" args: "W" }
ops { name: "from_m" kind: MATMUL args: "before.m" args: "U" }
ops { name: "sum" kind: ADD args: "from_x" args: "from_m" }
ops { name: "m" kind: TANH args: "sum" }
ops { name: "projected" kind: MATMUL args: "m" args: "P" }
ops { name: "h" kind: SOFTMAX args: "projected" }
outputs { column: "h" value: "h" }
outputs { column: "m" value: "m" }
carry: "before"
)";

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_TESTING_PROJECTED_CELL_H_
