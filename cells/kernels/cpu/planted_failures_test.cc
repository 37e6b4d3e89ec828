// Every path of the kernels that the check covers, broken one at a time behind the table: the check must tell. (The
// tiles, which no wrapper can tell apart, are broken one by one in tile_test.)
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cells/kernels/cpu/kernel_check.h"
#include "cells/kernels/cpu/kernel_table.h"
#include "cells/kernels/cpu/random_product.h"

namespace cellbatch::kernels {
namespace {

// The table behind the wrappers, which are plain functions and cannot carry it.
const CpuKernels* sound = nullptr;

// What is wrong with a call of run_product: it sees the call and may change what the sound kernel is asked or leaves.
struct ProductFault {
  const char* name;
  // Whether this call takes the path.
  std::function<bool(const PackedProduct&, const ProductArgs&, const ProductScratch&)> hit;
  // After the sound kernel ran: spoils one value. Row and unit count from the end where they are negative.
  int row = 0, unit = 0;
};
const ProductFault* product_fault = nullptr;

void SpoiltProduct(const PackedProduct& product, const ProductArgs& args, int first, int last,
                   ProductScratch* scratch) {
  sound->run_product(product, args, first, last, scratch);
  const ProductFault& fault = *product_fault;
  const int row = fault.row < 0 ? args.num_rows + fault.row : fault.row;
  const int unit = fault.unit < 0 ? product.units() + fault.unit : fault.unit;
  const int panel = unit / kLanes / product.blocks_per_panel();
  if (row < 0 || row >= args.num_rows || panel < first || panel >= last) return;
  if (args.columns == nullptr || !fault.hit(product, args, *scratch)) return;
  for (const TailOp& op : product.tail().ops) {
    if (op.kind != TailOpKind::kStore) continue;
    args.columns[op.index].Row(row)[unit] += 1e-3f;
    return;
  }
}

bool OfShape(const PackedProduct& product, TailShape shape) {
  return product.tail_match().shape == shape;
}
bool HasOperation(const PackedProduct& product, TailOpKind kind) {
  const std::vector<TailOp>& ops = product.tail().ops;
  return std::any_of(ops.begin(), ops.end(), [kind](const TailOp& op) { return op.kind == kind; });
}

bool HasInstruction(const PackedProduct& product, TailInstructionKind kind) {
  const std::vector<TailInstruction>& code = product.tail_code().instructions;
  return std::any_of(code.begin(), code.end(),
                     [kind](const TailInstruction& i) { return i.kind == kind; });
}

bool IsCompiled(const PackedProduct& product) {
  return product.compiled_tail(sound->packing.tails) != nullptr;
}

// Of what is not fp32: read once, expanded block by block, in chunks, and begun elsewhere.
void AddPrecisionFaults(std::vector<ProductFault>& faults) {
  using P = PackedProduct;
  using A = ProductArgs;
  using S = ProductScratch;
  for (const Precision precision : {Precision::kW8, Precision::kBf16}) {
    const auto of = [precision](auto more) {
      return
          [=](const P& p, const A& a, const S&) { return p.precision() == precision && more(a); };
    };
    faults.push_back({"one row, not fp32", of([](const A& a) { return a.num_rows == 1; })});
    faults.push_back({"rows, not fp32", of([](const A& a) { return a.num_rows == 37; }), -1, -1});
    faults.push_back(
        {"chunks, not fp32", of([](const A& a) { return a.num_rows > kChunkRows; }), kChunkRows});
    faults.push_back(
        {"from accumulators, not fp32", of([](const A& a) { return a.initial != nullptr; })});
  }
}

// Each kernel of a tail, and each instruction of the one that runs any.
void AddTailFaults(std::vector<ProductFault>& faults) {
  using P = PackedProduct;
  using A = ProductArgs;
  using S = ProductScratch;
  for (const TailShape shape :
       {TailShape::kGeneral, TailShape::kIdentity, TailShape::kSigmoid, TailShape::kTanh,
        TailShape::kRelu, TailShape::kGatedCell, TailShape::kGatedUpdate}) {
    const auto whole = [shape](const P& p, const A&, const S&) {
      return OfShape(p, shape) && p.units() % kLanes == 0;
    };
    const auto part = [shape](const P& p, const A&, const S&) {
      return OfShape(p, shape) && p.units() % kLanes != 0;
    };
    faults.push_back({"a shape of tail, whole blocks", whole});
    faults.push_back({"a shape of tail, part of a block", part, 0, -1});
  }
  faults.push_back({"any tail, as it is", [](const P& p, const A&, const S&) {
                      return OfShape(p, TailShape::kGeneral) && !IsCompiled(p);
                    }});
  if (CompiledTail::IsUseful(sound->packing.tails)) {
    faults.push_back(
        {"a tail that was compiled", [](const P& p, const A&, const S&) { return IsCompiled(p); }});
  }
  // Where rows follow each other, sums stand where they are stored.
  faults.push_back({"sums as they are, in place",
                    [](const P& p, const A& a, const S&) {
                      return OfShape(p, TailShape::kIdentity) && p.groups() > 1 &&
                             a.columns[0].rows == nullptr && p.units() % kLanes == 0;
                    },
                    -1, -1});
  for (int kind = 0; kind < kTailInstructionKinds; ++kind) {
    faults.push_back({"an instruction of any tail", [kind](const P& p, const A&, const S&) {
                        return OfShape(p, TailShape::kGeneral) &&
                               HasInstruction(p, static_cast<TailInstructionKind>(kind));
                      }});
  }
}

std::vector<ProductFault> ProductFaults() {
  using P = PackedProduct;
  using A = ProductArgs;
  using S = ProductScratch;
  std::vector<ProductFault> faults = {
      {"a product", [](const P&, const A&, const S&) { return true; }},
      {"from accumulators", [](const P&, const A& a, const S&) { return a.initial != nullptr; }},
      {"the second chunk of rows",
       [](const P&, const A& a, const S&) { return a.num_rows > kChunkRows; }, kChunkRows},
      {"the last row", [](const P&, const A& a, const S&) { return a.num_rows > 1; }, -1},
      {"the last unit of a part of a block",
       [](const P& p, const A&, const S&) { return p.units() % kLanes != 0; }, 0, -1},
      {"the last panel", [](const P& p, const A&, const S&) { return p.num_panels() > 1; }, 0, -1},
      {"an absent term",
       [](const P& p, const A&, const S&) {
         return p.segments().size() == 3 && p.segments()[2].groups < p.groups();
       }},
  };
  for (const StreamWay way : {StreamWay::kUndisturbed, StreamWay::kPaired, StreamWay::kPrefetched,
                              StreamWay::kSpread, StreamWay::kShort}) {
    faults.push_back({"a way of streaming", [way](const P&, const A& a, const S& s) {
                        return a.num_rows == 2 && s.tuning().near[2] == way;
                      }});
    faults.push_back(
        {"a way of streaming, from the last panel", [way](const P&, const A& a, const S& s) {
           const bool asked = s.tuning().near[Tuning::ClassOf(a.num_rows)] == way;
           return a.from_last && asked;
         }});
  }
  for (int groups = 1; groups <= kMaxGroups; ++groups) {
    for (const Precision precision : kPrecisions) {
      faults.push_back({"a number of groups", [=](const P& p, const A&, const S&) {
                          return p.groups() == groups && p.segments().size() == 3 &&
                                 p.precision() == precision;
                        }});
    }
  }
  AddTailFaults(faults);
  faults.push_back({"a row among more than are taken at a time",
                    [](const P& p, const A& a, const S&) {
                      return p.segments().size() == 1 && a.num_rows > kTailRowsAtOnce;
                    },
                    kTailRowsAtOnce});
  faults.push_back({"a row alone, of a tail", [](const P& p, const A& a, const S&) {
                      return p.segments().size() == 1 && a.num_rows == 1;
                    }});
  for (int kind = 0; kind <= static_cast<int>(TailOpKind::kLog); ++kind) {
    faults.push_back({"an operation of a tail", [kind](const P& p, const A&, const S&) {
                        return HasOperation(p, static_cast<TailOpKind>(kind));
                      }});
  }
  AddPrecisionFaults(faults);
  return faults;
}

// The sums of one K block of the first segment left out: its inputs are zero there.
struct BlockLeftOut {
  bool last;      // or the second
  bool one_step;  // only its first step of k
};
BlockLeftOut left_out = {};

void ProductWithoutBlock(const PackedProduct& product, const ProductArgs& args, int first, int last,
                         ProductScratch* scratch) {
  const int32_t depth = product.segments().empty() ? 0 : product.segments()[0].depth;
  if (depth <= sound->block_of_k) {
    return sound->run_product(product, args, first, last, scratch);
  }
  const bool pairs = sound->bf16_in_pairs && product.precision() == Precision::kBf16;
  const int32_t numbers = pairs ? (depth + 1) / 2 : depth;  // of a row
  const int32_t blocks = (numbers + sound->block_of_k - 1) / sound->block_of_k;
  const int32_t block = left_out.last ? blocks - 1 : 1, begin = numbers * block / blocks;
  const int32_t end = left_out.one_step ? begin + 1 : numbers * (block + 1) / blocks;
  std::vector<float> rows;
  for (int r = 0; r < args.num_rows; ++r) {
    const float* const row = args.inputs[0].Row(r);
    rows.insert(rows.end(), row, row + numbers);
    std::fill(rows.end() - numbers + begin, rows.end() - numbers + end, 0.0f);
    rows.push_back(0.0f);  // behind an odd depth
  }
  std::vector<RowSource> inputs(args.inputs, args.inputs + product.segments().size());
  inputs[0] = {rows.data(), numbers + 1};
  ProductArgs spoilt = args;
  spoilt.inputs = inputs.data();
  sound->run_product(product, spoilt, first, last, scratch);
}

// One input's rows looked up wrongly: tokens taken for rows, or a row list ignored.
void ProductIgnoringTokens(const PackedProduct& product, const ProductArgs& args, int first,
                           int last, ProductScratch* scratch) {
  std::vector<RowSource> inputs(args.inputs, args.inputs + product.segments().size());
  for (RowSource& in : inputs) in.tokens = nullptr;
  ProductArgs spoilt = args;
  spoilt.inputs = inputs.data();
  sound->run_product(product, spoilt, first, last, scratch);
}
void ProductBesideItsRows(const PackedProduct& product, const ProductArgs& args, int first,
                          int last, ProductScratch* scratch) {
  sound->run_product(product, args, first, last, scratch);
  const bool room = args.num_rows > 0 && args.columns[0].stride > product.units();
  if (room) args.columns[0].Row(0)[product.units()] += 1.0f;
}
void SpoiltAccumulators(const PackedProduct& product, const ProductArgs& args, int first, int last,
                        ProductScratch* scratch, float* out, int64_t stride) {
  sound->run_accumulators(product, args, first, last, scratch, out, stride);
  out[(args.num_rows - 1) * stride + product.accumulator_width() - kLanes] += 1e-3f;
}

// What is wrong with the largest of a row that is kept without storing the row.
enum class LargestFault : uint8_t {
  kForgetsEarlierPanels,
  kLastOfEquals,
  kUnitWithinItsPanel,
  kWithoutLastUnit,
  kFirstChunkOnly,
  kRowOfNanHasOne,
  kSmallestInstead,
};
constexpr LargestFault kLargestFaults[] = {
    LargestFault::kForgetsEarlierPanels, LargestFault::kLastOfEquals,
    LargestFault::kUnitWithinItsPanel,   LargestFault::kWithoutLastUnit,
    LargestFault::kFirstChunkOnly,       LargestFault::kRowOfNanHasOne,
    LargestFault::kSmallestInstead};
LargestFault largest_fault = {};

void SpoilLargest(const PackedProduct& product, int first, int row, const Largest& found,
                  Largest& kept) {
  const int32_t first_unit = first * product.blocks_per_panel() * kLanes;
  Largest spoilt = found;
  switch (largest_fault) {
    case LargestFault::kForgetsEarlierPanels:
      kept = found;
      return;
    case LargestFault::kLastOfEquals:
      if (found.unit >= 0 && found.value == kept.value && found.unit > kept.unit) kept = found;
      break;
    case LargestFault::kUnitWithinItsPanel:
      if (found.unit >= 0) spoilt.unit -= first_unit;
      break;
    case LargestFault::kWithoutLastUnit:
      if (found.unit == product.units() - 1) return;
      break;
    case LargestFault::kFirstChunkOnly:
      if (row >= kChunkRows) return;
      break;
    case LargestFault::kRowOfNanHasOne:
      if (found.unit < 0) spoilt.unit = first_unit;
      break;
    case LargestFault::kSmallestInstead:
      if (kept.unit >= 0 && found.value > kept.value) return;
      kept = found;
      return;
  }
  kept.Take(spoilt);
}

void SpoiltLargest(const PackedProduct& product, const ProductArgs& args, int first, int last,
                   ProductScratch* scratch) {
  if (args.largest == nullptr) return sound->run_product(product, args, first, last, scratch);
  std::vector<Largest> found(static_cast<size_t>(args.num_rows));
  ProductArgs apart = args;
  apart.largest = found.data();
  sound->run_product(product, apart, first, last, scratch);
  for (int r = 0; r < args.num_rows; ++r) {
    SpoilLargest(product, first, r, found[static_cast<size_t>(r)], args.largest[r]);
  }
}

void SumsWithoutLastLink(const RowSource& in, const int32_t* offsets, int32_t width, int32_t rows,
                         const RowColumn& out) {
  sound->sum_rows(in, offsets, width, rows, out);
  const int32_t last = offsets[rows] - 1;
  for (int32_t u = 0; u < width; ++u) out.Row(rows - 1)[u] -= in.Row(last)[u];
}
void SumsThatLeaveEmptyOnes(const RowSource& in, const int32_t* offsets, int32_t width,
                            int32_t rows, const RowColumn& out) {
  const float before = out.Row(0)[0];
  sound->sum_rows(in, offsets, width, rows, out);
  if (offsets[1] == offsets[0]) out.Row(0)[0] = before;
}
void SumsThatStartFromZero(const RowSource& in, const int32_t* offsets, int32_t width, int32_t rows,
                           const RowColumn& out) {
  sound->sum_rows(in, offsets, width, rows, out);
  for (int32_t r = 0; r < rows; ++r) {
    for (int32_t u = 0; u < width; ++u) out.Row(r)[u] += 0.0f;  // -0 becomes 0
  }
}

void ElementSumsWithoutTheLast(const RowSource& in, int32_t width, double divisor, int32_t rows,
                               const RowColumn& out) {
  sound->sum_elements(in, width - 1, divisor, rows, out);
}
void ElementSumsUndivided(const RowSource& in, int32_t width, double, int32_t rows,
                          const RowColumn& out) {
  sound->sum_elements(in, width, 1.0, rows, out);
}
// The fifth row is the first that is summed alone.
void ElementSumsOfFourRows(const RowSource& in, int32_t width, double divisor, int32_t rows,
                           const RowColumn& out) {
  sound->sum_elements(in, width, divisor, std::min(rows, 4), out);
}
void ElementSumsInOneChain(const RowSource& in, int32_t width, double divisor, int32_t rows,
                           const RowColumn& out) {
  for (int32_t r = 0; r < rows; ++r) {
    float sum = 0.0f;
    for (int32_t u = 0; u < width; ++u) sum += in.Row(r)[u];
    *out.Row(r) = static_cast<float>(double{sum} / divisor);
  }
}
void SquaresWithoutLastElement(const RowSource& in, const RowSource& less, int32_t width,
                               double divisor, int32_t rows, const RowColumn& out) {
  sound->sum_squares(in, less, width - 1, divisor, rows, out);
}
void SquaresUndivided(const RowSource& in, const RowSource& less, int32_t width, double,
                      int32_t rows, const RowColumn& out) {
  sound->sum_squares(in, less, width, 1.0, rows, out);
}
void SquaresOfFourRows(const RowSource& in, const RowSource& less, int32_t width, double divisor,
                       int32_t rows, const RowColumn& out) {
  sound->sum_squares(in, less, width, divisor, std::min(rows, 4), out);
}
void SquaresAboveZero(const RowSource& in, const RowSource&, int32_t width, double divisor,
                      int32_t rows, const RowColumn& out) {
  sound->sum_squares(in, RowSource(), width, divisor, rows, out);
}
void SquaresAboveTheFirstRows(const RowSource& in, const RowSource& less, int32_t width,
                              double divisor, int32_t rows, const RowColumn& out) {
  const RowSource first = {less.base == nullptr ? nullptr : less.Row(0), 0};
  sound->sum_squares(in, first, width, divisor, rows, out);
}
void BroadcastsWithoutTheLast(const RowSource& in, int32_t width, int32_t rows,
                              const RowColumn& out) {
  sound->broadcast(in, width - 1, rows, out);
}
void BroadcastsOfTheFirstRow(const RowSource& in, int32_t width, int32_t rows,
                             const RowColumn& out) {
  const RowSource first = {in.Row(0), 0};
  sound->broadcast(first, width, rows, out);
}

void LastOfTheLargest(const RowSource& in, int32_t width, int32_t rows, const Int32Column& out) {
  for (int32_t r = 0; r < rows; ++r) {
    int32_t best = 0;
    for (int32_t u = 1; u < width; ++u) {
      if (in.Row(r)[u] >= in.Row(r)[best]) best = u;
    }
    *out.Row(r) = best;
  }
}
void ArgMaxWithoutLastElement(const RowSource& in, int32_t width, int32_t rows,
                              const Int32Column& out) {
  sound->arg_max(in, std::max(1, width - 1), rows, out);
}
void ArgMaxStoppedByNan(const RowSource& in, int32_t width, int32_t rows, const Int32Column& out) {
  for (int32_t r = 0; r < rows; ++r) {
    int32_t best = 0;
    for (int32_t u = 1; u < width; ++u) {
      if (in.Row(r)[u] > in.Row(r)[best]) best = u;  // never, after a NaN
    }
    *out.Row(r) = best;
  }
}

void ByRowsWithoutLastStep(const MatMulArgs& args) {
  MatMulArgs spoilt = args;
  --spoilt.depth;
  sound->mat_mul_by_rows(spoilt);
}
void ByColumnsWithoutLastStep(const MatMulArgs& args) {
  MatMulArgs spoilt = args;
  --spoilt.depth;
  sound->mat_mul_by_columns(spoilt);
}
void ByColumnsSpoiltAtTheEnd(const MatMulArgs& args) {
  sound->mat_mul_by_columns(args);
  if (args.rows > 1 && args.cols % kLanes != 0) args.y[args.rows * args.cols - 1] += 1e-2f;
}
void ByColumnsOfOneRowSpoilt(const MatMulArgs& args) {
  sound->mat_mul_by_columns(args);
  if (args.rows == 1 && args.cols >= 4 * kLanes) args.y[0] += 1e-2f;
}

void ElementWiseWithoutLastElement(const ElementWiseArgs& args) {
  ElementWiseArgs spoilt = args;
  if (args.width > 1) --spoilt.width;
  sound->element_wise(spoilt);
}
void ElementWiseOfTheFirstRow(const ElementWiseArgs& args) {
  ElementWiseArgs spoilt = args;
  spoilt.a.stride = 0;
  sound->element_wise(spoilt);
}
void ElementWiseOfOneNumber(const ElementWiseArgs& args) {
  ElementWiseArgs spoilt = args;
  spoilt.b.is_one = true;
  sound->element_wise(spoilt);
}
void ElementWiseSubTurnedRound(const ElementWiseArgs& args) {
  ElementWiseArgs spoilt = args;
  if (args.op == TailOpKind::kSub) std::swap(spoilt.a, spoilt.b);
  sound->element_wise(spoilt);
}

// As the sound table's products read it.
void StoreRounded(const std::vector<float>& row, float* to) {
  if (!sound->bf16_in_pairs) {
    std::copy(row.begin(), row.end(), to);
    return;
  }
  for (size_t k = 0; k < row.size(); k += 2) to[k / 2] = PairOfBf16(row[k], row[k + 1]);
}

// Each element by `of`, and what is behind an odd width.
template <class F>
void RoundBy(F of, const RowSource& in, int32_t width, int32_t rows, const RowColumn& out) {
  for (int32_t r = 0; r < rows; ++r) {
    std::vector<float> row(static_cast<size_t>(width + width % 2));
    for (int32_t k = 0; k < width; ++k) row[static_cast<size_t>(k)] = of(in.Row(r)[k]);
    StoreRounded(row, out.Row(r));
  }
}
float Upper(uint32_t bits) { return std::bit_cast<float>(bits & 0xffff0000u); }
void RoundingTowardsZero(const RowSource& in, int32_t width, int32_t rows, const RowColumn& out) {
  RoundBy([](float v) { return Upper(std::bit_cast<uint32_t>(v) | (v == v ? 0u : 0x400000u)); }, in,
          width, rows, out);
}
void RoundingTiesUp(const RowSource& in, int32_t width, int32_t rows, const RowColumn& out) {
  RoundBy([](float v) { return v == v ? Upper(std::bit_cast<uint32_t>(v) + 0x8000u) : NAN; }, in,
          width, rows, out);
}
void RoundingThatLosesNan(const RowSource& in, int32_t width, int32_t rows, const RowColumn& out) {
  RoundBy([](float v) { return std::bit_cast<float>(uint32_t{RoundedToBf16(v)} << 16); }, in, width,
          rows, out);
}
// As the instruction does, which some CPUs have for it.
void RoundingDenormalsToZero(const RowSource& in, int32_t width, int32_t rows,
                             const RowColumn& out) {
  const auto round = [](float v) {
    const uint32_t bits = std::bit_cast<uint32_t>(v);
    if ((bits & 0x7f800000u) == 0) return std::bit_cast<float>(bits & 0x80000000u);
    return v == v ? std::bit_cast<float>(uint32_t{RoundedToBf16(v)} << 16) : NAN;
  };
  RoundBy(round, in, width, rows, out);
}
void RoundingWithoutLastElement(const RowSource& in, int32_t width, int32_t rows,
                                const RowColumn& out) {
  sound->round_to_bf16(in, width - 1, rows, out);
}
void RoundingWithoutTheZeroBehind(const RowSource& in, int32_t width, int32_t rows,
                                  const RowColumn& out) {
  sound->round_to_bf16(in, width / 2 * 2, rows, out);
  if (width % 2 == 0) return;
  for (int32_t r = 0; r < rows; ++r) {
    const uint32_t last = uint32_t{RoundedToBf16(in.Row(r)[width - 1])} << 16;
    float& to = out.Row(r)[sound->bf16_in_pairs ? width / 2 : width - 1];
    const uint32_t behind = sound->bf16_in_pairs ? std::bit_cast<uint32_t>(to) & 0xffffu : 0u;
    to = std::bit_cast<float>(last | behind);
  }
}

void CopiesIgnoringTokens(const RowSource& in, int32_t width, int32_t rows, const RowColumn& out) {
  RowSource spoilt = in;
  spoilt.tokens = nullptr;
  sound->copy_rows(spoilt, width, rows, out);
}
void CopiesWithoutLastElement(const RowSource& in, int32_t width, int32_t rows,
                              const RowColumn& out) {
  sound->copy_rows(in, width - 1, rows, out);
}

class PlantedFailureTest : public testing::TestWithParam<const CpuKernels*> {
 protected:
  void SetUp() override { sound = GetParam(); }
  // The sound table with one function replaced.
  template <class F>
  static CpuKernels With(F CpuKernels::*function, F by) {
    CpuKernels table = *sound;
    table.*function = by;
    return table;
  }
};

INSTANTIATE_TEST_SUITE_P(EveryInstructionSet, PlantedFailureTest,
                         testing::ValuesIn(RunnableKernels(DetectCpuFeatures())),
                         [](const auto& info) { return std::string(info.param->name); });

// The control: what is told below is told for nothing else.
TEST_P(PlantedFailureTest, TheSoundTableIsWithoutFault) { EXPECT_EQ(CheckKernels(*sound), ""); }

TEST_P(PlantedFailureTest, AProductDeeperThanOneBlockOfKThatLeavesOneOutIsTold) {
  const CpuKernels broken = With(&CpuKernels::run_product, &ProductWithoutBlock);
  for (const bool last : {false, true}) {
    for (const bool one_step : {false, true}) {
      left_out = {last, one_step};
      for (int groups = 1; groups <= kMaxGroups; ++groups) {
        for (const Precision precision : kPrecisions) {
          EXPECT_NE(CheckProducts(broken, precision, groups), "")
              << last << one_step << ", groups " << groups << ", " << Name(precision);
        }
      }
    }
  }
}

TEST_P(PlantedFailureTest, OneSpoiltValueOnOnePathOfAProductIsTold) {
  const CpuKernels broken = With(&CpuKernels::run_product, &SpoiltProduct);
  const std::vector<ProductFault> faults = ProductFaults();
  for (size_t i = 0; i < faults.size(); ++i) {
    product_fault = &faults[i];
    EXPECT_NE(CheckKernels(broken), "") << "fault " << i << ": " << faults[i].name;
  }
}

TEST_P(PlantedFailureTest, RowsFoundWronglyAndGuardsOverwrittenAreTold) {
  for (const Precision precision : kPrecisions) {
    const auto told = [&](const CpuKernels& broken) { return CheckProducts(broken, precision); };
    EXPECT_NE(told(With(&CpuKernels::run_product, &ProductIgnoringTokens)), "");
    EXPECT_NE(told(With(&CpuKernels::run_product, &ProductBesideItsRows)), "");
    EXPECT_NE(told(With(&CpuKernels::run_accumulators, &SpoiltAccumulators)), "");
  }
}

TEST_P(PlantedFailureTest, ARoundingThatIsNotToTheNearestIsTold) {
  for (const auto by :
       {&RoundingTowardsZero, &RoundingTiesUp, &RoundingWithoutLastElement,
        &RoundingWithoutTheZeroBehind, &RoundingThatLosesNan, &RoundingDenormalsToZero}) {
    EXPECT_NE(CheckRounding(With(&CpuKernels::round_to_bf16, by)), "");
  }
  EXPECT_NE(CheckKernels(With(&CpuKernels::round_to_bf16, &RoundingTiesUp)), "");
}

TEST_P(PlantedFailureTest, ALargestThatIsKeptWronglyIsTold) {
  const CpuKernels broken = With(&CpuKernels::run_product, &SpoiltLargest);
  for (const LargestFault fault : kLargestFaults) {
    largest_fault = fault;
    EXPECT_NE(CheckLargest(broken), "") << "fault " << static_cast<int>(fault);
  }
  EXPECT_NE(CheckKernels(broken), "") << "which runs that check, too";
}

TEST_P(PlantedFailureTest, ABrokenRowKernelIsTold) {
  for (const auto by : {&SumsWithoutLastLink, &SumsThatLeaveEmptyOnes, &SumsThatStartFromZero}) {
    EXPECT_NE(CheckRowKernels(With(&CpuKernels::sum_rows, by)), "");
  }
  for (const auto by : {&ElementSumsWithoutTheLast, &ElementSumsUndivided, &ElementSumsOfFourRows,
                        &ElementSumsInOneChain}) {
    EXPECT_NE(CheckRowKernels(With(&CpuKernels::sum_elements, by)), "");
  }
  for (const auto by : {SquaresWithoutLastElement, SquaresUndivided, SquaresOfFourRows,
                        SquaresAboveZero, SquaresAboveTheFirstRows}) {
    EXPECT_NE(CheckRowKernels(With(&CpuKernels::sum_squares, by)), "");
  }
  for (const auto by : {&BroadcastsWithoutTheLast, &BroadcastsOfTheFirstRow}) {
    EXPECT_NE(CheckRowKernels(With(&CpuKernels::broadcast, by)), "");
  }
  for (const auto by : {&LastOfTheLargest, &ArgMaxWithoutLastElement, &ArgMaxStoppedByNan}) {
    EXPECT_NE(CheckRowKernels(With(&CpuKernels::arg_max, by)), "");
  }
  EXPECT_NE(CheckRowKernels(With(&CpuKernels::mat_mul_by_rows, &ByRowsWithoutLastStep)), "");
  for (const auto by :
       {&ByColumnsWithoutLastStep, &ByColumnsSpoiltAtTheEnd, &ByColumnsOfOneRowSpoilt}) {
    EXPECT_NE(CheckRowKernels(With(&CpuKernels::mat_mul_by_columns, by)), "");
  }
  for (const auto by : {&ElementWiseWithoutLastElement, &ElementWiseOfTheFirstRow,
                        &ElementWiseOfOneNumber, &ElementWiseSubTurnedRound}) {
    EXPECT_NE(CheckElementWise(With(&CpuKernels::element_wise, by)), "");
  }
  for (const auto by : {&CopiesIgnoringTokens, &CopiesWithoutLastElement}) {
    EXPECT_NE(CheckRowKernels(With(&CpuKernels::copy_rows, by)), "");
  }
}

}  // namespace
}  // namespace cellbatch::kernels
