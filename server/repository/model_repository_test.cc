#include "server/repository/model_repository.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "fmt/format.h"
#include "server/policy/policy_codec.h"
#include "server/repository/check_repository.h"
#include "server/repository/model_folders.h"
#include "server/requests/model_table.h"
#include "tests/testing/gru_folder.h"
#include "tests/testing/loading_scheduler.h"

namespace cellbatch {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

class ModelRepositoryTest : public testing::Test {
 protected:
  ModelRepositoryTest() {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }

  void MakeModel(const std::string& name, int64_t version) {
    ASSERT_NO_FATAL_FAILURE(WriteGruFolder(root_, name, version));
  }
  void Corrupt(const std::string& name, int64_t version) {
    fs::create_directories(root_ + "/" + name + "/" + std::to_string(version));
    std::ofstream(root_ + "/" + name + "/" + std::to_string(version) + "/weights.safetensors")
        << "nonsense";
  }
  std::string FindError(std::string_view name, std::string_view version,
                        absl::StatusCode code) const {
    const auto found = repository_.Find(name, version);
    if (found.ok()) return "found";
    EXPECT_EQ(found.status().code(), code) << found.status();
    return std::string(found.status().message());
  }

  const std::string root_ = testing::TempDir() + "/repository";
  LoadingScheduler scheduler_;
  ModelRepository repository_{root_, LoaderLimits(), scheduler_};
};

TEST_F(ModelRepositoryTest, TheHighestVersionOfEveryFolderIsServed) {
  MakeModel("b", 2);
  MakeModel("b", 10);
  MakeModel("a", 1);
  fs::create_directories(root_ + "/.hidden");
  ASSERT_TRUE(repository_.LoadAll().ok());
  EXPECT_THAT(scheduler_.log, ElementsAre("add a 1", "add b 10"));
  const auto found = repository_.Find("b", "");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->version, 10);
  EXPECT_TRUE(repository_.Find("b", "10").ok());
  EXPECT_THAT(FindError("b", "2", absl::StatusCode::kNotFound), HasSubstr("version 10 ready"));
  const std::vector<ModelState> index = repository_.Index();
  ASSERT_EQ(index.size(), 2u);
  EXPECT_EQ(index[0].name, "a");
  EXPECT_EQ(index[1].version, 10);
  EXPECT_EQ(index[1].phase, ModelPhase::kReady);
}

TEST_F(ModelRepositoryTest, AtTheStartAllModelsThatCanBeReadAreExpectedBeforeTheFirstIsLoaded) {
  MakeModel("a", 1);
  MakeModel("c", 1);
  Corrupt("b", 1);
  EXPECT_FALSE(repository_.LoadAll().ok());
  EXPECT_THAT(scheduler_.expected, ElementsAre("a c after 0", "after 2"));
  ASSERT_TRUE(repository_.Load("a").ok());
  EXPECT_EQ(scheduler_.expected.size(), 2u) << "who comes later is not expected";
}

TEST_F(ModelRepositoryTest, AModelIsServedByThePolicyThatItsConfigurationNames) {
  MakeModel("a", 1);
  ASSERT_TRUE(repository_.LoadAll().ok());
  EXPECT_EQ(scheduler_.policy, "cellular");
  std::ofstream(root_ + "/a/config.textproto", std::ios::app) << "policy { kind: LB_GREEDY }\n";
  ASSERT_TRUE(repository_.Load("a").ok());
  EXPECT_EQ(scheduler_.policy, "lb_greedy");
  std::ofstream(root_ + "/a/1/policy.textproto") << "kind: FSM\n";
  ASSERT_TRUE(repository_.Load("a").ok()) << "a file that nobody asked for was read";
}

TEST_F(ModelRepositoryTest, RequestsJoinByTheRuleThatTheConfigurationNames) {
  MakeModel("a", 1);
  ASSERT_TRUE(repository_.LoadAll().ok());
  EXPECT_EQ(scheduler_.join, "cellular");
  EXPECT_TRUE(scheduler_.cellular);
  std::ofstream(root_ + "/a/config.textproto", std::ios::app)
      << "join { whole_graphs { most: 64 } }\n";
  ASSERT_TRUE(repository_.Load("a").ok());
  EXPECT_EQ(scheduler_.join, "whole_graphs of 64");
  EXPECT_FALSE(scheduler_.cellular);
}

