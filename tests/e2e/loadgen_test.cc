// Every model of the zoo, loaded by the load generator through the wire: nothing but the model's name is said. What is
// asserted are counts and orders of times; how fast this machine is, no test asks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "client/client.h"
#include "tests/e2e/server_process.h"
#include "tests/e2e/small_models.h"
#include "tests/zoo/workload.h"

namespace cellbatch {
namespace {

using Json = nlohmann::json;

std::vector<std::string> Names() {
  std::vector<std::string> names = {"childsum", "childsum_by_arity"};
  names.insert(names.begin(), zoo::WorkloadNames().begin(), zoo::WorkloadNames().end());
  return names;
}

// One server for all tests of this program, with the model of every workload.
class Served {
 public:
  static Served& Get() {
    static Served served;
    return served;
  }
  bool ready() const { return client_ != nullptr; }
  const std::string& address() const { return server_->grpc(); }
  // Requests that the server has answered well.
  uint64_t Answered(const std::string& model) const {
    const auto counts = client_->Statistics(model);
    EXPECT_TRUE(counts.ok()) << counts.status();
    return counts.ok() ? counts->at(0).inferences : 0;
  }

 private:
  Served() {
    const std::string repository = NewRepository();
    for (const std::string& name : Names()) {
      zoo::MakeWorkload(name, zoo::Sizes{}, 4).model.Write(repository, name);
    }
    server_ = ServerProcess::Serving(repository, {"--row-budget=64MiB", "--batch-limit=64"});
    if (server_ == nullptr) return;
    auto client = Client::Connect({.url = server_->grpc()});
    if (client.ok()) client_ = *std::move(client);
  }

  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> client_;
};

std::string TempFile(const std::string& name) { return ::testing::TempDir() + "/" + name; }

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Loaded {
  int exit_code = -1;
  std::string text;  // what it printed
  Json all;          // its JSON; no object: there was none
  Json run;          // the first run of it; null: there was none
};

// Forty requests, one every 25 ms. `first`: what the shell does before it becomes the load generator. Flags may end
// with a 2>FILE: then the text is that of stdout alone.
Loaded Load(const std::string& flags, const std::string& first = "") {
  const std::string json = TempFile("run.json");
  std::remove(json.c_str());
  const std::string command = fmt::format(
      "{}exec loadgen/cellbatch-loadgen 2>&1 --url={} --rate=40 --duration=1 --warmup=0 "
      "--arrivals=constant --min-answers=1 --timeout=120 --json={} {}",
      first, Served::Get().address(), json, flags);
  Loaded loaded;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return loaded;
  char block[512];
  for (size_t n = 0; (n = fread(block, 1, sizeof(block), pipe)) > 0;) loaded.text.append(block, n);
  loaded.exit_code = pclose(pipe) / 256;
  loaded.all = Json::parse(ReadFile(json), nullptr, /*allow_exceptions=*/false);
  if (loaded.all.is_object() && !loaded.all["runs"].empty()) loaded.run = loaded.all["runs"][0];
  return loaded;
}

// The same of "lstm", with a SIGINT when so many more answers are there.
Loaded LoadAndStop(const std::string& flags, uint64_t answers) {
  const std::string pid = TempFile("loadgen.pid");
  const uint64_t before = Served::Get().Answered("lstm");
  std::atomic<bool> over = false;
  std::thread stopper([&] {
    using std::chrono::milliseconds;
    while (!over && Served::Get().Answered("lstm") - before < answers) {
      std::this_thread::sleep_for(milliseconds(20));
    }
    std::this_thread::sleep_for(milliseconds(500));  // for the last answer to be read
    if (!over) kill(std::stoi(ReadFile(pid)), SIGINT);
  });
  Loaded loaded = Load("--model=lstm " + flags, fmt::format("echo $$ > {}; ", pid));
  over = true;
  stopper.join();
  return loaded;
}

void ExpectAllRight(const Loaded& loaded, int offered = 40) {
  ASSERT_TRUE(loaded.run.is_object()) << loaded.text;
  EXPECT_EQ(loaded.run["offered"], offered) << loaded.text;
  EXPECT_EQ(loaded.run["completed"], offered) << loaded.text;
  EXPECT_EQ(loaded.run["errors"], Json::object()) << loaded.text;
}

class LoadgenTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(Served::Get().ready()); }
};

