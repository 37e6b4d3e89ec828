#include "memplan/validator.h"

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"

namespace cellbatch {
namespace {

absl::Status Wrong(const std::string& what) { return absl::FailedPreconditionError(what); }

class Judge {
 public:
  Judge(const LayoutProblem& problem, const MemoryLayout& layout)
      : problem_(problem), layout_(layout) {}

  absl::Status Run() {
    if (absl::Status status = CheckProblem(problem_); !status.ok()) return status;
    if (absl::Status status = Addresses(); !status.ok()) return status;
    if (absl::Status status = Operators(); !status.ok()) return status;
    if (absl::Status status = Lists(); !status.ok()) return status;
    for (size_t b = 0; b < problem_.batches.size(); ++b) {
      for (size_t o = 0; o < problem_.batches[b].operands.size(); ++o) {
        if (absl::Status status = One(b, o); !status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

 private:
  struct Address {
    int place = -1;  // 0 the plan, 1.. the fixed runs
    int64_t offset = 0;
  };
  enum class Treatment { kInPlace, kCopied, kPacked };

  const std::string& Name(VariableId v) const { return problem_.variables[v].name; }
  int64_t Bytes(VariableId v) const { return problem_.variables[v].bytes; }

  absl::Status Addresses() {
    const size_t n = problem_.variables.size();
    if (layout_.offset.size() != n)
      return Wrong(fmt::format("{} offsets for {} variables", layout_.offset.size(), n));
    address_.resize(n);
    for (size_t run = 0; run < problem_.fixed.size(); ++run) {
      int64_t offset = 0;
      for (VariableId v : problem_.fixed[run]) {
        address_[v] = {static_cast<int>(run) + 1, offset};
        offset += Bytes(v);
        if (layout_.offset[v] != kElsewhere)
          return Wrong(fmt::format("{} is fixed and has an offset", Name(v)));
      }
    }
    int64_t end = 0;
    for (VariableId v : layout_.order) {
      if (v < 0 || v >= static_cast<VariableId>(n))
        return Wrong(fmt::format("variable {} of {} is placed", v, n));
      if (address_[v].place >= 0)
        return Wrong(fmt::format("{} is placed twice, or fixed and placed", Name(v)));
      if (layout_.offset[v] != end) {
        return Wrong(fmt::format("{} is said to lie at {}, those before it end at {}", Name(v),
                                 layout_.offset[v], end));
      }
      address_[v] = {0, end};
      end += Bytes(v);
    }
    if (layout_.bytes != end)
      return Wrong(fmt::format("{} bytes claimed, {} laid out", layout_.bytes, end));
    for (size_t v = 0; v < n; ++v) {
      if (address_[v].place < 0)
        return Wrong(fmt::format("{} has no place", problem_.variables[v].name));
    }
    return absl::OkStatus();
  }

  absl::Status Operators() const {
    if (layout_.operator_order.size() != problem_.batches.size()) {
      return Wrong(fmt::format("{} operator orders for {} batches", layout_.operator_order.size(),
                               problem_.batches.size()));
    }
    for (size_t b = 0; b < problem_.batches.size(); ++b) {
      const int size = problem_.batches[b].size();
      std::vector<bool> runs(size, false);
      for (int32_t i : layout_.operator_order[b]) {
        if (i < 0 || i >= size || runs[i]) {
          return Wrong(fmt::format("batch {} runs operator {} twice or not its own",
                                   problem_.batches[b].name, i));
        }
        runs[i] = true;
      }
      if (static_cast<int>(layout_.operator_order[b].size()) != size) {
        return Wrong(fmt::format("batch {} runs {} of its {} operators", problem_.batches[b].name,
                                 layout_.operator_order[b].size(), size));
      }
    }
    return absl::OkStatus();
  }

  // Who is copied and who is packed, each at most once.
  absl::Status Lists() {
    for (const OperandBatch& batch : problem_.batches)
      treatment_.emplace_back(batch.operands.size(), Treatment::kInPlace);
    for (const OperandCopy& copy : layout_.copies) {
      if (absl::Status status = Note(copy.where, Treatment::kCopied); !status.ok()) return status;
      const Operand& operand = problem_.batches[copy.where.batch].operands[copy.where.operand];
      int64_t bytes = 0;
      for (VariableId v : operand) bytes += Bytes(v);
      if (copy.bytes != bytes) {
        return Wrong(fmt::format(
            "batch {}: the copy of operand {} is said to move {} bytes, it moves {}",
            problem_.batches[copy.where.batch].name, copy.where.operand, copy.bytes, bytes));
      }
    }
    for (const OperandRef& where : layout_.packed) {
      if (absl::Status status = Note(where, Treatment::kPacked); !status.ok()) return status;
      for (VariableId v : problem_.batches[where.batch].operands[where.operand]) {
        if (problem_.variables[v].kind == VariableKind::kConstant) continue;
        return Wrong(fmt::format("batch {}: operand {} is packed at load, but {} is not a constant",
                                 problem_.batches[where.batch].name, where.operand, Name(v)));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Note(const OperandRef& where, Treatment treatment) {
    if (where.batch < 0 || where.batch >= static_cast<int32_t>(treatment_.size()) ||
        where.operand < 0 ||
        where.operand >= static_cast<int32_t>(treatment_[where.batch].size())) {
      return Wrong(fmt::format("operand {} of batch {} is copied or packed; there is none",
                               where.operand, where.batch));
    }
    Treatment& known = treatment_[where.batch][where.operand];
    if (known != Treatment::kInPlace) {
      return Wrong(fmt::format("batch {}: operand {} is copied or packed twice",
                               problem_.batches[where.batch].name, where.operand));
    }
    known = treatment;
    return absl::OkStatus();
  }

  absl::Status One(size_t b, size_t o) const {
    const OperandBatch& batch = problem_.batches[b];
    Operand as_run;
    for (int32_t i : layout_.operator_order[b]) as_run.push_back(batch.operands[o][i]);
    const bool lies = LiesInPlace(as_run);
    if (treatment_[b][o] == Treatment::kInPlace && !lies) {
      std::string names;
      for (VariableId v : as_run) {
        names += fmt::format(" {}@{}{}", Name(v), address_[v].offset,
                             address_[v].place > 0 ? "(fixed)" : "");
      }
      return Wrong(fmt::format("batch {}: operand {} is neither copied nor in place:{}", batch.name,
                               o, names));
    }
    if (treatment_[b][o] != Treatment::kInPlace && lies) {
      return Wrong(
          fmt::format("batch {}: operand {} is copied or packed needlessly", batch.name, o));
    }
    return absl::OkStatus();
  }

  // A stretch of the operand: one variable once or more often.
  struct Stretch {
    VariableId variable;
    int times;
  };

  bool LiesInPlace(const Operand& operand) const {
    std::vector<Stretch> stretches;
    for (VariableId v : operand) {
      if (!stretches.empty() && stretches.back().variable == v) {
        ++stretches.back().times;
      } else {
        stretches.push_back({v, 1});
      }
    }
    if (Repeats(stretches)) return true;
    std::set<VariableId> seen;
    const bool repeats = stretches.size() < operand.size();
    for (const Stretch& stretch : stretches) {
      if (!seen.insert(stretch.variable).second) return false;  // here and, after others, again
    }
    if (!repeats) return Follow(stretches, 0, stretches.size());
    // One weight for all operators is one product, whatever the kernels think of strides.
    const bool weight = problem_.variables[operand[0]].kind == VariableKind::kConstant;
    if (weight && stretches.size() == 1) return true;
    bool weights_only = true;
    for (const Stretch& s : stretches) {
      weights_only &= problem_.variables[s.variable].kind == VariableKind::kConstant;
    }
    if (weights_only || problem_.broadcasts == Broadcasts::kCopied) return false;
    // The stretches of one are one piece, read like any operand.
    size_t begin = 0, end = stretches.size();
    while (begin < end && stretches[begin].times > 1) ++begin;
    while (end > begin && stretches[end - 1].times > 1) --end;
    for (size_t i = begin; i < end; ++i) {
      if (stretches[i].times > 1) return false;
    }
    return Follow(stretches, begin, end);
  }

  // One stretch of memory of two variables or more, read several times from its start.
  bool Repeats(const std::vector<Stretch>& stretches) const {
    size_t again = 1;
    while (again < stretches.size() && stretches[again].variable != stretches[0].variable) ++again;
    if (again < 2 || again == stretches.size() || stretches.size() % again != 0) return false;
    bool constant = true;
    for (size_t i = 0; i < stretches.size(); ++i) {
      if (stretches[i].times != 1 || stretches[i].variable != stretches[i % again].variable)
        return false;
      constant &= problem_.variables[stretches[i].variable].kind == VariableKind::kConstant;
    }
    return !constant && problem_.broadcasts == Broadcasts::kByStride && Follow(stretches, 0, again);
  }

  // Each variable begins where the one before it ends.
  bool Follow(const std::vector<Stretch>& stretches, size_t begin, size_t end) const {
    for (size_t i = begin + 1; i < end; ++i) {
      const Address& before = address_[stretches[i - 1].variable];
      const Address& here = address_[stretches[i].variable];
      if (here.place != before.place ||
          here.offset != before.offset + Bytes(stretches[i - 1].variable))
        return false;
    }
    return true;
  }

  const LayoutProblem& problem_;
  const MemoryLayout& layout_;
  std::vector<Address> address_;
  std::vector<std::vector<Treatment>> treatment_;
};

}  // namespace

absl::Status Validate(const LayoutProblem& problem, const MemoryLayout& layout) {
  return Judge(problem, layout).Run();
}

}  // namespace cellbatch