TEST_F(ModelRepositoryTest, NamesAndVersionsThatCannotBeAreToldApartFromUnknownOnes) {
  MakeModel("a", 1);
  ASSERT_TRUE(repository_.LoadAll().ok());
  EXPECT_THAT(FindError("c", "", absl::StatusCode::kNotFound), HasSubstr("unknown model \"c\""));
  for (const char* version : {"abc", "-1", "007", "0"}) {
    EXPECT_NE(FindError("a", version, absl::StatusCode::kInvalidArgument), "found");
  }
  EXPECT_NE(FindError("../a", "", absl::StatusCode::kInvalidArgument), "found");
  EXPECT_NE(FindError("", "", absl::StatusCode::kInvalidArgument), "found");
  EXPECT_EQ(repository_.Load("../a").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(repository_.Load("c").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(repository_.Unload("c").code(), absl::StatusCode::kNotFound);
}

TEST_F(ModelRepositoryTest, WhatIsNotListedIsNotLoadedByNameEither) {
  MakeModel("a", 1);
  ASSERT_TRUE(repository_.LoadAll().ok());
  fs::create_directories(root_ + "/.hidden");
  fs::create_directories(root_ + "/lost+found");
  for (const char* name : {".", ".hidden", "lost+found"}) {
    EXPECT_EQ(repository_.Load(name).code(), absl::StatusCode::kNotFound) << name;
  }
  ASSERT_EQ(repository_.Index().size(), 1u) << "nothing is left of what is no model";
  EXPECT_EQ(repository_.Index().front().name, "a");
}

TEST_F(ModelRepositoryTest, OneBadModelKeepsNeitherOthersNorTheirProblemsBack) {
  MakeModel("good", 1);
  MakeModel("bad", 1);
  Corrupt("bad", 1);
  fs::create_directories(root_ + "/empty");
  const absl::Status s = repository_.LoadAll();
  EXPECT_THAT(std::string(s.message()),
              AllOf(HasSubstr("model \"bad\": "), HasSubstr("weights.safetensors"),
                    HasSubstr("model \"empty\": "), HasSubstr("no version in it")));
  EXPECT_TRUE(repository_.Find("good", "").ok());
  EXPECT_THAT(FindError("bad", "", absl::StatusCode::kUnavailable),
              AllOf(HasSubstr("model \"bad\" is UNAVAILABLE"), HasSubstr("weights.safetensors")));
}

TEST_F(ModelRepositoryTest, ANewVersionReplacesTheOldOneOnlyWhenItIsWarm) {
  MakeModel("a", 1);
  ASSERT_TRUE(repository_.LoadAll().ok());
  MakeModel("a", 2);
  scheduler_.Hold(true);
  std::thread loading([&] { EXPECT_TRUE(repository_.Load("a").ok()); });
  scheduler_.WaitUntilWarming(2);
  EXPECT_EQ(repository_.Index()[0].phase, ModelPhase::kLoading);
  EXPECT_EQ((*repository_.Find("a", ""))->version, 1) << "the old one answers";
  scheduler_.Hold(false);
  loading.join();
  EXPECT_EQ((*repository_.Find("a", ""))->version, 2);
  EXPECT_THAT(scheduler_.log, ElementsAre("add a 1", "add a 2", "remove a 1"));
}

TEST_F(ModelRepositoryTest, AVersionThatFailsLeavesTheOldOneServingAndSaysWhy) {
  MakeModel("a", 1);
  ASSERT_TRUE(repository_.LoadAll().ok());
  Corrupt("a", 2);
  EXPECT_EQ(repository_.Load("a").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*repository_.Find("a", ""))->version, 1);
  EXPECT_EQ(repository_.Index()[0].phase, ModelPhase::kReady);
  EXPECT_THAT(repository_.Index()[0].reason, HasSubstr("2/weights.safetensors"));
  fs::remove_all(root_ + "/a/2");
  scheduler_.refusal = absl::ResourceExhaustedError("no memory for its rows");
  EXPECT_EQ(repository_.Load("a").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(repository_.Index()[0].reason, HasSubstr("no memory for its rows"));
  EXPECT_TRUE(repository_.Find("a", "").ok());
}

// As where the root may be listed and not searched; root, as whom tests run, may search any, and nobody a ring of links.
TEST_F(ModelRepositoryTest, AFolderThatTheSystemCannotTellOfIsNotGoneAndItsLoadSaysWhy) {
  MakeModel("a", 1);
  ASSERT_TRUE(repository_.LoadAll().ok());
  fs::remove_all(root_ + "/a");
  fs::create_directory_symlink("a", root_ + "/a");
  EXPECT_THAT(*ListModels(root_), ElementsAre("a"));
  const absl::Status status = repository_.Load("a");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("model \"a\": "), HasSubstr("/a: Too many levels of symbolic links")));
  EXPECT_TRUE(repository_.Find("a", "").ok()) << "a load that fails leaves all as it was";
  EXPECT_THAT(repository_.Index()[0].reason, HasSubstr("Too many levels"));
  fs::create_directory_symlink("nowhere", root_ + "/c");
  EXPECT_THAT(*ListModels(root_), ElementsAre("a")) << "what a link misses is gone";
}

TEST_F(ModelRepositoryTest, AVersionThatTheSystemCannotTellOfIsNotPassedOverForALowerOne) {
  MakeModel("a", 1);
  fs::create_directory_symlink("nowhere", root_ + "/a/3");
  ASSERT_TRUE(repository_.LoadAll().ok()) << "what a link misses is gone";
  fs::create_directory_symlink("2", root_ + "/a/2");
  const absl::Status status = repository_.Load("a");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("/a/2/weights.safetensors: Too many levels of symbolic links"));
}

TEST_F(ModelRepositoryTest, WhatTheSchedulerHasNoMemoryForLeavesTheOldVersionServing) {
  MakeModel("a", 1);
  ASSERT_TRUE(repository_.LoadAll().ok());
  MakeModel("a", 2);
  scheduler_.no_memory = true;
  EXPECT_EQ(repository_.Load("a"),
            absl::ResourceExhaustedError("model \"a\": there is no memory left for version 2"));
  EXPECT_EQ((*repository_.Find("a", ""))->version, 1);
  scheduler_.no_memory = false;
  EXPECT_TRUE(repository_.Load("a").ok());
}

