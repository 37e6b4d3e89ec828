#include "tests/bench/report.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cells/device/cpu/cpu_features.h"
#include "cells/device/cpu/process_limits.h"

namespace cellbatch {
namespace {

size_t CodePoints(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

bool LooksLikeNumber(const std::string& text) {
  return !text.empty() && (std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '-');
}

}  // namespace

Quartiles QuartilesOf(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const auto at = [&samples](double share) {
    const double position = share * static_cast<double>(samples.size() - 1);
    const size_t below = static_cast<size_t>(position);
    const size_t above = std::min(below + 1, samples.size() - 1);
    return samples[below] + (samples[above] - samples[below]) * (position - std::floor(position));
  };
  return {at(0.25), at(0.5), at(0.75)};
}

std::string Number(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

std::string Number(const Quartiles& q, int digits) {
  return Number(q.median, digits) + " (" + Number(q.low, digits) + "-" + Number(q.high, digits) +
         ")";
}

Table::Table(std::vector<std::string> head) { rows_.push_back(std::move(head)); }

void Table::Add(std::vector<std::string> row) {
  row.resize(rows_.front().size());
  rows_.push_back(std::move(row));
}

std::string Table::ToString() const {
  std::vector<size_t> width(rows_.front().size(), 0);
  std::vector<bool> right(rows_.front().size(), false);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      width[i] = std::max(width[i], CodePoints(row[i]));
      if (&row != &rows_.front() && LooksLikeNumber(row[i])) right[i] = true;
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string pad(width[i] - CodePoints(row[i]), ' ');
      line += (i == 0 ? "" : "  ") + (right[i] ? pad + row[i] : row[i] + pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

Report::Report(std::string benchmark) : benchmark_(std::move(benchmark)) {
  Text("benchmark " + benchmark_ + "\n");
  Fact("cpu", DetectCpuFeatures().ToString());
  Fact("cores", std::to_string(UsableCores()));
  double load[1] = {0.0};
  if (getloadavg(load, 1) == 1) {
    Fact("load before",
         Number(load[0], 2) + " (ours included; above the cores' number, distrust absolutes)");
  }
}

void Report::Text(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

void Report::Fact(const std::string& name, const std::string& value) {
  Text(name + ": " + value + "\n");
  facts_.emplace_back(name, value);
}

void Report::Figure(const std::string& name, double value, const std::string& unit,
                    const Quartiles* quartiles) {
  figures_.push_back(
      {name, unit, value, quartiles != nullptr ? *quartiles : Quartiles(), quartiles != nullptr});
}

bool Report::Finish(const std::string& json_path) {
  Text("\n");
  nlohmann::ordered_json json = {{"benchmark", benchmark_}};
  for (const auto& [name, value] : facts_) json["facts"][name] = value;
  for (const Entry& f : figures_) {
    char line[256];
    std::snprintf(line, sizeof(line), "figure %s = %.6g %s\n", f.name.c_str(), f.value,
                  f.unit.c_str());
    Text(line);
    nlohmann::ordered_json entry = {{"value", f.value}, {"unit", f.unit}};
    if (f.has_quartiles)
      entry["quartiles"] = {f.quartiles.low, f.quartiles.median, f.quartiles.high};
    json["figures"][f.name] = entry;
  }
  if (json_path.empty()) return true;
  std::ofstream file(json_path);
  file << json.dump(2) << "\n";
  file.close();
  if (!file) std::fprintf(stderr, "%s could not be written\n", json_path.c_str());
  return static_cast<bool>(file);
}

std::string JsonArgument(const std::string& benchmark, int argc, char** argv) {
  std::string json;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("--json=", 0) != 0) {
      std::cout << benchmark << " [--json=FILE]\n";
      std::exit(argument == "--help" ? 0 : 2);
    }
    json = argument.substr(7);
  }
  return json;
}

}  // namespace cellbatch