TEST_P(LoadgenTest, AModelsNameIsAllThatHasToBeSaid) {
  const uint64_t before = Served::Get().Answered(GetParam());
  ExpectAllRight(Load("--model=" + GetParam()));
  EXPECT_EQ(Served::Get().Answered(GetParam()) - before, 40u);
}

TEST_P(LoadgenTest, ManyInputsOfOneMessageAreAllAnswered) {
  // (A message says its decoder's steps once.)
  const std::string steps = GetParam() == "nmt" ? " --steps=model" : "";
  const uint64_t before = Served::Get().Answered(GetParam());
  const Loaded loaded = Load("--model=" + GetParam() + " --call=typed --many=3" + steps);
  ExpectAllRight(loaded);
  EXPECT_EQ(Served::Get().Answered(GetParam()) - before, 120u) << "each input is a request";
}

INSTANTIATE_TEST_SUITE_P(Zoo, LoadgenTest, ::testing::ValuesIn(Names()),
                         [](const auto& info) { return info.param; });

using LoadgenCallTest = LoadgenTest;

TEST_F(LoadgenCallTest, StreamedWordsAreCountedAndTheFirstIsTimedApart) {
  const std::string records = TempFile("records.csv");
  const Loaded loaded = Load("--model=nmt --call=decode --records=" + records);
  ExpectAllRight(loaded);
  EXPECT_EQ(loaded.run["first_word"]["count"], 40);
  EXPECT_NE(loaded.text.find("first word"), std::string::npos) << loaded.text;
  std::istringstream lines(ReadFile(records));
  std::string line;
  std::getline(lines, line);
  int64_t words = 0, count = 0;
  for (; std::getline(lines, line); ++count) {
    int64_t length = 0, intended = 0, sent = 0, done = 0, first = 0, said = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "measure,%ld,%ld,%ld,%ld,completed,nmt,%ld,%ld", &length,
                          &intended, &sent, &done, &first, &said),
              6)
        << line;
    EXPECT_LE(intended, sent);
    EXPECT_LT(sent, first);
    EXPECT_LE(first, done);
    EXPECT_GT(said, 0);
    EXPECT_LT(said, length) << "the length counts the source, too";
    words += said;
  }
  EXPECT_EQ(count, 40);
  EXPECT_EQ(loaded.run["words"], words);
}

TEST_F(LoadgenCallTest, AMixSendsEveryModelItsExactShare) {
  const Loaded loaded = Load(
      "--mix='treelstm,weight=3;nmt,call=decode;latticelstm,call=typed,many=4,priority=1;"
      "lstm,weight=3,timeout-us=60000000'");
  ExpectAllRight(loaded);
  const Json& models = loaded.run["models"];
  ASSERT_EQ(models.size(), 4u);
  const int shares[] = {15, 5, 5, 15};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(models[i]["offered"], shares[i]) << models[i];
    EXPECT_EQ(models[i]["completed"], shares[i]) << models[i];
    EXPECT_EQ(models[i]["response"]["count"], shares[i]);
    EXPECT_EQ(models[i]["first_word"]["count"], i == 1 ? 5 : 0);
  }
}

// A piece that came without its sequence having been started would be refused.
TEST_F(LoadgenCallTest, StreamsWhoseStateTheServerKeepsAreWholeAndInOrder) {
  const uint64_t before = Served::Get().Answered("lstm");
  ExpectAllRight(Load("--model=lstm --piece=5 --streams=10"));
  EXPECT_EQ(Served::Get().Answered("lstm") - before, 40u);
  const Loaded loaded = Load(
      "--model=lstm --piece=5 --streams=2 --measure-capacity --in-flight=8 --capacity-warmup=0 "
      "--capacity-duration=0.5");
  EXPECT_EQ(loaded.exit_code, 0) << loaded.text;
  EXPECT_NE(loaded.text.find("requests/s (closed loop, 2 in flight"), std::string::npos)
      << loaded.text;
}

TEST_F(LoadgenCallTest, CapacityIsThatOfTheMix) {
  const Loaded loaded = Load(
      "--mix='treegru;nmt,call=decode' --measure-capacity --in-flight=8 --capacity-warmup=0 "
      "--capacity-duration=0.5");
  EXPECT_EQ(loaded.exit_code, 0) << loaded.text;
  EXPECT_NE(loaded.text.find("requests/s (closed loop, 8 in flight"), std::string::npos)
      << loaded.text;
}

