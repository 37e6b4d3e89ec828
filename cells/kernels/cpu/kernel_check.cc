#include "cells/kernels/cpu/kernel_check.h"

#include <algorithm>
#include <bit>
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
constexpr int kFewRows[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14,
                            15, 16, 17, 18, 19, 20, 24, 25, 30, 31, 36, 37, 57, kChunkRows};
constexpr StreamWay kWays[] = {StreamWay::kUsual,      StreamWay::kUndisturbed, StreamWay::kPaired,
                               StreamWay::kPrefetched, StreamWay::kSpread,      StreamWay::kShort};
static_assert(std::size(kWays) == kNumWays);
constexpr int kMostRows = kChunkRows + 11;  // two chunks

// Where it is the usual one: as for weights from memory. (Other tests have the usual one of a small product.)
Tuning Always(StreamWay way) {
  Tuning tuning;
  tuning.cache_bytes = 1;
  tuning.near.fill(way);
  tuning.far.fill(way);
  return tuning;
}

// Which groups have which terms.
enum class Terms : uint8_t {
  kNearlyAll,  // the last segment leaves one out
  kApart,      // no group reads what another reads, but for those that are three further on
};

// Two full panels, which may be a pair, and one whose columns are as many as there are groups, the last block of units not
// full.
int UnitsOf(int groups, Terms terms) {
  const int of_segment = terms == Terms::kApart ? (groups + 2) / 3 : groups;
  const int blocks =
      std::min(kPanelColumns / std::min(of_segment, kPanelColumns), kPanelSums / groups);
  return (2 * std::max(1, blocks) + 1) * kLanes - 3;
}

