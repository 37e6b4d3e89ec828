#include "server/repository/model_repository.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "server/policy/policy_codec.h"
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
  EXPECT_EQ(scheduler_.policy, "lb_greedy");
  EXPECT_TRUE(repository_.TakeChangedPolicies().empty()) << "the same file";
  EXPECT_THAT(scheduler_.log, ElementsAre("policy of a 1"));
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

TEST_F(PolicyTakeoverTest, APolicyThatTheLaneCannotTakeOverIsTakenByLoadingTheModelAgain) {
  Write(PolicyKind::kDepth);
  scheduler_.policy_refusal = absl::FailedPreconditionError("looks at other things");
  const auto news = repository_.TakeChangedPolicies();
  ASSERT_EQ(news.size(), 1u);
  EXPECT_TRUE(news[0].taken) << news[0].text;
  EXPECT_THAT(scheduler_.log, ElementsAre("add a 1", "remove a 1"));
  EXPECT_EQ(scheduler_.policy, "depth");
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

TEST_F(ModelRepositoryTest, ACheckReportsEveryModelWithoutLoadingAny) {
  MakeModel("good", 3);
  auto checked = CheckRepository(root_, LoaderLimits());
  ASSERT_TRUE(checked.ok()) << checked.status();
  ASSERT_EQ(checked->size(), 1u);
  EXPECT_EQ((*checked)[0].version, 3);
  EXPECT_THAT((*checked)[0].problems, testing::IsEmpty());
  EXPECT_EQ(DescribeCheck(*checked).problems, "");

  MakeModel("bad", 1);
  std::ofstream(root_ + "/bad/config.textproto") << "name: \"worse\"\n";
  fs::create_directories(root_ + "/empty");
  checked = CheckRepository(root_, LoaderLimits());
  ASSERT_TRUE(checked.ok()) << checked.status();
  const CheckReport report = DescribeCheck(*checked);
  EXPECT_EQ(report.problems,
            "model \"bad\": config.textproto:1: name is \"worse\", the folder is \"bad\"\n"
            "model \"bad\": config.textproto: no unfolder, such as chain { .. }\n"
            "model \"empty\": " +
                root_ + "/empty: no version in it, such as 1/weights.safetensors\n");
  EXPECT_EQ(report.report,
            "model \"good\" version 3: OK, 1 cell types, 120 parameters, X [-1, 4] -> OUTPUT [4]\n"
            "3 models: 1 OK, 2 with 3 problems\n");
  EXPECT_TRUE(scheduler_.log.empty());
  EXPECT_FALSE(CheckRepository(root_ + "/nowhere", LoaderLimits()).ok());
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

TEST_F(ModelRepositoryTest, ARootThatIsNoneOrEmptyIsAnError) {
  EXPECT_THAT(std::string(repository_.LoadAll().message()), HasSubstr("no model folder"));
  ModelRepository nowhere(root_ + "/nowhere", LoaderLimits(), scheduler_);
  EXPECT_THAT(std::string(nowhere.LoadAll().message()), HasSubstr("nowhere: No such file"));
}

}  // namespace
}  // namespace cellbatch
