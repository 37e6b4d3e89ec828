// What a plan may satisfy or give up: one wish per operand that some layout could leave in place. Only the planner's
// files include this.
#ifndef CELLBATCH_MEMPLAN_WISHES_H_
#define CELLBATCH_MEMPLAN_WISHES_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "memplan/broadcast_pass.h"
#include "memplan/layout_problem.h"
#include "memplan/memory_layout.h"
#include "memplan/planner.h"
#include "memplan/pq_tree.h"

namespace cellbatch {

// What giving wishes up costs: first bytes at every execution, then copies, then bytes stored twice at load.
struct Price {
  int64_t bytes = 0, copies = 0, packed_bytes = 0;

  Price operator+(const Price& other) const {
    return {bytes + other.bytes, copies + other.copies, packed_bytes + other.packed_bytes};
  }
  friend auto operator<=>(const Price&, const Price&) = default;
};

Price PriceOf(const LayoutProblem& problem, const MemoryLayout& layout);

// One way to grant a wish.
struct WishOption {
  std::vector<AlignedPair> pairs;                     // operators with variables
  std::vector<std::vector<PqTree::NodeId>> together;  // operators that read one variable
};

struct Wish {
  OperandRef where;
  Price price;
  std::vector<WishOption> options;
};

// Per wish, the option it is granted by, or kGivenUp.
using Choice = std::vector<int8_t>;
inline constexpr int8_t kGivenUp = -1;
// An operand like (h k h k h k) can be cut into blocks of h and k in many ways; more are not tried.
inline constexpr size_t kMaxWishOptions = 32;

// Leaves of the tree: the variables, then, for each batch of two or more operators, the operators.
class Wishes {
 public:
  explicit Wishes(const LayoutProblem& problem);

  // Most expensive first; among equals in the order of the batches.
  const std::vector<Wish>& all() const { return wishes_; }
  int num_leaves() const { return num_leaves_; }
  PqTree::NodeId first_operator(int batch) const { return first_operator_[batch]; }

  // Whether the options of every wish are all there are.
  bool exhaustive() const { return exhaustive_; }

  // Leaves in an order that grants the chosen wishes and keeps all fixed runs; none: there is no such order.
  std::optional<std::vector<PqTree::NodeId>> Order(const Choice& chosen, PlanTrace* trace) const;

 private:
  void Add(OperandRef where);
  void AddRepeated(const Operand& operand, PqTree::NodeId first, Wish& wish);
  void AddBlocks(std::vector<std::vector<PqTree::NodeId>> readers,
                 const std::vector<VariableId>& block, Wish& wish);
  bool InOnePlace(const Operand& operand) const;

  const LayoutProblem& problem_;
  std::vector<int> run_of_;
  std::vector<PqTree::NodeId> first_operator_;  // per batch
  int num_leaves_ = 0;
  std::vector<Wish> wishes_;
  bool exhaustive_ = true;
};

}  // namespace cellbatch

#endif  // CELLBATCH_MEMPLAN_WISHES_H_
