#include "server/control/model_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <thread>

#include "tests/testing/gru_folder.h"
#include "tests/testing/loading_scheduler.h"

namespace cellbatch {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;
namespace fs = std::filesystem;

// Lines from any thread, and waiting for them.
class Journal {
 public:
  void Add(std::string line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
    changed_.notify_all();
  }
  std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  void WaitFor(const std::string& line, int times = 1) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return std::ranges::count(lines_, line) >= times; });
  }
  void WaitForPart(const std::string& part) {
    std::unique_lock lock(mutex_);
    const auto has_it = [&](const std::string& line) { return line.find(part) != line.npos; };
    changed_.wait(lock, [&] { return std::ranges::any_of(lines_, has_it); });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

class ModelControlTest : public testing::Test {
 protected:
  ModelControlTest() {
    for (const char* more : {"", "-away", "-broken"}) fs::remove_all(root_ + more);
    fs::create_directories(root_);
  }
  ~ModelControlTest() override { scheduler_.Hold(false); }

  // Made and started.
  void Control(ControlOptions options, RepositoryOptions of_repository = {}) {
    options.root = root_;
    repository_ =
        std::make_unique<ModelRepository>(root_, LoaderLimits(), scheduler_, of_repository);
    control_ = std::make_unique<ModelControl>(std::move(options), *repository_,
                                              [this](bool problem, const std::string& text) {
                                                if (hear_) hear_(text);
                                                log_.Add((problem ? "! " : "") + text);
                                              });
  }
  void Explicit(std::vector<std::string> load_models = {}, int64_t max_changes = 16) {
    Control({.mode = ModelControlMode::kExplicit,
             .root = "",
             .load_models = std::move(load_models),
             .max_changes = max_changes});
    start_ = control_->LoadAtStart();
  }
  void Poll(RepositoryOptions of_repository = {}) {
    Control({.mode = ModelControlMode::kPoll,
             .root = "",
             .load_models = {},
             .poll = std::chrono::milliseconds(1)},
            of_repository);
    start_ = control_->LoadAtStart();
  }
  // What becomes of it is a line of `told_`: "load a: OK", "load a: UNAVAILABLE why".
  void Change(ModelChange what, const std::string& name) {
    const std::string asked = (what == ModelChange::kLoad ? "load " : "unload ") + name + ": ";
    control_->Change(what, name, [this, asked](const absl::Status& status) {
      told_.Add(asked + (status.ok() ? "OK"
                                     : absl::StatusCodeToString(status.code()) + " " +
                                           std::string(status.message())));
    });
  }
  void Load(const std::string& name) { Change(ModelChange::kLoad, name); }
  void Unload(const std::string& name) { Change(ModelChange::kUnload, name); }
  // All at once, as a look may come at any time.
  void Break(const std::string& name, int version, const std::string& text) const {
    fs::create_directories(root_ + "-broken");
    std::ofstream(root_ + "-broken/weights.safetensors") << text;
    fs::rename(root_ + "-broken", root_ + "/" + name + "/" + std::to_string(version));
  }
  int64_t Version(const std::string& name) const {
    const auto model = repository_->Find(name, "");
    return model.ok() ? (*model)->version : -1;
  }

  const std::string root_ = testing::TempDir() + "/controlled";
  LoadingScheduler scheduler_;
  Journal log_, told_;
  std::function<void(const std::string&)>
      hear_;  // each line of the log, on the thread that makes changes
  std::unique_ptr<ModelRepository> repository_;
  std::unique_ptr<ModelControl> control_;
  absl::Status start_;
};

TEST_F(ModelControlTest, ModesHaveNames) {
  for (const auto mode :
       {ModelControlMode::kNone, ModelControlMode::kExplicit, ModelControlMode::kPoll}) {
    EXPECT_EQ(ModelControlNamed(Name(mode)), mode);
  }
  EXPECT_FALSE(ModelControlNamed("EXPLICIT").has_value());
}

TEST_F(ModelControlTest, WithoutControlAllAreLoadedAndNoCallChangesAnything) {
  WriteGruFolder(root_, "a");
  WriteGruFolder(root_, "b");
  Control({});
  ASSERT_TRUE(control_->LoadAtStart().ok());
  EXPECT_FALSE(control_->loading());
  EXPECT_FALSE(control_->may_be_empty());
  Load("a");
  Unload("b");
  const std::string why =
      "UNAVAILABLE explicit model load / unload is not allowed: the server was started with "
      "--model-control none, which takes no changes by call (--model-control explicit does)";
  EXPECT_THAT(told_.lines(), ElementsAre("load a: " + why, "unload b: " + why));
  EXPECT_THAT(scheduler_.log, ElementsAre("add a 1", "add b 1"));
}

TEST_F(ModelControlTest, ExplicitLoadsWhatIsNamedOnceAndKnowsTheOthers) {
  for (const char* name : {"a", "b", "c"}) WriteGruFolder(root_, name);
  Explicit({"b", "a", "b"});
  EXPECT_TRUE(start_.ok()) << start_;
  EXPECT_TRUE(control_->may_be_empty());
  EXPECT_THAT(scheduler_.log, ElementsAre("add b 1", "add a 1"));
  const auto found = repository_->Find("c", "");
  EXPECT_EQ(found.status(), absl::UnavailableError("model \"c\" is UNAVAILABLE: not loaded"));
}

TEST_F(ModelControlTest, FoldersThatComeAreKnownToWhoLooksForThem) {
  Explicit();
  WriteGruFolder(root_, "a");
  control_->LookForFolders();
  EXPECT_EQ(repository_->Find("a", "").status(),
            absl::UnavailableError("model \"a\" is UNAVAILABLE: not loaded"));
  fs::remove_all(root_ + "/a");
  control_->LookForFolders();
  EXPECT_TRUE(repository_->Index().empty());
}

TEST_F(ModelControlTest, ExplicitLoadsAllForAStarAndSaysWhoIsMissing) {
  for (const char* name : {"a", "b"}) WriteGruFolder(root_, name);
  Explicit({"b", "*", "nobody"});
  EXPECT_THAT(std::string(start_.message()), StartsWith("model \"nobody\": there is no model"));
  EXPECT_THAT(scheduler_.log, ElementsAre("add b 1", "add a 1"));
}

TEST_F(ModelControlTest, ChangesAreMadeOneAfterTheOtherInTheirOrderOnAThreadOfTheirOwn) {
  for (const char* name : {"a", "b"}) WriteGruFolder(root_, name);
  Explicit();
  scheduler_.Hold(true);
  Load("a");
  Load("b");
  Unload("a");
  Unload("nobody");
  scheduler_.WaitUntilWarming(1);
  EXPECT_THAT(told_.lines(), IsEmpty()) << "who asked was not kept";
  scheduler_.Hold(false);
  told_.WaitFor("unload nobody: NOT_FOUND model \"nobody\" is not served");
  EXPECT_THAT(told_.lines(),
              ElementsAre("load a: OK", "load b: OK", "unload a: OK",
                          "unload nobody: NOT_FOUND model \"nobody\" is not served"));
  EXPECT_THAT(scheduler_.log, ElementsAre("add a 1", "add b 1", "remove a 1"));
  EXPECT_THAT(log_.lines(),
              ElementsAre("model \"a\" is loaded, by call", "model \"b\" is loaded, by call",
                          "model \"a\" is unloaded, by call", "model \"nobody\" is not served"));
}

TEST_F(ModelControlTest, WhatIsAskedBeforeTheStartIsThroughIsMadeAfterIt) {
  for (const char* name : {"a", "b"}) WriteGruFolder(root_, name);
  Control({.mode = ModelControlMode::kExplicit, .root = "", .load_models = {"b"}});
  Load("a");
  ASSERT_TRUE(control_->LoadAtStart().ok());
  told_.WaitFor("load a: OK");
  EXPECT_THAT(scheduler_.log, ElementsAre("add b 1", "add a 1"));
}

// A stop: what warm models have accepted is waiting for whoever waits here.
TEST_F(ModelControlTest, WhoWaitsForTheStartIsToldOfTheEndAtOnceAndTheDestructorWaitsForTheLoad) {
  WriteGruFolder(root_, "a");
  for (const auto mode :
       {ModelControlMode::kNone, ModelControlMode::kExplicit, ModelControlMode::kPoll}) {
    SCOPED_TRACE(Name(mode));
    Control({.mode = mode, .root = "", .load_models = {"a"}});
    scheduler_.Hold(true);
    EXPECT_FALSE(control_->loading());
    std::thread starter([this] { start_ = control_->LoadAtStart(); });
    scheduler_.WaitUntilWarming(static_cast<int>(scheduler_.log.size()) + 1);
    EXPECT_TRUE(control_->loading());
    Load("a");  // to be made after it
    control_->Refuse();
    starter.join();
    EXPECT_EQ(start_, absl::UnavailableError("the server is stopping"));
    EXPECT_TRUE(control_->loading()) << "what it is in goes on";
    Load("a");
    EXPECT_EQ(Version("a"), -1);
    scheduler_.Hold(false);
    control_.reset();
    EXPECT_EQ(Version("a"), 1) << "it was waited for";
  }
  const std::string why = "load a: UNAVAILABLE the server is stopping";
  EXPECT_THAT(told_.lines(), AllOf(Contains(why).Times(2), SizeIs(6)))
      << "the other modes take no changes";
  EXPECT_THAT(scheduler_.log, ElementsAre("add a 1", "add a 1", "add a 1"))
      << "nothing that was asked for was made";
}

TEST_F(ModelControlTest, AfterTheEndNothingIsLoadedAtAll) {
  WriteGruFolder(root_, "a");
  Control({});
  control_->Refuse();
  EXPECT_EQ(control_->LoadAtStart(), absl::UnavailableError("the server is stopping"));
  EXPECT_FALSE(control_->loading());
  control_.reset();
  EXPECT_THAT(scheduler_.log, IsEmpty());
}

TEST_F(ModelControlTest, TheLineIsBoundedAndTheOneUnderWayCounts) {
  for (const char* name : {"a", "b"}) WriteGruFolder(root_, name);
  Explicit({}, /*max_changes=*/2);
  scheduler_.Hold(true);
  Load("a");
  scheduler_.WaitUntilWarming(1);
  Load("b");
  Unload("a");
  EXPECT_THAT(told_.lines(),
              ElementsAre("unload a: RESOURCE_EXHAUSTED 2 changes of models wait or are being "
                          "made, the most is 2 (--max-model-changes)"));
  scheduler_.Hold(false);
  told_.WaitFor("load b: OK");
  Unload("a");
  told_.WaitFor("unload a: OK");
}

TEST_F(ModelControlTest, AFailedLoadLeavesAllAsItWasAndSaysWhyInAnswerIndexAndLog) {
  WriteGruFolder(root_, "a");
  Explicit({"a"});
  Break("a", 2, "nonsense");
  Load("a");
  Load("../a");
  Unload("a");
  told_.WaitFor("unload a: OK");
  const std::vector<std::string> told = told_.lines();
  ASSERT_EQ(told.size(), 3u);
  EXPECT_THAT(told[0], StartsWith("load ../a: INVALID_ARGUMENT ")) << "it waits for nobody";
  EXPECT_THAT(told[1], StartsWith("load a: INVALID_ARGUMENT model \"a\": " + root_ +
                                  "/a/2/weights.safetensors: "));
  ASSERT_EQ(log_.lines().size(), 2u);
  EXPECT_EQ(log_.lines()[0],
            "! " + told[1].substr(std::string("load a: INVALID_ARGUMENT ").size()));
  EXPECT_THAT(scheduler_.log, ElementsAre("add a 1", "remove a 1"));
}

TEST_F(ModelControlTest, TheOldVersionAnswersUntilTheNewOneIsWarm) {
  WriteGruFolder(root_, "a");
  Explicit({"a"});
  WriteGruFolder(root_, "a", 2);
  scheduler_.Hold(true);
  Load("a");
  scheduler_.WaitUntilWarming(2);
  EXPECT_EQ(Version("a"), 1);
  scheduler_.Hold(false);
  told_.WaitFor("load a: OK");
  EXPECT_EQ(Version("a"), 2);
}

TEST_F(ModelControlTest, AtTheEndWhoWaitsIsToldAtOnceAndWhoIsUnderWayWhenItIsGivenUp) {
  for (const char* name : {"a", "b", "c"}) WriteGruFolder(root_, name);
  Explicit();
  scheduler_.Hold(true);
  Load("a");
  scheduler_.WaitUntilWarming(1);
  Load("b");
  control_->Refuse();
  const std::string why = ": UNAVAILABLE the server is stopping";
  EXPECT_THAT(told_.lines(), ElementsAre("load b" + why));
  Load("c");
  EXPECT_THAT(told_.lines(), ElementsAre("load b" + why, "load c" + why));
  control_->GiveUp();
  EXPECT_THAT(told_.lines(), ElementsAre("load b" + why, "load c" + why, "load a" + why));
  scheduler_.Hold(false);
  control_.reset();
  EXPECT_EQ(told_.lines().size(), 3u) << "each was told once";
}

TEST_F(ModelControlTest, PollingFollowsWhatIsAddedChangedAndRemoved) {
  WriteGruFolder(root_, "a");
  Poll();
  EXPECT_TRUE(start_.ok()) << start_;
  EXPECT_EQ(Version("a"), 1);
  WriteGruFolder(root_, "b");
  log_.WaitFor("model \"b\" is loaded: its folder changed");
  EXPECT_EQ(Version("b"), 1);
  WriteGruFolder(root_, "a", 2);
  log_.WaitFor("model \"a\" is loaded: its folder changed");
  EXPECT_EQ(Version("a"), 2);
  fs::remove_all(root_ + "/b");
  log_.WaitFor("model \"b\" is unloaded: its folder is gone");
  EXPECT_TRUE(absl::IsNotFound(repository_->Find("b", "").status()));
  Load("b");
  EXPECT_THAT(told_.lines(), Contains(HasSubstr("--model-control poll, which takes no changes")));
}

// Looked at and loaded at any moment of it.
TEST_F(ModelControlTest, PollingOutlivesFoldersThatComeAndGo) {
  WriteGruFolder(root_, "a");
  Poll();
  for (int i = 0; i < 300; ++i) {
    WriteGruFolder(root_, "b");
    fs::remove_all(root_ + "/b");
  }
  WriteGruFolder(root_, "c");
  log_.WaitFor("model \"c\" is loaded: its folder changed");
  EXPECT_EQ(Version("a"), 1);
}

TEST_F(ModelControlTest, PollingFromNothingIsAllowed) {
  Poll();
  EXPECT_TRUE(start_.ok()) << start_;
  EXPECT_TRUE(control_->may_be_empty());
  WriteGruFolder(root_, "a");
  log_.WaitFor("model \"a\" is loaded: its folder changed");
}

TEST_F(ModelControlTest, FilesThatAreWrongAreTriedOncePerChange) {
  WriteGruFolder(root_, "a");
  Poll();
  Break("a", 2, "nonsense");
  // What comes later is seen by looks that see the wrong files, too.
  WriteGruFolder(root_, "b");
  log_.WaitFor("model \"b\" is loaded: its folder changed");
  WriteGruFolder(root_, "c");
  log_.WaitFor("model \"c\" is loaded: its folder changed");
  const auto problems = [this] {
    const std::vector<std::string> lines = log_.lines();
    return std::ranges::count_if(
        lines, [](const auto& line) { return line.find("/a/2/weights.safetensors") != line.npos; });
  };
  EXPECT_EQ(problems(), 1);
  EXPECT_EQ(Version("a"), 1);
  WriteGruFolder(root_, "a", 3);
  log_.WaitFor("model \"a\" is loaded: its folder changed");
  EXPECT_EQ(Version("a"), 3);
}

TEST_F(ModelControlTest, WhatHasNoRoomIsTriedAgainAndSaidOnce) {
  WriteGruFolder(root_, "a");
  WriteGruFolder(root_, "b");
  Poll({.max_models = 1, .gone = {}});
  EXPECT_THAT(std::string(start_.message()), HasSubstr("there is no room for \"b\""));
  const std::string no_room =
      "! model \"b\": 1 models are served, the most is 1 (--max-models): there is no room for "
      "\"b\"";
  log_.WaitFor(no_room);
  fs::remove_all(root_ + "/a");
  log_.WaitFor("model \"b\" is loaded: its folder changed");
  EXPECT_EQ(Version("b"), 1);
  EXPECT_EQ(std::ranges::count(log_.lines(), no_room), 1);
}

TEST_F(ModelControlTest, WhereTheRepositoryCannotBeReadNothingChangesAndItIsSaidOnce) {
  WriteGruFolder(root_, "a");
  Poll();
  fs::rename(root_, root_ + "-away");
  log_.WaitFor("! model repository " + root_ +
               ": No such file or directory: nothing is loaded or unloaded");
  EXPECT_EQ(Version("a"), 1);
  fs::rename(root_ + "-away", root_);
  WriteGruFolder(root_, "b");
  log_.WaitFor("model \"b\" is loaded: its folder changed");
  EXPECT_THAT(log_.lines(), Not(Contains(HasSubstr("unloaded: its folder"))));
  EXPECT_THAT(scheduler_.log, Each(StartsWith("add ")));
}

// --strict-readiness=false: the server goes on.
TEST_F(ModelControlTest, AStartThatCouldNotReadTheRepositoryKeepsNobodyWaitingOnceItCan) {
  for (const bool poll : {false, true}) {
    fs::remove_all(root_);
    poll ? Poll() : Explicit({"a"});
    EXPECT_THAT(std::string(start_.message()), HasSubstr(root_ + ": No such file"));
    EXPECT_FALSE(control_->loading());
    WriteGruFolder(root_, "a");
    if (poll) {
      log_.WaitFor("model \"a\" is loaded: its folder changed");
    } else {
      Load("a");
      told_.WaitFor("load a: OK");
    }
    EXPECT_EQ(Version("a"), 1);
    control_.reset();
  }
}

TEST_F(ModelControlTest, AModelWhoseLoadFailedByItsPolicyIsTriedAgainWhenThatIsMended) {
  WriteGruFolder(root_, "a");
  Poll();
  // Beside the one that is served, and where none is.
  for (const std::string name : {"a", "b"}) {
    WriteGruFolder(root_ + "-away", name, 2);
    std::ofstream(root_ + "-away/" + name + "/2/policy.textproto") << "kind: ?";
    const std::string what = name == "a" ? "/a/2" : "/b";
    fs::rename(root_ + "-away" + what, root_ + what);
    log_.WaitForPart("! model \"" + name + "\": 2/policy.textproto:1");
    fs::remove(root_ + "/" + name + "/2/policy.textproto");
    log_.WaitFor("model \"" + name + "\" is loaded: its folder changed");
    EXPECT_EQ(Version(name), 2);
  }
}

TEST_F(ModelControlTest, AFolderThatIsElsewhereWhenItIsToBeLoadedIsLoadedWhenItIsBack) {
  hear_ = [&](const std::string& line) {
    if (line.starts_with("model \"a\" is loaded")) fs::rename(root_ + "/b", root_ + "-away");
    if (line.starts_with("model \"c\" is loaded")) fs::rename(root_ + "-away", root_ + "/b");
  };
  Poll();
  for (const char* name : {"a", "b", "c"}) WriteGruFolder(root_ + "-broken", name);
  fs::rename(root_ + "-broken", root_);  // seen by one look
  log_.WaitFor("model \"b\" is loaded: its folder changed");
}

}  // namespace
}  // namespace cellbatch
