#include "cells/device/cpu/cpu_topology.h"

#include <algorithm>
#include <charconv>
#include <fstream>

#include "fmt/format.h"

namespace cellbatch {
namespace {

constexpr int kMaxNodes = 1024;
constexpr int kMaxCpu = 1 << 16;

std::optional<int> ParseNumber(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value >= 0 && value < kMaxCpu ? std::optional<int>(value) : std::nullopt;
}

}  // namespace

int NumaNodeOf(int cpu) {
  for (int node = 0; node < kMaxNodes; ++node) {
    std::ifstream file(fmt::format("/sys/devices/system/node/node{}/cpulist", node));
    std::string list;
    if (!std::getline(file, list)) break;
    const std::optional<std::vector<int>> cpus = ParseCpuList(list);
    if (cpus.has_value() && std::find(cpus->begin(), cpus->end(), cpu) != cpus->end()) return node;
  }
  return 0;
}

std::optional<std::vector<int>> ParseCpuList(std::string_view text) {
  std::vector<int> cpus;
  while (true) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, comma);
    const size_t dash = std::min(part.find('-'), part.size());
    const std::optional<int> first = ParseNumber(part.substr(0, dash));
    const std::optional<int> last =
        dash == part.size() ? first : ParseNumber(part.substr(dash + 1));
    if (!first.has_value() || !last.has_value() || *last < *first) return std::nullopt;
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
    if (comma == text.size()) return cpus;
    text.remove_prefix(comma + 1);
  }
}

std::string CpuListText(const std::vector<int>& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t end = i + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    text += text.empty() ? "" : ",";
    text +=
        end - i == 1 ? fmt::format("{}", cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace cellbatch
