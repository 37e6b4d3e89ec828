#include "cells/kernels/cpu/tail_program.h"

#include <utility>

#include "cells/check.h"

namespace cellbatch::kernels {
namespace {

// How many earlier values an operation reads.
int Operands(TailOpKind kind) {
  switch (kind) {
    case TailOpKind::kAccumulator:
    case TailOpKind::kColumn:
    case TailOpKind::kParameter:
    case TailOpKind::kConstant:
      return 0;
    case TailOpKind::kAdd:
    case TailOpKind::kSub:
    case TailOpKind::kMul:
    case TailOpKind::kDiv:
    case TailOpKind::kMax:
      return 2;
    case TailOpKind::kSigmoid:
    case TailOpKind::kTanh:
    case TailOpKind::kRelu:
    case TailOpKind::kExp:
    case TailOpKind::kLog:
    case TailOpKind::kStore:
      return 1;
  }
  NoSuchEnumerator();
}

std::string CheckIndex(const TailOp& op, const TailProgram& tail, int groups) {
  int end = 1;
  const char* what = "";
  switch (op.kind) {
    case TailOpKind::kAccumulator:
      end = groups, what = "accumulator";
      break;
    case TailOpKind::kColumn:
    case TailOpKind::kStore:
      end = tail.num_columns, what = "column";
      break;
    case TailOpKind::kParameter:
      end = tail.num_parameters, what = "parameter";
      break;
    case TailOpKind::kConstant:
    case TailOpKind::kAdd:
    case TailOpKind::kSub:
    case TailOpKind::kMul:
    case TailOpKind::kDiv:
    case TailOpKind::kMax:
    case TailOpKind::kSigmoid:
    case TailOpKind::kTanh:
    case TailOpKind::kRelu:
    case TailOpKind::kExp:
    case TailOpKind::kLog:
      return "";
  }
  if (op.index >= 0 && op.index < end) return "";
  return "names " + std::string(what) + " " + std::to_string(op.index) + " of " +
         std::to_string(end);
}

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
  if (matcher.Match(store.a, "A", &b)) return Matched(TailShape::kIdentity, b, store.index);
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

}  // namespace

std::string CheckTail(const TailProgram& tail, int groups) {
  if (tail.ops.empty() || tail.ops.size() > size_t{kMaxTailOps}) {
    return "a tail of " + std::to_string(tail.ops.size()) + " operations; 1 to " +
           std::to_string(kMaxTailOps) + " are possible";
  }
  if (tail.num_columns > kMaxTailColumns) return "too many columns";
  bool storing = false;
  std::vector<bool> stored(tail.num_columns, false);
  for (size_t i = 0; i < tail.ops.size(); ++i) {
    const TailOp& op = tail.ops[i];
    const std::string where = "operation " + std::to_string(i) + " of the tail ";
    const std::string index = CheckIndex(op, tail, groups);
    if (!index.empty()) return where + index;
    const bool store = op.kind == TailOpKind::kStore;
    for (int n = 0; n < Operands(op.kind); ++n) {
      const int value = n == 0 ? op.a : op.b;
      if (value < 0 || value >= static_cast<int>(i)) {
        return where + "reads value " + std::to_string(value);
      }
      if (tail.ops[value].kind == TailOpKind::kStore) return where + "reads what a store made";
    }
    if (storing && !store) return where + "comes after a store and is none";
    if (store && stored[op.index]) return where + "stores a column twice";
    if (store) stored[op.index] = true;
    storing = storing || store;
  }
  return storing ? "" : "a tail that stores nothing";
}

TailMatch ClassifyTail(const TailProgram& tail) {
  std::vector<const TailOp*> stores;
  for (const TailOp& op : tail.ops) {
    if (op.kind == TailOpKind::kStore) stores.push_back(&op);
  }
  if (stores.size() == 1) return ClassifyOneStore(tail, *stores[0]);
  if (stores.size() == 2) return ClassifyTwoStores(tail, *stores[0], *stores[1]);
  return TailMatch();
}

}  // namespace cellbatch::kernels
