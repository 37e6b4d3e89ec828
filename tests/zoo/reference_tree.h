// Tree models in double, straight from their equations (reference/algorithms.md section 8; child-sum:
// Tai et al. 2015). Every node is computed in the order of its number, children before parents: no
// recursion. Nothing of the product is used. Plain functions; one thread.
#ifndef CELLBATCH_TESTS_ZOO_REFERENCE_TREE_H_
#define CELLBATCH_TESTS_ZOO_REFERENCE_TREE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/zoo/data.h"
#include "tests/zoo/reference_math.h"
#include "tests/zoo/weights.h"

namespace cellbatch::zoo {

// y = W h + b of cell "output" at every node, leaves first; `x`: the leaves' embeddings.
//
//   leaf       i, o = σ(W x + b)   u = tanh(W x + b)   c = i⊙u   h = o⊙tanh(c)
//   internal   e = [h1; h2]   i, o = σ(U e + b)   u = tanh(U e + b)   f_k = σ(U_fk h_k + b_f)
//              c = i⊙u + f1⊙c1 + f2⊙c2   h = o⊙tanh(c)
// Internal node k is computed by cell internal[types[k]] (an empty `types`: all by the first).
std::vector<Vec> TreeLstmReference(const WeightSet& weights, const std::vector<Vec>& x,
                                   const BinaryTree& tree, const std::vector<int32_t>& types,
                                   const std::vector<std::string>& internal);

//   update of a state s   r, z = σ(U s + b)   c~ = tanh(U (r⊙s) + b)   z⊙s + (1 - z)⊙c~
//   leaf                  h = the update of x, by cell leaf
//   internal              h = (the update of h1 + the update of h2) / 2, by cell internal
std::vector<Vec> TreeGruReference(const WeightSet& weights, const std::vector<Vec>& x,
                                  const BinaryTree& tree);

//   leaf       v, M: looked up
//   internal   v = tanh(W_v [M_1 v_2; M_2 v_1] + b_v)   M = W_M [M_1; M_2] + b_M
// y = W v + b at every node.
std::vector<Vec> MvRnnReference(const WeightSet& weights, const std::vector<int32_t>& tokens,
                                const BinaryTree& tree);

//   h~ = Σ h_k   i, o = σ(W x + U h~ + b)   u = tanh(W x + U h~ + b)   f_k = σ(W_f x + U_f h_k + b_f)
//   c = i⊙u + Σ f_k⊙c_k   h = o⊙tanh(c)
// y = W h + b at every node, in the order of the words.
std::vector<Vec> ChildSumReference(const WeightSet& weights, const std::vector<Vec>& x,
                                   const DependencyTree& tree);

}  // namespace cellbatch::zoo

#endif  // CELLBATCH_TESTS_ZOO_REFERENCE_TREE_H_