// Each file is found by its path, and so may be another folder's than the file before.
TEST_F(ModelRepositoryTest, AFolderThatIsReplacedWhileItIsReadIsNotServed) {
  for (const char* version : {"x", "y"})
    ASSERT_NO_FATAL_FAILURE(WriteGruFolder(root_ + "-" + version, "a"));
  const auto put = [&](const std::string& which) {
    fs::remove(root_ + "/next");
    fs::create_directory_symlink(root_ + "-" + which + "/a", root_ + "/next");
    fs::rename(root_ + "/next", root_ + "/a");
  };
  std::string text;
  for (int i = 0; i < 3000 && text.empty(); ++i) {
    put("x");
    std::thread other([&] { put("y"); });
    const auto read = ReadVersions(root_, "a", {1}, {ModelId(0)}, LoaderLimits());
    other.join();
    text = read.ok() ? "" : std::string(read.status().message());
  }
  EXPECT_EQ(text, root_ + "/a: was moved away or replaced while it was read; load the model again");
}

TEST_F(ModelRepositoryTest, WhatIsBeingLoadedForTheFirstTimeIsUnavailable) {
  MakeModel("a", 1);
  scheduler_.Hold(true);
  std::thread loading([&] { EXPECT_TRUE(repository_.LoadAll().ok()); });
  scheduler_.WaitUntilWarming(1);
  EXPECT_THAT(FindError("a", "", absl::StatusCode::kUnavailable), HasSubstr("is LOADING"));
  scheduler_.Hold(false);
  loading.join();
  EXPECT_TRUE(repository_.Find("a", "").ok());
}

// V2: its last requests still run.
TEST_F(ModelRepositoryTest, WhatIsBeingUnloadedIsUnavailableWhileItsLastRequestsRun) {
  MakeModel("a", 1);
  ASSERT_TRUE(repository_.LoadAll().ok());
  scheduler_.Hold(true);
  std::thread unloading([&] { EXPECT_TRUE(repository_.Unload("a").ok()); });
  scheduler_.WaitUntilRemoving(1);
  EXPECT_THAT(FindError("a", "", absl::StatusCode::kUnavailable), HasSubstr("is UNLOADING"));
  EXPECT_EQ(repository_.Index()[0].phase, ModelPhase::kUnloading);
  scheduler_.Hold(false);
  unloading.join();
  EXPECT_THAT(FindError("a", "", absl::StatusCode::kUnavailable), HasSubstr("unloaded"));
}

// A request that has found the old version and is not submitted yet, or that runs, holds it.
TEST_F(ModelRepositoryTest, WhatAnybodyHoldsStaysInTheSchedulerThoughNobodyFindsItAnyMore) {
  MakeModel("a", 1);
  ASSERT_TRUE(repository_.LoadAll().ok());
  std::shared_ptr<const Model> held = *repository_.Find("a", "");
  std::atomic<bool> is_held = true;
  scheduler_.removing = [&] { EXPECT_FALSE(is_held) << "it was taken from who held it"; };
  MakeModel("a", 2);
  std::thread loading([&] { EXPECT_TRUE(repository_.Load("a").ok()); });
  while ((*repository_.Find("a", ""))->version != 2) std::this_thread::yield();
  EXPECT_EQ(held->version, 1);
  is_held = false;
  held.reset();
  loading.join();
  EXPECT_THAT(scheduler_.log, ElementsAre("add a 1", "add a 2", "remove a 1"));
  held = *repository_.Find("a", "2");
  is_held = true;
  std::thread unloading([&] { EXPECT_TRUE(repository_.Unload("a").ok()); });
  while (repository_.Find("a", "").ok()) std::this_thread::yield();
  EXPECT_THAT(FindError("a", "", absl::StatusCode::kUnavailable), HasSubstr("is UNLOADING"));
  is_held = false;
  held.reset();
  unloading.join();
}

// As a page that looks at all models while one of them is replaced, and then asks for a change itself.
TEST_F(ModelRepositoryTest, WhoWaitsForAChangeHoldsNoModel) {
  MakeModel("a", 1);
  MakeModel("b", 1);
  ASSERT_TRUE(repository_.LoadAll().ok());
  std::atomic<bool> stop = false;
  std::thread policies([&] {
    while (!stop) repository_.TakeChangedPolicies();
  });
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(repository_.Load("a").ok());
    ASSERT_TRUE(repository_.Load("b").ok());
  }
  stop = true;
  policies.join();
}

TEST_F(ModelRepositoryTest, BeyondTheLimitAVersionIsTakenFromWhoHoldsIt) {
  ModelRepository hasty(root_, LoaderLimits(), scheduler_,
                        {.unload_limit = std::chrono::milliseconds(1), .gone = {}});
  MakeModel("a", 1);
  ASSERT_TRUE(hasty.LoadAll().ok());
  const std::shared_ptr<const Model> held = *hasty.Find("a", "");
  ASSERT_TRUE(hasty.Unload("a").ok());
  EXPECT_THAT(scheduler_.log, ElementsAre("add a 1", "remove a 1"));
  ASSERT_TRUE(hasty.Load("a").ok());
  EXPECT_NE((*hasty.Find("a", ""))->id, held->id) << "who is held keeps its place";
}