// A file's content, and a model that reads it.
struct Data {
  const char* model;
  const char* text;
};

TEST_F(LoadgenCallTest, AFileOfEachKindIsSent) {
  const Data files[] = {
      {"treelstm_2type", "(3 (2 It) (4 (2 's) (2 good)))\n(2 Good)\n"},
      {"childsum", "3\tit is good\t3 3 0\n1\tGood\t0\n"},
      {"latticegru", R"({"n":3,"char_ids":[5,600,7],"words":[[0,2],[1,3]],"word_ids":[8,9000]})"
                     "\n"},
      {"nmt", "ein Satz\ta sentence .\n"},
      {"nmt", "4\t3\n7\n"},
      {"bilstm_tagger_char", "Bonn|I-LOC is|O small|O\n"},
      {"bilstm_tagger", "a plain sentence\n"},
      {"lstm", "12\n3\n"},
      {"childsum_by_arity",
       R"({"inputs":[{"name":"NODE_TYPES","shape":[3],"datatype":"INT32","data":[0,1,11]},)"
       R"({"name":"EDGES","shape":[2,3],"datatype":"INT32","data":[0,1,0,1,2,0]},)"
       R"({"name":"words.token","shape":[1],"datatype":"INT32","data":[5]}]})"
       "\n"}};
  const std::string path = TempFile("data.txt");
  for (const Data& file : files) {
    std::ofstream(path) << file.text;
    SCOPED_TRACE(file.model);
    ExpectAllRight(Load(fmt::format("--model={} --data={}", file.model, path)));
  }
}

TEST_F(LoadgenCallTest, AFileThatCannotBeWrittenIsSaidBeforeAnythingIsSent) {
  const uint64_t before = Served::Get().Answered("lstm");
  for (const char* flag : {"--csv", "--records"}) {
    const Loaded loaded = Load(fmt::format("--model=lstm {}=/nowhere/file", flag));
    EXPECT_EQ(loaded.exit_code, 1) << loaded.text;
    EXPECT_NE(loaded.text.find("/nowhere/file cannot be written"), std::string::npos)
        << loaded.text;
  }
  EXPECT_EQ(Served::Get().Answered("lstm"), before);
}

