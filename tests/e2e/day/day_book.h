// What is right, at any moment of a day of operators: which versions of each model may answer, and whether a refusal may come.
//
//   who changes models    Turn: "old or new" -> call -> Turn: "new"
//   who asks              since = Now -> call -> Judge: some period from `since` until now must allow what came
//
// A change's own period begins before its call and ends after the answer to it, so there is nothing to be guessed of: an
// answer that no period of its request allows is wrong, and so is any error but a refusal that one of them has. What was
// answered rightly is counted by version, to be compared with the server's counts.
//
// Any thread; Turn: one for each model.
#ifndef CELLBATCH_TESTS_E2E_DAY_DAY_BOOK_H_
#define CELLBATCH_TESTS_E2E_DAY_DAY_BOOK_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "tests/e2e/day/day_models.h"

namespace cellbatch {

// Of either wire, in the words of gRPC.
struct DayReply {
  int code = 0;
  std::string text = {};  // of an error
  int version = 0;
  std::string bits = {};
};

// What may come of a request for a model.
struct DayPeriod {
  std::vector<int> versions = {};  // that may answer
  bool unavailable = false;        // "is UNAVAILABLE", "is LOADING", "is UNLOADING"
  bool unknown = false;            // "unknown model"
};

class DayBook {
 public:
  explicit DayBook(const DayModels& models);

  void Turn(int model, DayPeriod next);
  size_t Now(int model) const;
  // Any version that may answer it now, and 0 for none.
  int SomeVersion(int model) const;
  // `version`: that the request named, or 0. What is wrong is a failure of the test, and failed() from then on.
  void Judge(int model, int version, int question, size_t since, const DayReply& reply);
  // Of what else went wrong. The first is said; others may come of it, as nobody waits for anything from then on.
  void Fail(const std::string& what);
  bool failed() const { return failed_.load(); }
  // Until a request that began in the period that is now has been judged, for this model; or something failed.
  void WaitUntilAsked(int model) const;

  int64_t answered(int model, int version) const;
  int64_t answered() const { return answered_all_.load(); }
  int64_t refused() const { return refused_.load(); }

 private:
  struct Page {
    mutable std::mutex mutex;
    std::vector<DayPeriod> periods;                                    // under it
    std::array<std::atomic<int64_t>, kDayVersions + 1> answered = {};  // by version
    std::atomic<size_t> asked_since = 0;
  };
  Page& Of(int model) { return pages_[static_cast<size_t>(model)]; }
  const Page& Of(int model) const { return pages_[static_cast<size_t>(model)]; }
  std::vector<DayPeriod> Since(int model, size_t since) const;
  std::string Wrong(int model, int version, int question, const std::vector<DayPeriod>& periods,
                    const DayReply& reply) const;

  const DayModels& models_;
  std::array<Page, kDayModels> pages_;
  std::atomic<bool> failed_ = false;
  std::atomic<int64_t> answered_all_ = 0, refused_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_E2E_DAY_DAY_BOOK_H_
