#include "server/calibration/calibration_folder.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/calibration/calibration_text.h"
#include "server/calibration/kept_calibration.h"

namespace cellbatch {

bool operator==(const CalibrationPoint& a, const CalibrationPoint& b) {
  return a.batch == b.batch && a.task_ns == b.task_ns;
}

namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Points = std::vector<CalibrationPoint>;

class CalibrationFolderTest : public ::testing::Test {
 protected:
  CalibrationFolderTest() { fs::remove_all(root_); }
  ~CalibrationFolderTest() override { fs::remove_all(root_); }

  std::unique_ptr<CalibrationFolder> Open(const std::string& program = "build 1") const {
    auto folder = CalibrationFolder::Open(root_, program);
    EXPECT_TRUE(folder.ok()) << folder.status();
    return *std::move(folder);
  }
  // What else lies there: nothing is left behind.
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(root_)) files.push_back(entry.path().string());
    return files;
  }
  static std::string Read(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::trunc) << text;
  }

  const std::string root_ = ::testing::TempDir() + "/kept/calibration";
  const CalibrationKey key_ = {"cpu", "lstm", "all it depends on"};
  const Points points_ = {{1, 52'000}, {2, 54'000}, {3, 54'000}, {4, 60'000}};
};

TEST_F(CalibrationFolderTest, WhatKilledServersLeftGoesAndWhatOthersWriteStays) {
  Open();
  for (const char* name : {".partial.left", ".partial.young", "old.textproto"}) {
    Write(root_ + "/" + name, "half a fi");
    if (std::string_view(name) == ".partial.young") continue;
    fs::last_write_time(root_ + "/" + name,
                        fs::file_time_type::clock::now() - std::chrono::hours(2));
  }
  Open();
  EXPECT_THAT(Files(),
              testing::UnorderedElementsAre(root_ + "/.partial.young", root_ + "/old.textproto"));
}

TEST_F(CalibrationFolderTest, WhatIsKeptIsFoundByTheNextServer) {
  EXPECT_THAT(Open()->Find(key_), IsEmpty());
  Open()->Keep(key_, points_);
  EXPECT_EQ(Open()->Find(key_), points_);
  EXPECT_THAT(Files(), ElementsAre(Open()->PathOf(key_)));
  const Points others = {{1, 7}};
  Open()->Keep(key_, others);
  EXPECT_EQ(Open()->Find(key_), others) << "in place of what was there";
  EXPECT_THAT(Files(), ElementsAre(Open()->PathOf(key_)));
}

TEST_F(CalibrationFolderTest, WhatNoClockCouldTellApartIsNotKept) {
  Open()->Keep(key_, Points{{1, 0}, {2, 1000}});
  Open()->Keep(key_, Points());
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(CalibrationFolderTest, ByWhatItDependsOnAndTheProgramAndNothingElse) {
  Open()->Keep(key_, points_);
  EXPECT_EQ(Open()->Find({"another name", "renamed", key_.depends_on}), points_);
  EXPECT_THAT(Open()->Find({"cpu", "lstm", "something else"}), IsEmpty());
  EXPECT_THAT(Open("build 2")->Find(key_), IsEmpty());
}

TEST_F(CalibrationFolderTest, WhatCannotBeUsedIsAsIfItWereNotThereAndIsReplaced) {
  const auto folder = Open();
  const std::string path = folder->PathOf(key_);
  folder->Keep(key_, points_);
  const std::string good = Read(path);
  const CalibrationKey other = {"cpu", "lstm", "something else"};
  const std::string damaged[] = {"",
                                 good.substr(0, good.size() / 2),
                                 "\xff\xfe",
                                 good + "points {",
                                 good + std::string(kMostKeptBytes, '#'),
                                 KeptCalibrationText(other, folder->FingerprintOf(other), points_)};
  for (const std::string& text : damaged) {
    Write(path, text);
    EXPECT_THAT(folder->Find(key_), IsEmpty()) << text.substr(0, 200);
    folder->Keep(key_, points_);
    EXPECT_EQ(folder->Find(key_), points_);
  }
  fs::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(folder->Find(key_), IsEmpty()) << "nobody waits for who would write it";
  folder->Keep(key_, points_);
  EXPECT_EQ(folder->Find(key_), points_);
}

// A folder that goes, or a place that is taken: said in the log, and the server goes on.
TEST_F(CalibrationFolderTest, WhatCannotBeWrittenIsNotKept) {
  const auto folder = Open();
  fs::create_directories(folder->PathOf(key_) + "/in the way");
  folder->Keep(key_, points_);
  EXPECT_THAT(folder->Find(key_), IsEmpty());
  EXPECT_THAT(Files(), ElementsAre(folder->PathOf(key_))) << "no part of it is left";
  fs::remove_all(root_);
  folder->Keep(key_, points_);
  EXPECT_THAT(folder->Find(key_), IsEmpty());
}

TEST_F(CalibrationFolderTest, AFolderThatCannotBeMadeIsSaid) {
  fs::create_directories(fs::path(root_).parent_path());
  Write(root_, "a file");
  for (const std::string& place : {root_, root_ + "/below"}) {
    const auto folder = CalibrationFolder::Open(place, "");
    EXPECT_EQ(folder.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(folder.status().message()),
                HasSubstr("--calibration-cache=" + place + ": no folder can be made there: "));
  }
  const auto folder = CalibrationFolder::Open("/proc/self/fdinfo", "");
  EXPECT_THAT(std::string(folder.status().message()),
              HasSubstr("--calibration-cache=/proc/self/fdinfo: /proc/self/fdinfo/.probe."));
}

// Servers of other users share a folder.
TEST_F(CalibrationFolderTest, WhatIsKeptAllMayReadAndItsOwnerAloneWrites) {
  const auto folder = Open();
  const mode_t before = umask(0077);
  folder->Keep(key_, points_);
  umask(before);
  struct stat kept = {};
  ASSERT_EQ(stat(folder->PathOf(key_).c_str(), &kept), 0);
  EXPECT_EQ(kept.st_mode & 0777, 0644u);
}

TEST_F(CalibrationFolderTest, WhereTheDiskIsFullWhatWasKeptStaysAndNothingIsLeftBeside) {
  const auto folder = Open();
  folder->Keep(key_, points_);
  struct rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = signal(SIGXFSZ, SIG_IGN);
  struct rlimit tight = before;
  tight.rlim_cur = 60;  // half a file
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  folder->Keep(key_, Points{{1, 7}});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, ignored);
  EXPECT_EQ(folder->Find(key_), points_);
  EXPECT_THAT(Files(), ElementsAre(folder->PathOf(key_)));
}

