// A day of operators in a minute: fifty models are loaded, replaced, unloaded, broken, mended and taken away at random by two
// operators, while clients ask all of them over TLS by tokens, certificates and tokens are replaced, and Prometheus scrapes.
//
//   DayTraffic (4 threads) --asks--> |        | <--changes-- DayOperator (2)        what each of them sees is held to
//   metrics_pages.py       --GETs--> | server | <--files----- DayRotation           DayBook: what is right now
//
// At the end the server has counted what its clients have counted, and is as large as it was before the first load.
// CELLBATCH_DAY_SEED: another day.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/day/day_book.h"
#include "tests/e2e/day/day_models.h"
#include "tests/e2e/day/day_operator.h"
#include "tests/e2e/day/day_rotation.h"
#include "tests/e2e/day/day_traffic.h"
#include "tests/e2e/server_process.h"
#include "tests/fault/metrics_page.h"

namespace cellbatch {
namespace {

constexpr int kThingsEach = 80;                    // that an operator does
constexpr int kLeastRounds = 5;                    // of new certificates and tokens
constexpr std::chrono::seconds kBetweenRounds(1);  // or handshakes would be all that there is
// Of memory, when all is over: what the server leaves to malloc before it gives freed memory back (32 MiB, memory_keeper.h), and
// three quarters as much for the counts of two hundred versions that were served (38 to 50 MiB of both were seen to stay). Each
// load takes 2 MiB and more, of which there are hundreds.
constexpr int64_t kMayStay = 56 << 20;

uint64_t Seed() {
  const char* const wanted = std::getenv("CELLBATCH_DAY_SEED");
  return wanted == nullptr ? 17 : std::strtoull(wanted, nullptr, 10);
}

// metrics_pages.py, from here to End.
class DayScraper {
 public:
  DayScraper(const ServerProcess& server, std::string said)
      : said_(std::move(said)),
        program_(
            popen(fmt::format("python3 tests/e2e/day/metrics_pages.py http://{}/metrics >{} 2>&1",
                              server.metrics(), said_)
                      .c_str(),
                  "w")) {}
  ~DayScraper() { End(); }
  // What it says; whether all was well.
  std::pair<std::string, bool> End() {
    const bool well = program_ != nullptr && pclose(program_) == 0;
    program_ = nullptr;
    std::ifstream file(said_);
    return {std::string(std::istreambuf_iterator<char>(file), {}), well};
  }

