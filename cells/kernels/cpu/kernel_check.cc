#include "cells/kernels/cpu/kernel_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "cells/kernels/cpu/random_product.h"

namespace cellbatch::kernels {
namespace {

// All numbers of row blocks that prefetch in different shares, and all sizes of blocks among them (tile_test counts).
constexpr int kFewRows[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13,
                            14, 15, 16, 17, 18, 19, 20, 24, 25, 30, 31, 36, 37};
constexpr int kRowsThatMayStream = 8;  // more pass over the weights twice, however they are tuned
constexpr int kMostRows = kChunkRows + 11;  // two chunks

// Stores every accumulator in a column of its own: nothing that a sum gets wrong is hidden by what follows.
TailProgram StoreAll(int groups) {
  TailProgram tail{{}, groups, 0};
  for (int g = 0; g < groups; ++g) {
    tail.ops.push_back({TailOpKind::kAccumulator, -1, -1, static_cast<int16_t>(g)});
  }
  for (int g = 0; g < groups; ++g) {
    tail.ops.push_back({TailOpKind::kStore, static_cast<int16_t>(g), -1, static_cast<int16_t>(g)});
  }
  return tail;
}

// A full panel, and one whose columns are as many as there are groups, the last block of units not full.
int UnitsOf(int groups) { return (std::max(1, kPanelColumns / groups) + 1) * kLanes - 3; }

class ProductCheck {
 public:
  ProductCheck(const CpuKernels& kernels, int groups, Random& random)
      : kernels_(kernels),
        groups_(groups),
        product_(random, UnitsOf(groups), groups, {2 * kernels.block_of_k + 3, 1, 29},
                 StoreAll(groups)) {
    if (groups > 1) {
      product_.spec.segments[2].weights[groups - 1] = {};  // an absent term, and an absent bias
      product_.spec.bias[0] = nullptr;
    }
    packed_ = std::make_unique<PackedProduct>(product_.spec);
    for (const SegmentSpec& s : product_.spec.segments) {
      inputs_.emplace_back(random, s.depth, kMostRows + 2, kMostRows);
    }
    for (int g = 0; g < groups; ++g) {
      blank_.emplace_back(random, product_.spec.units, kMostRows + 2, kMostRows);
    }
  }

  std::string Run() {
    together_ = Computed(kMostRows, Tuning{}, [this](int rows, ProductScratch& s, Columns& to) {
      RunPanels(rows, s, to, 0, packed_->num_panels());
    });
    std::string wrong = AgainstDoubles();
    for (const int rows : kFewRows) {
      for (const bool prefetch : {false, true}) {
        if (!wrong.empty() || (prefetch && rows > kRowsThatMayStream)) continue;
        const Columns alone =
            Computed(rows, Tuning{prefetch}, [this](int n, ProductScratch& s, Columns& to) {
              RunPanels(n, s, to, 0, packed_->num_panels());
            });
        wrong = Same(alone, rows, prefetch ? "prefetching alone" : "in company");
      }
    }
    for (const int rows : {kMostRows, 5}) {
      if (wrong.empty()) wrong = PanelByPanel(rows);
      if (wrong.empty()) wrong = FromAccumulators(rows);
    }
    return wrong;
  }

 private:
  using Columns = std::vector<RandomRows>;

  template <class Work>
  Columns Computed(int rows, Tuning tuning, Work work) const {
    Columns to = blank_;
    for (RandomRows& c : to) c.rows.resize(static_cast<size_t>(rows));
    ProductScratch scratch(tuning);
    work(rows, scratch, to);
    return to;
  }

  // The first segment's rows are looked up through tokens, the others by number.
  std::vector<RowSource> Sources() const {
    std::vector<RowSource> sources;
    for (const RandomRows& r : inputs_) sources.push_back(r.source());
    std::swap(sources[0].rows, sources[0].tokens);
    return sources;
  }
  static std::vector<RowColumn> Bound(Columns& to) {
    std::vector<RowColumn> bound;
    for (RandomRows& c : to) bound.push_back(c.column());
    return bound;
  }

  void RunPanels(int rows, ProductScratch& scratch, Columns& to, int first, int last) const {
    const std::vector<RowSource> sources = Sources();
    const std::vector<RowColumn> bound = Bound(to);
    kernels_.run_product(*packed_, {rows, sources.data(), nullptr, bound.data()}, first, last,
                         &scratch);
  }

