// What the span of a request's cells says of them.
#include "server/trace/request_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tests/testing/decoder_model.h"

namespace cellbatch {
namespace {

using ::testing::IsEmpty;

class RequestTraceTest : public ::testing::Test {
 protected:
  // A translation of three words, of which so many cells ran: at most 3 and 1 and 40.
  void Translate(int64_t executed) {
    const std::vector<int32_t> words = {7, 8, 9};
    RequestInput input;
    input.tensors.push_back({kSourceInput,
                             WireType::kInt32,
                             {3},
                             absl::MakeConstSpan(reinterpret_cast<const std::byte*>(words.data()),
                                                 words.size() * sizeof(int32_t))});
    ASSERT_TRUE(model_->unfolder->Unfold(input, request_.graph).ok());
    ASSERT_TRUE(request_.graph.Seal(*model_, 1).ok());
    request_.nodes_executed = executed;
    request_.times.first_task_start = 1;
  }
  // The numbers of `compute` whose names end so, by cell type.
  std::map<std::string, int64_t> Said(const std::string& end) {
    RequestTrace trace({}, 0);
    trace.Done(0, *model_, request_, std::vector<TypeTasks>(model_->types.size()), 1);
    std::map<std::string, int64_t> said;
    for (const Span& span : trace.End({})) {
      for (const auto& [name, value] : span.attributes) {
        const std::string begin = "cellbatch.cell.";
        if (!name.starts_with(begin) || !name.ends_with(end)) continue;
        said[name.substr(begin.size(), name.size() - begin.size() - end.size())] =
            std::get<int64_t>(value);
      }
    }
    return said;
  }

  const std::shared_ptr<Model> model_ = DecoderModel();
  Request request_;
};

TEST_F(RequestTraceTest, SpansAreOfItsTimesOnTheWallClockAndOfTheTasksSinceItWasSubmitted) {
  Translate(3 + 1 + 40);
  request_.times.submitted = 110;
  request_.times.first_task_start = 120;
  request_.times.last_task_end = 150;
  const auto spans = [&] {
    RequestTrace trace({}, 100);
    trace.Submitted({{10, 1'000'000}, {20, 0}, {30, 0}});
    trace.Done(0, *model_, request_, {{15, 3'000'000}, {21, 0}, {70, 0}}, 160);
    std::vector<Span> all = trace.End({.wire = "grpc",
                                       .id = {},
                                       .model = {},
                                       .version = {},
                                       .outcome = {},
                                       .status = request_.status,
                                       .ended_ns = 170,
                                       .unix_ns = 1'000'170});
    return all;
  };
  std::map<std::string, std::pair<int64_t, int64_t>> times;
  for (const Span& span : spans()) {
    times[span.name] = {span.start_unix_ns - 1'000'000, span.end_unix_ns - 1'000'000};
  }
  using Times = std::map<std::string, std::pair<int64_t, int64_t>>;
  EXPECT_EQ(times, (Times{{"cellbatch grpc", {100, 170}},
                          {"decode", {100, 110}},
                          {"queue", {110, 120}},
                          {"compute", {120, 150}},
                          {"encode", {150, 160}}}));
  const std::vector<Span> all = spans();
  const std::string first = "cellbatch.cell." + model_->types[0].name;
  std::map<std::string, Span::Value> said(all[3].attributes.begin(), all[3].attributes.end());
  EXPECT_EQ(all[3].name, "compute");
  EXPECT_EQ(said[first + ".tasks"], Span::Value(int64_t{5}));
  EXPECT_EQ(said[first + ".task_ms"], Span::Value(2.0));
  request_.status = absl::InternalError("");
  for (const Span& span : spans()) EXPECT_NE(span.name, "encode") << "of no answer";
}

TEST_F(RequestTraceTest, ADecoderThatStoppedHasTheCellsThatRan) {
  Translate(3 + 1 + 5);
  EXPECT_EQ(Said(".cells"), (std::map<std::string, int64_t>{{model_->types[0].name, 3},
                                                            {model_->types[1].name, 1},
                                                            {model_->types[2].name, 5}}));
}

TEST_F(RequestTraceTest, ADecoderThatReachedItsCapHasAllOfThem) {
  Translate(3 + 1 + 40);
  EXPECT_EQ(Said(".cells").at(model_->types[2].name), 40);
}

TEST_F(RequestTraceTest, OfOneThatFailedNobodyKnowsWhichCellsRan) {
  Translate(3 + 1 + 5);
  request_.status = absl::CancelledError("");
  EXPECT_THAT(Said(".cells"), IsEmpty());
  EXPECT_EQ(Said(".tasks").size(), 3u);
}

}  // namespace
}  // namespace cellbatch