class ProductCheck {
 public:
  ProductCheck(const CpuKernels& kernels, int groups, Precision precision, Terms terms,
               Random& random)
      : kernels_(kernels),
        groups_(groups),
        product_(random, UnitsOf(groups, terms), groups, {2 * kernels.block_of_k + 3, 1, 29},
                 StoreAllTail(groups)) {
    for (int g = 0; g < groups && terms == Terms::kApart; ++g) {
      for (int s = 0; s < 3; ++s) {
        if (g % 3 != s) product_.spec.segments[s].weights[g] = {};
      }
    }
    if (groups > 1) {
      product_.spec.segments[2].weights[groups - 1] = {};  // an absent term, and an absent bias
      product_.spec.bias[0] = nullptr;
    }
    product_.spec.precision = precision;
    packed_ = std::make_unique<PackedProduct>(product_.spec, kernels_.packing);
    for (const SegmentSpec& s : product_.spec.segments) {
      inputs_.push_back(
          RandomInputs(random, kernels, precision, s.depth, kMostRows + 2, kMostRows));
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
      for (const StreamWay way : kWays) {
        const bool there = (kernels_.ways(rows) >> static_cast<int>(way) & 1) != 0;
        const bool asked = rows <= kMostBlockRows || way == StreamWay::kUsual ||
                           (there && rows < kChunkRows);  // so many take long
        if (!wrong.empty() || !asked) continue;
        // Each way in both directions, among all numbers of rows.
        const bool from_last = rows % 2 == static_cast<int>(way) % 2;
        const Columns alone =
            Computed(rows, Always(way), [&](int n, ProductScratch& s, Columns& to) {
              RunPanels(n, s, to, 0, packed_->num_panels(), from_last);
            });
        wrong = Same(alone, rows,
                     "streamed in way " + std::to_string(static_cast<int>(way)) +
                         (from_last ? ", from the last panel" : ""));
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
    ++run_;
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

  // As of a run with many panels for this thread: a chunk's rows are packed, if these kernels ever do that; of more, read where
  // they lie.
  void RunPanels(int rows, ProductScratch& scratch, Columns& to, int first, int last,
                 bool from_last = false) const {
    const std::vector<RowSource> sources = Sources();
    const std::vector<RowColumn> bound = Bound(to);
    ProductArgs args = {rows, sources.data(), nullptr, bound.data()};
    args.from_last = from_last;
    args.run = run_;
    args.panels_of_run = kLeastPanelsToPackFor;
    kernels_.run_product(*packed_, args, first, last, &scratch);
  }

  std::string Wrong(int rows, const std::string& what) const {
    return std::string("product in ") + Name(packed_->precision()) + ", " +
           std::to_string(groups_) + " groups, " + std::to_string(rows) + " rows: " + what;
  }

  std::string AgainstDoubles() const {
    std::vector<std::vector<const float*>> x(kMostRows);
    for (int r = 0; r < kMostRows; ++r) {
      for (const RandomRows& rows : inputs_) x[static_cast<size_t>(r)].push_back(rows.Row(r));
    }
    const std::vector<std::vector<double>> expected = product_.Accumulators(x);
    for (int r = 0; r < kMostRows; ++r) {
      const std::vector<double>& of_row = expected[static_cast<size_t>(r)];
      for (int g = 0; g < groups_; ++g) {
        const auto from = of_row.begin() + int64_t{g} * product_.spec.units;
        const std::vector<double> group(from, from + product_.spec.units);
        const double allowed = packed_->precision() == Precision::kFp32Split ? 2.0 : 1.0;
        if (Excess(group, together_[g].Row(r)) <= allowed) continue;
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
    const PackedProduct first_packed(first, kernels_.packing),
        others_packed(others, kernels_.packing);
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
  mutable uint64_t run_ = 0;
};

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
    packed_ = std::make_unique<PackedProduct>(product_.spec, kernels_.packing);
    std::fill_n(input_.data.begin() + input_.stride * input_.rows[7], 20, nan);
    x_ = input_.source();
  }

  std::string Run() {
    ProductScratch scratch;
    const RowColumn column = stored_.column();
    kernels_.run_product(*packed_, {kMostRows, &x_, nullptr, &column}, 0, packed_->num_panels(),
                         &scratch);
    std::string wrong = ByTwoThreads(false);
    if (wrong.empty()) wrong = ByTwoThreads(true);
    for (const StreamWay way : kWays) {
      for (int rows = 1; rows <= kMostBlockRows && wrong.empty(); ++rows) wrong = AtOnce(rows, way);
    }
    return wrong;
  }

 private:
  std::string ByTwoThreads(bool backwards) const {
    ProductScratch scratch;
    const int panels = packed_->num_panels();
    std::vector<Largest> kept[2];
    for (auto& of_thread : kept) of_thread.resize(kMostRows);
    for (int i = 0; i < panels; ++i) {
      const int p = backwards ? panels - 1 - i : i;
      // Of four panels the first two are one thread's, so that it meets equals in two of its own.
      ProductArgs args{kMostRows, &x_, nullptr, nullptr, kept[p / 2 % 2].data()};
      kernels_.run_product(*packed_, args, p, p + 1, &scratch);
    }
    for (size_t r = 0; r < kMostRows; ++r) kept[0][r].Take(kept[1][r]);
    return Told(kept[0]);
  }

  // All panels in one call, pairs of them among them.
  std::string AtOnce(int rows, StreamWay way) const {
    ProductScratch scratch(Always(way));
    std::vector<Largest> kept(static_cast<size_t>(rows));
    kernels_.run_product(*packed_, {rows, &x_, nullptr, nullptr, kept.data()}, 0,
                         packed_->num_panels(), &scratch);
    return Told(kept);
  }

  std::string Told(const std::vector<Largest>& kept) const {
    for (size_t r = 0; r < kept.size(); ++r) {
      const int32_t best = LargestStored(static_cast<int>(r));
      if (kept[r].unit == best &&
          (best < 0 || kept[r].value == stored_.Row(static_cast<int>(r))[best])) {
        continue;
      }
      return "the largest of row " + std::to_string(r) + " of " + std::to_string(units_) +
             " units is " + std::to_string(kept[r].unit) + " and not " + std::to_string(best);
    }
    return "";
  }

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
  RowSource x_;
};

}  // namespace

std::string CheckProducts(const CpuKernels& kernels, Precision precision, int groups) {
  Random random(kCheckSeed + static_cast<uint64_t>(groups));
  const std::string wrong =
      ProductCheck(kernels, groups, precision, Terms::kNearlyAll, random).Run();
  if (!wrong.empty() || groups == 1) return wrong;
  return ProductCheck(kernels, groups, precision, Terms::kApart, random).Run();
}

std::string CheckProducts(const CpuKernels& kernels, Precision precision) {
  std::string wrong;
  for (int groups = 1; groups <= kMaxGroups && wrong.empty(); ++groups) {
    wrong = CheckProducts(kernels, precision, groups);
  }
  return wrong;
}

float RoundedElement(const CpuKernels& kernels, const float* row, int k) {
  if (!kernels.bf16_in_pairs) return row[k];
  const auto pair = std::bit_cast<uint32_t>(row[k / 2]);
  return std::bit_cast<float>(k % 2 == 0 ? pair & 0xffff0000u : pair << 16);
}

// A few rows: whole vectors, and parts of them; looked up through tokens.
std::string CheckRounding(const CpuKernels& kernels) {
  Random random(kCheckSeed);
  for (const int width : {1, 2, 15, 16, 17, 31, 64, 77}) {
    RandomRows from(random, width, 9, 5);
    for (size_t i = 0; i < from.data.size(); ++i) {
      float& value = from.data[i];
      // Ties, and beside them; the largest denormal numbers, which become normal ones, and one that is a tie.
      const uint32_t halves[] = {0x3f808000u, 0x3f818000u, 0xbf808000u, 0x3f818001u,
                                 0x3f807fffu, 0x007fffffu, 0x807f8000u, 0x00018000u};
      if (i % 3 == 0) value = std::bit_cast<float>(halves[i / 3 % 8]);
      if (i % 17 == 5) value = i % 2 == 0 ? INFINITY : -0.0f;
      if (i % 17 == 6) value = std::bit_cast<float>(0x7f800001u);  // a NaN with a lower half only
    }
    const int written = width + width % 2;
    RandomRows to(random, kernels.bf16_in_pairs ? written / 2 : written, 9, 5);
    RowSource in = from.source();
    std::swap(in.rows, in.tokens);
    kernels.round_to_bf16(in, width, 5, to.column());
    for (int r = 0; r < 5; ++r) {
      for (int k = 0; k < written; ++k) {
        const float given = k < width ? from.Row(r)[k] : 0.0f;
        const float got = RoundedElement(kernels, to.Row(r), k);
        const bool right = std::isnan(given) ? std::isnan(got)
                                             : std::bit_cast<uint32_t>(got) ==
                                                   uint32_t{RoundedToBf16(given)} << 16;
        if (!right) return "rounding of " + std::to_string(given) + " to bf16";
      }
    }
    if (!to.OthersUntouched()) return "rounding to bf16: memory beside its rows was written";
  }
  return "";
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

std::string CheckKernels(const CpuKernels& kernels) {
  std::string wrong = CheckTails(kernels);
  if (wrong.empty()) wrong = CheckLargest(kernels);
  if (wrong.empty()) wrong = CheckRowKernels(kernels);
  if (wrong.empty()) wrong = CheckElementWise(kernels);
  if (wrong.empty()) wrong = CheckRounding(kernels);
  for (const Precision precision : kPrecisions) {
    if (wrong.empty()) wrong = CheckProducts(kernels, precision);
  }
  return wrong;
}

}  // namespace cellbatch::kernels
