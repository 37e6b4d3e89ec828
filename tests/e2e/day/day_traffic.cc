#include "tests/e2e/day/day_traffic.h"

#include <random>

namespace cellbatch {

DayTraffic::DayTraffic(const DayWay& way, const DayKeys& keys, DayBook& book, uint64_t seed)
    : keys_(keys), book_(book) {
  callers_.push_back(std::make_unique<DayGrpcCaller>(way, /*calls_each=*/0));
  callers_.push_back(std::make_unique<DayGrpcCaller>(way, /*calls_each=*/20));
  callers_.push_back(std::make_unique<DayHttpCaller>(way, /*calls_each=*/0));
  callers_.push_back(std::make_unique<DayHttpCaller>(way, /*calls_each=*/5));
  for (size_t i = 0; i < callers_.size(); ++i) {
    threads_.emplace_back([this, i, seed] { Client(*callers_[i], seed + i); });
  }
}

void DayTraffic::End() {
  stop_.store(true);
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  callers_.clear();
}

void DayTraffic::Client(DayCaller& caller, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](int end) {
    return static_cast<int>(random() % static_cast<uint64_t>(end));
  };
  while (!stop_.load() && !book_.failed()) {
    const int model = below(kDayModels), question = below(kDayQuestions);
    // Most name no version; some one that serves, some one that does not.
    const int how = below(8);
    const int version =
        how == 0 ? book_.SomeVersion(model) : (how == 1 ? 1 + below(kDayVersions) : 0);
    const DayKeys::Token token = keys_.Of(DayRole::kClient);
    const size_t since = book_.Now(model);
    book_.Judge(model, version, question, since, caller.Ask(model, version, question, *token));
  }
}

}  // namespace cellbatch