  std::string Wrong(int rows, const std::string& what) const {
    return "product, " + std::to_string(groups_) + " groups, " + std::to_string(rows) +
           " rows: " + what;
  }

  std::string AgainstDoubles() const {
    for (int r = 0; r < kMostRows; ++r) {
      std::vector<const float*> x;
      for (const RandomRows& rows : inputs_) x.push_back(rows.Row(r));
      const std::vector<double> expected = product_.Accumulators(x);
      for (int g = 0; g < groups_; ++g) {
        const auto from = expected.begin() + int64_t{g} * product_.spec.units;
        const std::vector<double> group(from, from + product_.spec.units);
        if (Excess(group, together_[g].Row(r)) <= 1.0) continue;
        return Wrong(kMostRows, "group " + std::to_string(g) + " of row " + std::to_string(r) +
                                    " is not what double arithmetic says");
      }
    }
    return Guards(together_, kMostRows);
  }

  std::string Guards(const Columns& columns, int rows) const {
    for (const RandomRows& c : columns) {
      if (!c.OthersUntouched()) return Wrong(rows, "memory beside its rows was written");
    }
    return "";
  }

  std::string Same(const Columns& columns, int rows, const std::string& how) const {
    for (int g = 0; g < groups_; ++g) {
      for (int r = 0; r < rows; ++r) {
        const size_t bytes = sizeof(float) * static_cast<size_t>(product_.spec.units);
        if (std::memcmp(columns[g].Row(r), together_[g].Row(r), bytes) == 0) continue;
        return Wrong(rows, "group " + std::to_string(g) + " of row " + std::to_string(r) +
                               " has other bits than among " + std::to_string(kMostRows) + " (" +
                               how + ")");
      }
    }
    return Guards(columns, rows);
  }

  std::string PanelByPanel(int rows) const {
    return Same(Computed(rows, Tuning{},
                         [this](int n, ProductScratch& scratch, Columns& to) {
                           for (int p = packed_->num_panels(); p-- > 0;) {
                             RunPanels(n, scratch, to, p, p + 1);
                           }
                         }),
                rows, "panel by panel, backwards");
  }

  // The first segment's sums into rows of memory, and the others from there.
  std::string FromAccumulators(int rows) const {
    ProductSpec first = product_.spec, others = product_.spec;
    first.segments.resize(1);
    others.segments.erase(others.segments.begin());
    std::fill_n(others.bias, kMaxGroups, nullptr);
    const PackedProduct first_packed(first), others_packed(others);
    const std::vector<RowSource> sources = Sources();
    PackedMemory sums(first_packed.accumulator_width() * rows);
    const RowSource initial{sums.data(), first_packed.accumulator_width()};
    const auto work = [&](int n, ProductScratch& scratch, Columns& to) {
      kernels_.run_accumulators(first_packed, {n, sources.data()}, 0, first_packed.num_panels(),
                                &scratch, sums.data(), initial.stride);
      const std::vector<RowColumn> bound = Bound(to);
      kernels_.run_product(others_packed, {n, sources.data() + 1, &initial, bound.data()}, 0,
                           others_packed.num_panels(), &scratch);
    };
    return Same(Computed(rows, Tuning{}, work), rows, "from accumulators made before");
  }

