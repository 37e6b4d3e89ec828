// One Reduce of a PQ tree: finding the pertinent subtree from the leaves up, then Booth & Lueker's templates on it, with an
// undo log. Only pq_tree.cc, pq_reduction.cc and pq_templates.cc include this.
//
// Words of the paper: a node is full, when all leaves below it are in the set, empty, when none is, and else partial. The
// pertinent root is the deepest node with the whole set below it; of a Q-node whose middle children hold the set
// nobody knows the name, and a pseudo-node stands in for it.
#ifndef CELLBATCH_MEMPLAN_PQ_REDUCTION_H_
#define CELLBATCH_MEMPLAN_PQ_REDUCTION_H_

#include <optional>
#include <span>
#include <vector>

#include "memplan/pq_tree.h"

namespace cellbatch {

class PqReduction {
 public:
  using NodeId = PqTree::NodeId;

  explicit PqReduction(PqTree& tree) : t_(tree) {}

  // The whole of Reduce: leaves the tree reduced, or as it was.
  bool Reduce(std::span<const NodeId> leaves);

 private:
  using Kind = PqTree::Kind;
  using Mark = PqTree::Mark;
  using Label = PqTree::Label;
  using Node = PqTree::Node;
  using Scratch = PqTree::Scratch;
  static constexpr NodeId kNone = PqTree::kNone;

  // Neighbouring children of a Q-node that are not empty, and the empty neighbours (or the Q-node's end) on both sides.
  struct QRun {
    std::vector<NodeId> nodes;
    NodeId before = kNone, after = kNone;
    void Reverse();
  };

  // pq_reduction.cc: the two passes of the paper.
  bool Bubble(std::span<const NodeId> leaves);
  void BubbleOne(NodeId x);
  int UnblockNeighbours(NodeId x, NodeId parent);
  void MakePseudoNode();
  bool ApplyTemplates(std::span<const NodeId> leaves);
  NodeId ApplyBelowRoot(NodeId x);
  bool ApplyAtRoot(NodeId x);
  bool Report(NodeId parent, NodeId child);
  void Finish(bool reduced);

  // pq_templates.cc: each changes the tree or says that it does not match. Those below the root return the node that
  // now stands for x, full or partial, or kNone; those at the root set the pertinent root.
  NodeId TemplateL1(NodeId x);
  NodeId TemplateP1(NodeId x);
  bool TemplateP2(NodeId x);
  NodeId TemplateP3(NodeId x);
  bool TemplateP4(NodeId x);
  NodeId TemplateP5(NodeId x);
  bool TemplateP6(NodeId x);
  NodeId TemplateQ1(NodeId x, const QRun& run);
  NodeId TemplateQ2(NodeId x, QRun run);
  bool TemplateQ3(NodeId x, const QRun& run);

  // What the templates are made of (pq_templates.cc).
  std::optional<QRun> PertinentRun(NodeId q);
  NodeId TakeFullChildren(NodeId p);
  void Absorb(NodeId q, NodeId partial, NodeId outer);
  void JoinEnd(NodeId q, NodeId child, NodeId old_child, NodeId neighbour);
  void ReplaceByOnlyChild(NodeId p, NodeId child);
  int FullEnd(NodeId q);

  // Editing, every step of which can be undone (pq_reduction.cc).
  Node& Edit(NodeId id);
  void Changed(NodeId id);
  NodeId New(Kind kind);
  void Remove(NodeId id);
  void PutInPlaceOf(NodeId old_node, NodeId new_node);
  void DetachFromP(NodeId p, NodeId child);
  void AttachToP(NodeId p, NodeId child);
  void AttachAtEnd(NodeId q, int end, NodeId child);
  static int FreeLink(const Node& node) { return node.link[0] == kNone ? 0 : 1; }

  Node& node(NodeId id) { return t_.nodes_[id]; }
  // Asked for at every step of every template: a node's that has one is found without a call.
  Scratch& scratch(NodeId id) {
    const int32_t at = node(id).scratch;
    return at >= 0 ? t_.scratch_[static_cast<size_t>(at)] : NewScratch(id);
  }
  Scratch& NewScratch(NodeId id);
  Mark mark(NodeId id) { return node(id).scratch < 0 ? Mark::kUnmarked : scratch(id).mark; }
  Label label(NodeId id) { return node(id).scratch < 0 ? Label::kEmpty : scratch(id).label; }
  void SetRoot(NodeId first, NodeId last) { t_.pertinent_root_ = {first, last}; }

  PqTree& t_;
  NodeId old_root_ = kNone;
  NodeId pseudo_ = kNone;
  int num_leaves_ = 0;
  int blocks_ = 0;  // groups of neighbouring children of Q-nodes whose parents are not known yet
  bool above_ = false;  // the tree's root has been passed
  std::vector<NodeId> blocked_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_MEMPLAN_PQ_REDUCTION_H_
