#include "cells/defer.h"

#include <algorithm>
#include <bitset>
#include <string>
#include <utility>

#include "cells/check.h"
#include "cells/compile/lower.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

constexpr char kStepInput[] = "deferred from";

size_t Index(int64_t i) { return static_cast<size_t>(i); }

// By value: whether it is the same for every node.
std::vector<bool> ParameterValues(const CellDefinition& cell) {
  std::vector<bool> fixed;
  for (const Op& op : cell.ops()) {
    bool of_parameters = op.kind != OpKind::kInput;
    for (const ValueId arg : op.args) {
      if (arg.valid()) of_parameters = of_parameters && fixed[Index(arg.value())];
    }
    fixed.push_back(of_parameters);
  }
  return fixed;
}

// Parameters by their numbers, and behind them what constants alone make.
using ParameterSet = std::bitset<kMaxParameters + 1>;

// By value: what it is made of, directly or not.
std::vector<ParameterSet> ParametersIn(const CellDefinition& cell) {
  std::vector<ParameterSet> in;
  for (const Op& op : cell.ops()) {
    ParameterSet& parameters = in.emplace_back();
    if (op.kind == OpKind::kParameter) parameters.set(Index(op.attr[0]));
    if (op.kind == OpKind::kConstant) parameters.set(kMaxParameters);
    for (const ValueId arg : op.args) {
      if (arg.valid()) parameters |= in[Index(arg.value())];
    }
    if (parameters.count() > 1) parameters.reset(kMaxParameters);
  }
  return in;
}

class Splitter {
 public:
  Splitter(const CellDefinition& cell, const std::vector<ColumnPart>& parts)
      : cell_(cell),
        parts_(parts),
        fixed_(ParameterValues(cell)),
        in_(ParametersIn(cell)),
        of_step_(cell.ops().size()),
        of_deferred_(cell.ops().size()),
        passed_(cell.ops().size()) {}

  // False: the deferred part computes nothing, or nobody could tell afterwards whether the parts add as the whole does.
  bool Mark() {
    for (size_t c = 0; c < parts_.size(); ++c) {
      const size_t v = Index(cell_.outputs()[c].value.value());
      if (parts_[c] != ColumnPart::kDeferred) of_step_[v] = true;
      if (parts_[c] != ColumnPart::kStep) of_deferred_[v] = true;
    }
    for (size_t v = of_step_.size(); v-- > 0;) {
      if (of_step_[v]) MarkArguments(v, of_step_);
    }
    bool computes = false;
    for (size_t v = of_deferred_.size(); v-- > 0;) {
      if (!of_deferred_[v]) continue;
      passed_[v] = IsPassed(v);
      if (passed_[v]) continue;
      computes = computes || (!fixed_[v] && cell_.ops()[v].kind != OpKind::kLookup);
      MarkArguments(v, of_deferred_);
    }
    return computes && !BothPrepare() && !SharesWeights();
  }

  std::optional<DeferredCell> Make() const {
    std::vector<Output> left;
    for (size_t c = 0; c < parts_.size(); ++c) {
      if (parts_[c] != ColumnPart::kDeferred) left.push_back(cell_.outputs()[c]);
    }
    // By passed value: the column that leaves it.
    std::vector<int32_t> column_of(passed_.size(), -1);
    std::vector<bool> of_step = of_step_;
    for (size_t v = 0; v < passed_.size(); ++v) {
      if (!passed_[v]) continue;
      of_step[v] = true;
      const auto there = std::find_if(left.begin(), left.end(), [v](const Output& output) {
        return Index(output.value.value()) == v;
      });
      column_of[v] = static_cast<int32_t>(there - left.begin());
      if (there != left.end()) continue;
      left.push_back({NewColumn(left), ValueId(static_cast<int64_t>(v))});
    }
    if (left.size() > Index(kMaxColumns)) return std::nullopt;
    DeferredCell made;
    made.step = MakeStep(of_step, left);
    if (made.step == nullptr) return std::nullopt;
    made.deferred = MakeDeferred(made.step->columns(), column_of);
    if (made.deferred == nullptr) return std::nullopt;
    return made;
  }

 private:
  // The name of a column that `left` is to have: no other's there, nor one of the cell's own, which a text may call as it likes
  // and which are looked for by their names among those that stayed. The same for all types that leave the same columns.
  std::string NewColumn(const std::vector<Output>& left) const {
    const auto has = [](absl::Span<const Output> outputs, const std::string& name) {
      return std::any_of(outputs.begin(), outputs.end(),
                         [&](const Output& output) { return output.column == name; });
    };
    for (size_t n = left.size();; ++n) {
      std::string name = fmt::format("deferred {}", n);
      if (!has(cell_.outputs(), name) && !has(left, name)) return name;
    }
  }

