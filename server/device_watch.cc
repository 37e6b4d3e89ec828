#include "server/device_watch.h"

#include <utility>
#include <vector>

#include "fmt/format.h"

namespace cellbatch {

DeviceNews DeviceWatch::Look() {
  const std::vector<DeviceStats> devices = stats_.Devices();
  size_t failed = 0;
  std::string texts;
  for (const DeviceStats& device : devices) {
    if (device.healthy) continue;
    if (failed++ > 0) texts += "; ";
    texts += fmt::format("device {}: {}", device.name, device.failure);
  }
  DeviceNews news;
  news.any_left = failed < devices.size();
  if (failed > failed_) news.failed = std::move(texts);
  failed_ = failed;
  return news;
}

}  // namespace cellbatch
