#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "loadgen/arrivals.h"
#include "loadgen/corpus/shapes.h"
#include "loadgen/requests.h"

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

Feed FeedOf(const ModelNeeds& needs) {
  return needs.form == RequestForm::kVectors
             ? Feed{"X", "FP32", needs.width, 0}
             : Feed{"TOKENS", needs.token_datatype, 0, needs.vocabulary};
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

std::string Describe(const Feed& feed, const std::vector<int32_t>& lengths, int cut,
                     int64_t limit) {
  const std::string what = feed.width > 0
                               ? fmt::format("X [T, {}], random vectors", feed.width)
                               : fmt::format("TOKENS [T], random ids below {}", feed.vocabulary);
  const corpus::Statistics steps = corpus::StatisticsOf(lengths);
  std::string text = fmt::format("{}; T from {} lengths: mean {:.1f}, p50 {}, p99 {}, max {}", what,
                                 lengths.size(), steps.mean, steps.p50, steps.p99, steps.max);
  return cut == 0 ? text : fmt::format("{} ({} cut to the model's limit of {})", text, cut, limit);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RequestSet>> StripRequests::Create(const ModelNeeds& needs,
                                                                  const MixEntry& entry,
                                                                  std::vector<int32_t> lengths,
                                                                  uint64_t seed) {
  const Feed feed = FeedOf(needs);
  const int cut = CutTo(needs.most_steps, lengths);
  auto made = std::unique_ptr<StripRequests>(new StripRequests());
  made->description_ = Describe(feed, lengths, cut, needs.most_steps);
  made->lengths_ = std::move(lengths);
  made->step_bytes_ = feed.step_bytes();
  InferInput input{.model = needs.model,
                   .version = needs.version,
                   .inputs = {{feed.tensor, feed.datatype, {}, ""}},
                   .outputs = entry.outputs,
                   .parameters = KServeParameters(entry)};
  for (const int32_t length : made->lengths_) {
    const auto [place, fresh] = made->headers_.try_emplace(length);
    if (fresh) {
      input.inputs[0].shape = {length};
      if (feed.width > 0) {
        input.inputs[0].shape.push_back(feed.width);
      }
      place->second = PreparedHeader(input, length * feed.step_bytes());
    }
    made->header_of_.push_back(&place->second);
  }
  const size_t longest = made->headers_.rbegin()->first;
  made->places_ = std::clamp<size_t>(kMostExtraBytes / made->step_bytes_, 1, kMostPlaces);
  made->strip_ = RandomStrip(feed, longest + made->places_, seed);
  return made;
}

PreparedRequest StripRequests::Request(uint32_t entry, uint64_t turn) const {
  // Fibonacci hashing: neighbouring turns begin far apart.
  const size_t place = ((turn * 0x9e3779b97f4a7c15u) >> 32) % places_;
  return {*header_of_[entry], {strip_.data() + place * step_bytes_, lengths_[entry] * step_bytes_}};
}

}  // namespace cellbatch