  const CpuKernels& kernels_;
  const int groups_;
  RandomProduct product_;
  std::unique_ptr<PackedProduct> packed_;
  std::vector<RandomRows> inputs_;
  Columns blank_, together_;
};

// One operation, whatever it is, and what it may read besides accumulators, each stored: no shape of its own.
TailProgram OperationTail(TailOpKind kind) {
  using K = TailOpKind;
  const bool binary = kind <= K::kMax, divides = kind == K::kDiv;
  const int16_t a = kind == K::kLog ? 2 : 1, b = !binary ? -1 : divides ? 2 : 0;
  return {{{K::kAccumulator, -1, -1, 0},
           {K::kAccumulator, -1, -1, 1},
           {K::kSigmoid, 0},  // what may be divided by, and has a logarithm
           {K::kColumn, -1, -1, 0},
           {K::kParameter, -1, -1, 0},
           {K::kConstant, -1, -1, 0, 0.75f},
           {kind, a, b},
           {K::kStore, 6, -1, 1},
           {K::kStore, 3, -1, 2},
           {K::kStore, 4, -1, 3},
           {K::kStore, 5, -1, 4}},
          5,
          1};
}

std::string CheckTail(const CpuKernels& kernels, Random& random, const TailProgram& tail,
                      const std::string& name) {
  for (const int units : {13, 16, 61}) {
    const int rows = 19;
    const RandomProduct product(random, units, 4, {33}, tail);
    const PackedProduct packed(product.spec);
    const RandomRows input(random, 33, rows + 2, rows);
    std::vector<RandomRows> columns;
    for (int c = 0; c < tail.num_columns; ++c) columns.emplace_back(random, units, rows + 2, rows);
    std::vector<RowColumn> bound;
    for (RandomRows& c : columns) bound.push_back(c.column());
    const RowSource in = input.source();
    ProductScratch scratch;
    kernels.run_product(packed, {rows, &in, nullptr, bound.data()}, 0, packed.num_panels(),
                        &scratch);
    const std::string where = "tail " + name + ", " + std::to_string(units) + " units: ";
    for (int r = 0; r < rows; ++r) {
      std::vector<const float*> before;
      for (const RandomRows& c : columns) before.push_back(c.before.data() + c.stride * c.rows[r]);
      const auto expected = product.Reference({input.Row(r)}, before);
      for (int c = 0; c < tail.num_columns; ++c) {
        const bool stored = !expected[c].empty();
        if (stored && Excess(expected[c], columns[c].Row(r)) > 1.0) {
          return where + "column " + std::to_string(c) + " of row " + std::to_string(r);
        }
      }
    }
    for (const RandomRows& c : columns) {
      if (!c.OthersUntouched()) return where + "memory beside its rows was written";
    }
  }
  return "";
}

// Two threads run panels in turn, in either order, and what they found is merged; with ties, a unit that is always NaN
// and a row that is nothing else.
class LargestCheck {
 public:
  LargestCheck(const CpuKernels& kernels, Random& random, int units, bool ties)
      : kernels_(kernels),
        units_(units),
        product_(random, units, 1, {20}, IdentityTail()),
        bias_(RandomFloats(random, units)),
        input_(random, 20, kMostRows + 2, kMostRows),
        stored_(random, units, kMostRows + 2, kMostRows) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    if (ties) {  // sums are their bias, and that one of three
      std::fill(input_.data.begin(), input_.data.end(), 0.0f);
      for (float& b : bias_) b = static_cast<float>(RandomInt(random, 0, 2));
    }
    if (units > 1) bias_[static_cast<size_t>(units / 2)] = nan;
    product_.spec.bias[0] = bias_.data();
    packed_ = std::make_unique<PackedProduct>(product_.spec);
    std::fill_n(input_.data.begin() + input_.stride * input_.rows[7], 20, nan);
  }

  std::string Run() {
    ProductScratch scratch;
    const RowSource x = input_.source();
    const RowColumn column = stored_.column();
    const int panels = packed_->num_panels();
    kernels_.run_product(*packed_, {kMostRows, &x, nullptr, &column}, 0, panels, &scratch);
    for (const bool backwards : {false, true}) {
      std::vector<Largest> kept[2];
      for (auto& of_thread : kept) of_thread.resize(kMostRows);
      for (int i = 0; i < panels; ++i) {
        const int p = backwards ? panels - 1 - i : i;
        // Of four panels the first two are one thread's, so that it meets equals in two of its own.
        ProductArgs args{kMostRows, &x, nullptr, nullptr, kept[p / 2 % 2].data()};
        kernels_.run_product(*packed_, args, p, p + 1, &scratch);
      }
      for (int r = 0; r < kMostRows; ++r) {
        Largest merged = kept[0][static_cast<size_t>(r)];
        merged.Take(kept[1][static_cast<size_t>(r)]);
        const int32_t best = LargestStored(r);
        if (merged.unit == best && (best < 0 || merged.value == stored_.Row(r)[best])) continue;
        return "the largest of row " + std::to_string(r) + " of " + std::to_string(units_) +
               " units is " + std::to_string(merged.unit) + " and not " + std::to_string(best);
      }
    }
    return "";
  }