TEST(CalibrationTextTest, WhereTimesComeFromIsCountedByCellType) {
  CellTypeCalibration none, measured, kept;
  measured.points = kept.points = {{1, 5}};
  kept.kept = true;
  EXPECT_EQ(WhereTimesComeFrom({}), "");
  EXPECT_EQ(WhereTimesComeFrom({none, none}), "");
  EXPECT_EQ(WhereTimesComeFrom({measured, none}), "; T(b) measured of 1 cell type");
  EXPECT_EQ(WhereTimesComeFrom({measured, measured}), "; T(b) measured of 2 cell types");
  EXPECT_EQ(WhereTimesComeFrom({kept, none}), "; T(b) kept and confirmed of 1 cell type");
  EXPECT_EQ(WhereTimesComeFrom({kept, kept, measured}),
            "; T(b) kept and confirmed of 2 cell types, measured of 1");
}

// Each writes a T(b) of its own, of many points: a reader has one of them, all of it.
TEST_F(CalibrationFolderTest, WhoReadsWhileTwoWriteHasOneOfThem) {
  const auto points_of = [](int64_t ns) {
    Points points;
    for (int32_t b = 1; b <= kMostKeptPoints; ++b) points.push_back({b, ns * b});
    return points;
  };
  const Points a = points_of(1000), b = points_of(2000);
  Open()->Keep(key_, a);
  std::vector<std::thread> writers;
  for (const Points* const points : {&a, &b}) {
    writers.emplace_back([this, points] {
      const auto folder = Open();
      for (int i = 0; i < 200; ++i) folder->Keep(key_, *points);
    });
  }
  const auto folder = Open();
  for (int i = 0; i < 200; ++i) {
    const Points read = folder->Find(key_);
    ASSERT_TRUE(read == a || read == b) << read.size();
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_THAT(Files(), ElementsAre(folder->PathOf(key_)));
}

TEST(KeptCalibrationTest, WhatIsWrongIsSaidWithBothValues) {
  const auto error = [](const std::string& text) {
    return std::string(ParseKeptCalibration(text, "x.textproto", "00ff").status().message());
  };
  const std::string head = "fingerprint: \"00ff\" ";
  EXPECT_EQ(error("fingerprint: \"00fe\""),
            "x.textproto: fingerprint is \"00fe\", what is asked for has \"00ff\"");
  EXPECT_EQ(error(head), "x.textproto: 0 points, allowed are 1 to 64");
  EXPECT_EQ(error(head + "points { batch: 2 ns: 5 }"),
            "x.textproto: point 0 has batch 2, the first is 1");
  EXPECT_EQ(error(head + "points { batch: 1 ns: 5 } points { batch: 1 ns: 5 }"),
            "x.textproto: point 1 has batch 1, the least is 2");
  EXPECT_EQ(error(head + "points { batch: 1 ns: 5 } points { batch: 2 ns: 4 }"),
            "x.textproto: batch 2 takes 4 ns, allowed are 5 to 60000000000");
  EXPECT_EQ(error(head + "points { batch: 1 ns: 0 }"),
            "x.textproto: batch 1 takes 0 ns, allowed are 1 to 60000000000");
  EXPECT_EQ(error("points { batch: 1 ns: 60000000001 } " + head),
            "x.textproto: batch 1 takes 60000000001 ns, allowed are 1 to 60000000000");
  EXPECT_THAT(error(head + "points { batch: 1 is: 5 }"), HasSubstr("x.textproto:1:"));
}

}  // namespace
}  // namespace cellbatch