 private:
  const std::string said_;
  std::FILE* program_;
};

class OperatorsDayTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { signal(SIGPIPE, SIG_IGN); }
  void SetUp() override {
    std::cout << "CELLBATCH_DAY_SEED=" << Seed() << std::endl;
    ASSERT_FALSE(HasFailure()) << "the models were not made";
    std::vector<std::string> flags = rotation_.Flags();
    flags.insert(flags.end(),
                 {"--devices=cpu:0", "--model-control=explicit",
                  fmt::format("--max-models={}", kDayModels), "--ended-versions=1000",
                  "--latency-samples=1024", "--row-budget=2MiB", "--log-failed-requests=1"});
    server_ = ServerProcess::Serving(models_.repository(), std::move(flags));
    ASSERT_NE(server_, nullptr);
    way_ = rotation_.WayTo(*server_);
  }
  // The last of what it said, but for each request that failed.
  std::string LogEnd() const {
    std::istringstream log(server_->Log());
    std::string said;
    for (std::string line; std::getline(log, line);) {
      if (line.find("request failed") == line.npos) said += line + "\n";
    }
    return said.substr(said.size() - std::min<size_t>(said.size(), 10'000));
  }
  // Every model is asked: nothing is loaded, and the server has met each way of calling.
  void WarmUp() {
    for (int model = 0; model < kDayModels; ++model) book_.Turn(model, {.unavailable = true});
    DayTraffic traffic(way_, keys_, book_, Seed());
    for (int model = 0; model < kDayModels; ++model) book_.WaitUntilAsked(model);
  }
  void MakeOperators() {
    for (const int which : {0, 1}) {
      std::vector<int> his;
      for (int model = which; model < kDayModels; model += 2) his.push_back(model);
      operators_.push_back(std::make_unique<DayOperator>(
          models_, way_, keys_, book_, his, Seed() * 1000 + static_cast<uint64_t>(which)));
    }
  }
  void ByBoth(const std::function<void(DayOperator&)>& work) const {
    std::vector<std::thread> threads;
    for (const auto& one : operators_) threads.emplace_back([&] { work(*one); });
    for (std::thread& thread : threads) thread.join();
  }
  // Everything at once, until both operators have done theirs.
  void Day() {
    std::atomic<bool> over = false;
    std::thread rotating([&] {
      while ((rounds_ < kLeastRounds || !over.load()) && !book_.failed()) {
        rotation_.Round(++rounds_, *server_);
        std::this_thread::sleep_for(kBetweenRounds);
      }
    });
    ByBoth([](DayOperator& one) {
      one.Begin();
      one.Work(kThingsEach);
    });
    over.store(true);
    rotating.join();
    ByBoth([](DayOperator& one) { one.PutRight(); });
  }
  // The server counted each answer where it was given, whatever version serves now, and refused whom it had to.
  void ExpectCounts() const {
    const MetricsPage page = WaitUntilEmpty(*server_);
    for (int model = 0; model < kDayModels; ++model) {
      for (int version = 1; version <= kDayVersions; ++version) {
        EXPECT_EQ(page.Sum("cellbatch_requests_total",
                           {fmt::format("model=\"{}\"", DayName(model)),
                            fmt::format("version=\"{}\"", version), R"(outcome="ok")"}),
                  static_cast<double>(book_.answered(model, version)))
            << DayName(model) << " version " << version;
      }
    }
    EXPECT_EQ(page.Ended("ok"), static_cast<double>(book_.answered()));
    EXPECT_EQ(page.Ended(), static_cast<double>(book_.answered() + book_.refused() +
                                                rotation_.unauthenticated_requests()))
        << "each request ended once";
    EXPECT_EQ(page.Sum("cellbatch_unauthenticated_total"),
              static_cast<double>(rotation_.unauthenticated()));
    const double not_there = page.Sum("cellbatch_rejected_total", {R"(reason="loading")"});
    EXPECT_EQ(page.Sum("cellbatch_rejected_total"), not_there) << "no bound was met";
    EXPECT_EQ(page.Ended("rejected"), not_there) << "each was of a model that was not there";
    for (const char* cut : {"cellbatch_grpc_cut_total", "cellbatch_http_cut_total"}) {
      EXPECT_EQ(page.Sum(cut), 0) << "hung up on";
    }
    EXPECT_GE(page.Sum("cellbatch_tls_certificates_total", {R"(outcome="taken")"}), rounds_);
    EXPECT_GE(page.Sum("cellbatch_token_files_total", {R"(outcome="taken")"}), 2 * rounds_);
  }
  void ExpectAllWasDone() const {
    for (const auto& one : operators_) {
      std::string did;
      for (const auto& [what, times] : one->done()) did += fmt::format(" {} {},", what, times);
      std::cout << "an operator:" << did << std::endl;
      for (const char* what : {"load", "replace", "load again", "unload", "break", "load in vain",
                               "mend", "take away", "bring back"}) {
        EXPECT_TRUE(one->done().contains(what)) << what << ": with another seed there is more";
      }
    }
  }

  // Nothing is loaded and nobody is there: as at the beginning. The server gives freed memory back within seconds.
  void ExpectGivenBack(int64_t resident, size_t files) const {
    constexpr std::chrono::seconds kLimit(60);
    const auto until = std::chrono::steady_clock::now() + kLimit;
    const auto given_back = [&] {
      return server_->ResidentBytes() <= resident + kMayStay && server_->OpenFiles() <= files;
    };
    while (!given_back() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    const int64_t now = server_->ResidentBytes();
    const size_t open = server_->OpenFiles();
    fmt::print("{} KiB and {} files at the end; {} KiB and {} before the first load\n", now >> 10,
               open, resident >> 10, files);
    EXPECT_LE(now, resident + kMayStay)
        << now << " bytes stay after " << kLimit.count() << " s, " << resident
        << " were there before the first load, and " << kMayStay << " more may stay";
    EXPECT_LE(open, files) << "files stay open";
  }

  const DayModels models_;
  DayKeys keys_;
  DayBook book_{models_};
  DayRotation rotation_{::testing::TempDir() + "/keys", keys_, book_};
  std::unique_ptr<ServerProcess> server_;
  DayWay way_;
  std::vector<std::unique_ptr<DayOperator>> operators_;
  int rounds_ = 0;
};

TEST_F(OperatorsDayTest, NothingIsLostOrWrongAndAllIsGivenBackAtItsEnd) {
  ASSERT_NO_FATAL_FAILURE(WarmUp());
  const int64_t resident = server_->ResidentBytes();
  const size_t files = server_->OpenFiles();
  DayScraper scraper(*server_, ::testing::TempDir() + "/scraper.txt");
  {
    DayTraffic traffic(way_, keys_, book_, Seed() + 100);
    MakeOperators();
    Day();
  }
  const auto [pages, well] = scraper.End();
  fmt::print(
      "{}{} answers, {} refusals, {} rounds of keys; {} KiB before, {} KiB with all loaded\n",
      pages, book_.answered(), book_.refused(), rounds_, resident >> 10,
      server_->ResidentBytes() >> 10);
  EXPECT_TRUE(well) << pages;
  ASSERT_FALSE(book_.failed()) << LogEnd();
  ExpectAllWasDone();
  ExpectCounts();
  {
    DayTraffic traffic(way_, keys_, book_, Seed() + 200);
    ByBoth([](DayOperator& one) { one.UnloadAll(); });
  }
  operators_.clear();
  ASSERT_FALSE(book_.failed()) << LogEnd();
  ExpectGivenBack(resident, files);
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 0) << LogEnd();
}

}  // namespace
}  // namespace cellbatch