 private:
  int32_t LargestStored(int r) const {
    const float* const row = stored_.Row(r);
    int32_t best = -1;
    for (int32_t u = 0; u < units_; ++u) {
      if (!std::isnan(row[u]) && (best < 0 || row[u] > row[best])) best = u;
    }
    return best;
  }

  const CpuKernels& kernels_;
  const int units_;
  RandomProduct product_;
  std::vector<float> bias_;
  std::unique_ptr<PackedProduct> packed_;
  RandomRows input_, stored_;
};

std::string CheckSums(const CpuKernels& kernels, Random& random) {
  const std::vector<int32_t> offsets = {0, 0, 1, 4, 4, 9};
  for (const int width : {1, 16, 37, 64}) {
    RandomRows in(random, width, 12, 9), out(random, width, 9, 5);
    in.data[in.rows[0] * in.stride] = -0.0f;  // one row alone is itself, its sign too
    kernels.sum_rows(in.source(), offsets.data(), width, 5, out.column());
    if (!out.OthersUntouched()) return "sums wrote beside their rows";
    for (int r = 0; r < 5; ++r) {
      std::vector<float> sum(static_cast<size_t>(width), 0.0f);
      for (int i = offsets[r]; i < offsets[r + 1]; ++i) {
        for (int u = 0; u < width; ++u) {
          sum[u] = i == offsets[r] ? in.Row(i)[u] : sum[u] + in.Row(i)[u];
        }
      }
      if (std::memcmp(sum.data(), out.Row(r), sizeof(float) * sum.size()) != 0) {
        return "sum " + std::to_string(r) + " of width " + std::to_string(width);
      }
    }
  }
  return "";
}

// Ties, NaN, rows of nothing but NaN or minus infinity.
std::string CheckArgMax(const CpuKernels& kernels, Random& random) {
  const float inf = std::numeric_limits<float>::infinity();
  const float odd[] = {std::numeric_limits<float>::quiet_NaN(), -inf, 1.0f, 2.0f, 2.0f};
  for (const int width : {1, 2, 15, 16, 17, 64, 131}) {
    for (int kinds = 1; kinds <= 5; ++kinds) {
      RandomRows in(random, width, 9, 7);
      for (float& x : in.data) x = odd[RandomInt(random, 0, kinds - 1)];
      std::vector<int32_t> got(9, -7), order = {8, 1, 2, 3, 4, 5, 0};
      kernels.arg_max(in.source(), width, 7, {got.data(), 1, order.data()});
      for (int r = 0; r < 7; ++r) {
        int32_t best = -1;
        for (int32_t u = 0; u < width; ++u) {
          const float x = in.Row(r)[u];
          if (!std::isnan(x) && (best < 0 || x > in.Row(r)[best])) best = u;
        }
        if (got[order[r]] == std::max(best, 0)) continue;
        return "argmax of a row of " + std::to_string(width) + " is " +
               std::to_string(got[order[r]]) + " and not " + std::to_string(std::max(best, 0));
      }
      if (got[6] != -7 || got[7] != -7) return "argmax wrote beside its rows";
    }
  }
  return "";
}

std::string CheckMatMuls(const CpuKernels& kernels, Random& random) {
  for (int rows = 1; rows <= 9; ++rows) {
    for (const int cols : {1, 16, 47, 67, 131}) {
      const int depth = rows % 2 == 0 ? 70 : 141;
      const std::vector<float> x = RandomFloats(random, rows * (depth + 3));
      const std::vector<float> w = RandomFloats(random, cols * (depth + 5));
      std::vector<float> turned(static_cast<size_t>(depth) * (cols + 2));
      std::vector<double> expected;
      for (int k = 0; k < depth; ++k) {
        for (int n = 0; n < cols; ++n) turned[k * (cols + 2) + n] = w[n * (depth + 5) + k];
      }
      for (int m = 0; m < rows; ++m) {
        for (int n = 0; n < cols; ++n) {
          double sum = 0.0;
          for (int k = 0; k < depth; ++k)
            sum += double{x[m * (depth + 3) + k]} * w[n * (depth + 5) + k];
          expected.push_back(sum);
        }
      }
      std::vector<float> y(expected.size() + 1, 77.0f), z = y;
      kernels.mat_mul_by_rows(
          {x.data(), depth + 3, w.data(), depth + 5, rows, depth, cols, y.data()});
      kernels.mat_mul_by_columns(
          {x.data(), depth + 3, turned.data(), cols + 2, rows, depth, cols, z.data()});
      const std::string shape =
          std::to_string(rows) + " x " + std::to_string(depth) + " x " + std::to_string(cols);
      if (Excess(expected, y.data()) > 1.0 || y.back() != 77.0f) return "product by rows, " + shape;
      if (Excess(expected, z.data()) > 1.0 || z.back() != 77.0f)
        return "product by columns, " + shape;
    }
  }
  return "";
}

std::string CheckCopies(const CpuKernels& kernels, Random& random) {
  for (const bool looked_up : {false, true}) {
    RandomRows table(random, 21, 50, 50), out(random, 21, 9, 6);
    const std::vector<int32_t> token = {3, 3, 49, 0, 7, 11, 12, 13}, nodes = {5, 0, 2, 1, 7, 3};
    const RowSource in{table.data.data(), table.stride, nodes.data(),
                       looked_up ? token.data() : nullptr};
    kernels.copy_rows(in, 21, 6, out.column());
    for (int r = 0; r < 6; ++r) {
      const int row = looked_up ? token[nodes[r]] : nodes[r];
      const float* const from = table.data.data() + table.stride * row;
      if (std::memcmp(from, out.Row(r), 21 * sizeof(float)) != 0) {
        return std::string("copy ") + (looked_up ? "through tokens" : "by number");
      }
    }
    if (!out.OthersUntouched()) return "copies wrote beside their rows";
  }
  return "";
}

}  // namespace

