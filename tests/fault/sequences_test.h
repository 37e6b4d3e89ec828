// The suite of the tests of sequences whose state the server keeps: what is right, and what is counted. Each has a server of its own.
#ifndef CELLBATCH_TESTS_FAULT_SEQUENCES_TEST_H_
#define CELLBATCH_TESTS_FAULT_SEQUENCES_TEST_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fault/own_server_test.h"
#include "tests/fault/sequence_pieces.h"

namespace cellbatch {

using Tokens = std::vector<int32_t>;

inline constexpr int kWordsState = 2 * 24 * 4;  // bytes of h and c
inline constexpr int kSlowState = 2 * 768 * 4;  // likewise
// Of "slow": enough for things to happen meanwhile, and few enough to be waited for.
inline constexpr int kHeldSteps = 12000;

inline Tokens Several(int steps, int from = 0, int vocabulary = kWords.vocabulary) {
  Tokens tokens;
  for (int i = 0; i < steps; ++i) tokens.push_back((from + i * 37 + i / 7) % vocabulary);
  return tokens;
}
inline Tokens Joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class SequencesTest : public OwnServerTest {
 protected:
  struct Counts {
    double live = 0, bytes = 0, started = 0, ended = 0, timed_out = 0;
    bool operator==(const Counts&) const = default;
    friend void PrintTo(const Counts& c, std::ostream* out) {
      *out << c.live << " live, " << c.bytes << " bytes, " << c.started << " started, " << c.ended
           << " ended, " << c.timed_out << " timed out";
    }
  };

  // Nothing is left of any request, others are answered as ever, and SIGTERM ends the server with 0.
  void TearDown() override {
    if (server_ == nullptr) return;
    WaitUntilEmpty(*server_);
    ExpectGood(*caller_);
    End();
  }
  // The first output; none: it was refused.
  std::vector<float> Ask(const inference::ModelInferRequest& request) {
    inference::ModelInferResponse answer;
    const grpc::Status status = caller_->Infer(request, answer);
    EXPECT_TRUE(status.ok()) << status.error_code() << ": " << status.error_message();
    return FirstOutput(answer);
  }
  // What one request of all of it answers.
  std::vector<float> Whole(const Tokens& tokens, const std::string& model = "words") {
    return Ask(Words(tokens, model));
  }
  void ExpectRefused(const inference::ModelInferRequest& request, grpc::StatusCode code,
                     const std::string& text) {
    inference::ModelInferResponse answer;
    const grpc::Status status = caller_->Infer(request, answer);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), testing::HasSubstr(text));
  }
  template <typename Id>
  void ExpectNotThere(const Id& id, const std::string& shown) {
    for (const Mark mark : {Mark::kNone, Mark::kEnd}) {
      const inference::ModelInferRequest piece = Piece(id, {1}, mark);
      ExpectRefused(piece, grpc::StatusCode::INVALID_ARGUMENT,
                    "sequence " + shown + " has no state");
      ExpectRefused(piece, grpc::StatusCode::INVALID_ARGUMENT, "start it with sequence_start");
    }
  }
  // RESOURCE_EXHAUSTED that names the bound; returns the hint, or nothing.
  std::string HintOfFull(const inference::ModelInferRequest& request, const std::string& bound) {
    grpc::ClientContext context;
    inference::ModelInferResponse answer;
    const grpc::Status status = caller_->stub().ModelInfer(&context, request, &answer);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
    EXPECT_THAT(status.error_message(), testing::HasSubstr(bound));
    const auto hint = context.GetServerTrailingMetadata().find("grpc-retry-pushback-ms");
    if (hint == context.GetServerTrailingMetadata().end()) return "";
    return std::string(hint->second.data(), hint->second.size());
  }
  Counts Count() const {
    const MetricsPage page(*server_);
    const auto changes = [&](const std::string& what) {
      return page.Sum("cellbatch_sequence_changes_total", {"what=\"" + what + "\""});
    };
    return {.live = page.Sum("cellbatch_sequences"),
            .bytes = page.Sum("cellbatch_sequence_state_bytes"),
            .started = changes("started"),
            .ended = changes("ended"),
            .timed_out = changes("timed_out")};
  }
  double Rejected() const {
    return MetricsPage(*server_).Sum("cellbatch_rejected_total", {R"(reason="sequences")"});
  }
  void WaitForAdmitted(int requests) const {
    WaitForPage(*server_, [&](const MetricsPage& p) { return p.Admitted() == requests; });
  }
  // The same of pieces that are held up by one of kHeldSteps of "slow", or it is through already.
  void WaitForHeld(int requests) const {
    WaitForPage(*server_, [&](const MetricsPage& p) {
      return (p.Admitted() == requests && p.Running() == 1) || p.Steps("slow") >= kHeldSteps;
    });
  }
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_FAULT_SEQUENCES_TEST_H_
