#include "cells/kernels/cpu/random_product.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <numeric>

#include "cells/check.h"

namespace cellbatch::kernels {
namespace {

using Kind = TailOpKind;

TailOp Op(Kind kind, int a = -1, int b = -1, int index = 0, float constant = 0.0f) {
  return {kind, static_cast<int16_t>(a), static_cast<int16_t>(b), static_cast<int16_t>(index),
          constant};
}

// The nearest number with eight bits of significand, of two the one whose last is zero.
double NearestBf16(double value) {
  if (value == 0.0 || !std::isfinite(value)) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  const double ulp = std::ldexp(1.0, exponent - 8);
  return std::nearbyint(value / ulp) * ulp;
}

}  // namespace

double Compute(const TailOp& op, double a, double b, double read) {
  switch (op.kind) {
    case Kind::kAccumulator:
    case Kind::kColumn:
    case Kind::kScalar:
    case Kind::kParameter:
      return read;
    case Kind::kConstant:
      return op.constant;
    case Kind::kAdd:
      return a + b;
    case Kind::kSub:
      return a - b;
    case Kind::kMul:
      return a * b;
    case Kind::kDiv:
      return a / b;
    case Kind::kMax:
      return std::max(a, b);
    case Kind::kSigmoid:
      return 1.0 / (1.0 + std::exp(-a));
    case Kind::kTanh:
      return std::tanh(a);
    case Kind::kRelu:
      return std::max(a, 0.0);
    case Kind::kExp:
      return std::exp(a);
    case Kind::kLog:
      return std::log(a);
    case Kind::kStore:
      return a;
  }
  NoSuchEnumerator();
}

int RandomInt(Random& random, int least, int most) {
  return std::uniform_int_distribution<int>(least, most)(random);
}

std::vector<float> RandomFloats(Random& random, int64_t count, float scale) {
  std::uniform_real_distribution<float> uniform(-scale, scale);
  std::vector<float> floats(static_cast<size_t>(count));
  for (float& f : floats) f = uniform(random);
  return floats;
}

RandomProduct::RandomProduct(Random& random, int units, int groups, std::vector<int> depths,
                             TailProgram tail, double share_of_terms) {
  spec.units = units;
  spec.groups = groups;
  spec.tail = std::move(tail);
  std::bernoulli_distribution present(share_of_terms);
  for (int depth : depths) {
    SegmentSpec segment{depth, {}};
    for (int g = 0; g < groups; ++g) {
      if (!present(random)) continue;
      memory.push_back(RandomFloats(random, int64_t{units} * depth, 2.0f / std::sqrt(depth)));
      const bool by_depth = present(random);  // both ways of lying in memory
      segment.weights[g] = {memory.back().data(), by_depth ? depth : 1, by_depth ? 1 : units};
    }
    spec.segments.push_back(segment);
  }
  for (int g = 0; g < groups; ++g) {
    if (!present(random)) continue;
    memory.push_back(RandomFloats(random, units));
    spec.bias[g] = memory.back().data();
  }
  for (int i = 0; i < spec.tail.num_parameters; ++i) {
    memory.push_back(RandomFloats(random, units));
    spec.parameters.push_back(memory.back().data());
  }
}

double RandomProduct::Meant(float input) const {
  return spec.precision == Precision::kBf16 ? NearestBf16(input) : input;
}

std::vector<double> RandomProduct::MeantWeights(size_t segment, int group, int unit) const {
  const WeightView& w = spec.segments[segment].weights[group];
  std::vector<double> meant;
  double largest = 0.0;
  for (int k = 0; w.data != nullptr && k < spec.segments[segment].depth; ++k) {
    meant.push_back(w.data[unit * w.unit_stride + k * w.depth_stride]);
    largest = std::max(largest, std::abs(meant.back()));
  }
  const double scale = static_cast<double>(static_cast<float>(largest) / 127.0f);
  for (double& weight : meant) {
    if (spec.precision == Precision::kBf16) weight = NearestBf16(weight);
    if (spec.precision != Precision::kW8) continue;
    const bool nothing = scale < double{std::numeric_limits<float>::min()};
    weight = nothing ? 0.0 : std::nearbyint(weight / scale) * scale;
  }
  return meant;
}

std::vector<double> RandomProduct::Accumulators(const std::vector<const float*>& inputs) const {
  return Accumulators(std::vector<std::vector<const float*>>{inputs}).front();
}

// Each sum in the order of its terms, whatever rows there are beside it.
std::vector<std::vector<double>> RandomProduct::Accumulators(
    const std::vector<std::vector<const float*>>& rows) const {
  const size_t count = rows.size();
  std::vector<std::vector<double>> meant(spec.segments.size());  // of each element: of all rows
  for (size_t s = 0; s < spec.segments.size(); ++s) {
    const auto& weights = spec.segments[s].weights;
    if (std::none_of(std::begin(weights), std::end(weights),
                     [](const WeightView& w) { return w.data != nullptr; })) {
      continue;  // nor need there be rows
    }
    for (size_t k = 0; k < static_cast<size_t>(spec.segments[s].depth); ++k) {
      for (size_t r = 0; r < count; ++r) meant[s].push_back(Meant(rows[r][s][k]));
    }
  }
  std::vector<std::vector<double>> sums(count);
  std::vector<double> of_unit(count);
  for (int g = 0; g < spec.groups; ++g) {
    for (int u = 0; u < spec.units; ++u) {
      const double bias = spec.bias[g] != nullptr ? spec.bias[g][u] : 0.0;
      std::fill(of_unit.begin(), of_unit.end(), bias);
      for (size_t s = 0; s < spec.segments.size(); ++s) {
        const double* x = meant[s].data();
        for (const double weight : MeantWeights(s, g, u)) {
          for (size_t r = 0; r < count; ++r) of_unit[r] += x[r] * weight;
          x += count;
        }
      }
      for (size_t r = 0; r < count; ++r) sums[r].push_back(of_unit[r]);
    }
  }
  return sums;
}

std::vector<std::vector<double>> RandomProduct::Reference(
    const std::vector<const float*>& inputs, const std::vector<const float*>& columns) const {
  const std::vector<double> sums = Accumulators(inputs);
  std::vector<std::vector<double>> stored(spec.tail.num_columns);
  std::vector<double> value(spec.tail.ops.size());
  for (int u = 0; u < spec.units; ++u) {
    for (size_t i = 0; i < spec.tail.ops.size(); ++i) {
      const TailOp& op = spec.tail.ops[i];
      double read = 0.0;
      if (op.kind == Kind::kAccumulator) read = sums[size_t(op.index) * spec.units + u];
      if (op.kind == Kind::kColumn) read = columns[op.index][u];
      if (op.kind == Kind::kScalar) read = columns[op.index][0];
      if (op.kind == Kind::kParameter) read = spec.parameters[op.index][u];
      value[i] = Compute(op, op.a >= 0 ? value[op.a] : 0.0, op.b >= 0 ? value[op.b] : 0.0, read);
      if (op.kind == Kind::kStore) stored[op.index].push_back(value[i]);
    }
  }
  return stored;
}

RandomRows::RandomRows(Random& random, int row_width, int table_rows, int num_rows)
    : width(row_width), stride(row_width + RandomInt(random, 0, 5)) {
  data = RandomFloats(random, stride * table_rows);
  before = data;
  rows.resize(table_rows);
  std::iota(rows.begin(), rows.end(), 0);
  std::shuffle(rows.begin(), rows.end(), random);
  rows.resize(num_rows);
}

float PairOfBf16(float first, float second) {
  return std::bit_cast<float>((std::bit_cast<uint32_t>(first) & 0xffff0000u) |
                              std::bit_cast<uint32_t>(second) >> 16);
}

void RandomRows::MakePairs() {
  pairs.assign(data.size(), 77.0f);  // what lies behind them is no row's
  for (size_t from = 0; from < data.size(); from += static_cast<size_t>(stride)) {
    for (size_t k = 0; k < static_cast<size_t>(width); k += 2) {
      pairs[from + k / 2] = PairOfBf16(data[from + k], data[from + k + 1]);
    }
  }
}

void RandomRows::MakeSplit() {
  pairs.assign(data.size(), 77.0f);
  const auto words = static_cast<size_t>((width + 1) / 2);
  for (size_t from = 0; from < data.size(); from += static_cast<size_t>(stride)) {
    for (size_t i = 0; i < words; ++i) {
      const SplitBf16 first(data[from + 2 * i]);
      const SplitBf16 second(2 * i + 1 < static_cast<size_t>(width) ? data[from + 2 * i + 1]
                                                                    : 0.0f);
      pairs[from + i] = PairOfBf16(FromBf16(first.upper), FromBf16(second.upper));
      pairs[from + words + i] = PairOfBf16(FromBf16(first.lower), FromBf16(second.lower));
    }
  }
}

RandomRows RandomInputs(Random& random, const CpuKernels& kernels, Precision precision, int width,
                        int table_rows, int num_rows) {
  if (precision != Precision::kBf16 && precision != Precision::kFp32Split) {
    return RandomRows(random, width, table_rows, num_rows);
  }
  RandomRows rows(random, width + width % 2, table_rows, num_rows);
  rows.width = width;
  if (precision == Precision::kFp32Split) {
    rows.MakeSplit();
    return rows;
  }
  for (int r = 0; r < table_rows; ++r) {
    float* const row = rows.data.data() + rows.stride * r;
    for (int k = 0; k < width; ++k) row[k] = static_cast<float>(NearestBf16(row[k]));
    if (width % 2 == 1) row[width] = 0.0f;
  }
  rows.before = rows.data;
  if (kernels.bf16_in_pairs) rows.MakePairs();
  return rows;
}

bool RandomRows::OthersUntouched() const {
  std::vector<float> expected = before;
  for (int32_t row : rows) {
    std::copy_n(data.begin() + stride * row, width, expected.begin() + stride * row);
  }
  return std::memcmp(expected.data(), data.data(), data.size() * sizeof(float)) == 0;  // NaN, too
}

TailProgram StoreAllTail(int groups) {
  TailProgram tail{{}, groups, 0};
  for (int g = 0; g < groups; ++g) tail.ops.push_back(Op(Kind::kAccumulator, -1, -1, g));
  for (int g = 0; g < groups; ++g) tail.ops.push_back(Op(Kind::kStore, g, -1, g));
  return tail;
}

TailProgram IdentityTail() { return {{Op(Kind::kAccumulator), Op(Kind::kStore, 0)}, 1, 0}; }

TailProgram UnaryTail(TailOpKind kind) {
  return {{Op(Kind::kAccumulator), Op(kind, 0), Op(Kind::kStore, 1)}, 1, 0};
}

TailProgram GatedCellTail() {
  return {
      {Op(Kind::kAccumulator, -1, -1, 0), Op(Kind::kSigmoid, 0), Op(Kind::kAccumulator, -1, -1, 1),
       Op(Kind::kSigmoid, 2), Op(Kind::kAccumulator, -1, -1, 2), Op(Kind::kTanh, 4),
       Op(Kind::kAccumulator, -1, -1, 3), Op(Kind::kSigmoid, 6), Op(Kind::kColumn, -1, -1, 0),
       Op(Kind::kMul, 3, 8), Op(Kind::kMul, 1, 5), Op(Kind::kAdd, 9, 10), Op(Kind::kTanh, 11),
       Op(Kind::kMul, 7, 12), Op(Kind::kStore, 11, -1, 1), Op(Kind::kStore, 13, -1, 2)},
      3,
      0};
}

TailProgram GatedUpdateTail() {
  return {
      {Op(Kind::kAccumulator, -1, -1, 0), Op(Kind::kSigmoid, 0), Op(Kind::kAccumulator, -1, -1, 1),
       Op(Kind::kSigmoid, 2), Op(Kind::kAccumulator, -1, -1, 2), Op(Kind::kAccumulator, -1, -1, 3),
       Op(Kind::kMul, 1, 5), Op(Kind::kAdd, 4, 6), Op(Kind::kTanh, 7),
       Op(Kind::kConstant, -1, -1, 0, 1.0f), Op(Kind::kSub, 9, 3), Op(Kind::kMul, 10, 8),
       Op(Kind::kColumn, -1, -1, 0), Op(Kind::kMul, 3, 12), Op(Kind::kAdd, 11, 13),
       Op(Kind::kStore, 14, -1, 1)},
      2,
      0};
}

TailProgram NormalisingTail() {
  return {{Op(Kind::kAccumulator, -1, -1, 0), Op(Kind::kScalar, -1, -1, 0), Op(Kind::kSub, 0, 1),
           Op(Kind::kScalar, -1, -1, 1), Op(Kind::kMul, 2, 3), Op(Kind::kParameter, -1, -1, 0),
           Op(Kind::kMul, 5, 4), Op(Kind::kParameter, -1, -1, 1), Op(Kind::kAdd, 7, 6),
           Op(Kind::kStore, 8, -1, 2)},
          3,
          2};
}

TailProgram NormalisedSumTail() {
  TailProgram tail = NormalisingTail();
  tail.ops.back() = Op(Kind::kAccumulator, -1, -1, 1);
  tail.ops.push_back(Op(Kind::kAdd, 8, 9));
  tail.ops.push_back(Op(Kind::kStore, 10, -1, 2));
  return tail;
}

TailProgram ScaledDifferenceTail() {
  return {{Op(Kind::kAccumulator, -1, -1, 0), Op(Kind::kScalar, -1, -1, 0), Op(Kind::kSub, 0, 1),
           Op(Kind::kColumn, -1, -1, 1), Op(Kind::kMul, 2, 3), Op(Kind::kStore, 4, -1, 2),
           Op(Kind::kStore, 3, -1, 3)},
          4,
          0};
}

TailProgram WithAnotherStore(const TailProgram& tail) {
  TailProgram other{{Op(Kind::kConstant, -1, -1, 0, 5.0f)}, tail.num_columns + 1, 0};
  for (TailOp op : tail.ops) {
    if (op.a >= 0) ++op.a;
    if (op.b >= 0) ++op.b;
    other.ops.push_back(op);
  }
  other.ops.push_back(Op(Kind::kStore, 0, -1, tail.num_columns));
  return other;
}

// Operands of exp, log and / are squashed first, so that the reference stays well conditioned.
TailProgram RandomTail(Random& random, int groups, int columns, int parameters) {
  TailProgram tail{{}, columns, parameters};
  for (int g = 0; g < groups; ++g) tail.ops.push_back(Op(Kind::kAccumulator, -1, -1, g));
  for (int c = 0; c < columns; ++c) tail.ops.push_back(Op(Kind::kColumn, -1, -1, c));
  for (int p = 0; p < parameters; ++p) tail.ops.push_back(Op(Kind::kParameter, -1, -1, p));
  tail.ops.push_back(Op(Kind::kConstant, -1, -1, 0, 0.75f));
  const auto add = [&tail](TailOp op) {
    tail.ops.push_back(op);
    return static_cast<int>(tail.ops.size()) - 1;
  };
  const int steps = RandomInt(random, 1, 10);
  for (int i = 0; i < steps; ++i) {
    const int last = static_cast<int>(tail.ops.size()) - 1;
    const int a = RandomInt(random, 0, last), b = RandomInt(random, 0, last);
    const auto kind = static_cast<Kind>(
        RandomInt(random, static_cast<int>(Kind::kAdd), static_cast<int>(Kind::kLog)));
    if (kind == Kind::kExp || kind == Kind::kLog) {
      add(Op(kind, add(Op(Kind::kSigmoid, a))));
    } else if (kind == Kind::kDiv) {
      add(Op(kind, a, add(Op(Kind::kExp, add(Op(Kind::kTanh, b))))));
    } else if (kind == Kind::kMul) {
      add(Op(kind, add(Op(Kind::kTanh, a)), b));
    } else {
      add(Op(kind, a, kind <= Kind::kMax ? b : -1));
    }
  }
  const int last = static_cast<int>(tail.ops.size()) - 1;
  for (int c = 0; c < columns; ++c) {
    if (c == 0 || RandomInt(random, 0, 1) == 1) {
      add(Op(Kind::kStore, c == 0 ? last : RandomInt(random, 0, last), -1, c));
    }
  }
  return tail;
}

TailProgram SumsAsColumns(TailProgram tail, int groups) {
  for (TailOp& op : tail.ops) {
    if (op.kind != Kind::kAccumulator) continue;
    op.kind = Kind::kColumn;
    op.index = static_cast<int16_t>(tail.num_columns + op.index);
  }
  tail.num_columns += groups;
  return tail;
}

double Excess(const std::vector<double>& expected, const float* got) {
  double most = 1.0, error = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(got[i])) return HUGE_VAL;
    most = std::max(most, std::abs(expected[i]));
    error = std::max(error, std::abs(expected[i] - got[i]));
  }
  return error / (1e-5 * most);
}

}  // namespace cellbatch::kernels