// What `policy.textproto` of model "a" says, as a learner writes it.
class PolicyTakeoverTest : public ModelRepositoryTest {
 protected:
  void SetUp() override {
    MakeModel("a", 1);
    ASSERT_TRUE(repository_.LoadAll().ok());
    ASSERT_EQ(scheduler_.policy, "cellular");
    scheduler_.log.clear();
  }
  void Write(PolicyKind kind) {
    PolicySpec spec;
    spec.kind = kind;
    const std::shared_ptr<const Model> model = *repository_.Find("a", "");
    std::ofstream(file_) << PolicyText(ToPolicyFile(spec, *model));
  }
  const std::string file_ = root_ + "/a/1/policy.textproto";
};

TEST_F(PolicyTakeoverTest, AChangedFileIsTakenOverOnceWithoutLoadingTheModel) {
  EXPECT_TRUE(repository_.TakeChangedPolicies().empty()) << "nothing changed";
  Write(PolicyKind::kLbGreedy);
  const auto news = repository_.TakeChangedPolicies();
  ASSERT_EQ(news.size(), 1u);
  EXPECT_TRUE(news[0].taken) << news[0].text;
  EXPECT_EQ(news[0].text, "model \"a\": its policy is lb_greedy now");
  EXPECT_EQ(scheduler_.policy, "lb_greedy");
  EXPECT_TRUE(repository_.TakeChangedPolicies().empty()) << "the same file";
  EXPECT_THAT(scheduler_.log, ElementsAre("policy of a 1"));
}

TEST_F(PolicyTakeoverTest, WhereTheConfigurationNamesAPolicyAFileIsNotSaidToBeTaken) {
  std::ofstream(root_ + "/a/config.textproto", std::ios::app) << "policy { kind: AGENDA }\n";
  Write(PolicyKind::kLbGreedy);
  const auto news = repository_.TakeChangedPolicies();
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news[0].text, "model \"a\": its policy is agenda now");
  EXPECT_EQ(scheduler_.policy, "agenda");
}

TEST_F(PolicyTakeoverTest, AModelThatAlgorithm1ServesForWantOfItsPolicyIsWarnedOfAtEachLoad) {
  std::vector<std::string> warnings;
  const auto hear = [&](const std::string& text) { warnings.push_back(text); };
  ModelRepository repository(root_, LoaderLimits(), scheduler_, {.gone = {}, .warn = hear});
  std::ofstream(root_ + "/a/config.textproto", std::ios::app)
      << "policy { kind: LEARNED else_cellular: true }\n";
  Write(PolicyKind::kLbGreedy);
  ASSERT_TRUE(repository.Load("a").ok());
  EXPECT_THAT(warnings, testing::IsEmpty()) << "the file decides";

  std::ofstream(file_) << "x: 1";
  ASSERT_EQ(repository.TakeChangedPolicies().size(), 1u);
  EXPECT_THAT(warnings, testing::IsEmpty()) << "the old policy goes on";
  ASSERT_TRUE(repository.Load("a").ok());
  EXPECT_EQ(scheduler_.policy, "cellular");
  EXPECT_THAT(warnings,
              ElementsAre(HasSubstr("model \"a\" version 1: policy cellular in place of one that "
                                    "cannot be used: 1/policy.textproto:1")));
}

TEST_F(PolicyTakeoverTest, AFileThatCannotBeUsedLeavesTheOldPolicyAndSaysWhyUntilABetterOneComes) {
  Write(PolicyKind::kLbGreedy);
  repository_.TakeChangedPolicies();
  for (const char* bad : {"kind: FSM\n", "kind: ?", "kind: LB_GREEDY cell_types: \"other\"\n"}) {
    std::ofstream(file_) << bad;
    const auto news = repository_.TakeChangedPolicies();
    ASSERT_EQ(news.size(), 1u) << bad;
    EXPECT_FALSE(news[0].taken);
    EXPECT_THAT(news[0].text,
                HasSubstr("model \"a\": its policy goes on as it was: 1/policy.textproto"));
    EXPECT_THAT(repository_.Index()[0].reason, HasSubstr("1/policy.textproto"));
    EXPECT_EQ(repository_.Index()[0].phase, ModelPhase::kReady);
    EXPECT_EQ(scheduler_.policy, "lb_greedy");
  }
  Write(PolicyKind::kAgenda);
  ASSERT_EQ(repository_.TakeChangedPolicies().size(), 1u);
  EXPECT_EQ(scheduler_.policy, "agenda");
  EXPECT_EQ(repository_.Index()[0].reason, "");
}

TEST_F(PolicyTakeoverTest, AFileThatNoLoadWouldTakeForItsJoinLeavesTheOldPolicyToo) {
  std::ofstream(root_ + "/a/config.textproto", std::ios::app)
      << "join { whole_graphs { most: 8 padding: TO_THE_LONGEST } }\n";
  ASSERT_TRUE(repository_.Load("a").ok());
  Write(PolicyKind::kRandom);
  const auto news = repository_.TakeChangedPolicies();
  ASSERT_EQ(news.size(), 1u);
  EXPECT_FALSE(news[0].taken);
  EXPECT_THAT(news[0].text, HasSubstr("its policy goes on as it was: config.textproto:"));
  EXPECT_THAT(news[0].text, HasSubstr("the model's policy is random, and padded sequences"));
  EXPECT_EQ(scheduler_.policy, "cellular");
  EXPECT_FALSE(repository_.Load("a").ok());
}