  // Whether both parts compute something of the same parameters alone. How a compiler adds that up depends on who else reads
  // it, in whichever form it is written there.
  bool BothPrepare() const {
    ParameterSet by_step, by_deferred;
    for (size_t v = 0; v < fixed_.size(); ++v) {
      const OpFamily family = Family(cell_.ops()[v].kind);
      const bool computed =
          fixed_[v] && family != OpFamily::kLeaf && family != OpFamily::kRearranging;
      if (computed && of_step_[v]) by_step |= in_[v];
      if (computed && of_deferred_[v]) by_deferred |= in_[v];
    }
    return (by_step & by_deferred).any();
  }

  // Whether two products multiply by the same: sums are known by that alone (Sum).
  bool SharesWeights() const {
    ParameterSet all, shared;
    for (size_t v = 0; v < fixed_.size(); ++v) {
      const Op& op = cell_.ops()[v];
      if (op.kind != OpKind::kMatMul || fixed_[v] || !(of_step_[v] || of_deferred_[v])) continue;
      const size_t weights = Index(op.args[1].value());
      if (!fixed_[weights]) continue;
      shared |= all & in_[weights];
      all |= in_[weights];
    }
    shared.reset(kMaxParameters);
    return shared.any();
  }

  void MarkArguments(size_t v, std::vector<bool>& marked) const {
    for (const ValueId arg : cell_.ops()[v].args) {
      if (arg.valid()) marked[Index(arg.value())] = true;
    }
  }

  // Not computed in the deferred part, but read there. A row of a table stays one, for sums begin with those.
  bool IsPassed(size_t v) const {
    const Op& op = cell_.ops()[v];
    if (fixed_[v]) return false;
    if (op.kind == OpKind::kLookup && fixed_[Index(op.args[0].value())]) return false;
    return op.kind == OpKind::kInput || of_step_[v];
  }

  // Those of the cell's operators, with arguments by their new numbers.
  struct Copied {
    std::vector<Op> ops;
    std::vector<std::string> names;
    std::vector<ValueId> number;  // by value of the cell
  };
  void Copy(size_t v, Op op, Copied& copied) const {
    for (ValueId& arg : op.args) {
      if (arg.valid()) arg = copied.number[Index(arg.value())];
    }
    copied.number[v] = ValueId(static_cast<int64_t>(copied.ops.size()));
    copied.ops.push_back(op);
    if (!cell_.op_names().empty()) copied.names.push_back(cell_.op_names()[v]);
  }
  // Null: it would have more than a cell may.
  std::shared_ptr<const CellDefinition> Made(std::string name, Copied copied,
                                             std::vector<Input> inputs, std::vector<Output> outputs,
                                             std::optional<InputId> carry) const {
    for (Output& output : outputs) output.value = copied.number[Index(output.value.value())];
    const absl::Span<const Parameter> parameters = cell_.parameters();
    auto made = CellDefinition::Create(std::move(name), std::move(copied.ops), std::move(inputs),
                                       {parameters.begin(), parameters.end()}, std::move(outputs),
                                       carry, copied.names);
    if (!made.ok()) return nullptr;
    return std::make_shared<const CellDefinition>(*std::move(made));
  }

  std::shared_ptr<const CellDefinition> MakeStep(const std::vector<bool>& of_step,
                                                 std::vector<Output> left) const {
    Copied copied;
    copied.number.resize(of_step.size());
    for (size_t v = 0; v < of_step.size(); ++v) {
      if (of_step[v]) Copy(v, cell_.ops()[v], copied);
    }
    return Made(cell_.name(), std::move(copied), {cell_.inputs().begin(), cell_.inputs().end()},
                std::move(left), cell_.carry());
  }

  std::shared_ptr<const CellDefinition> MakeDeferred(absl::Span<const Column> step,
                                                     const std::vector<int32_t>& column_of) const {
    Input row = {.name = kStepInput, .reads = {}};
    Copied copied;
    copied.number.resize(column_of.size());
    for (size_t v = 0; v < column_of.size(); ++v) {
      if (!of_deferred_[v]) continue;
      Op op = cell_.ops()[v];
      if (passed_[v]) {
        op = {.kind = OpKind::kInput,
              .attr = {0, static_cast<int32_t>(row.reads.size())},
              .shape = op.shape};
        row.reads.push_back(step[Index(column_of[v])]);
      }
      Copy(v, op, copied);
    }
    std::vector<Output> left;
    for (size_t c = 0; c < parts_.size(); ++c) {
      if (parts_[c] != ColumnPart::kStep) left.push_back(cell_.outputs()[c]);
    }
    return Made(cell_.name() + " deferred", std::move(copied), {std::move(row)}, std::move(left),
                std::nullopt);
  }