TEST_F(LoadgenCallTest, WhereAFileIsStdoutNothingElseIsThere) {
  const std::string tables = TempFile("tables.txt");
  const Loaded json = Load("--model=lstm --json=- 2>" + tables);
  const Json all = Json::parse(json.text, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(all.is_object()) << json.text;
  EXPECT_EQ(all["runs"].at(0)["completed"], 40);
  for (const char* says : {"model lstm at ", "\nresponse ", "VALID: "}) {
    EXPECT_NE(ReadFile(tables).find(says), std::string::npos) << ReadFile(tables);
  }
  const Loaded csv = Load("--model=lstm --sweep=40:40:1 --csv=- 2>" + tables);
  EXPECT_EQ(csv.text.find("model,process,seed,"), 0u) << csv.text;
  EXPECT_EQ(std::count(csv.text.begin(), csv.text.end(), '\n'), 2) << csv.text;
  EXPECT_NE(ReadFile(tables).find(" rate"), std::string::npos) << ReadFile(tables);
  const Loaded capacity = Load(
      "--model=lstm --measure-capacity --in-flight=2 --capacity-warmup=0 --capacity-duration=0.1 "
      "--json=- 2>" +
      tables);
  EXPECT_TRUE(Json::accept(capacity.text)) << capacity.text;
  EXPECT_NE(ReadFile(tables).find("requests/s (closed loop"), std::string::npos);
}

// The second point wants more requests than a schedule may have.
TEST_F(LoadgenCallTest, WhatASweepMeasuredIsToldThoughALaterPointFails) {
  const std::string csv = TempFile("sweep.csv");
  const Loaded loaded =
      Load("--model=lstm --sweep=40:2000000040:2000000000 --cooldown=0 --csv=" + csv);
  EXPECT_EQ(loaded.exit_code, 1) << loaded.text;
  EXPECT_NE(loaded.text.find("2e+09 requests, the most is 1e+08"), std::string::npos)
      << loaded.text;
  ExpectAllRight(loaded);
  // A machine that is busy elsewhere may send a request late: the first point is then no rate sustained.
  const bool valid = loaded.run.value("verdict", "") == "VALID";
  const char* sustained = valid ? "\nhighest rate sustained: 40.0" : "\nno rate was sustained";
  EXPECT_NE(loaded.text.find(sustained), std::string::npos) << loaded.text;
  EXPECT_NE(loaded.text.find("\nnot measured: 2000000040.0 requests/s\n"), std::string::npos)
      << loaded.text;
  EXPECT_NE(ReadFile(csv), "");
}

TEST_F(LoadgenCallTest, ASweepThatIsStoppedInAPauseSaysWhatItDidNotMeasureAndIsNoSuccess) {
  const uint64_t before = Served::Get().Answered("lstm");
  const Loaded loaded = LoadAndStop("--sweep=40:120:40 --cooldown=3600", 40);
  ExpectAllRight(loaded);
  EXPECT_EQ(Served::Get().Answered("lstm") - before, 40u) << "the second point was run";
  EXPECT_EQ(loaded.exit_code, 1) << loaded.text;
  for (const char* says : {"\nnot measured: 80.0 to 120.0 requests/s (2 rates)\n",
                           "CANCELLED: stopped before every rate was measured"}) {
    EXPECT_NE(loaded.text.find(says), std::string::npos) << loaded.text;
  }
  EXPECT_EQ(loaded.all["runs"].size(), 1u) << "what was measured is written";
  EXPECT_EQ(loaded.all["rates_not_measured"], Json({80.0, 120.0}));
}

TEST_F(LoadgenCallTest, ASweepThatIsStoppedInAPointIsNoSuccess) {
  const Loaded loaded = LoadAndStop("--sweep=40:80:40 --duration=3600 --cooldown=0", 40);
  EXPECT_EQ(loaded.exit_code, 1) << loaded.text;
  EXPECT_NE(loaded.text.find("\nno rate was sustained\nnot measured: 80.0 requests/s\n"),
            std::string::npos)
      << loaded.text;
  EXPECT_EQ(loaded.all["runs"].size(), 1u) << loaded.text;
}

TEST_F(LoadgenCallTest, ARunThatIsStoppedTellsOfTheTimeUntilThenAndIsNoSuccess) {
  const Loaded loaded = LoadAndStop("--duration=3600", 40);
  EXPECT_EQ(loaded.exit_code, 1) << loaded.text;
  ASSERT_TRUE(loaded.run.is_object()) << loaded.text;
  const double seconds = loaded.run["seconds"], offered = loaded.run["offered"];
  EXPECT_LT(seconds, 3600);
  EXPECT_NEAR(offered, 40 * seconds, 1.01) << "one every 25 ms, until then";
  EXPECT_EQ(loaded.run["offered_per_second"], offered / seconds);
  EXPECT_GE(loaded.run["completed"], 40);
  EXPECT_EQ(loaded.run["overload"], false) << loaded.text;
  EXPECT_NE(loaded.text.find("INVALID: the schedule was not sent to its end: it was stopped\n"
                             "  do: let it run to its end: this is of the "),
            std::string::npos)
      << loaded.text;
}

TEST_F(LoadgenCallTest, WhatDoesNotGoTogetherIsNamedByItsField) {
  const std::string path = TempFile("trees.ptb");
  std::ofstream(path) << "(3 (2 It) (4 (2 's) (2 good)))\n";
  const std::pair<std::string, const char*> wrong[] = {
      {"--model=treelstm --call=decode",
       "treelstm: call=decode: model \"treelstm\" reads TOKENS and CHILDREN, binary trees; only a "
       "decoder answers in words"},
      {"--model=nmt --data=" + path, "(binary trees): model \"nmt\" reads SOURCE"},
      {"--model=nmt --call=typed --many=4", "many: inputs of one message decode to different"},
      {"--mix='lstm;nobody'", "nobody: unknown model"},
      {"--model=treelstm --data=/nowhere/trees", "data=/nowhere/trees: cannot be read"}};
  for (const auto& [flags, says] : wrong) {
    const Loaded loaded = Load(flags);
    EXPECT_EQ(loaded.exit_code, 1) << flags;
    EXPECT_NE(loaded.text.find(says), std::string::npos) << flags << "\n" << loaded.text;
  }
}

}  // namespace
}  // namespace cellbatch
