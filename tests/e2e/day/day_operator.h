// An operator of models: loads, replaces, unloads, breaks, mends and takes away at random what is his, says in the book what
// is right meanwhile, and looks at what the server says of it. He does the next thing when the traffic has met the last one.
// One thread each.
#ifndef CELLBATCH_TESTS_E2E_DAY_DAY_OPERATOR_H_
#define CELLBATCH_TESTS_E2E_DAY_DAY_OPERATOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/e2e/day/day_book.h"
#include "tests/e2e/day/day_callers.h"
#include "tests/e2e/day/day_models.h"
#include "tests/e2e/day/day_traffic.h"

namespace cellbatch {

class DayOperator {
 public:
  // His are `models`. All the others outlive him.
  DayOperator(const DayModels& all, const DayWay& way, const DayKeys& keys, DayBook& book,
              const std::vector<int>& models, uint64_t seed);

  // Every model is loaded.
  void Begin();
  // So many things at random; less if something failed.
  void Work(int things);
  // Whatever is broken or gone is put right and loaded.
  void PutRight();
  void UnloadAll();

  // What he did, and how often: "replace".
  const std::map<std::string, int>& done() const { return done_; }

 private:
  struct Mine {
    int model = 0;
    int version = 1;  // that its folder is to serve
    int served = 0;   // 0: none
    bool broken = false, away = false;
  };
  void Something(Mine& mine);
  void SomethingBroken(Mine& mine);
  void Load(Mine& mine);
  void LoadInVain(Mine& mine);
  void Unload(Mine& mine);
  void Replace(Mine& mine);
  void Break(Mine& mine);
  void Mend(Mine& mine);
  void TakeAway(Mine& mine);
  void BringBack(Mine& mine);
  // By one wire or the other.
  DayReply Change(const Mine& mine, bool load);
  void Expect(const Mine& mine, const std::string& what, const DayReply& reply, int code);
  void Settle(const Mine& mine, const std::string& what);
  int Below(int end) { return static_cast<int>(random_() % static_cast<uint64_t>(end)); }

  const DayModels& all_;
  const DayKeys& keys_;
  DayBook& book_;
  std::mt19937_64 random_;
  DayGrpcCaller grpc_;
  DayHttpCaller http_;
  std::vector<Mine> mine_;
  std::map<std::string, int> done_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_E2E_DAY_DAY_OPERATOR_H_
