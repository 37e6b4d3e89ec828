#include "tests/e2e/day/day_operator.h"

#include "fmt/format.h"

namespace cellbatch {

namespace {

constexpr int kOk = 0, kInvalidArgument = 3;

// What is right while nothing changes.
DayPeriod Steady(int served, bool away) {
  if (served > 0) return {.versions = {served}};
  return {.unavailable = !away, .unknown = away};
}

}  // namespace

DayOperator::DayOperator(const DayModels& all, const DayWay& way, const DayKeys& keys,
                         DayBook& book, const std::vector<int>& models, uint64_t seed)
    : all_(all),
      keys_(keys),
      book_(book),
      random_(seed),
      grpc_(way, /*calls_each=*/50),
      http_(way, /*calls_each=*/10) {
  for (const int model : models) mine_.push_back({.model = model});
}

DayReply DayOperator::Change(const Mine& mine, bool load) {
  const DayKeys::Token token = keys_.Of(DayRole::kOperator);
  if (Below(2) == 0) return grpc_.Change(mine.model, load, *token);
  return http_.Change(mine.model, load, *token);
}

void DayOperator::Expect(const Mine& mine, const std::string& what, const DayReply& reply,
                         int code) {
  if (reply.code == code) return;
  book_.Fail(fmt::format("{} of {} (version {}): code {} {}", what, DayName(mine.model),
                         mine.version, reply.code, reply.text));
}

// From now on nothing else is right; the index says so, and so do clients.
void DayOperator::Settle(const Mine& mine, const std::string& what) {
  book_.Turn(mine.model, Steady(mine.served, mine.away));
  ++done_[what];
  const std::string expected =
      mine.served > 0 ? fmt::format("READY {}", mine.served) : (mine.away ? "" : "UNAVAILABLE");
  const std::string said = grpc_.State(mine.model, *keys_.Of(DayRole::kOperator));
  if (said != expected) {
    book_.Fail(fmt::format("{} of {}: the index says \"{}\", not \"{}\"", what, DayName(mine.model),
                           said, expected));
  }
  book_.WaitUntilAsked(mine.model);
}

void DayOperator::Load(Mine& mine) {
  DayPeriod changing = Steady(mine.served, mine.away);
  changing.versions.push_back(mine.version);
  if (mine.away) changing.unavailable = true;
  book_.Turn(mine.model, changing);
  Expect(mine, "load", Change(mine, true), kOk);
  const std::string what = mine.served == 0              ? "load"
                           : mine.served == mine.version ? "load again"
                                                         : "replace";
  mine.served = mine.version;
  mine.away = false;
  Settle(mine, what);
}

// What served, if anything did, goes on: no other period begins.
void DayOperator::LoadInVain(Mine& mine) {
  Expect(mine, "load of what is broken", Change(mine, true), kInvalidArgument);
  Settle(mine, "load in vain");
}

void DayOperator::Unload(Mine& mine) {
  book_.Turn(mine.model, {.versions = {mine.served}, .unavailable = true, .unknown = mine.away});
  Expect(mine, "unload", Change(mine, false), kOk);
  mine.served = 0;
  Settle(mine, mine.away ? "take away" : "unload");
}

void DayOperator::Replace(Mine& mine) {
  mine.version = 1 + (mine.version - 1 + 1 + Below(kDayVersions - 1)) % kDayVersions;
  std::vector<int> versions = {mine.version};
  if (mine.version > 1 && Below(2) == 0) versions.insert(versions.begin(), mine.version - 1);
  all_.SetVersions(mine.model, versions);
  Load(mine);
}

void DayOperator::Break(Mine& mine) {
  all_.Damage(mine.model, mine.version, Below(DayModels::kDamages));
  mine.broken = true;
  ++done_["break"];
  LoadInVain(mine);
}

void DayOperator::Mend(Mine& mine) {
  all_.RestoreConfig(mine.model);
  all_.SetVersions(mine.model, {mine.version});
  mine.broken = false;
  ++done_["mend"];
  Load(mine);
}

void DayOperator::TakeAway(Mine& mine) {
  all_.TakeAway(mine.model);
  mine.away = true;
  Unload(mine);
}

void DayOperator::BringBack(Mine& mine) {
  book_.Turn(mine.model, {.unavailable = true, .unknown = true});  // it is there, and not loaded
  all_.BringBack(mine.model);
  ++done_["bring back"];
  Load(mine);
}

void DayOperator::SomethingBroken(Mine& mine) {
  const int what = Below(10);
  if (what < 6) return Mend(mine);
  if (what < 8 || mine.served == 0) return LoadInVain(mine);
  Unload(mine);
}

void DayOperator::Something(Mine& mine) {
  if (mine.away) return BringBack(mine);
  if (mine.broken) return SomethingBroken(mine);
  const int what = Below(20);
  if (what < 4) return Break(mine);
  if (mine.served == 0) return Load(mine);
  if (what < 12) return Replace(mine);
  if (what < 14) return Load(mine);
  if (what < 18) return Unload(mine);
  TakeAway(mine);
}

void DayOperator::Begin() {
  for (Mine& mine : mine_) {
    if (!book_.failed()) Load(mine);
  }
}

void DayOperator::Work(int things) {
  for (int i = 0; i < things && !book_.failed(); ++i) {
    Something(mine_[static_cast<size_t>(Below(static_cast<int>(mine_.size())))]);
  }
}

void DayOperator::PutRight() {
  for (Mine& mine : mine_) {
    if (book_.failed()) return;
    if (mine.away) {
      BringBack(mine);
    } else if (mine.broken) {
      Mend(mine);
    } else if (mine.served == 0) {
      Load(mine);
    }
  }
}

void DayOperator::UnloadAll() {
  for (Mine& mine : mine_) {
    if (!book_.failed()) Unload(mine);
  }
}

}  // namespace cellbatch
