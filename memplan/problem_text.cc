#include "memplan/problem_text.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fmt/format.h"

namespace cellbatch {
namespace {

constexpr std::pair<std::string_view, VariableKind> kKinds[] = {
    {"constant", VariableKind::kConstant},
    {"input", VariableKind::kInput},
    {"value", VariableKind::kValue},
    {"output", VariableKind::kOutput},
};

absl::Status Wrong(const std::string& what) { return absl::InvalidArgumentError(what); }

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '\'' || c == '-';
}

// Words, and ( ) = each by itself.
std::vector<std::string_view> Split(std::string_view line) {
  line = line.substr(0, line.find('#'));
  std::vector<std::string_view> words;
  for (size_t i = 0; i < line.size();) {
    const char c = line[i];
    if (c == ' ' || c == '\t' || c == '\r') {
      ++i;
      continue;
    }
    size_t end = i + 1;
    if (c != '(' && c != ')' && c != '=') {
      while (end < line.size() &&
             std::string_view(" \t\r()=").find(line[end]) == std::string_view::npos)
        ++end;
    }
    words.push_back(line.substr(i, end - i));
    i = end;
  }
  return words;
}

// What somebody else wrote, fit to stand in a message.
std::string Quote(std::string_view word) {
  std::string quoted = "\"";
  for (char c : word.substr(0, kMaxNameBytes)) quoted += c >= ' ' && c <= '~' ? c : '?';
  return quoted + (word.size() > kMaxNameBytes ? "...\"" : "\"");
}

class Parser {
 public:
  absl::StatusOr<LayoutProblem> Parse(std::string_view text) {
    if (text.size() > kMaxTextBytes)
      return Wrong(fmt::format("{} bytes of text, the limit is {}", text.size(), kMaxTextBytes));
    for (int line = 1; !text.empty(); ++line) {
      const size_t end = std::min(text.find('\n'), text.size());
      if (absl::Status status = Line(Split(text.substr(0, end))); !status.ok()) {
        return Wrong(fmt::format("line {}: {}", line, std::string(status.message())));
      }
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return std::move(problem_);
  }

 private:
  using Words = std::vector<std::string_view>;

  absl::Status Line(const Words& words) {
    if (words.empty()) return absl::OkStatus();
    for (const auto& [name, kind] : kKinds) {
      if (words[0] == name) return VariableLine(words, kind);
    }
    if (words[0] == "batch") return BatchLine(words);
    if (words[0] == "op") return OpLine(words);
    if (words[0] == "fixed") return FixedLine(words);
    if (words[0] == "broadcasts") return BroadcastsLine(words);
    return Wrong(
        fmt::format("{} begins no line; there are constant, input, value, output, fixed, "
                    "broadcasts, batch and op",
                    Quote(words[0])));
  }

  static absl::Status CheckName(std::string_view name) {
    if (name.size() <= kMaxNameBytes && std::all_of(name.begin(), name.end(), IsNameCharacter))
      return absl::OkStatus();
    return Wrong(fmt::format("{} is no name: up to {} letters, digits, _ . ' and -", Quote(name),
                             kMaxNameBytes));
  }

  absl::Status VariableLine(const Words& words, VariableKind kind) {
    if (words.size() != 3)
      return Wrong(fmt::format("a variable is: {} NAME BYTES", std::string(words[0])));
    if (absl::Status status = CheckName(words[1]); !status.ok()) return status;
    Variable variable{std::string(words[1]), kind, 0};
    const char* end = words[2].data() + words[2].size();
    const auto [stop, error] = std::from_chars(words[2].data(), end, variable.bytes);
    if (error != std::errc() || stop != end) {
      return Wrong(fmt::format("variable {} has {} bytes, which is no number", variable.name,
                               Quote(words[2])));
    }
    if (absl::Status status = CheckVariable(variable); !status.ok()) return status;
    if (static_cast<int64_t>(problem_.variables.size()) == kMaxVariables) {
      return Wrong(fmt::format("more than {} variables", kMaxVariables));
    }
    const VariableId id = static_cast<VariableId>(problem_.variables.size());
    if (!ids_.emplace(variable.name, id).second)
      return Wrong(fmt::format("a second variable {}", variable.name));
    problem_.variables.push_back(std::move(variable));
    written_.push_back(false);
    fixed_.push_back(false);
    return absl::OkStatus();
  }

  absl::Status Find(std::string_view name, Operand& operand) {
    const auto found = ids_.find(std::string(name.substr(0, kMaxNameBytes + 1)));
    if (found == ids_.end()) return Wrong(fmt::format("no variable {} stands above", Quote(name)));
    if (++entries_ > kMaxOperandEntries)
      return Wrong(fmt::format("more than {} operand entries", kMaxOperandEntries));
    operand.push_back(found->second);
    return absl::OkStatus();
  }

  // batch NAME (r r) = (a a) (b b)
  absl::Status BatchLine(const Words& words) {
    const char* shape = "a batch is: batch NAME (RESULT ...) = (SOURCE ...) ...";
    if (words.size() < 5) return Wrong(shape);
    OperandBatch batch{std::string(words[1]), {}};
    if (absl::Status status = CheckName(words[1]); !status.ok()) return status;
    bool open = false, equals = false;
    for (size_t i = 2; i < words.size(); ++i) {
      if (words[i] == "=") {
        if (open || equals || batch.operands.size() != 1) return Wrong(shape);
        equals = true;
      } else if (words[i] == "(") {
        if (open || (!equals && !batch.operands.empty())) return Wrong(shape);
        open = true;
        batch.operands.emplace_back();
      } else if (words[i] == ")") {
        if (!open) return Wrong(shape);
        open = false;
      } else if (!open) {
        return Wrong(shape);
      } else if (absl::Status status = Find(words[i], batch.operands.back()); !status.ok()) {
        return status;
      }
    }
    if (open) return Wrong(shape);
    return Add(std::move(batch));
  }

  // op NAME r = a b
  absl::Status OpLine(const Words& words) {
    if (words.size() < 3 || (words.size() > 3 && words[3] != "=") || words.size() == 4) {
      return Wrong("an operator is: op NAME RESULT = SOURCE ...");
    }
    if (absl::Status status = CheckName(words[1]); !status.ok()) return status;
    OperandBatch batch{std::string(words[1]), {}};
    for (size_t i = 2; i < words.size(); ++i) {
      if (i == 3) continue;
      if (absl::Status status = Find(words[i], batch.operands.emplace_back()); !status.ok())
        return status;
    }
    return Add(std::move(batch));
  }

  absl::Status Add(OperandBatch batch) {
    if (absl::Status status = CheckBatch(problem_, batch, written_); !status.ok()) return status;
    problem_.batches.push_back(std::move(batch));
    return absl::OkStatus();
  }

  absl::Status FixedLine(const Words& words) {
    std::vector<VariableId>& run = problem_.fixed.emplace_back();
    for (size_t i = 1; i < words.size(); ++i) {
      if (absl::Status status = Find(words[i], run); !status.ok()) return status;
    }
    if (run.empty()) return Wrong("a fixed run is: fixed NAME ...");
    return CheckFixedRun(problem_, run, fixed_);
  }

  absl::Status BroadcastsLine(const Words& words) {
    if (words.size() != 2 || (words[1] != "stride" && words[1] != "copied")) {
      return Wrong("broadcasts are: broadcasts stride, or: broadcasts copied");
    }
    problem_.broadcasts = words[1] == "stride" ? Broadcasts::kByStride : Broadcasts::kCopied;
    return absl::OkStatus();
  }

  LayoutProblem problem_;
  std::unordered_map<std::string, VariableId> ids_;
  std::vector<bool> written_, fixed_;  // per variable
  int64_t entries_ = 0;
};

}  // namespace

absl::StatusOr<LayoutProblem> ParseProblem(std::string_view text) { return Parser().Parse(text); }

std::string PrintProblem(const LayoutProblem& problem) {
  std::string text =
      problem.broadcasts == Broadcasts::kByStride ? "broadcasts stride\n" : "broadcasts copied\n";
  for (const Variable& v : problem.variables) {
    const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                    [&](const auto& k) { return k.second == v.kind; });
    text += fmt::format("{} {} {}\n", std::string(kind->first), v.name, v.bytes);
  }
  const auto names = [&](const std::vector<VariableId>& ids) {
    std::string joined;
    for (VariableId v : ids) joined += (joined.empty() ? "" : " ") + problem.variables[v].name;
    return joined;
  };
  for (const auto& run : problem.fixed) {
    if (!run.empty()) text += "fixed " + names(run) + "\n";
  }
  for (const OperandBatch& batch : problem.batches) {
    const bool single = batch.size() == 1;
    text += (single ? "op " : "batch ") + batch.name;
    for (size_t o = 0; o < batch.operands.size(); ++o) {
      if (o == 1) text += " =";
      text += single ? " " + names(batch.operands[o]) : " (" + names(batch.operands[o]) + ")";
    }
    text += "\n";
  }
  return text;
}

}  // namespace cellbatch