TEST_F(PolicyTakeoverTest, ALoadThatFailsNeitherTakesAFileForReadNorReadsAnOldOneAgain) {
  Write(PolicyKind::kLbGreedy);
  ASSERT_EQ(repository_.TakeChangedPolicies().size(), 1u);
  Corrupt("a", 2);
  ASSERT_FALSE(repository_.Load("a").ok());
  EXPECT_TRUE(repository_.TakeChangedPolicies().empty()) << "version 1 goes by that file";
  EXPECT_THAT(repository_.Index()[0].reason, HasSubstr("2/weights.safetensors"));
  fs::remove_all(root_ + "/a/2");
  Write(PolicyKind::kAgenda);
  scheduler_.refusal = absl::ResourceExhaustedError("no memory for its rows");
  ASSERT_FALSE(repository_.Load("a").ok());
  EXPECT_EQ(repository_.TakeChangedPolicies().size(), 1u) << "version 1 goes by the file before";
  EXPECT_EQ(scheduler_.policy, "agenda");
}

// Its size and time are the same; who may read it, or which file it is, is not.
TEST_F(PolicyTakeoverTest, AFileThatMayBeReadNowIsLookedAtAgainAndSoIsAnotherInItsPlace) {
  Write(PolicyKind::kLbGreedy);
  ASSERT_EQ(repository_.TakeChangedPolicies().size(), 1u);
  fs::permissions(file_, fs::perms::owner_read);
  EXPECT_EQ(repository_.TakeChangedPolicies().size(), 1u);
  fs::copy_file(file_, file_ + "2");
  fs::last_write_time(file_ + "2", fs::last_write_time(file_));
  fs::permissions(file_ + "2", fs::perms::owner_read);
  fs::rename(file_ + "2", file_);
  EXPECT_EQ(repository_.TakeChangedPolicies().size(), 1u);
  EXPECT_TRUE(repository_.TakeChangedPolicies().empty());
}

// As when SIGHUP comes meanwhile, and nobody asks again.
TEST_F(PolicyTakeoverTest, AModelThatIsBeingLoadedIsWaitedForAndLookedAt) {
  std::ofstream(root_ + "/a/config.textproto", std::ios::app) << "policy { kind: AGENDA }\n";
  ASSERT_TRUE(repository_.Unload("a").ok());
  scheduler_.Hold(true);
  std::thread loading([&] { EXPECT_TRUE(repository_.Load("a").ok()); });
  scheduler_.WaitUntilWarming(2);
  std::ofstream(file_) << "changed after it was read";
  std::atomic<bool> asked = false;
  std::vector<ModelRepository::PolicyNews> news;
  std::thread asking([&] {
    asked = true;
    news = repository_.TakeChangedPolicies();
  });
  while (!asked) std::this_thread::yield();
  std::this_thread::sleep_for(
      std::chrono::milliseconds(10));  // it has asked by now, or is late: either is right
  scheduler_.Hold(false);
  loading.join();
  asking.join();
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news[0].text, "model \"a\": its policy is agenda now");
}

TEST_F(PolicyTakeoverTest, WhyALoadFailedIsNotForgottenForAPolicyThatIsTaken) {
  Corrupt("a", 2);
  ASSERT_FALSE(repository_.Load("a").ok());
  std::ofstream(file_) << "kind: ?";
  ASSERT_EQ(repository_.TakeChangedPolicies().size(), 1u);
  EXPECT_THAT(repository_.Index()[0].reason,
              testing::MatchesRegex(".*/a/2/weights.safetensors: .*\n1/policy.textproto:1:.*"));
  Write(PolicyKind::kLbGreedy);
  ASSERT_EQ(repository_.TakeChangedPolicies().size(), 1u);
  EXPECT_THAT(repository_.Index()[0].reason,
              AllOf(HasSubstr("2/weights.safetensors"), testing::Not(HasSubstr("policy"))));
}

TEST_F(PolicyTakeoverTest, APolicyThatTheLaneCannotTakeOverIsTakenByLoadingTheModelAgain) {
  Write(PolicyKind::kDepth);
  scheduler_.policy_refusal = absl::FailedPreconditionError("looks at other things");
  const auto news = repository_.TakeChangedPolicies();
  ASSERT_EQ(news.size(), 1u);
  EXPECT_TRUE(news[0].taken) << news[0].text;
  EXPECT_THAT(scheduler_.log, ElementsAre("add a 1", "remove a 1"));
  EXPECT_EQ(scheduler_.policy, "depth");

  Write(PolicyKind::kAgenda);
  scheduler_.policy_refusal = absl::FailedPreconditionError("looks at other things");
  scheduler_.refusal = absl::ResourceExhaustedError("no memory for its rows");
  const auto none = repository_.TakeChangedPolicies();
  ASSERT_EQ(none.size(), 1u);
  EXPECT_EQ(none[0].text, "model \"a\": its policy goes on as it was: no memory for its rows");
  EXPECT_EQ(repository_.Index()[0].reason, "no memory for its rows");
  Write(PolicyKind::kLbGreedy);
  ASSERT_EQ(repository_.TakeChangedPolicies().size(), 1u);
  EXPECT_EQ(repository_.Index()[0].reason, "") << "nobody waits for that load any more";
}

