#include "server/grpc/unwhole_look.h"

#include <algorithm>

namespace cellbatch {

namespace {

// Whoever sends takes no longer, as a rule: room is made by those who do not, if there are any.
constexpr int64_t kSlowNs = 1'000'000'000;

}  // namespace

std::optional<TooMuch> WhoIsTooMuch(const std::vector<UnwholeSeen>& all,
                                    const UnwholeBounds& bounds, int64_t now_ns) {
  if (all.empty()) return std::nullopt;
  const auto which = [&](auto most) {
    return static_cast<size_t>(std::max_element(all.begin(), all.end(), most) - all.begin());
  };
  const auto age = [&](const UnwholeSeen& seen) {
    return seen.began_ns == FrameWatch::kNever ? 0 : now_ns - seen.began_ns;
  };
  Unwhole sum;
  for (const UnwholeSeen& seen : all) {
    sum.bytes += seen.unwhole.bytes;
    sum.streams += seen.unwhole.streams;
  }
  const size_t oldest = which([&](const auto& a, const auto& b) { return age(a) < age(b); });
  if (age(all[oldest]) > bounds.message_timeout_ns) {
    return TooMuch{oldest, GrpcCut::kMessageTimeout, age(all[oldest])};
  }
  if (sum.bytes > bounds.max_bytes) {
    const auto slow = [&](const UnwholeSeen& seen) { return age(seen) >= kSlowNs; };
    const size_t most = which([&](const auto& a, const auto& b) {
      return std::pair(slow(a), a.unwhole.bytes) < std::pair(slow(b), b.unwhole.bytes);
    });
    return TooMuch{most, GrpcCut::kUnfinishedBytes, sum.bytes};
  }
  if (sum.streams > bounds.max_streams) {
    const size_t most =
        which([](const auto& a, const auto& b) { return a.unwhole.streams < b.unwhole.streams; });
    return TooMuch{most, GrpcCut::kStreams, sum.streams};
  }
  return std::nullopt;
}

}  // namespace cellbatch
