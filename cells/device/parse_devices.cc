#include "cells/device/parse_devices.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "cells/device/cpu/cpu_topology.h"
#include "cells/device/cpu/process_limits.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

constexpr std::string_view kCpu = "cpu:", kCuda = "cuda:";
constexpr int kMostGpus = 64;  // of one machine: a bound for what is written, not for what is there

absl::Status CheckCpus(std::string_view part, const std::vector<int>& cpus,
                       absl::Span<const int> allowed) {
  for (size_t i = 0; i < cpus.size(); ++i) {
    if (std::find(allowed.begin(), allowed.end(), cpus[i]) == allowed.end()) {
      return absl::InvalidArgumentError(
          fmt::format("devices: \"{}\": CPU {} is not there; this process has {}", part, cpus[i],
                      CpuListText({allowed.begin(), allowed.end()})));
    }
    if (std::find(cpus.begin(), cpus.begin() + static_cast<long>(i), cpus[i]) !=
        cpus.begin() + static_cast<long>(i)) {
      return absl::InvalidArgumentError(
          fmt::format("devices: \"{}\": CPU {} is named twice", part, cpus[i]));
    }
  }
  return absl::OkStatus();
}

// Two devices on one core would each wait for the other's tasks, pinned as they are, and T(b) is neither's.
class Taken {
 public:
  absl::Status Take(const std::string& part, const std::vector<int>& cpus) {
    for (const int cpu : cpus) {
      const auto [taken, mine] = by_cpu_.try_emplace(cpu, part);
      if (mine) continue;
      return absl::InvalidArgumentError(fmt::format(
          "devices: \"{}\" and \"{}\" both name CPU {}; each device has CPUs of its own",
          taken->second, part, cpu));
    }
    return absl::OkStatus();
  }

 private:
  std::map<int, std::string> by_cpu_;
};

// "cpu:0,2,cpu:1,3" -> "cpu:0,2" and "cpu:1,3": a new device starts where a kind is named.
std::vector<std::string> SplitDevices(std::string_view text) {
  std::vector<std::string> parts;
  while (true) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string piece(text.substr(0, comma));
    if (parts.empty() || piece.find(':') != std::string::npos) {
      parts.push_back(piece);
    } else {
      parts.back() += "," + piece;
    }
    if (comma == text.size()) return parts;
    text.remove_prefix(comma + 1);
  }
}

// "cuda:3" -> 3.
absl::StatusOr<int> ParseCuda(std::string_view part) {
  const std::string_view digits = part.substr(kCuda.size());
  int ordinal = -1;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
  if (read.ec != std::errc() || read.ptr != digits.data() + digits.size() || ordinal < 0 ||
      ordinal >= kMostGpus) {
    return absl::InvalidArgumentError(fmt::format(
        "devices: \"{}\" is no GPU; write cuda:0, one for each (cuda:0,cuda:1), or cuda for all",
        part));
  }
  return ordinal;
}

// "cpu:0-1" -> 0, 1.
absl::StatusOr<std::vector<int>> ParseCpus(std::string_view part) {
  std::optional<std::vector<int>> cpus;
  if (part.starts_with(kCpu)) cpus = ParseCpuList(part.substr(kCpu.size()));
  if (cpus.has_value()) return *std::move(cpus);
  return absl::InvalidArgumentError(
      fmt::format("devices: \"{}\" is none; write auto, cpu, sets of CPUs such as "
                  "cpu:0-1,cpu:2-3, cuda, or "
                  "GPUs such as cuda:0,cuda:1",
                  part));
}

}  // namespace

DeviceChoice ChooseCpus(absl::Span<const int> cpus, int cores,
                        absl::FunctionRef<int(int cpu)> node_of) {
  std::map<int, std::vector<int>> by_node;
  for (const int cpu : cpus) by_node[node_of(cpu)].push_back(cpu);
  DeviceChoice choice;
  for (auto& [node, of_node] : by_node) {
    if (cores <= 0) break;
    of_node.resize(std::min(of_node.size(), static_cast<size_t>(cores)));
    cores -= static_cast<int>(of_node.size());
    choice.cpu_sets.push_back(std::move(of_node));
  }
  return choice;
}

absl::StatusOr<DeviceChoice> ParseDevices(std::string_view text) {
  return ParseDevices(text, AllowedCpus());
}

absl::StatusOr<DeviceChoice> ParseDevices(std::string_view text, absl::Span<const int> there) {
  if (text == "auto" || text == "cpu") return ChooseCpus(there, UsableCores(), NumaNodeOf);
  DeviceChoice choice;
  if (text == "cuda") {
    choice.every_cuda = true;
    return choice;
  }
  choice.pinned = true;
  Taken taken;
  for (const std::string& part : SplitDevices(text)) {
    if (part.starts_with(kCuda)) {
      const absl::StatusOr<int> ordinal = ParseCuda(part);
      if (!ordinal.ok()) return ordinal.status();
      choice.cuda.push_back(*ordinal);
      continue;
    }
    absl::StatusOr<std::vector<int>> cpus = ParseCpus(part);
    if (!cpus.ok()) return cpus.status();
    if (absl::Status s = CheckCpus(part, *cpus, there); !s.ok()) return s;
    if (absl::Status s = taken.Take(part, *cpus); !s.ok()) return s;
    choice.cpu_sets.push_back(*std::move(cpus));
  }
  return choice;
}

absl::StatusOr<DeviceKinds> KindsNamed(std::string_view text) {
  if (text == "auto" || text == "cpu") return DeviceKinds{.cpu = true, .gpu = false};
  if (text == "cuda") return DeviceKinds{.cpu = false, .gpu = true};
  DeviceKinds kinds{.cpu = false, .gpu = false};
  Taken taken;
  for (const std::string& part : SplitDevices(text)) {
    if (part.starts_with(kCuda)) {
      if (absl::Status s = ParseCuda(part).status(); !s.ok()) return s;
      kinds.gpu = true;
      continue;
    }
    const absl::StatusOr<std::vector<int>> cpus = ParseCpus(part);
    if (!cpus.ok()) return cpus.status();
    if (absl::Status s = taken.Take(part, *cpus); !s.ok()) return s;
    kinds.cpu = true;
  }
  return kinds;
}

}  // namespace cellbatch
