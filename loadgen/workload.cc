#include "loadgen/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "loadgen/arrivals.h"

namespace cellbatch {
namespace {

// A strip is longer than the longest request by so much, where that fits into memory like this.
constexpr size_t kMostPlaces = 4096;
constexpr size_t kMostExtraBytes = 64 << 20;

// The one tensor a model reads, and where its values come from.
struct Feed {
  std::string tensor;
  std::string datatype;
  int64_t width = 0;       // X: values a step
  int64_t vocabulary = 0;  // TOKENS: ids are below

  size_t step_bytes() const { return ElementBytes(datatype) * std::max<int64_t>(1, width); }
};

int64_t NumberIn(const ModelConfiguration& config, const std::string& key) {
  const auto found = config.parameters.find(key);
  int64_t number = 0;
  return found != config.parameters.end() && absl::SimpleAtoi(found->second, &number) ? number : 0;
}

absl::StatusOr<Feed> FeedOf(const ModelMetadata& metadata, const ModelConfiguration& config) {
  for (const TensorMetadata& input : metadata.inputs) {
    if (input.name == "X" && input.datatype == "FP32" && input.shape.size() == 2 &&
        input.shape[1] > 0) {
      return Feed{input.name, input.datatype, input.shape[1], 0};
    }
    const int64_t vocabulary = NumberIn(config, "vocabulary_size");
    if (input.name == "TOKENS" && vocabulary > 0 &&
        (input.datatype == "INT32" || input.datatype == "INT64")) {
      return Feed{input.name, input.datatype, 0, vocabulary};
    }
  }
  return absl::FailedPreconditionError(fmt::format(
      "model \"{}\" reads neither X FP32 [T, D] nor TOKENS with a known vocabulary_size",
      metadata.name));
}

template <typename T>
void Append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

std::string RandomStrip(const Feed& feed, size_t steps, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string strip;
  strip.reserve(steps * feed.step_bytes());
  for (size_t i = 0; i < steps * static_cast<size_t>(std::max<int64_t>(1, feed.width)); ++i) {
    if (feed.width > 0) {
      Append(strip, static_cast<float>(2 * UniformFrom(random) - 1));
    } else if (feed.datatype == "INT32") {
      Append(strip, static_cast<int32_t>(random() % feed.vocabulary));
    } else {
      Append(strip, static_cast<int64_t>(random() % feed.vocabulary));
    }
  }
  return strip;
}

// Lengths beyond the model's limit become that limit. How many there were.
int CutTo(int64_t limit, std::vector<int32_t>& lengths) {
  int cut = 0;
  for (int32_t& length : lengths) {
    if (limit > 0 && length > limit) {
      length = static_cast<int32_t>(limit);
      ++cut;
    }
  }
  return cut;
}

std::string Describe(const Feed& feed, std::vector<int32_t> lengths, int cut, int64_t limit) {
  std::sort(lengths.begin(), lengths.end());
  double sum = 0;
  for (int32_t length : lengths) {
    sum += length;
  }
  const std::string what = feed.width > 0
                               ? fmt::format("X [T, {}], random vectors", feed.width)
                               : fmt::format("TOKENS [T], random ids below {}", feed.vocabulary);
  std::string text = fmt::format(
      "{}; T from {} lengths: mean {:.1f}, p50 {}, p99 {}, max {}", what, lengths.size(),
      sum / static_cast<double>(lengths.size()), lengths[(lengths.size() - 1) / 2],
      lengths[lengths.size() - 1 - lengths.size() / 100], lengths.back());
  return cut == 0 ? text : fmt::format("{} ({} cut to the model's limit of {})", text, cut, limit);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Workload>> Workload::Create(const ModelMetadata& metadata,
                                                           const ModelConfiguration& config,
                                                           const std::string& version,
                                                           std::vector<int32_t> lengths,
                                                           uint64_t seed) {
  const auto feed = FeedOf(metadata, config);
  if (!feed.ok()) {
    return feed.status();
  }
  const int64_t limit = NumberIn(config, "max_sequence_length");
  const int cut = CutTo(limit, lengths);
  auto workload = std::unique_ptr<Workload>(new Workload());
  workload->model_ = metadata.name;
  workload->description_ = Describe(*feed, lengths, cut, limit);
  workload->lengths_ = std::move(lengths);
  workload->step_bytes_ = feed->step_bytes();
  for (int32_t length : workload->lengths_) {
    std::vector<int64_t> shape = {length};
    if (feed->width > 0) {
      shape.push_back(feed->width);
    }
    const auto [place, fresh] = workload->headers_.try_emplace(length);
    if (fresh) {
      place->second = PreparedHeader({.model = metadata.name,
                                      .version = version,
                                      .inputs = {{feed->tensor, feed->datatype, shape, ""}}},
                                     length * feed->step_bytes());
    }
    workload->header_of_.push_back(&place->second);
  }
  const size_t longest = workload->headers_.rbegin()->first;
  workload->places_ = std::clamp<size_t>(kMostExtraBytes / workload->step_bytes_, 1, kMostPlaces);
  workload->strip_ = RandomStrip(*feed, longest + workload->places_, seed);
  return workload;
}

PreparedRequest Workload::Request(uint32_t entry, uint64_t turn) const {
  // Fibonacci hashing: neighbouring turns begin far apart.
  const size_t place = ((turn * 0x9e3779b97f4a7c15u) >> 32) % places_;
  return {*header_of_[entry], {strip_.data() + place * step_bytes_, lengths_[entry] * step_bytes_}};
}

}  // namespace cellbatch
