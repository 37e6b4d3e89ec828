// Answers of Infer whose bytes were damaged, in pieces of any size: the load generator's reader, which looks at codes alone, says
// of each that it can read what protobuf's own parser finds in the whole.
#include <google/protobuf/unknown_field_set.h>
#include <grpcpp/support/slice.h>

#include <string>
#include <vector>

#include "client/infer_answers.h"
#include "gtest/gtest.h"
#include "proto/cellbatch.pb.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/fuzz/mutator.h"

namespace cellbatch {
namespace {

using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

v1::InferResponse Response(Mutator& mutator) {
  v1::InferResponse response;
  if (mutator.Below(2) == 0) response.set_model_name("m");
  for (uint64_t i = 0, n = mutator.Below(5); i < n; ++i) {
    v1::Answer& answer = *response.add_answers();
    if (mutator.Below(3) == 0) {
      answer.set_code(static_cast<int32_t>(mutator.Below(17)));
      answer.set_error(std::string(mutator.Below(9), 'e'));
    } else {
      answer.add_outputs()->mutable_floats()->Resize(static_cast<int>(mutator.Below(9)), 0.5f);
    }
  }
  return response;
}

grpc::ByteBuffer InPieces(const std::string& bytes, Mutator& mutator) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size();) {
    const size_t size = 1 + mutator.Below(bytes.size() - at);
    slices.emplace_back(bytes.substr(at, size));
    at += size;
  }
  if (slices.empty()) slices.emplace_back("");
  return grpc::ByteBuffer(slices.data(), slices.size());
}

struct Reading {
  bool message = false;
  bool groups = false;  // protobuf takes them, the reader does not
  absl::Status status;  // as infer_answers.h has it
};

// By protobuf's parser of fields that nobody declared, the whole and then each answer.
Reading Slowly(const std::string& bytes, uint32_t inputs) {
  Reading reading;
  UnknownFieldSet fields;
  if (!fields.ParseFromString(bytes)) return reading;
  uint32_t answers = 0;
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    reading.groups = reading.groups || field.type() == UnknownField::TYPE_GROUP;
    if (field.number() != 4 || field.type() != UnknownField::TYPE_LENGTH_DELIMITED) continue;
    ++answers;
    UnknownFieldSet answer;
    if (!answer.ParseFromString(field.length_delimited())) return reading;
    uint32_t code = 0;
    std::string error;
    for (int k = 0; k < answer.field_count(); ++k) {
      const UnknownField& part = answer.field(k);
      reading.groups = reading.groups || part.type() == UnknownField::TYPE_GROUP;
      if (part.number() == 1 && part.type() == UnknownField::TYPE_VARINT) {
        code = static_cast<uint32_t>(part.varint());
      } else if (part.number() == 2 && part.type() == UnknownField::TYPE_LENGTH_DELIMITED) {
        error = part.length_delimited();
      }
    }
    const absl::Status status(static_cast<absl::StatusCode>(code), error);
    const bool says_more = absl::IsResourceExhausted(reading.status) && !status.ok() &&
                           !absl::IsResourceExhausted(status);
    if (reading.status.ok() || says_more) reading.status = status;
  }
  reading.message = true;
  if (reading.status.ok() && answers != inputs) reading.status = absl::InternalError("count");
  return reading;
}

TEST(InferAnswersFuzzTest, CodesAreThoseThatProtobufFinds) {
  const uint64_t seed = 20261203;
  SCOPED_TRACE(seed);
  Mutator mutator(seed, {std::string(1, '\0'), "\x22", "\x22\x02\x08\x03", "\x08\x05", "\x80",
                         "\xff\xff\xff\xff\x0f", "\x22\xff\xff\xff\xff\x07", "\x12\x01x"});
  int64_t right = 0, wrong = 0, none = 0;
  FuzzBudget budget(20'000);
  while (budget.Next()) {
    const v1::InferResponse valid = Response(mutator);
    const bool damaged = mutator.Below(4) != 0;
    const std::string bytes =
        damaged ? mutator.Mutate(valid.SerializeAsString()) : valid.SerializeAsString();
    SCOPED_TRACE(::testing::PrintToString(bytes));
    const auto inputs = static_cast<uint32_t>(valid.answers_size());
    const absl::Status said = CheckAnswers(InPieces(bytes, mutator), inputs);
    const Reading expected = Slowly(bytes, inputs);
    if (said.message() == "the answer is no InferResponse") {
      ++none;
      ASSERT_TRUE(!expected.message || expected.groups);
      ASSERT_EQ(said.code(), absl::StatusCode::kInternal);
      continue;
    }
    ++(said.ok() ? right : wrong);
    ASSERT_TRUE(expected.message) << said;
    ASSERT_EQ(said.code(), expected.status.code()) << said;
    if (expected.status.message() != "count") {
      ASSERT_EQ(said.message(), expected.status.message());
    }
  }
  EXPECT_GT(right, budget.cases() / 20);
  EXPECT_GT(wrong, budget.cases() / 20);
  EXPECT_GT(none, budget.cases() / 20);
}

}  // namespace
}  // namespace cellbatch
