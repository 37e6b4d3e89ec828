#include "server/http/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "fmt/format.h"

namespace cellbatch {

namespace {

constexpr rlim_t kMostEverNeeded = 1 << 20;
constexpr int64_t kShareOfDescriptors = 4, kLeastConnections = 16;
constexpr int64_t kFilesOfHttp = 1, kFilesOfRelay = 2;  // of a connection

int64_t MostConnections(int64_t asked, int64_t files_each) {
  return std::min(
      asked, std::max(DescriptorLimit() / kShareOfDescriptors / files_each, kLeastConnections));
}

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

int64_t MostHttpConnections(int64_t asked, bool relayed) {
  return MostConnections(asked, kFilesOfHttp + (relayed ? kFilesOfRelay : 0));
}

int64_t MostGrpcConnections(int64_t asked, bool relayed) {
  return MostConnections(asked, kFilesOfGrpc + (relayed ? kFilesOfRelay : 0));
}

std::string FewerConnections(std::string_view address_flag, int64_t most, int64_t asked) {
  return fmt::format("--{}: {} connections at most, not {}: the process may open {} files",
                     address_flag, most, asked, DescriptorLimit());
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
