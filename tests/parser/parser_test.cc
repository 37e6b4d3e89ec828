// A transition parser, whose graphs grow by what they compute: many sentences at once through the
// scheduler and a CPU device, against the same parser written from its equations, one by one.
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "proto/grpc_service.pb.h"
#include "scheduler/clock.h"
#include "server/kserve/infer_call.h"
#include "server/requests/responder.h"
#include "tests/golden/bound.h"
#include "tests/golden/growing.h"
#include "tests/golden/served.h"
#include "tests/parser/parser_model.h"
#include "tests/parser/parser_reference.h"
#include "tests/testing/fake_transport.h"
#include "tests/zoo/data.h"

namespace cellbatch::parser {
namespace {

constexpr size_t kSentences = 300;
constexpr uint64_t kSeed =
    21;  // weights that take each action often, and not always as late as they can

using Sentence = std::vector<int32_t>;

// Of the lengths of ud_ewt_test.tsv, the shortest and the longest among them.
std::vector<Sentence> Sentences(int32_t vocabulary) {
  std::vector<Sentence> sentences;
  const auto trees = zoo::Spread(zoo::EwtTrees().items, kSentences,
                                 [](const zoo::DependencyTree& t) { return t.words.size(); });
  for (const zoo::DependencyTree& tree : trees) {
    Sentence& s = sentences.emplace_back();
    for (const std::string& word : tree.words) s.push_back(zoo::WordId(word, vocabulary));
  }
  return sentences;
}

struct Answer {
  absl::Status status;
  std::vector<std::vector<std::byte>> tensors;  // ACTIONS, HEADS, SCORES, OUTPUT
  int64_t nodes = 0;
  bool operator==(const Answer& other) const { return tensors == other.tensors; }
};

template <typename T>
std::vector<T> As(const std::vector<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<Answer> Parse(Scheduler& scheduler, const std::shared_ptr<const Model>& model,
                          const std::vector<Sentence>& sentences) {
  std::vector<RequestInput> inputs(sentences.size());
  for (size_t i = 0; i < sentences.size(); ++i) {
    inputs[i].tensors = {{"TOKENS",
                          WireType::kInt32,
                          {static_cast<int64_t>(sentences[i].size())},
                          absl::MakeSpan(reinterpret_cast<const std::byte*>(sentences[i].data()),
                                         4 * sentences[i].size())}};
  }
  std::vector<Answer> answers;
  for (const auto& request : golden::AnswerGrowing(scheduler, model, inputs)) {
    Answer& answer = answers.emplace_back();
    answer.status = request->status;
    answer.nodes = request->nodes_executed;
    for (const ReturnedTensor& t : request->graph.tensors()) {
      answer.tensors.emplace_back(t.bytes.begin(), t.bytes.end());
    }
  }
  return answers;
}

void ExpectAgrees(const Answer& answer, const Parsed& reference, size_t words) {
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(As<int32_t>(answer.tensors[0]), reference.actions) << words << " words";
  EXPECT_EQ(As<int32_t>(answer.tensors[1]), reference.heads);
  const std::vector<float> scores = As<float>(answer.tensors[2]);
  const std::vector<float> output = As<float>(answer.tensors[3]);
  EXPECT_LE(golden::PartOfBound(reference.scores, {scores.begin(), scores.end()}), 1);
  EXPECT_LE(golden::PartOfBound(reference.output, {output.begin(), output.end()}), 1);
}

class ParserTest : public ::testing::TestWithParam<int> {
 protected:
  ParserTest() {
    auto served = golden::Served::Start(GetParam());
    EXPECT_TRUE(served.ok()) << served.status();
    served_ = *std::move(served);
    EXPECT_TRUE(served_->Add(model_).ok());
  }
  const Sizes sizes_;
  const std::shared_ptr<const Model> model_ = MakeParser(ModelId(1), sizes_, kSeed);
  const std::vector<Sentence> sentences_ = Sentences(sizes_.vocabulary);
  std::unique_ptr<golden::Served> served_;
};

TEST_P(ParserTest, AgreesWithItsReferenceAndHasTheSameBitsAloneAndInCompany) {
  const std::vector<Answer> together = Parse(served_->scheduler(), model_, sentences_);
  std::map<int32_t, int> taken;
  double least_margin = 1e9;
  int64_t nodes = 0, actions = 0;
  for (size_t i = 0; i < sentences_.size(); ++i) {
    const Parsed reference = Reference(*model_, sentences_[i]);
    ExpectAgrees(together[i], reference, sentences_[i].size());
    for (const int32_t action : reference.actions) ++taken[action];
    least_margin = std::min(least_margin, reference.least_margin);
    nodes += together[i].nodes;
    actions += static_cast<int64_t>(reference.actions.size());
    const Answer alone = Parse(served_->scheduler(), model_, {sentences_[i]})[0];
    EXPECT_EQ(alone, together[i]) << "sentence " << i;
  }
  std::printf("%zu sentences, %ld actions (%d LEFT, %d RIGHT), %ld cells; closest choice %.1e\n",
              sentences_.size(), static_cast<long>(actions), taken[kLeft], taken[kRight],
              static_cast<long>(nodes), least_margin);
  EXPECT_GT(taken[kLeft], 100);
  EXPECT_GT(taken[kRight], 100);
  EXPECT_GT(least_margin, 1e-6) << "a choice too close for fp32 says nothing";
  const LaneStats lane = served_->scheduler().stats().Lanes()[0];
  uint64_t tasks = 0;
  for (const CellTypeStats& type : lane.types) tasks += type.tasks;
  // Alone every sentence took its own tasks; together they shared them.
  EXPECT_LT(tasks, static_cast<uint64_t>(nodes) * 3 / 2);
}
INSTANTIATE_TEST_SUITE_P(Devices, ParserTest, ::testing::Values(1, 2));

// The same through the service: ModelInfer knows nothing of pieces.
TEST(ParserServiceTest, ModelInferAnswersWithTheWholeParse) {
  auto served = golden::Served::Start(1);
  ASSERT_TRUE(served.ok()) << served.status();
  Scheduler& scheduler = (*served)->scheduler();
  const Sizes sizes;
  const auto model = MakeParser(ModelId(1), sizes, kSeed);
  ASSERT_TRUE((*served)->Add(model).ok());
  const SteadyClock clock;
  Admission admission({});
  StatsRegistry stats(RequestPath::Shards(1, 1));
  RequestPath path(
      {.transport_threads = 1, .responders = 1, .latency_samples = 1024},
      [&](std::string_view, std::string_view) { return model; }, scheduler, admission, stats,
      clock);
  InferService service(path);
  Responder responder(scheduler, path);
  std::deque<FakeCall> calls;
  std::vector<Sentence> sentences = Sentences(sizes.vocabulary);
  sentences.resize(40);
  for (const Sentence& sentence : sentences) {
    inference::ModelInferRequest request;
    request.set_model_name("parser");
    auto* input = request.add_inputs();
    input->set_name("TOKENS");
    input->set_datatype("INT32");
    input->add_shape(static_cast<int64_t>(sentence.size()));
    request.add_raw_input_contents(sentence.data(), 4 * sentence.size());
    calls.emplace_back(request.SerializeAsString(), clock.NowNs()).StartOn(service);
  }
  for (size_t i = 0; i < sentences.size(); ++i) {
    const CallResult& result = calls[i].Wait();
    ASSERT_TRUE(result.status.ok()) << result.status;
    inference::ModelInferResponse response;
    ASSERT_TRUE(response.ParseFromString(result.body));
    ASSERT_EQ(response.outputs_size(), 4);
    EXPECT_EQ(response.outputs(0).name(), "ACTIONS");
    Answer answer;
    for (const std::string& raw : response.raw_output_contents()) {
      const auto* bytes = reinterpret_cast<const std::byte*>(raw.data());
      answer.tensors.emplace_back(bytes, bytes + raw.size());
    }
    ExpectAgrees(answer, Reference(*model, sentences[i]), sentences[i].size());
  }
  responder.Stop();
  EXPECT_EQ(admission.InFlight().cells, 0);
}

}  // namespace
}  // namespace cellbatch::parser
