#include "tests/zoo/workload.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "cells/check.h"
#include "tests/zoo/workload_parts.h"

namespace cellbatch::zoo {
namespace {

constexpr std::string_view kNames[] = {
    "lstm",    "bilstm_tagger", "bilstm_tagger_char", "nmt",         "treelstm",
    "treegru", "mvrnn",         "treelstm_2type",     "latticelstm", "latticegru"};

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  Check(file.flush().good(), fmt::format("{} cannot be written", path));
}

}  // namespace

void ModelFolder::Write(const std::string& repository, const std::string& name,
                        const std::string& more) const {
  const std::string folder = repository + "/" + name;
  std::error_code error;
  std::filesystem::create_directories(folder + "/1", error);
  Check(!error, fmt::format("{} cannot be made", folder));
  WriteText(folder + "/config.textproto", config + more);
  for (const auto& [cell, text] : definitions) {
    WriteText(fmt::format("{}/{}.textproto", folder, cell), text);
  }
  weights.Write(folder + "/1/weights.safetensors");
}

absl::Span<const std::string_view> WorkloadNames() { return kNames; }

Workload MakeWorkload(std::string_view name, const Sizes& sizes, size_t items) {
  const auto made = [&]() -> Workload {
    if (name == "lstm") return Lstm(sizes, items);
    if (name == "bilstm_tagger") return BilstmTagger(sizes, items, /*spell_rare_words=*/false);
    if (name == "bilstm_tagger_char") return BilstmTagger(sizes, items, /*spell_rare_words=*/true);
    if (name == "nmt") return Translate(sizes, items);
    if (name == "treelstm") return TreeLstm(sizes, items, /*internal_types=*/1);
    if (name == "treegru") return TreeGru(sizes, items);
    if (name == "mvrnn") return MvRnn(sizes, items);
    if (name == "treelstm_2type") return TreeLstm(sizes, items, /*internal_types=*/2);
    if (name == "childsum") return ChildSum(sizes, items);
    if (name == "childsum_by_arity") return ChildSumByArity(sizes, items);
    if (name == "latticelstm") return LatticeLstm(sizes, items);
    if (name == "latticegru") return LatticeGru(sizes, items);
    Check(false, fmt::format("the zoo has no workload \"{}\"", name));
    return {};
  };
  Workload workload = made();
  workload.name = name;
  return workload;
}

std::string CellType(const std::string& name, const std::string& cell,
                     const std::vector<std::pair<std::string, std::string>>& reads,
                     const std::vector<std::string>& parameters, const std::string& more) {
  std::string text = fmt::format("cell_types {{\n  name: \"{}\"\n  cell: \"{}\"\n", name, cell);
  for (const auto& [input, through] : reads) {
    text += fmt::format("  reads {{ input: \"{}\" through: \"{}\" }}\n", input, through);
  }
  for (const std::string& parameter : parameters) {
    const size_t equals = parameter.find('=');
    const std::string tensor =
        equals == parameter.npos ? name + "." + parameter : parameter.substr(equals + 1);
    text += fmt::format("  parameters {{ name: \"{}\" tensors: \"{}\" }}\n",
                        parameter.substr(0, equals), tensor);
  }
  return text + more + "}\n";
}

void AddRecurrent(WeightSet& weights, const std::string& cell, int64_t gates, int64_t input,
                  int64_t hidden) {
  weights.AddMatrix(cell + ".W", gates * hidden, input);
  weights.AddMatrix(cell + ".U", gates * hidden, hidden);
  weights.AddBias(cell + ".b", gates * hidden);
}

void AddLinear(WeightSet& weights, const std::string& cell, int64_t input, int64_t classes) {
  weights.AddMatrix(cell + ".W", classes, input, 2);
  weights.AddBias(cell + ".b", classes);
}

std::string OutputType() { return CellType("output", "linear", {{"x", "below"}}, {"W", "b"}); }

std::vector<Vec> Rows(const Mat& table, const std::vector<int32_t>& ids) {
  std::vector<Vec> rows;
  for (const int32_t id : ids) rows.push_back(Row(table, id));
  return rows;
}

Vec Joined(const std::vector<Vec>& rows) {
  Vec all;
  for (const Vec& row : rows) all.insert(all.end(), row.begin(), row.end());
  return all;
}

}  // namespace cellbatch::zoo