TEST_F(PolicyTakeoverTest, ANewVersionBesideTheServedOneIsNotLoadedForItsPolicy) {
  Write(PolicyKind::kDepth);
  MakeModel("a", 2);
  scheduler_.policy_refusal = absl::FailedPreconditionError("looks at other things");
  const auto news = repository_.TakeChangedPolicies();
  ASSERT_EQ(news.size(), 1u);
  EXPECT_FALSE(news[0].taken);
  EXPECT_TRUE(scheduler_.log.empty());
}

TEST_F(ModelRepositoryTest, UnloadedModelsAreKnownAndUnavailable) {
  MakeModel("a", 1);
  ASSERT_TRUE(repository_.LoadAll().ok());
  ASSERT_TRUE(repository_.Unload("a").ok());
  EXPECT_THAT(FindError("a", "", absl::StatusCode::kUnavailable), HasSubstr("unloaded"));
  ASSERT_TRUE(repository_.Load("a").ok());
  EXPECT_TRUE(repository_.Find("a", "").ok());
  repository_.Close();
  EXPECT_THAT(scheduler_.log, ElementsAre("add a 1", "remove a 1", "add a 1", "remove a 1"));
}

// Which versions serve is what the configuration says, as in Triton.
class VersionPolicyTest : public ModelRepositoryTest {
 protected:
  void SetUp() override {
    for (const int64_t version : {1, 2, 10}) MakeModel("a", version);
  }
  void Choose(const std::string& policy) {
    std::ofstream file(root_ + "/a/config.textproto", std::ios::trunc);
    file << config_ << "version_policy { " << policy << " }\n";
  }
  std::string Served() const { return fmt::format("{}", fmt::join(repository_.Serving("a"), " ")); }

 private:
  const std::string config_ = [this] {
    ModelRepositoryTest::MakeModel("a", 1);
    std::ostringstream text;
    text << std::ifstream(root_ + "/a/config.textproto").rdbuf();
    return text.str();
  }();
};

TEST_F(VersionPolicyTest, TheVersionsThatThePolicyNamesAreServedAndNoOthers) {
  const std::pair<const char*, const char*> cases[] = {
      {"latest { }", "10"},
      {"latest { num_versions: 2 }", "2 10"},
      {"latest { num_versions: 7 }", "1 2 10"},
      {"all { }", "1 2 10"},
      {"specific { versions: 2 }", "2"},
      {"specific { versions: 10 versions: 1 versions: 10 }", "1 10"}};
  for (const auto& [policy, served] : cases) {
    Choose(policy);
    ASSERT_TRUE(repository_.Load("a").ok()) << policy;
    EXPECT_EQ(Served(), served) << policy;
    for (const int64_t version : {1, 2, 10}) {
      const bool should = std::ranges::count(repository_.Serving("a"), version) == 1;
      const auto found = repository_.Find("a", std::to_string(version));
      ASSERT_EQ(found.ok(), should) << policy << " " << version << found.status();
      if (should) {
        EXPECT_EQ((*found)->version, version);
      }
    }
    const auto checked = CheckRepository(root_, LoaderLimits());
    EXPECT_EQ(fmt::format("{}", fmt::join((*checked)[0].versions, " ")), served);
  }
  EXPECT_EQ((*repository_.Find("a", ""))->version, 10) << "who names none gets the highest";
  EXPECT_THAT(FindError("a", "2", absl::StatusCode::kNotFound),
              HasSubstr("model \"a\" has versions 1, 10 ready, not \"2\""));
  ASSERT_EQ(repository_.Index().size(), 2u) << "a line each";
  EXPECT_EQ(repository_.Index()[0].version, 1);
  EXPECT_EQ(repository_.Index()[1].version, 10);
  ASSERT_TRUE(repository_.Unload("a").ok());
  EXPECT_EQ(Served(), "");
  ASSERT_EQ(repository_.Index().size(), 1u);
  EXPECT_EQ(repository_.Index()[0].version, 10) << "the highest that served";
}

TEST_F(VersionPolicyTest, AVersionThatIsNotThereAndNamesOfNoneAreRefusedWithTheLine) {
  ASSERT_TRUE(repository_.LoadAll().ok());
  const std::pair<const char*, const char*> cases[] = {
      {"specific { versions: 1 versions: 3 }",
       "version_policy names version 3, the folder has 1, 2, 10"},
      {"specific { }", "version_policy names no version (specific { versions: 1 })"}};
  for (const auto& [policy, text] : cases) {
    Choose(policy);
    const absl::Status status = repository_.Load("a");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                testing::MatchesRegex("model \"a\": config.textproto:[0-9]+: .*"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_EQ(Served(), "10") << "as it was";
  }
}

TEST_F(VersionPolicyTest, AllVersionsAreTakenOrNone) {
  Choose("latest { num_versions: 2 }");
  ASSERT_TRUE(repository_.LoadAll().ok());
  scheduler_.log.clear();
  Corrupt("a", 11);
  Corrupt("a", 12);
  const absl::Status status = repository_.Load("a");
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("11/weights.safetensors"), HasSubstr("12/weights.safetensors")));
  EXPECT_TRUE(scheduler_.log.empty()) << "nothing that is read in vain is warmed";
  EXPECT_EQ(Served(), "2 10");
  for (const ModelState& state : repository_.Index()) {
    EXPECT_EQ(state.phase, ModelPhase::kReady);
    EXPECT_THAT(state.reason, HasSubstr("12/weights.safetensors"));
  }
  fs::remove_all(root_ + "/a/11");
  fs::remove_all(root_ + "/a/12");
  MakeModel("a", 11);
  Choose("latest { num_versions: 2 }");
  scheduler_.refused_version = 11;
  EXPECT_EQ(repository_.Load("a").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(scheduler_.log, ElementsAre("add a 10", "remove a 10"));
  EXPECT_EQ(Served(), "2 10");
  scheduler_.refused_version = 0;
  scheduler_.log.clear();
  ASSERT_TRUE(repository_.Load("a").ok());
  EXPECT_THAT(scheduler_.log, ElementsAre("add a 10", "add a 11", "remove a 2", "remove a 10"))
      << "the new ones are warm before the old ones go";
  EXPECT_EQ(Served(), "10 11");
  EXPECT_EQ(repository_.Index()[0].reason, "");
}

