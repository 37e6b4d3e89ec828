#include "loadgen/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace cellbatch {
namespace {

// Every part's order and contents come from a stream of its own.
uint64_t SeedOf(uint64_t seed, size_t part) { return seed + part * 0xbf58476d1ce4e5b9u; }

std::string PartName(const std::vector<MixEntry>& entries, size_t part) {
  const MixEntry& entry = entries[part];
  const auto same = [&](const MixEntry& other) { return other.model == entry.model; };
  if (std::count_if(entries.begin(), entries.end(), same) == 1) {
    return entry.model;
  }
  const std::string numbered = fmt::format("{}#{}", entry.model, part + 1);
  return entry.priority ? fmt::format("{} priority {}", numbered, *entry.priority) : numbered;
}

absl::Status Of(const std::string& name, const absl::Status& status) {
  return absl::Status(status.code(), fmt::format("{}: {}", name, std::string(status.message())));
}

}  // namespace

Workload::Workload(std::vector<Part> parts) : parts_(std::move(parts)) {}

size_t Workload::size() const {
  size_t sum = 0;
  for (const Part& part : parts_) {
    sum += part.requests->size();
  }
  return sum;
}

std::vector<Pick> Workload::Order(size_t count, uint64_t seed) const {
  std::vector<double> weights;
  for (const Part& part : parts_) {
    weights.push_back(part.weight);
  }
  std::vector<size_t> counts(parts_.size(), 0);
  const std::vector<uint32_t> turns = MixOrder(weights, count, seed);
  for (const uint32_t part : turns) {
    ++counts[part];
  }
  std::vector<std::vector<uint32_t>> entries;
  for (size_t p = 0; p < parts_.size(); ++p) {
    entries.push_back(parts_[p].requests->Order(counts[p], SeedOf(seed, p)));
  }
  std::vector<size_t> next(parts_.size(), 0);
  std::vector<Pick> order;
  order.reserve(count);
  for (const uint32_t part : turns) {
    order.push_back({part, entries[part][next[part]++]});
  }
  return order;
}

int Workload::MostInFlight(int wanted) const {
  double weights = 0;
  for (const Part& part : parts_) {
    weights += part.weight;
  }
  double most = wanted;
  for (const Part& part : parts_) {
    most = std::min(most, part.requests->most_at_once() * weights / part.weight);
  }
  return std::max(1, static_cast<int>(most));
}

std::string Workload::name() const {
  std::string names;
  for (const Part& part : parts_) {
    names += (names.empty() ? "" : "+") + part.name;
  }
  return names;
}

std::string Workload::description() const {
  if (parts_.size() == 1) {
    return parts_[0].requests->description();
  }
  std::string text;
  for (const Part& part : parts_) {
    text += fmt::format("{}{} (weight {:g}): {}", text.empty() ? "" : "\n", part.name, part.weight,
                        part.requests->description());
  }
  return text;
}

absl::StatusOr<std::unique_ptr<Workload>> MakeWorkload(Client& client,
                                                       const std::vector<MixEntry>& entries,
                                                       uint64_t seed) {
  const CallOptions call{.timeout = std::chrono::seconds(10)};
  std::vector<Workload::Part> parts;
  for (size_t p = 0; p < entries.size(); ++p) {
    const MixEntry& entry = entries[p];
    const std::string name = PartName(entries, p);
    const auto metadata = client.Metadata(entry.model, entry.version, call);
    if (!metadata.ok()) {
      return Of(name, metadata.status());
    }
    const auto config = client.Config(entry.model, entry.version, call);
    if (!config.ok()) {
      return Of(name, config.status());
    }
    auto requests = MakeRequests(*metadata, *config, entry, SeedOf(seed, p));
    if (!requests.ok()) {
      return Of(name, requests.status());
    }
    parts.push_back({name, entry.model, entry.weight, entry.many, *std::move(requests)});
  }
  return std::make_unique<Workload>(std::move(parts));
}

}  // namespace cellbatch
