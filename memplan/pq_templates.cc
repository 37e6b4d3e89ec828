// The templates of Booth & Lueker, one function each, named as in the paper. In the pictures * is a full subtree, o an
// empty one, ( ) a P-node and [ ] a Q-node; a partial node reads [o.. *..], its empty children first.
#include <algorithm>

#include "absl/base/internal/raw_logging.h"
#include "memplan/pq_reduction.h"

namespace cellbatch {

// L1: a leaf of the set is full.
PqReduction::NodeId PqReduction::TemplateL1(NodeId x) {
  scratch(x).label = Label::kFull;
  return x;
}

// P1: all children full.       (* * *)  ->  the node is full
PqReduction::NodeId PqReduction::TemplateP1(NodeId x) {
  if (static_cast<int>(scratch(x).full.size()) != node(x).num_children) return kNone;
  scratch(x).label = Label::kFull;
  return x;
}

// P2: at the root, no partial child: the full children get a P-node of their own.
//
//   (o o * *)  ->  (o o (* *))          the pertinent root is the new node
bool PqReduction::TemplateP2(NodeId x) {
  if (scratch(x).num_partial != 0) return false;
  const NodeId full = TakeFullChildren(x);
  AttachToP(x, full);
  SetRoot(full, full);
  return true;
}

// P3: below the root, no partial child: empty ones to one side, full ones to the other.
//
//   (o o * *)  ->  [(o o) (* *)]        partial; for this Reduce only a Q-node may have two children
PqReduction::NodeId PqReduction::TemplateP3(NodeId x) {
  if (scratch(x).num_partial != 0) return kNone;
  const NodeId full = TakeFullChildren(x);
  const NodeId q = New(Kind::kQ);
  PutInPlaceOf(x, q);
  NodeId empty = x;
  if (node(x).num_children == 1) {
    empty = node(x).end[0];
    Remove(x);
  }
  for (NodeId child : {empty, full}) {
    Node& c = Edit(child);
    c.parent = q;
    c.in_q = true;
    c.link = {child == empty ? full : empty, kNone};
  }
  node(q).end = {empty, full};
  Changed(q);
  scratch(q).label = Label::kPartial;
  scratch(q).inner_full = full;
  return q;
}

// P4: at the root, one partial child: the full children go to its full end.
//
//   (o o * * [o *])  ->  (o o [o * (* *)])          or the Q-node alone, where no empty child is left
bool PqReduction::TemplateP4(NodeId x) {
  if (scratch(x).num_partial != 1) return false;
  const NodeId y = scratch(x).partial[0];
  const NodeId full = TakeFullChildren(x);
  ABSL_RAW_CHECK(full != kNone, "a root with one pertinent child is not the root");
  AttachAtEnd(y, FullEnd(y), full);
  Changed(y);
  ReplaceByOnlyChild(x, y);
  SetRoot(scratch(y).inner_full, full);
  return true;
}

// P5: below the root, one partial child, which takes this node's place and all its children.
//
//   (o o * * [o *])  ->  [(o o) o * (* *)]
PqReduction::NodeId PqReduction::TemplateP5(NodeId x) {
  if (scratch(x).num_partial != 1) return kNone;
  const NodeId y = scratch(x).partial[0];
  const NodeId full = TakeFullChildren(x);
  DetachFromP(x, y);
  PutInPlaceOf(x, y);
  const int full_end = FullEnd(y);
  if (full != kNone) AttachAtEnd(y, full_end, full);
  NodeId empty = x;
  if (node(x).num_children < 2) {
    empty = node(x).end[0];
    Remove(x);
  }
  if (empty != kNone) AttachAtEnd(y, 1 - full_end, empty);
  Changed(x);
  Changed(y);
  return y;
}

// P6: at the root, two partial children: they are joined over the full ones.
//
//   (o o * * [o *] [o *])  ->  (o o [o * (* *) * o])
bool PqReduction::TemplateP6(NodeId x) {
  if (scratch(x).num_partial != 2) return false;
  const NodeId y = scratch(x).partial[0], z = scratch(x).partial[1];
  const NodeId full = TakeFullChildren(x);
  if (full != kNone) AttachAtEnd(y, FullEnd(y), full);
  DetachFromP(x, z);
  const int y_full = FullEnd(y), z_full = FullEnd(z);
  const NodeId from_y = node(y).end[y_full], from_z = node(z).end[z_full];
  const NodeId new_end = node(z).end[1 - z_full];
  Edit(from_y).link[FreeLink(node(from_y))] = from_z;
  Edit(from_z).link[FreeLink(node(from_z))] = from_y;
  Edit(new_end).parent = y;
  Edit(y).end[y_full] = new_end;
  Remove(z);
  Changed(y);
  ReplaceByOnlyChild(x, y);
  SetRoot(scratch(y).inner_full, scratch(z).inner_full);
  return true;
}

// Q1: all children full.       [* * *]  ->  the node is full
PqReduction::NodeId PqReduction::TemplateQ1(NodeId x, const QRun& run) {
  if (scratch(x).num_partial != 0 || run.before != kNone || run.after != kNone) return kNone;
  scratch(x).label = Label::kFull;
  return x;
}

// Q2: below the root: full children at one end, then at most one partial child, whose children come up into this node.
//
//   [* * [* o] o o]  ->  [* * * o o o]
PqReduction::NodeId PqReduction::TemplateQ2(NodeId x, QRun run) {
  const auto partial = [this](NodeId child) { return label(child) == Label::kPartial; };
  if (scratch(x).num_partial > 1) return kNone;
  // The partial child last, the end of this node first.
  const bool one = run.nodes.size() == 1;
  if ((!one && partial(run.nodes.front())) ||
      (run.before != kNone && (one || !partial(run.nodes.back())))) {
    run.Reverse();
  }
  if (run.before != kNone || (!one && partial(run.nodes.front()))) return kNone;
  const NodeId inner = run.nodes.back();
  scratch(x).label = Label::kPartial;
  scratch(x).inner_full = partial(inner) ? scratch(inner).inner_full : inner;
  if (partial(inner)) Absorb(x, inner, run.after);
  return x;
}

// Q3: at the root: full children anywhere, with at most a partial child on either side. (The paper's Q2 at the root is
// this with a side missing.)
//
//   [o [o *] * * [* o] o]  ->  [o o * * * * o o]       the pertinent root is the run of full children
bool PqReduction::TemplateQ3(NodeId x, const QRun& run) {
  NodeId first = run.nodes.front(), last = run.nodes.back();
  ABSL_RAW_CHECK(first != last, "a root with one pertinent child is not the root");
  if (label(first) == Label::kPartial) {
    const NodeId inner = scratch(first).inner_full;
    Absorb(x, first, run.before);
    first = inner;
  }
  if (label(last) == Label::kPartial) {
    const NodeId inner = scratch(last).inner_full;
    Absorb(x, last, run.after);
    last = inner;
  }
  SetRoot(first, last);
  return true;
}

// ---- What they are made of ----------------------------------------------------------------------------------------

void PqReduction::QRun::Reverse() {
  std::reverse(nodes.begin(), nodes.end());
  std::swap(before, after);
}

// The pertinent children of a Q-node in the order they stand. None: they do not stand together, or a partial one has
// pertinent ones on both sides.
std::optional<PqReduction::QRun> PqReduction::PertinentRun(NodeId q) {
  const Scratch& s = scratch(q);
  const NodeId start = s.full.empty() ? s.partial[0] : s.full[0];
  QRun run;
  const auto walk = [&](NodeId here) {
    NodeId before = start;
    while (here != kNone && label(here) != Label::kEmpty) {
      run.nodes.push_back(here);
      const NodeId next = node(here).link[node(here).link[0] == before ? 1 : 0];
      before = here;
      here = next;
    }
    run.after = here;
  };
  walk(node(start).link[0]);
  run.Reverse();
  run.nodes.push_back(start);
  walk(node(start).link[1]);
  if (run.nodes.size() != s.full.size() + s.num_partial) return std::nullopt;
  for (size_t i = 1; i + 1 < run.nodes.size(); ++i) {
    if (label(run.nodes[i]) == Label::kPartial) return std::nullopt;
  }
  return run;
}

// Takes the full children out of a P-node: none, the one there is, or all under a new full P-node. It hangs nowhere yet.
PqReduction::NodeId PqReduction::TakeFullChildren(NodeId p) {
  const std::vector<NodeId>& full = scratch(p).full;
  for (NodeId child : full) DetachFromP(p, child);
  Changed(p);
  if (full.empty()) return kNone;
  if (full.size() == 1) return full[0];
  const NodeId together = New(Kind::kP);
  // Back to front, since each becomes the first.
  for (size_t i = full.size(); i-- > 0;) AttachToP(together, full[i]);
  scratch(together).label = Label::kFull;
  Changed(together);
  return together;
}

// Puts the children of a partial child in its place, empty ones towards `outer` (kNone: that side is the end of q).
void PqReduction::Absorb(NodeId q, NodeId partial, NodeId outer) {
  const std::array<NodeId, 2> link = node(partial).link;
  const NodeId inner = link[link[0] == outer ? 1 : 0];
  const int full_end = FullEnd(partial);
  JoinEnd(q, node(partial).end[1 - full_end], partial, outer);
  JoinEnd(q, node(partial).end[full_end], partial, inner);
  Remove(partial);
  Changed(q);
}

// `child`, an end of old_child, becomes the neighbour of `neighbour` in q, where old_child was.
void PqReduction::JoinEnd(NodeId q, NodeId child, NodeId old_child, NodeId neighbour) {
  Node& c = Edit(child);
  if (neighbour == kNone) {
    c.parent = q;
    Node& parent = Edit(q);
    parent.end[parent.end[0] == old_child ? 0 : 1] = child;
    return;
  }
  c.link[FreeLink(c)] = neighbour;
  Node& beside = Edit(neighbour);
  beside.link[beside.link[0] == old_child ? 0 : 1] = child;
}

// A P-node never has a single child: the child takes its place.
void PqReduction::ReplaceByOnlyChild(NodeId p, NodeId child) {
  if (node(p).num_children != 1) return;
  DetachFromP(p, child);
  PutInPlaceOf(p, child);
  Remove(p);
}

// Which end of a partial Q-node is the full one.
int PqReduction::FullEnd(NodeId q) { return label(node(q).end[0]) == Label::kFull ? 0 : 1; }

}  // namespace cellbatch
