#include "cells/device/cpu/process_limits.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

namespace cellbatch {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> Words(std::string text, char separator = ' ') {
  std::replace(text.begin(), text.end(), separator, ' ');
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

std::optional<int64_t> Number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// The only word of a file. "max", -1 and what is no number: nullopt.
std::optional<int64_t> NumberIn(const std::string& path) {
  const std::vector<std::string> words = Words(ReadFile(path));
  return words.size() == 1 ? Number(words[0]) : std::nullopt;
}

// The number behind `key` in a file of such pairs.
std::optional<int64_t> NumberOf(const std::string& path, std::string_view key) {
  const std::vector<std::string> words = Words(ReadFile(path));
  const auto at = std::find(words.begin(), words.end(), key);
  return at == words.end() || at + 1 == words.end() ? std::nullopt : Number(at[1]);
}

template <typename T>
std::optional<T> Least(std::optional<T> a, std::optional<T> b) {
  return !a.has_value() || (b.has_value() && *b < *a) ? b : a;
}

// One hierarchy of groups as it is mounted here: version 2, or one controller of version 1.
struct Hierarchy {
  bool v2 = false;
  std::string mount;   // with the root before it
  std::string folder;  // of this process's group, beneath `mount`: "" or "/a/b"
};

// This process's group in the hierarchy, from "ID:controllers:/path" lines; ID 0 without controllers is version 2.
std::optional<std::string> GroupOf(const std::string& root, const std::string& controller) {
  std::istringstream lines(ReadFile(root + "/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    const std::vector<std::string> controllers = Words(names, ',');
    const bool ours = controller.empty() ? line.starts_with("0:") && names.empty()
                                         : std::find(controllers.begin(), controllers.end(),
                                                     controller) != controllers.end();
    if (ours) return line.substr(second + 1);
  }
  return std::nullopt;
}

// `group` counted from `base`, which is mounted; "" where it does not lie beneath it, as in a container that sees only
// its own group.
std::string FolderBeneath(const std::string& group, const std::string& base) {
  if (group.find("/..") != std::string::npos) return "";
  const std::string prefix = base == "/" ? "" : base;
  if (!group.starts_with(prefix + "/")) return "";
  const std::string folder = group.substr(prefix.size());
  return folder == "/" ? "" : folder;
}

// mountinfo: "ID parent dev base mount options [optional ...] - type source super-options".
std::optional<Hierarchy> FindHierarchy(const std::string& root, const std::string& controller) {
  const std::optional<std::string> group = GroupOf(root, controller);
  if (!group.has_value()) return std::nullopt;
  std::istringstream lines(ReadFile(root + "/proc/self/mountinfo"));
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words = Words(line);
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (dash - words.begin() < 6 || words.end() - dash < 4) continue;
    const std::vector<std::string> options = Words(dash[3], ',');
    const bool ours = controller.empty()
                          ? dash[1] == "cgroup2"
                          : dash[1] == "cgroup" && std::find(options.begin(), options.end(),
                                                             controller) != options.end();
    if (ours)
      return Hierarchy{controller.empty(), root + words[4], FolderBeneath(*group, words[3])};
  }
  return std::nullopt;
}

// The least that `ask(folder)` says of this process's group and of those above it, as far as they can be seen.
template <typename T, typename Ask>
std::optional<T> LeastOfGroups(const Hierarchy& hierarchy, const Ask& ask) {
  std::optional<T> least;
  std::string folder = hierarchy.folder;
  while (true) {
    least = Least(least, ask(hierarchy.mount + folder));
    if (folder.empty()) return least;
    folder.resize(folder.rfind('/'));
  }
}

std::optional<int64_t> LeftIn(std::optional<int64_t> limit, std::optional<int64_t> used,
                              std::optional<int64_t> gives_way) {
  if (!limit.has_value() || !used.has_value()) return limit;
  const int64_t held = *used - std::min(*used, gives_way.value_or(0));
  return *limit - std::min(*limit, held);
}

// What of a group's memory gives way: cached files, those that are used as well when it must be.
enum class Gives { kGladly, kWhenItMust };

std::optional<int64_t> GroupMemory(const std::string& folder, bool v2, Gives gives) {
  const auto cached = [&](const std::string& prefix) {
    const std::string stat = folder + "/memory.stat";
    const int64_t active = NumberOf(stat, prefix + "active_file").value_or(0);
    return NumberOf(stat, prefix + "inactive_file").value_or(0) +
           (gives == Gives::kWhenItMust ? active : 0);
  };
  if (v2) {
    return LeftIn(NumberIn(folder + "/memory.max"), NumberIn(folder + "/memory.current"),
                  cached(""));
  }
  return LeftIn(NumberIn(folder + "/memory.limit_in_bytes"),
                NumberIn(folder + "/memory.usage_in_bytes"), cached("total_"));
}

std::optional<double> GroupCpus(const std::string& folder, bool v2) {
  std::optional<int64_t> quota, period;
  if (v2) {
    const std::vector<std::string> words = Words(ReadFile(folder + "/cpu.max"));
    if (words.size() != 2) return std::nullopt;
    quota = Number(words[0]);
    period = Number(words[1]);
  } else {
    quota = NumberIn(folder + "/cpu.cfs_quota_us");
    period = NumberIn(folder + "/cpu.cfs_period_us");
  }
  if (quota.value_or(0) == 0 || period.value_or(0) == 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

// Both versions may be mounted, each with some of the controllers.
template <typename T, typename Ask>
std::optional<T> LeastOfVersions(const std::string& root, const std::string& controller,
                                 const Ask& ask) {
  std::optional<T> least;
  for (const std::string& name : {std::string(), controller}) {
    const std::optional<Hierarchy> hierarchy = FindHierarchy(root, name);
    if (!hierarchy.has_value()) continue;
    const auto of = [&](const std::string& folder) { return ask(folder, hierarchy->v2); };
    least = Least(least, LeastOfGroups<T>(*hierarchy, of));
  }
  return least;
}

// What the process itself may map (ulimit -v, -d). A line is "Max address space  1073741824  unlimited  bytes": the soft limit
// comes first. `taken`: a line of the status, in kB.
std::optional<int64_t> ProcessMemory(const std::string& root, std::string_view limit,
                                     std::string_view taken) {
  std::istringstream lines(ReadFile(root + "/proc/self/limits"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(limit)) continue;
    const std::vector<std::string> words = Words(line.substr(limit.size()));
    const std::optional<int64_t> most = words.empty() ? std::nullopt : Number(words[0]);
    if (!most.has_value()) return std::nullopt;
    const int64_t held = NumberOf(root + "/proc/self/status", taken).value_or(0) * 1024;
    return *most - std::min(*most, held);
  }
  return std::nullopt;
}

std::optional<int64_t> MemoryBytes(const std::string& root, Gives gives) {
  const std::string meminfo = root + "/proc/meminfo";
  std::optional<int64_t> machine = NumberOf(meminfo, "MemAvailable:");
  if (machine.has_value() && gives == Gives::kWhenItMust) {
    *machine += NumberOf(meminfo, "SwapFree:").value_or(0);
  }
  if (machine.has_value()) *machine *= 1024;
  const std::optional<int64_t> of_process =
      Least(ProcessMemory(root, "Max address space", "VmSize:"),
            ProcessMemory(root, "Max data size", "VmData:"));
  const auto of_group = [gives](const std::string& folder, bool v2) {
    return GroupMemory(folder, v2, gives);
  };
  return Least(Least(machine, of_process), LeastOfVersions<int64_t>(root, "memory", of_group));
}

constexpr int64_t kUnasked = 16 << 20;

}  // namespace

std::optional<int64_t> AvailableMemoryBytes(const std::string& root) {
  return MemoryBytes(root, Gives::kGladly);
}

TooLittleMemory::TooLittleMemory(int64_t wanted, int64_t left)
    : text_(std::to_string(wanted) + " bytes more are needed, " + std::to_string(left) +
            " are left") {}

void RequireMemory(int64_t bytes, const std::string& root) {
  static std::atomic<int64_t> unasked = 0;
  if (unasked.fetch_add(bytes) + bytes <= kUnasked) return;
  const std::optional<int64_t> left = MemoryBytes(root, Gives::kWhenItMust);
  if (left.has_value() && bytes > *left) throw TooLittleMemory(bytes, *left);
  unasked = 0;
}

std::optional<double> CpuQuota(const std::string& root) {
  return LeastOfVersions<double>(root, "cpu", GroupCpus);
}

std::vector<int> AllowedCpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    }
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

int CoresWithin(int allowed_cpus, std::optional<double> quota) {
  if (!quota.has_value() || *quota >= allowed_cpus) return std::max(1, allowed_cpus);
  return std::max(1, static_cast<int>(*quota));
}

int UsableCores() { return CoresWithin(static_cast<int>(AllowedCpus().size()), CpuQuota()); }

}  // namespace cellbatch
