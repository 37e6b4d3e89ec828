#include "tests/e2e/day/day_book.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "gtest/gtest.h"

namespace cellbatch {

namespace {

constexpr int kNotFound = 5, kUnavailable = 14;

std::string Shown(const std::vector<DayPeriod>& periods) {
  std::string shown;
  for (const DayPeriod& period : periods) {
    shown +=
        fmt::format(" [{}{}{}]", fmt::join(period.versions, " "),
                    period.unavailable ? " unavailable" : "", period.unknown ? " unknown" : "");
  }
  return shown;
}

}  // namespace

// Nothing is loaded.
DayBook::DayBook(const DayModels& models) : models_(models) {
  for (Page& page : pages_) page.periods.push_back({.unavailable = true});
}

void DayBook::Turn(int model, DayPeriod next) {
  Page& page = Of(model);
  const std::lock_guard lock(page.mutex);
  page.periods.push_back(std::move(next));
}

size_t DayBook::Now(int model) const {
  const Page& page = Of(model);
  const std::lock_guard lock(page.mutex);
  return page.periods.size() - 1;
}

int DayBook::SomeVersion(int model) const {
  const Page& page = Of(model);
  const std::lock_guard lock(page.mutex);
  return page.periods.back().versions.empty() ? 0 : page.periods.back().versions.back();
}

std::vector<DayPeriod> DayBook::Since(int model, size_t since) const {
  const Page& page = Of(model);
  const std::lock_guard lock(page.mutex);
  return {page.periods.begin() + static_cast<std::ptrdiff_t>(since), page.periods.end()};
}

// Empty: nothing.
std::string DayBook::Wrong(int model, int version, int question,
                           const std::vector<DayPeriod>& periods, const DayReply& reply) const {
  const std::string name = "model \"" + DayName(model) + "\" ";
  const auto some = [&](const auto& holds) { return std::ranges::any_of(periods, holds); };
  if (reply.code == 0) {
    if (version != 0 && version != reply.version) return "answered by another than was named";
    const auto may = [&](const DayPeriod& period) {
      return std::ranges::find(period.versions, reply.version) != period.versions.end();
    };
    if (!some(may)) return "answered by a version that did not serve";
    const bool right = models_.Bits(model, reply.version, question) == reply.bits;
    return right ? "" : "not the bits of the version that it names";
  }
  const bool not_ready = std::ranges::any_of(
      std::array{"UNAVAILABLE", "UNLOADING", "LOADING"},
      [&](const char* state) { return reply.text.starts_with(name + "is " + state); });
  if (reply.code == kUnavailable && not_ready) {
    const bool may = some([](const DayPeriod& period) { return period.unavailable; });
    return may ? "" : "refused, though it served";
  }
  if (reply.code == kNotFound && reply.text == "unknown " + name.substr(0, name.size() - 1)) {
    const bool may = some([](const DayPeriod& period) { return period.unknown; });
    return may ? "" : "unknown, though it was there";
  }
  if (reply.code == kNotFound && version != 0 && reply.text.starts_with(name + "has version")) {
    const auto other = [&](const DayPeriod& period) {
      return !std::ranges::all_of(period.versions, [&](int one) { return one == version; });
    };
    return some(other) ? "" : "the version that was named is said not to be there";
  }
  return "lost";
}

void DayBook::Judge(int model, int version, int question, size_t since, const DayReply& reply) {
  const std::vector<DayPeriod> periods = Since(model, since);
  const std::string wrong = Wrong(model, version, question, periods, reply);
  if (!wrong.empty()) {
    return Fail(fmt::format("{}, version {} asked: {}: code {} {} version {}, allowed were{}",
                            DayName(model), version, wrong, reply.code, reply.text, reply.version,
                            Shown(periods)));
  }
  Page& page = Of(model);
  if (reply.code == 0) {
    ++page.answered[static_cast<size_t>(reply.version)];
    ++answered_all_;
  } else {
    ++refused_;
  }
  size_t before = page.asked_since.load();
  while (before < since && !page.asked_since.compare_exchange_weak(before, since)) {
  }
}

void DayBook::Fail(const std::string& what) {
  if (!failed_.exchange(true)) ADD_FAILURE() << what;
}

void DayBook::WaitUntilAsked(int model) const {
  const size_t now = Now(model);
  while (Of(model).asked_since.load() < now && !failed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

int64_t DayBook::answered(int model, int version) const {
  return Of(model).answered[static_cast<size_t>(version)].load();
}

}  // namespace cellbatch
