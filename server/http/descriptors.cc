#include "server/http/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace cellbatch {

namespace {

constexpr rlim_t kMostEverNeeded = 1 << 20;
constexpr int64_t kShareOfDescriptors = 4, kLeastConnections = 16;

}  // namespace

int64_t DescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return static_cast<int64_t>(std::min(limit.rlim_cur, kMostEverNeeded));
}

int64_t RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kMostEverNeeded));
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  return DescriptorLimit();
}

int64_t MostConnectionsOf(int64_t descriptors_each) {
  return std::max(DescriptorLimit() / kShareOfDescriptors / descriptors_each, kLeastConnections);
}

SpareDescriptors::~SpareDescriptors() {
  for (const int spare : spare_) close(spare);
}

bool SpareDescriptors::Refill() {
  while (spare_.size() < count_) {
    const int spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (spare < 0) return false;
    spare_.push_back(spare);
  }
  return true;
}

bool SpareDescriptors::Release() {
  if (spare_.empty()) return false;
  close(spare_.back());
  spare_.pop_back();
  return true;
}

}  // namespace cellbatch