std::string CheckProducts(const CpuKernels& kernels, int groups) {
  Random random(kCheckSeed + static_cast<uint64_t>(groups));
  return ProductCheck(kernels, groups, random).Run();
}

std::string CheckProducts(const CpuKernels& kernels) {
  std::string wrong;
  for (int groups = 1; groups <= kMaxGroups && wrong.empty(); ++groups) {
    wrong = CheckProducts(kernels, groups);
  }
  return wrong;
}

std::string CheckTails(const CpuKernels& kernels) {
  Random random(kCheckSeed);
  const std::pair<TailProgram, const char*> tails[] = {
      {IdentityTail(), "identity"},           {UnaryTail(TailOpKind::kSigmoid), "sigmoid"},
      {UnaryTail(TailOpKind::kTanh), "tanh"}, {UnaryTail(TailOpKind::kRelu), "relu"},
      {GatedCellTail(), "gated cell"},        {GatedUpdateTail(), "gated update"}};
  std::string wrong;
  for (const auto& [tail, name] : tails) {
    if (wrong.empty()) wrong = CheckTail(kernels, random, tail, name);
  }
  const int first = static_cast<int>(TailOpKind::kAdd), last = static_cast<int>(TailOpKind::kLog);
  for (int kind = first; kind <= last && wrong.empty(); ++kind) {
    wrong = CheckTail(kernels, random, OperationTail(static_cast<TailOpKind>(kind)),
                      "of operation " + std::to_string(kind));
  }
  for (int i = 0; i < 10 && wrong.empty(); ++i) {
    wrong = CheckTail(kernels, random, RandomTail(random, 4, 2, 1), "at random");
  }
  return wrong;
}

std::string CheckLargest(const CpuKernels& kernels) {
  Random random(kCheckSeed);
  std::string wrong;
  for (const int units : {1, 15, 16, 17, 64, 65, 130, 300}) {
    for (const bool ties : {false, true}) {
      if (wrong.empty()) wrong = LargestCheck(kernels, random, units, ties).Run();
    }
  }
  return wrong;
}

std::string CheckRowKernels(const CpuKernels& kernels) {
  Random random(kCheckSeed);
  std::string wrong = CheckSums(kernels, random);
  if (wrong.empty()) wrong = CheckArgMax(kernels, random);
  if (wrong.empty()) wrong = CheckMatMuls(kernels, random);
  if (wrong.empty()) wrong = CheckCopies(kernels, random);
  return wrong;
}

std::string CheckKernels(const CpuKernels& kernels) {
  std::string wrong = CheckProducts(kernels);
  if (wrong.empty()) wrong = CheckTails(kernels);
  if (wrong.empty()) wrong = CheckLargest(kernels);
  if (wrong.empty()) wrong = CheckRowKernels(kernels);
  return wrong;
}

}  // namespace cellbatch::kernels
