#include "server/cells/cell_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "server/names/nearest_name.h"

namespace cellbatch {
namespace {

constexpr size_t kMostBlamed = 32;  // shapes among which one to blame is looked for
constexpr size_t kNone = static_cast<size_t>(-1);

// The names in a dimension: "4*H + 1" has H.
std::set<std::string> SizesIn(const std::string& dimension) {
  std::set<std::string> names;
  std::string word;
  for (const char c : dimension + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
      word += c;
    } else if (!word.empty()) {
      if (std::isdigit(static_cast<unsigned char>(word[0])) == 0) names.insert(word);
      word.clear();
    }
  }
  return names;
}

}  // namespace

std::vector<std::string> SizesOf(const CellText& text) {
  std::set<std::string> sizes;
  const auto add = [&](const auto& dims) {
    for (const std::string& dim : dims) sizes.merge(SizesIn(dim));
  };
  for (const disk::CellParameter& p : text.message.parameters()) add(p.dims());
  for (const disk::CellInput& in : text.message.inputs()) {
    for (const disk::CellColumn& c : in.columns()) add(c.dims());
  }
  for (const disk::CellOp& op : text.message.ops()) {
    add(op.dims());
    add(std::array<std::string, 3>{op.begin(), op.end(), op.integer()});
  }
  return {sizes.begin(), sizes.end()};
}

CellSizes::CellSizes(const CellText& text, Sizes given, absl::Span<const KnownShape> known)
    : text_(text), known_(known), sizes_(std::move(given)) {
  std::map<std::string, Equation> by_name;
  const auto add = [&](const std::string& name, const auto& dims, const std::string& place) {
    by_name.emplace(name, Equation{{dims.begin(), dims.end()}, place, true});
  };
  for (int i = 0; i < text.message.parameters_size(); ++i) {
    const disk::CellParameter& p = text.message.parameters(i);
    add(p.name(), p.dims(), text.parameters[static_cast<size_t>(i)]);
  }
  for (int i = 0; i < text.message.inputs_size(); ++i) {
    const disk::CellInput& in = text.message.inputs(i);
    for (const disk::CellColumn& c : in.columns()) {
      add(in.name() + "." + c.name(), c.dims(), text.inputs[static_cast<size_t>(i)]);
    }
  }
  for (const KnownShape& k : known) {
    const auto found = by_name.find(k.name);
    equations_.push_back(found == by_name.end() ? Equation{} : found->second);
  }
}

std::vector<std::string> CellSizes::DimsOf(size_t equation, const std::vector<bool>& turned) const {
  std::vector<std::string> dims = equations_[equation].dims;
  if (!turned.empty() && turned[equation]) std::reverse(dims.begin(), dims.end());
  return dims;
}

bool CellSizes::Fits(const std::vector<std::string>& dims, const std::vector<int64_t>& known,
                     const Sizes& sizes, bool partly) const {
  if (dims.size() != known.size()) return false;
  for (size_t i = 0; i < dims.size(); ++i) {
    const absl::StatusOr<int64_t> value = EvaluateDimension(dims[i], sizes);
    const bool open = partly && absl::IsNotFound(value.status());
    if (!open && (!value.ok() || *value != known[i])) return false;
  }
  return true;
}

// Each shape is an equation a dimension; those with one unknown give it, until nothing is new.
CellSizes::Solution CellSizes::SolveWith(size_t left_out, const std::vector<bool>& turned,
                                         bool partly) const {
  Solution solution{.sizes = sizes_, .from = {}, .misfits = {}};
  for (const auto& [size, value] : sizes_) solution.from[size] = "the cell type's sizes";
  for (bool news = true; news;) {
    news = false;
    for (size_t k = 0; k < known_.size(); ++k) {
      const std::vector<std::string> dims = DimsOf(k, turned);
      if (k == left_out || dims.size() != known_[k].dims.size()) continue;
      for (size_t i = 0; i < dims.size(); ++i) {
        const auto found = SolveDimension(dims[i], known_[k].dims[i], solution.sizes);
        if (!found.has_value() || found->second <= 0) continue;
        if (!solution.sizes.insert(*found).second) continue;
        solution.from[found->first] = known_[k].from;
        news = true;
      }
    }
  }
  for (size_t k = 0; k < known_.size(); ++k) {
    const bool fits =
        equations_[k].there && Fits(DimsOf(k, turned), known_[k].dims, solution.sizes, partly);
    if (k != left_out && !fits) solution.misfits.push_back(k);
  }
  return solution;
}

