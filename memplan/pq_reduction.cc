#include "memplan/pq_reduction.h"

#include <algorithm>
#include <utility>

#include "absl/base/internal/raw_logging.h"

namespace cellbatch {

bool PqReduction::Reduce(std::span<const NodeId> leaves) {
  ++t_.epoch_;
  t_.pertinent_root_ = {};
  t_.changed_.clear();
  old_root_ = t_.root_;
  num_leaves_ = static_cast<int>(leaves.size());
  if (leaves.empty()) return true;
  const bool reduced = Bubble(leaves) && ApplyTemplates(leaves);
  Finish(reduced);
  return reduced;
}

// ---- First pass: who is pertinent, from the leaves up -------------------------------------------------------------
//
// A child between others of a Q-node does not know its parent. It is blocked until a neighbour is found that does:
//
//        Q                 children 2, 3, 4 of six are met: none knows Q, they are one block.
//   / / | | \ \            When 1 is met too, which is an end and knows Q, it tells 2, 2 tells 3, ...
//  1 2  3 4  5 6           If nobody tells them, and nothing else is left, Q itself is the pertinent root:
//                          a pseudo-node stands for it.

bool PqReduction::Bubble(std::span<const NodeId> leaves) {
  std::vector<NodeId>& queue = t_.queue_;
  queue.assign(leaves.begin(), leaves.end());
  for (NodeId leaf : leaves) {
    ABSL_RAW_CHECK(leaf >= 0 && leaf < t_.num_leaves_, "a set names a leaf that is not there");
    ABSL_RAW_CHECK(mark(leaf) == Mark::kUnmarked, "a set names a leaf twice");
    scratch(leaf).mark = Mark::kQueued;
  }
  size_t head = 0;
  while (queue.size() - head + blocks_ + (above_ ? 1 : 0) > 1) {
    if (head == queue.size()) return false;  // separate blocks: they cannot be brought together
    BubbleOne(queue[head++]);
  }
  if (blocks_ == 1) MakePseudoNode();
  return true;
}

void PqReduction::BubbleOne(NodeId x) {
  Scratch& s = scratch(x);
  s.mark = Mark::kBlocked;
  NodeId teller = kNone;
  int blocked_sides = 0, num_links = 0;
  if (node(x).in_q) {
    for (NodeId neighbour : node(x).link) {
      if (neighbour == kNone) continue;
      ++num_links;
      if (mark(neighbour) == Mark::kUnblocked) teller = neighbour;
      if (mark(neighbour) == Mark::kBlocked) ++blocked_sides;
    }
  }
  if (teller != kNone) node(x).parent = node(teller).parent;
  if (teller == kNone && num_links == 2) {
    blocks_ += 1 - blocked_sides;  // a block of its own, or part of one, or what joins two
    blocked_.push_back(x);
    return;
  }
  s.mark = Mark::kUnblocked;
  const NodeId parent = node(x).parent;
  if (parent == kNone) {
    above_ = true;
    return;
  }
  Scratch& p = scratch(parent);
  p.pertinent_children += 1 + UnblockNeighbours(x, parent);
  blocks_ -= blocked_sides;
  if (p.mark == Mark::kUnmarked) {
    p.mark = Mark::kQueued;
    t_.queue_.push_back(parent);
  }
}

// Tells the blocked nodes on both sides of x, without a gap, who their parent is. How many they were.
int PqReduction::UnblockNeighbours(NodeId x, NodeId parent) {
  int told = 0;
  if (!node(x).in_q) return 0;
  for (NodeId start : node(x).link) {
    NodeId before = x, here = start;
    while (here != kNone && mark(here) == Mark::kBlocked) {
      scratch(here).mark = Mark::kUnblocked;
      node(here).parent = parent;
      ++told;
      const NodeId next = node(here).link[node(here).link[0] == before ? 1 : 0];
      before = here;
      here = next;
    }
  }
  return told;
}

void PqReduction::MakePseudoNode() {
  pseudo_ = New(Kind::kQ);
  for (NodeId x : blocked_) {
    if (mark(x) != Mark::kBlocked) continue;
    node(x).parent = pseudo_;
    ++scratch(pseudo_).pertinent_children;
  }
}

// ---- Second pass: templates, children before parents --------------------------------------------------------------

bool PqReduction::ApplyTemplates(std::span<const NodeId> leaves) {
  std::vector<NodeId>& queue = t_.queue_;
  queue.assign(leaves.begin(), leaves.end());
  for (NodeId leaf : leaves) scratch(leaf).pertinent_leaves = 1;
  for (size_t head = 0; head < queue.size(); ++head) {
    const NodeId x = queue[head];
    const int below = scratch(x).pertinent_leaves;
    if (below == num_leaves_) return ApplyAtRoot(x);
    const NodeId parent = node(x).parent;  // before a template puts another node here
    const NodeId now = ApplyBelowRoot(x);
    if (now == kNone || !Report(parent, now)) return false;
    Scratch& p = scratch(parent);
    p.pertinent_leaves += below;
    if (--p.pertinent_children == 0) queue.push_back(parent);
  }
  ABSL_RAW_CHECK(false, "a set without a pertinent root");
  return false;
}

PqReduction::NodeId PqReduction::ApplyBelowRoot(NodeId x) {
  if (node(x).kind == Kind::kLeaf) return TemplateL1(x);
  if (node(x).kind == Kind::kP) {
    NodeId now = TemplateP1(x);
    if (now == kNone) now = TemplateP3(x);
    if (now == kNone) now = TemplateP5(x);
    return now;
  }
  const std::optional<QRun> run = PertinentRun(x);
  if (!run.has_value()) return kNone;
  const NodeId now = TemplateQ1(x, *run);
  return now != kNone ? now : TemplateQ2(x, *run);
}

bool PqReduction::ApplyAtRoot(NodeId x) {
  SetRoot(x, x);
  if (node(x).kind == Kind::kLeaf) return true;
  if (node(x).kind == Kind::kP) {
    return TemplateP1(x) != kNone || TemplateP2(x) || TemplateP4(x) || TemplateP6(x);
  }
  const std::optional<QRun> run = PertinentRun(x);
  return run.has_value() && (TemplateQ1(x, *run) != kNone || TemplateQ3(x, *run));
}

// The parent learns what has become of a child. False: three partial children, which no template matches.
bool PqReduction::Report(NodeId parent, NodeId child) {
  Scratch& p = scratch(parent);
  if (label(child) == Label::kFull) {
    p.full.push_back(child);
    return true;
  }
  if (p.num_partial == 2) return false;
  p.partial[p.num_partial++] = child;
  return true;
}

// Forgets what was known for this set; on failure puts back what was saved.
void PqReduction::Finish(bool reduced) {
  if (reduced) {
    if (pseudo_ != kNone) Remove(pseudo_);
    for (NodeId id : t_.removed_) {
      node(id).kind = Kind::kUnused;
      t_.free_.push_back(id);
    }
  } else {
    for (PqTree::Saved& saved : t_.saved_) {
      const int scratch_index = node(saved.id).scratch;
      node(saved.id) = saved.node;
      node(saved.id).scratch = scratch_index;
    }
    for (NodeId id : t_.created_) {
      node(id).kind = Kind::kUnused;
      t_.free_.push_back(id);
    }
    t_.root_ = old_root_;
    t_.pertinent_root_ = {};
    t_.changed_.clear();
  }
  for (int i = 0; i < t_.num_scratch_; ++i) node(t_.scratch_[i].node).scratch = -1;
  t_.num_scratch_ = 0;
  t_.saved_.clear();
  t_.created_.clear();
  t_.removed_.clear();
}

// ---- Editing ------------------------------------------------------------------------------------------------------

PqReduction::Scratch& PqReduction::NewScratch(NodeId id) {
  if (t_.num_scratch_ == static_cast<int>(t_.scratch_.size())) t_.scratch_.emplace_back();
  node(id).scratch = t_.num_scratch_;
  Scratch& s = t_.scratch_[t_.num_scratch_++];
  std::vector<NodeId> full = std::move(s.full);
  full.clear();
  s = Scratch{};
  s.full = std::move(full);
  s.node = id;
  return s;
}

PqReduction::Node& PqReduction::Edit(NodeId id) {
  Node& n = node(id);
  if (n.saved != t_.epoch_) {
    t_.saved_.push_back({id, n});
    n.saved = t_.epoch_;
  }
  return n;
}

void PqReduction::Changed(NodeId id) {
  if (id == pseudo_ || node(id).changed == t_.epoch_) return;
  node(id).changed = t_.epoch_;
  t_.changed_.push_back(id);
}

// A new node needs no saving: on failure it is unmade.
PqReduction::NodeId PqReduction::New(Kind kind) {
  NodeId id;
  if (t_.free_.empty()) {
    id = static_cast<NodeId>(t_.nodes_.size());
    t_.nodes_.emplace_back();
  } else {
    id = t_.free_.back();
    t_.free_.pop_back();
    node(id) = Node{};
  }
  node(id).kind = kind;
  node(id).saved = t_.epoch_;
  t_.created_.push_back(id);
  return id;
}

void PqReduction::Remove(NodeId id) {
  t_.removed_.push_back(id);
  Changed(id);
}

void PqReduction::PutInPlaceOf(NodeId old_node, NodeId new_node) {
  const Node place = node(old_node);
  Node& n = Edit(new_node);
  n.parent = place.parent;
  n.in_q = place.in_q;
  n.link = place.link;
  for (NodeId neighbour : place.link) {
    if (neighbour == kNone) continue;
    Node& beside = Edit(neighbour);
    beside.link[beside.link[0] == old_node ? 0 : 1] = new_node;
  }
  if (place.in_q && place.link[0] != kNone && place.link[1] != kNone) return;
  if (place.parent == kNone) {
    t_.root_ = new_node;
    return;
  }
  Node& parent = node(place.parent);
  for (int end = 0; end < 2; ++end) {
    if (parent.end[end] == old_node) Edit(place.parent).end[end] = new_node;
  }
  Changed(place.parent);
}

void PqReduction::DetachFromP(NodeId p, NodeId child) {
  const std::array<NodeId, 2> link = node(child).link;
  if (link[0] != kNone) Edit(link[0]).link[1] = link[1];
  if (link[1] != kNone) Edit(link[1]).link[0] = link[0];
  Node& parent = Edit(p);
  if (parent.end[0] == child) parent.end[0] = link[1];
  --parent.num_children;
  Edit(child).link = {kNone, kNone};
}

void PqReduction::AttachToP(NodeId p, NodeId child) {
  Node& parent = Edit(p);
  Node& c = Edit(child);
  c.parent = p;
  c.in_q = false;
  c.link = {kNone, parent.end[0]};
  if (parent.end[0] != kNone) Edit(parent.end[0]).link[0] = child;
  parent.end[0] = child;
  ++parent.num_children;
}

// Makes `child` the new end of a Q-node on that side.
void PqReduction::AttachAtEnd(NodeId q, int end, NodeId child) {
  const NodeId old_end = node(q).end[end];
  Node& beside = Edit(old_end);
  beside.link[FreeLink(beside)] = child;
  Node& c = Edit(child);
  c.parent = q;
  c.in_q = true;
  c.link = {old_end, kNone};
  Edit(q).end[end] = child;
}

}  // namespace cellbatch
