// A control group with limits that the kernel enforces, for a server to be started in: a container without the rest. Of
// version 1 or 2, where this process may make one (as root, outside a container that hides them). One test thread.
#ifndef CELLBATCH_TESTS_FAULT_CONTROL_GROUP_H_
#define CELLBATCH_TESTS_FAULT_CONTROL_GROUP_H_

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cellbatch {

// Of which a group gets a share of CPU time: as the kernel has it by itself.
inline constexpr int64_t kPeriodUs = 100'000;

class ControlGroup {
 public:
  // Null, and why: none can be made here.
  static std::unique_ptr<ControlGroup> Make(int64_t bytes, double cpus, std::string& why_not) {
    const std::string quota = std::to_string(static_cast<int64_t>(cpus * kPeriodUs));
    const std::string period = std::to_string(kPeriodUs);
    const std::string root = "/sys/fs/cgroup";
    std::unique_ptr<ControlGroup> group(new ControlGroup);
    bool made = false;
    if (std::filesystem::exists(root + "/cgroup.controllers")) {
      Write(root + "/cgroup.subtree_control", "+memory +cpu");
      made = group->Add(root, "",
                        {{"memory.max", std::to_string(bytes)}, {"cpu.max", quota + " " + period}});
    } else {
      made = group->Add(root + "/memory", "memory",
                        {{"memory.limit_in_bytes", std::to_string(bytes)}}) &&
             group->Add(root + "/cpu", "cpu",
                        {{"cpu.cfs_period_us", period}, {"cpu.cfs_quota_us", quota}});
    }
    if (made) return group;
    why_not = "a control group with limits cannot be made: " + group->why_not_;
    return nullptr;
  }
  // Nobody is in it any more.
  ~ControlGroup() {
    for (const Part& part : parts_) rmdir(part.folder.c_str());
  }
  ControlGroup(const ControlGroup&) = delete;
  ControlGroup& operator=(const ControlGroup&) = delete;

  // What `start` starts is in the group, and stays there. False: nothing was started, for it cannot be entered.
  template <typename Start>
  bool StartInside(const Start& start) const {
    const std::string self = std::to_string(getpid());
    bool inside = true;
    for (const Part& part : parts_) inside = inside && Write(part.folder + "/cgroup.procs", self);
    if (inside) start();
    for (const Part& part : parts_) Write(part.home + "/cgroup.procs", self);
    return inside;
  }
  // How many of it the kernel has killed for memory.
  int64_t Killed() const {
    const std::string& folder = parts_.front().folder;
    for (const char* name : {"/memory.events", "/memory.oom_control"}) {
      std::ifstream file(folder + name);
      for (std::string word; file >> word;) {
        int64_t killed = -1;
        if (word == "oom_kill" && file >> killed) return killed;
      }
    }
    return -1;  // it does not say
  }

 private:
  struct Part {
    std::string folder, home;  // home: where this process was
  };

  ControlGroup() = default;
  static bool Write(const std::string& path, const std::string& text) {
    std::ofstream file(path);
    file << text << std::flush;
    return file.good();
  }
  // The path of this process's group: "ID:controllers:PATH", ID 0 without a controller for version 2.
  static std::string Home(const std::string& controller) {
    std::ifstream file("/proc/self/cgroup");
    for (std::string line; std::getline(file, line);) {
      const size_t names = line.find(':') + 1, path = line.find(':', names) + 1;
      const std::string listed = "," + line.substr(names, path - 1 - names) + ",";
      if (listed.find("," + controller + ",") != listed.npos) return line.substr(path);
    }
    return "/";
  }
  bool Add(const std::string& mount, const std::string& controller,
           const std::vector<std::pair<std::string, std::string>>& limits) {
    const Part part = {mount + "/cellbatch-test-" + std::to_string(getpid()),
                       mount + Home(controller)};
    std::error_code error;
    if (!std::filesystem::create_directory(part.folder, error)) {
      why_not_ = part.folder + ": " + (error ? error.message() : "it is there already");
      return false;
    }
    parts_.push_back(part);
    for (const auto& [file, value] : limits) {
      if (Write(part.folder + "/" + file, value)) continue;
      why_not_ = part.folder + "/" + file + " does not take " + value;
      return false;
    }
    return true;
  }

  std::vector<Part> parts_;  // the one with memory first
  std::string why_not_;
};

// What a process reads of a group of version 2 with these limits, of which it has taken nothing: below `folder`, for whom
// group_files.cc is preloaded into. Returns the folder.
inline std::string WriteGroupFiles(const std::string& folder, int64_t bytes, double cpus) {
  const std::pair<const char*, std::string> files[] = {
      {"/proc/self/cgroup", "0::/\n"},
      {"/proc/self/mountinfo", "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n"},
      {"/sys/fs/cgroup/memory.max", std::to_string(bytes) + "\n"},
      {"/sys/fs/cgroup/memory.current", "0\n"},
      {"/sys/fs/cgroup/cpu.max", std::to_string(static_cast<int64_t>(cpus * kPeriodUs)) + " " +
                                     std::to_string(kPeriodUs) + "\n"}};
  for (const auto& [name, text] : files) {
    const std::filesystem::path path = folder + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  return folder;
}

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_FAULT_CONTROL_GROUP_H_