// Whether shapes agree when one matrix, or every one, is turned round, or when one shape is left out, and no other one.
// Then `misfits` of `solution` are those to blame.
bool CellSizes::Blame(bool partly, Solution& solution, std::vector<bool>& turned) const {
  if (known_.size() > kMostBlamed) return false;
  std::vector<bool> all(known_.size());
  for (size_t k = 0; k < known_.size(); ++k) {
    all[k] = equations_[k].dims.size() == 2 && known_[k].dims.size() == 2;
  }
  for (size_t k = 0; k <= known_.size(); ++k) {  // the last one: all of them
    std::vector<bool> some = k < known_.size() ? std::vector<bool>(known_.size()) : all;
    if (k < known_.size()) some[k] = all[k];
    Solution other = SolveWith(kNone, some, partly);
    if (!other.misfits.empty()) continue;
    for (size_t i = 0; i < known_.size(); ++i) {
      if (some[i] && !Fits(equations_[i].dims, known_[i].dims, other.sizes, partly)) {
        other.misfits.push_back(i);
      }
    }
    solution = std::move(other);
    turned = std::move(some);
    return true;
  }
  size_t blamed = kNone;
  Solution without;
  for (size_t k = 0; k < known_.size(); ++k) {
    Solution other = SolveWith(k, {}, partly);
    if (!other.misfits.empty()) continue;
    if (blamed != kNone) return false;  // this one or that one: they are told as they stand
    blamed = k;
    without = std::move(other);
  }
  if (blamed == kNone) return false;
  solution = std::move(without);
  solution.misfits.assign(1, blamed);
  const std::vector<std::string>& dims = equations_[blamed].dims;
  for (size_t i = 0; i < dims.size() && dims.size() == known_[blamed].dims.size(); ++i) {
    const auto found = SolveDimension(dims[i], known_[blamed].dims[i], solution.sizes);
    if (found.has_value() && found->second > 0) solution.sizes.insert(*found);  // to be shown
  }
  return true;
}

std::string CellSizes::Wrong(size_t equation, const Solution& solution, bool turned) const {
  const KnownShape& known = known_[equation];
  const Equation& e = equations_[equation];
  if (!e.there) {
    std::vector<std::string> names;
    for (const disk::CellParameter& p : text_.message.parameters()) names.push_back(p.name());
    return fmt::format("{}: cell \"{}\" has no parameter or input \"{}\"{}", text_.file,
                       text_.message.name(), known.name, MeantOrThere(known.name, names));
  }
  std::string wanted, given;
  std::set<std::string> told;
  for (const std::string& dim : e.dims) {
    const absl::StatusOr<int64_t> value = EvaluateDimension(dim, solution.sizes);
    if (!value.ok() && !absl::IsNotFound(value.status())) {
      return fmt::format("{}: cell \"{}\": \"{}\": {}", e.place, text_.message.name(), known.name,
                         std::string(value.status().message()));
    }
    const std::string shown =
        value.ok() && std::to_string(*value) != dim ? fmt::format("{} = {}", dim, *value) : dim;
    wanted += (wanted.empty() ? "" : ", ") + shown;
    for (const std::string& size : SizesIn(dim)) {
      const auto from = solution.from.find(size);
      if (from == solution.from.end() || from->second == known.from) continue;
      if (!told.insert(size).second) continue;
      given += fmt::format("{}{} = {} by {}", given.empty() ? "" : ", ", size,
                           solution.sizes.at(size), from->second);
    }
  }
  std::string text =
      fmt::format("{}: cell \"{}\": \"{}\" is [{}], {} is [{}]", e.place, text_.message.name(),
                  known.name, wanted, known.from, fmt::join(known.dims, ", "));
  if (turned) {
    return text +
           "; turned round, every shape fits: a matrix is written [rows out, columns in], and a "
           "tensor that is stored the other way is read with transposed: true";
  }
  return text + (given.empty() ? "" : fmt::format(" ({})", given)) + known.remedy;
}

absl::Status CellSizes::Solve(bool partly) {
  Solution solution = SolveWith(kNone, {}, partly);
  if (solution.misfits.empty()) {
    sizes_ = std::move(solution.sizes);
    return absl::OkStatus();
  }
  std::vector<bool> turned;
  Blame(partly, solution, turned);
  std::string wrong;
  for (const size_t k : solution.misfits) {
    wrong += (wrong.empty() ? "" : "\n") + Wrong(k, solution, !turned.empty());
  }
  return absl::InvalidArgumentError(wrong);
}

absl::StatusOr<int64_t> CellSizes::Value(const std::string& dimension) const {
  absl::StatusOr<int64_t> value = EvaluateDimension(dimension, sizes_);
  if (!absl::IsNotFound(value.status())) return value;
  std::string open, there;
  for (const std::string& size : SizesIn(dimension)) {
    if (open.empty() && !sizes_.contains(size)) open = size;
  }
  for (const auto& [size, known] : sizes_) {
    there += fmt::format("{}{} = {}", there.empty() ? "" : ", ", size, known);
  }
  return absl::InvalidArgumentError(fmt::format(
      "{}: neither a tensor's shape nor what is below gives it; write sizes {{ key: \"{}\" value: "
      ".. }} into the cell type{}",
      std::string(value.status().message()), open,
      there.empty() ? "" : fmt::format(" (known are {})", there)));
}

}  // namespace cellbatch