TEST_F(VersionPolicyTest, AProblemThatAllVersionsHaveIsSaidOnce) {
  Choose("all { } } priority_levels: 1000 vocabulary { ");
  const std::string text(repository_.LoadAll().message());
  const size_t first = text.find("priority_levels");
  ASSERT_NE(first, text.npos) << text;
  EXPECT_EQ(text.find("\nmodel \"a\": config.textproto:", first), text.npos) << text;
}

TEST_F(VersionPolicyTest, EachVersionTakesAPlace) {
  Choose("all { }");
  ModelRepository crowded(root_, LoaderLimits(), scheduler_, {.max_models = 2, .gone = {}});
  const std::string text =
      "0 models are served, the most is 2 (--max-models): there is no room "
      "for 3 versions of \"a\"";
  EXPECT_THAT(std::string(crowded.LoadAll().message()), HasSubstr(text));
  EXPECT_TRUE(scheduler_.log.empty());
  EXPECT_THAT(DescribeCheck(*CheckRepository(root_, LoaderLimits(), 2)).problems, HasSubstr(text));
  Choose("latest { num_versions: 2 }");
  EXPECT_TRUE(crowded.Load("a").ok());
  EXPECT_TRUE(crowded.Load("a").ok()) << "they take their own places";
  MakeModel("b", 1);
  EXPECT_EQ(crowded.Load("b").code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(VersionPolicyTest, EachVersionHasItsOwnPolicyFile) {
  Choose("specific { versions: 1 versions: 2 }");
  ASSERT_TRUE(repository_.LoadAll().ok());
  scheduler_.log.clear();
  PolicySpec spec;
  spec.kind = PolicyKind::kLbGreedy;
  const std::string text = PolicyText(ToPolicyFile(spec, **repository_.Find("a", "1")));
  std::ofstream(root_ + "/a/1/policy.textproto") << text;
  ASSERT_EQ(repository_.TakeChangedPolicies().size(), 1u);
  EXPECT_THAT(scheduler_.log, ElementsAre("policy of a 1"));
  EXPECT_TRUE(repository_.TakeChangedPolicies().empty());

  std::ofstream(root_ + "/a/1/policy.textproto") << "kind: ?";
  std::ofstream(root_ + "/a/2/policy.textproto") << text;
  ASSERT_EQ(repository_.TakeChangedPolicies().size(), 2u);
  EXPECT_THAT(repository_.Index()[0].reason, HasSubstr("1/policy.textproto:1:"));
  EXPECT_EQ(repository_.Index()[1].reason, "") << "it has taken over what its own file says";
  fs::remove(root_ + "/a/1/policy.textproto");
  ASSERT_TRUE(repository_.Load("a").ok());
  EXPECT_EQ(repository_.Index()[0].reason, "");
}

class CrowdedTest : public ModelRepositoryTest {
 protected:
  std::vector<int32_t> gone_;
  ModelRepository crowded_{
      root_, LoaderLimits(), scheduler_, {.max_models = 2, .gone = [this](ModelId id) {
                                            gone_.push_back(id.value());
                                          }}};
  static constexpr const char* kFull =
      "2 models are served, the most is 2 (--max-models): there is no room for \"c\"";
};

TEST_F(CrowdedTest, OneModelTooManyIsRefusedAndTheCheckSaysSoInTheSameWords) {
  MakeModel("a", 1);
  MakeModel("b", 1);
  Corrupt("b", 1);
  MakeModel("bb", 1);
  MakeModel("c", 1);
  const auto checked = CheckRepository(root_, LoaderLimits(), 2);
  ASSERT_TRUE(checked.ok()) << checked.status();
  const absl::Status loaded = crowded_.LoadAll();
  EXPECT_EQ(DescribeCheck(*checked).problems, std::string(loaded.message()) + "\n");
  EXPECT_THAT(std::string(loaded.message()), HasSubstr(std::string("model \"c\": ") + kFull));
  EXPECT_THAT(scheduler_.log, ElementsAre("add a 1", "add bb 1")) << "who is broken takes no room";
  EXPECT_EQ(crowded_.Load("c").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(crowded_.Index()[3].reason, kFull);
  EXPECT_TRUE(crowded_.Load("a").ok()) << "one that takes its own place fits";
  ASSERT_TRUE(crowded_.Unload("bb").ok());
  EXPECT_TRUE(crowded_.Load("c").ok());
}

TEST_F(CrowdedTest, WhatThereWillBeNoRoomForIsNotReadUnlessOneBeforeItFails) {
  for (const char* name : {"a", "b", "c", "d"}) MakeModel(name, 1);
  Corrupt("c", 1);
  const std::string full = std::string(crowded_.LoadAll().message());
  EXPECT_THAT(full, HasSubstr(std::string("model \"c\": ") + kFull)) << "nobody has seen its files";
  EXPECT_THAT(scheduler_.expected, ElementsAre("a b after 0", "after 2"));
  EXPECT_THAT(scheduler_.log, ElementsAre("add a 1", "add b 1"));
}

TEST_F(CrowdedTest, WhoIsNotReadAtFirstIsServedWhereOneBeforeItCannotBe) {
  for (const char* name : {"a", "c", "d"}) MakeModel(name, 1);
  MakeModel("b", 7);
  scheduler_.refused_version = 7;
  EXPECT_EQ(std::string(crowded_.LoadAll().message()),
            "model \"b\": no memory for it\nmodel \"d\": 2 models are served, the most is 2 "
            "(--max-models): there is no room for \"d\"");
  EXPECT_THAT(scheduler_.log, ElementsAre("add a 1", "add c 1"));
}

TEST_F(CrowdedTest, ThousandsOfLoadsUseAHandfulOfPlacesAndEveryModelIsSaidToBeGone) {
  MakeModel("a", 1);
  std::set<int32_t> places;
  constexpr int kLoads = 500;
  for (int i = 0; i < kLoads; ++i) {
    ASSERT_TRUE(crowded_.Load("a").ok());
    places.insert((*crowded_.Find("a", ""))->id.value() % kModelPlaces);
  }
  EXPECT_LE(places.size(), 2u);
  EXPECT_EQ(gone_.size(), static_cast<size_t>(kLoads - 1)) << "all but the one that serves";
  Corrupt("a", 2);
  for (int i = 0; i < kLoads; ++i) ASSERT_FALSE(crowded_.Load("a").ok());
  fs::remove_all(root_ + "/a/2");
  ASSERT_TRUE(crowded_.Load("a").ok());
  EXPECT_LE((*crowded_.Find("a", ""))->id.value() % kModelPlaces, 1) << "failed loads took none";
}

TEST_F(ModelRepositoryTest, AModelWhoseFolderIsGoneIsNotKnownOnceItIsUnloaded) {
  MakeModel("a", 1);
  MakeModel("b", 1);
  ASSERT_TRUE(repository_.LoadAll().ok());
  fs::remove_all(root_ + "/a");
  EXPECT_EQ(repository_.Load("a").code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(repository_.Find("a", "").ok()) << "a load that fails leaves all as it was";
  ASSERT_TRUE(repository_.Unload("a").ok());
  EXPECT_THAT(FindError("a", "", absl::StatusCode::kNotFound), HasSubstr("unknown model"));
  EXPECT_EQ(repository_.Index().size(), 1u);
}

TEST_F(ModelRepositoryTest, WhatIsThereAndNobodyLoadedIsUnavailable) {
  MakeModel("a", 1);
  MakeModel("b", 1);
  repository_.Know({"a", "b"});
  EXPECT_THAT(FindError("a", "", absl::StatusCode::kUnavailable), HasSubstr("not loaded"));
  ASSERT_TRUE(repository_.LoadSome({"b"}).ok());
  repository_.Know({"a", "b"});
  EXPECT_TRUE(repository_.Find("b", "").ok());
  EXPECT_EQ(repository_.Index()[1].reason, "");
  repository_.Know({"c"});
  ASSERT_EQ(repository_.Index().size(), 2u) << "a is gone, b serves";
  EXPECT_EQ(repository_.Index()[1].name, "c");
  EXPECT_THAT(std::string(repository_.LoadSome({"b", "nobody"}).message()),
              HasSubstr("model \"nobody\": there is no model folder"));
}

TEST_F(ModelRepositoryTest, WhatServesNothingIsForgottenWithItsFolderWhateverBecameOfIt) {
  for (const char* name : {"serves", "unloaded", "wrong"}) MakeModel(name, 1);
  std::ofstream(root_ + "/wrong/config.textproto") << "?";
  EXPECT_FALSE(repository_.LoadSome({"nobody", "serves", "unloaded", "wrong"}).ok());
  ASSERT_TRUE(repository_.Unload("unloaded").ok());
  const auto known = [&] {
    std::vector<std::string> names;
    for (const ModelState& state : repository_.Index()) names.push_back(state.name);
    return names;
  };
  repository_.Know({"serves", "unloaded", "wrong"});
  EXPECT_THAT(known(), ::testing::ElementsAre("nobody", "serves", "unloaded", "wrong"));
  repository_.Know({});
  EXPECT_THAT(known(), ::testing::ElementsAre("nobody", "serves")) << "who never had one says so";
}

TEST_F(ModelRepositoryTest, ARootThatIsNoneOrEmptyIsAnError) {
  EXPECT_THAT(std::string(repository_.LoadAll().message()), HasSubstr("no model folder"));
  ModelRepository nowhere(root_ + "/nowhere", LoaderLimits(), scheduler_);
  EXPECT_THAT(std::string(nowhere.LoadAll().message()), HasSubstr("nowhere: No such file"));
  const absl::Status one = nowhere.Load("a");
  EXPECT_EQ(one.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(one.message(),
            "model \"a\": model repository " + root_ + "/nowhere: No such file or directory");
}

}  // namespace
}  // namespace cellbatch
