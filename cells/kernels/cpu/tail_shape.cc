#include "cells/kernels/cpu/tail_shape.h"

#include <utility>

namespace cellbatch::kernels {
namespace {

// Patterns are prefix expressions: + - * with two operands, s(igmoid) and t(anh) with one, 1 the
// constant one, A..D an accumulator, c a column. A letter stands for the same thing wherever it
// appears.
struct Bindings {
  int group[kMaxGroups] = {-1, -1, -1, -1, -1};
  int column = -1;
};

const char* Skip(const char* p) {
  switch (*p) {
    case '+':
    case '-':
    case '*':
      return Skip(Skip(p + 1));
    case 's':
    case 't':
      return Skip(p + 1);
    default:
      return p + 1;
  }
}

bool Bind(int* slot, int value) {
  if (*slot == -1) *slot = value;
  return *slot == value;
}

class Matcher {
 public:
  explicit Matcher(const TailProgram& tail) : tail_(tail) {}

  // The first way of ordering commutative operands that fits; our patterns never need to come back
  // to a choice.
  bool Match(int value, const char* pattern, Bindings* b) const {
    const TailOp& op = tail_.ops[value];
    switch (*pattern) {
      case '+':
        return op.kind == TailOpKind::kAdd && Two(op, pattern, true, b);
      case '*':
        return op.kind == TailOpKind::kMul && Two(op, pattern, true, b);
      case '-':
        return op.kind == TailOpKind::kSub && Two(op, pattern, false, b);
      case 's':
        return op.kind == TailOpKind::kSigmoid && Match(op.a, pattern + 1, b);
      case 't':
        return op.kind == TailOpKind::kTanh && Match(op.a, pattern + 1, b);
      case '1':
        return op.kind == TailOpKind::kConstant && op.constant == 1.0f;
      case 'c':
        return op.kind == TailOpKind::kColumn && Bind(&b->column, op.index);
      default:
        return op.kind == TailOpKind::kAccumulator && Bind(&b->group[*pattern - 'A'], op.index);
    }
  }

 private:
  bool Two(const TailOp& op, const char* pattern, bool commutes, Bindings* b) const {
    const char* first = pattern + 1;
    const char* second = Skip(first);
    Bindings attempt = *b;
    if (Match(op.a, first, &attempt) && Match(op.b, second, &attempt)) {
      *b = attempt;
      return true;
    }
    attempt = *b;
    if (!commutes || !Match(op.b, first, &attempt) || !Match(op.a, second, &attempt)) return false;
    *b = attempt;
    return true;
  }

  const TailProgram& tail_;
};

TailMatch Matched(TailShape shape, const Bindings& b, int out, int out2 = -1) {
  TailMatch m;
  m.shape = shape;
  for (int g = 0; g < kMaxGroups; ++g) m.group[g] = b.group[g];
  m.in = b.column;
  m.out = out;
  m.out2 = out2;
  return m;
}

TailMatch ClassifyOneStore(const TailProgram& tail, const TailOp& store) {
  const TailOp& value = tail.ops[store.a];
  Bindings b;
  const Matcher matcher(tail);
  if (matcher.Match(store.a, "sA", &b)) return Matched(TailShape::kSigmoid, b, store.index);
  if (matcher.Match(store.a, "tA", &b)) return Matched(TailShape::kTanh, b, store.index);
  if (value.kind == TailOpKind::kRelu && matcher.Match(value.a, "A", &b)) {
    return Matched(TailShape::kRelu, b, store.index);
  }
  // r = A, z = B, m = C, s = D; n = t+C*sAD
  for (const char* update : {"+*-1sBt+C*sAD*sBc", "+t+C*sAD*sB-ct+C*sAD"}) {
    b = Bindings();
    if (matcher.Match(store.a, update, &b)) return Matched(TailShape::kGatedUpdate, b, store.index);
  }
  return TailMatch();
}

TailMatch ClassifyTwoStores(const TailProgram& tail, const TailOp& one, const TailOp& two) {
  const Matcher matcher(tail);
  for (const auto& [cell, hidden] : {std::pair(&one, &two), std::pair(&two, &one)}) {
    Bindings b;  // i = A, f = B, g = C, o = D
    if (matcher.Match(cell->a, "+*sBc*sAtC", &b) &&
        matcher.Match(hidden->a, "*sDt+*sBc*sAtC", &b)) {
      return Matched(TailShape::kGatedCell, b, hidden->index, cell->index);
    }
  }
  return TailMatch();
}

// Every store is of a group, and of another one.
TailMatch ClassifySums(const TailProgram& tail, const std::vector<const TailOp*>& stores) {
  TailMatch m;
  if (stores.empty()) return m;
  for (const TailOp* const store : stores) {
    const TailOp& value = tail.ops[store->a];
    if (value.kind != TailOpKind::kAccumulator || m.stored[value.index] >= 0) return TailMatch();
    m.stored[value.index] = store->index;
  }
  m.shape = TailShape::kIdentity;
  return m;
}

}  // namespace

TailMatch ClassifyTail(const TailProgram& tail) {
  std::vector<const TailOp*> stores;
  for (const TailOp& op : tail.ops) {
    if (op.kind == TailOpKind::kStore) stores.push_back(&op);
  }
  const TailMatch sums = ClassifySums(tail, stores);
  if (sums.shape != TailShape::kGeneral) return sums;
  if (stores.size() == 1) return ClassifyOneStore(tail, *stores[0]);
  if (stores.size() == 2) return ClassifyTwoStores(tail, *stores[0], *stores[1]);
  return TailMatch();
}

}  // namespace cellbatch::kernels