  const CellDefinition& cell_;
  const std::vector<ColumnPart>& parts_;
  const std::vector<bool> fixed_;
  const std::vector<ParameterSet> in_;
  std::vector<bool> of_step_, of_deferred_;  // by value: computed by that part, or given to it
  std::vector<bool> passed_;                 // from the one to the other
};

// What one accumulator adds, in its order; the rows that it reads are known by what they are multiplied by, which is
// nobody else's (SharesWeights).
struct Sum {
  std::vector<UnitValues> bias;
  std::vector<std::pair<ParameterView, int32_t>> terms;
  friend bool operator==(const Sum&, const Sum&) = default;
};

// Numbers of prepared parameters are a program's own: here those that are made of the same have the same number in all. The
// whole and a part make them alike, for no other part computes with those parameters alone (BothPrepare).
class SumReader {
 public:
  explicit SumReader(const CellDefinition& cell) : cell_(cell) {}

  std::vector<Sum> Read(const CellProgram& program) {
    std::vector<Sum> sums;
    for (const Step& step : program.steps) {
      const auto* const product = std::get_if<ProductStep>(&step);
      if (product == nullptr) continue;
      for (size_t g = 0; g < product->bias.size(); ++g) {
        Sum& sum = sums.emplace_back();
        for (const UnitValues& bias : product->bias[g]) {
          const auto* const view = std::get_if<ParameterView>(&bias);
          sum.bias.push_back(view == nullptr ? bias : UnitValues(Known(*view, program)));
        }
        for (const SegmentPlan& s : product->segments) {
          if (s.weights[g]) sum.terms.emplace_back(Known(*s.weights[g], program), s.depth);
        }
      }
    }
    return sums;
  }

 private:
  ParameterView Known(ParameterView view, const CellProgram& program) {
    if (!IsPrepared(view, cell_)) return view;
    const auto own = static_cast<int64_t>(cell_.parameters().size());
    const PreparedParameter& made = program.prepared[Index(view.parameter.value() - own)];
    const auto there = std::find_if(known_.begin(), known_.end(), [&](const PreparedParameter& k) {
      return k.width == made.width && k.type == made.type && k.of == made.of;
    });
    view.parameter = ParameterId(own + (there - known_.begin()));
    if (there == known_.end()) known_.push_back(made);
    return view;
  }

  const CellDefinition& cell_;
  std::vector<PreparedParameter> known_;
};

// Whether whatever the parts add up, the whole adds up in the same order.
bool AddsAlike(const CellDefinition& cell, const DeferredCell& parts, const ProgramLimits& limits) {
  const absl::StatusOr<CellProgram> whole = Lower(cell, limits);
  const absl::StatusOr<CellProgram> step = Lower(*parts.step, limits);
  const absl::StatusOr<CellProgram> deferred = Lower(*parts.deferred, limits);
  if (!whole.ok() || !step.ok() || !deferred.ok()) return false;  // who loads it says why
  SumReader reader(cell);
  const std::vector<Sum> all = reader.Read(*whole);
  const auto among_all = [&](const CellProgram& part) {
    const std::vector<Sum> sums = reader.Read(part);
    return std::all_of(sums.begin(), sums.end(), [&](const Sum& sum) {
      return std::find(all.begin(), all.end(), sum) != all.end();
    });
  };
  return among_all(*step) && among_all(*deferred);
}

// In each precision: where sums depend on where they are cut, fewer segments are joined (ProgramLimits::In).
bool AddsAlikeInAll(const CellDefinition& cell, const DeferredCell& parts,
                    const ProgramLimits& limits) {
  return AddsAlike(cell, parts, limits) && AddsAlike(cell, parts, limits.In(Precision::kBf16));
}

}  // namespace

std::optional<DeferredCell> Defer(const CellDefinition& cell, const std::vector<ColumnPart>& parts,
                                  const ProgramLimits& limits) {
  Check(parts.size() == cell.columns().size(), "a part for each column");
  Splitter splitter(cell, parts);
  if (!splitter.Mark()) return std::nullopt;
  std::optional<DeferredCell> made = splitter.Make();
  if (!made.has_value() || !AddsAlikeInAll(cell, *made, limits)) return std::nullopt;
  return made;
}

}  // namespace cellbatch
