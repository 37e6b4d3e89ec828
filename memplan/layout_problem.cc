#include "memplan/layout_problem.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"

namespace cellbatch {
namespace {

absl::Status Wrong(const std::string& what) { return absl::InvalidArgumentError(what); }

absl::Status CheckOperand(const LayoutProblem& problem, const OperandBatch& batch, size_t index) {
  const Operand& operand = batch.operands[index];
  if (static_cast<int>(operand.size()) != batch.size()) {
    return Wrong(fmt::format("batch {}: operand {} has {} variables, the result has {}", batch.name,
                             index, operand.size(), batch.size()));
  }
  for (VariableId v : operand) {
    if (v < 0 || v >= static_cast<VariableId>(problem.variables.size())) {
      return Wrong(fmt::format("batch {}: operand {} names variable {} of {}", batch.name, index, v,
                               problem.variables.size()));
    }
    const Variable& first = problem.variables[operand[0]];
    const Variable& other = problem.variables[v];
    if (first.bytes != other.bytes) {
      return Wrong(fmt::format("batch {}: operand {} mixes sizes: {} has {} bytes, {} has {}",
                               batch.name, index, first.name, first.bytes, other.name,
                               other.bytes));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckResult(const LayoutProblem& problem, const OperandBatch& batch,
                         std::vector<bool>& written) {
  for (VariableId v : batch.operands[0]) {
    const Variable& variable = problem.variables[v];
    if (variable.kind == VariableKind::kConstant || variable.kind == VariableKind::kInput) {
      return Wrong(fmt::format("batch {} writes {}, which is {}", batch.name, variable.name,
                               variable.kind == VariableKind::kInput ? "an input" : "a constant"));
    }
    if (written[v])
      return Wrong(fmt::format("batch {} writes {} a second time", batch.name, variable.name));
    written[v] = true;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckVariable(const Variable& v) {
  if (v.bytes >= 1 && v.bytes <= kMaxVariableBytes) return absl::OkStatus();
  return Wrong(fmt::format("variable {} has {} bytes, it must have 1 to {}", v.name, v.bytes,
                           kMaxVariableBytes));
}

absl::Status CheckBatch(const LayoutProblem& problem, const OperandBatch& batch,
                        std::vector<bool>& written) {
  if (batch.size() < 1) return Wrong(fmt::format("batch {} has no operators", batch.name));
  for (size_t i = 0; i < batch.operands.size(); ++i) {
    if (absl::Status status = CheckOperand(problem, batch, i); !status.ok()) return status;
  }
  return CheckResult(problem, batch, written);
}

absl::Status CheckFixedRun(const LayoutProblem& problem, const std::vector<VariableId>& run,
                           std::vector<bool>& fixed) {
  for (VariableId v : run) {
    if (v < 0 || v >= static_cast<VariableId>(problem.variables.size())) {
      return Wrong(fmt::format("a fixed run names variable {} of {}", v, problem.variables.size()));
    }
    if (fixed[v])
      return Wrong(fmt::format("variable {} is fixed twice", problem.variables[v].name));
    fixed[v] = true;
  }
  return absl::OkStatus();
}

absl::Status CheckProblem(const LayoutProblem& problem) {
  if (static_cast<int64_t>(problem.variables.size()) > kMaxVariables) {
    return Wrong(
        fmt::format("{} variables, the limit is {}", problem.variables.size(), kMaxVariables));
  }
  for (const Variable& v : problem.variables) {
    if (absl::Status status = CheckVariable(v); !status.ok()) return status;
  }
  std::vector<bool> written(problem.variables.size(), false), fixed = written;
  int64_t entries = 0;
  for (const OperandBatch& batch : problem.batches) {
    if (absl::Status status = CheckBatch(problem, batch, written); !status.ok()) return status;
    entries += static_cast<int64_t>(batch.operands.size()) * batch.size();
  }
  if (entries > kMaxOperandEntries) {
    return Wrong(fmt::format("{} operand entries, the limit is {}", entries, kMaxOperandEntries));
  }
  for (const auto& run : problem.fixed) {
    if (absl::Status status = CheckFixedRun(problem, run, fixed); !status.ok()) return status;
  }
  return absl::OkStatus();
}

LayoutProblem InFull(LayoutProblem problem) {
  problem.fixed.clear();
  problem.broadcasts = Broadcasts::kByStride;
  return problem;
}

int64_t OperandBytes(const LayoutProblem& problem, const Operand& operand) {
  int64_t bytes = 0;
  for (VariableId v : operand) bytes += problem.variables[v].bytes;
  return bytes;
}

bool IsConstant(const LayoutProblem& problem, const Operand& operand) {
  return std::all_of(operand.begin(), operand.end(), [&](VariableId v) {
    return problem.variables[v].kind == VariableKind::kConstant;
  });
}

std::vector<int> FixedRunOf(const LayoutProblem& problem) {
  std::vector<int> run_of(problem.variables.size(), -1);
  for (size_t run = 0; run < problem.fixed.size(); ++run) {
    for (VariableId v : problem.fixed[run]) run_of[v] = static_cast<int>(run);
  }
  return run_of;
}

}  // namespace cellbatch
