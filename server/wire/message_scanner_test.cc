#include "server/wire/message_scanner.h"

#include <string>

#include "google/protobuf/arena.h"
#include "gtest/gtest.h"
#include "proto/grpc_service.pb.h"
#include "server/wire/wire_codec.h"
#include "server/wire/wire_fields.h"

namespace cellbatch {
namespace {

using inference::ModelInferRequest;

std::string Field(int number, const std::string& body) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(body.size()) + body;
}
constexpr const char* kUnknown = "\x78\x05";  // field 15, a varint
constexpr char kStartGroup = 15 << 3 | 3, kEndGroup = 15 << 3 | 4;

int64_t Unknown(const std::string& bytes, const WireLimits& limits = {}) {
  ScannedMessage scanned;
  const absl::Status status = InferScanner(limits).Scan(bytes, scanned);
  EXPECT_TRUE(status.ok()) << status;
  return scanned.unknown;
}
int64_t BytesToParse(const std::string& bytes) {
  ScannedMessage scanned;
  EXPECT_TRUE(InferScanner({}).Scan(bytes, scanned).ok());
  return scanned.parsing_bytes;
}
std::string ErrorOf(const std::string& bytes, const WireLimits& limits = {},
                    RefusalCounts* counts = nullptr) {
  ModelInferRequest message;
  return std::string(InferScanner(limits, counts).Parse(bytes, message).message());
}

// An arena's whole size is what parsing took.
TEST(MessageScannerTest, WhatParsingTakesIsNoMoreThanIsSaidHoweverNumbersAreWritten) {
  for (const int count : {10, 1000, 8193, 100'000}) {
    ModelInferRequest request;
    auto& contents = *request.add_inputs()->mutable_contents();
    contents.mutable_int64_contents()->Resize(count, 1);
    contents.mutable_int_contents()->Resize(count, 1);
    contents.mutable_bool_contents()->Resize(count, true);
    contents.mutable_fp32_contents()->Resize(count, 1);
    contents.mutable_fp64_contents()->Resize(count, 1);
    const std::string packed = request.SerializeAsString();
    std::string apart;  // each number a field
    for (int i = 0; i < count; ++i) apart += std::string("\x18\x01", 2);
    std::string input;
    wire::AppendVarint(5 << 3 | 2, input);
    wire::AppendVarint(apart.size(), input);
    input += apart;
    std::string unpacked;
    wire::AppendVarint(5 << 3 | 2, unpacked);
    wire::AppendVarint(input.size(), unpacked);
    unpacked += input;
    for (const std::string& bytes : {packed, unpacked}) {
      google::protobuf::Arena arena;
      auto& message = *google::protobuf::Arena::CreateMessage<ModelInferRequest>(&arena);
      const auto before = static_cast<int64_t>(arena.SpaceUsed());
      ASSERT_TRUE(InferScanner({}).Parse(bytes, message).ok());
      constexpr int64_t kOfTheMessage = 1024;  // one input, and what it has beside numbers
      EXPECT_LE(static_cast<int64_t>(arena.SpaceUsed()) - before,
                BytesToParse(bytes) + kOfTheMessage)
          << count;
    }
    EXPECT_EQ(BytesToParse(unpacked), 4 * 8 * count);
  }
}

TEST(MessageScannerTest, WhatIsRawOrCappedTakesNothingBesideTheMessage) {
  ModelInferRequest request;
  request.set_model_name("m");
  request.add_inputs()->add_shape(1000);
  request.add_raw_input_contents(std::string(4000, 'x'));
  EXPECT_EQ(BytesToParse(request.SerializeAsString()), 0);
}

TEST(MessageScannerTest, UnknownFieldsAreCountedAtEveryLevelAndInGroups) {
  EXPECT_EQ(Unknown(Field(1, "name")), 0);
  EXPECT_EQ(Unknown(kUnknown), 1);
  const std::string in_contents = Field(5, Field(5, kUnknown + std::string(kUnknown)));
  EXPECT_EQ(Unknown(in_contents + kUnknown), 3);
  const std::string in_a_map_entry = Field(4, Field(1, "key") + Field(2, kUnknown) + kUnknown);
  EXPECT_EQ(Unknown(in_a_map_entry), 2);
  const std::string group = kStartGroup + (kUnknown + std::string(kUnknown)) + kEndGroup;
  EXPECT_EQ(Unknown(group), 3);
}

// As protobuf takes it: a field of another kind on the wire is not ours.
TEST(MessageScannerTest, AKnownNumberOnAnotherKindOfFieldIsUnknown) {
  const std::string name_as_a_number("\x08\x01", 2);
  EXPECT_EQ(Unknown(name_as_a_number), 1);
  const std::string shape = Field(5, std::string("\x18\x01", 2) + Field(3, "\x01\x02"));
  EXPECT_EQ(Unknown(shape), 0) << "lists of numbers come packed or not";
  const std::string flag_as_text = Field(4, Field(2, Field(1, "yes")));
  EXPECT_EQ(Unknown(flag_as_text), 1);
}

TEST(MessageScannerTest, UnknownFieldsWithinTheBoundsAreLeftOutOfTheMessage) {
  ModelInferRequest request;
  request.set_model_name("tagger");
  request.add_inputs()->set_name("TOKENS");
  const std::string bytes = request.SerializeAsString() + kUnknown + Field(5, kUnknown) +
                            kStartGroup + kUnknown + kEndGroup + Field(2, "7");
  ModelInferRequest message;
  ASSERT_TRUE(InferScanner({}).Parse(bytes, message).ok());
  EXPECT_EQ(message.model_name(), "tagger");
  EXPECT_EQ(message.model_version(), "7") << "what follows them is read";
  ASSERT_EQ(message.inputs_size(), 2);
  EXPECT_TRUE(message.GetReflection()->GetUnknownFields(message).empty());
  EXPECT_TRUE(message.GetReflection()->GetUnknownFields(message.inputs(1)).empty());
}

TEST(MessageScannerTest, EachBoundNamesItsFlagAndBothValuesAndIsCounted) {
  RefusalCounts counts;
  const WireLimits limits = {.max_elements = 3,
                             .max_bytes_elements = 2,
                             .max_messages = 2,
                             .max_unknown_fields = 1,
                             .max_unknown_bytes = 4};
  const std::string packed = Field(5, Field(5, Field(2, "\x01\x02\x03\x04")));
  EXPECT_EQ(ErrorOf(packed, limits, &counts),
            "the request has 4 numbers or more, the most is 3 (--grpc-max-numbers)");
  EXPECT_EQ(ErrorOf(Field(1, "a") + Field(1, "b") + Field(1, "c"), limits, &counts),
            "the request has 3 texts or more, the most is 2 (--grpc-max-texts)")
      << "also of a field that is no list";
  EXPECT_EQ(ErrorOf(Field(5, "") + Field(5, Field(5, "")), limits, &counts),
            "the request has 3 messages or more, the most is 2 (--grpc-max-submessages)");
  EXPECT_EQ(ErrorOf(kUnknown + Field(5, kUnknown), limits, &counts),
            "the request has 2 unknown fields or more, the most is 1 (--grpc-max-unknown-fields)");
  EXPECT_EQ(ErrorOf(Field(15, "abc"), limits, &counts),
            "the request has 5 bytes of unknown fields or more, the most is 4 "
            "(--grpc-max-unknown-bytes)");
  EXPECT_EQ(ErrorOf("\x07", limits, &counts), "malformed ModelInferRequest");
  EXPECT_EQ(ErrorOf(Field(1, "\xff"), limits, &counts), "malformed ModelInferRequest")
      << "which only the parser sees";
  EXPECT_EQ(counts.Of(Refused::kMalformed), 2);
  for (const Refused reason : {Refused::kNumbers, Refused::kTexts, Refused::kMessages,
                               Refused::kUnknownFields, Refused::kUnknownBytes}) {
    EXPECT_EQ(counts.Of(reason), 1) << Name(reason);
  }
  const WireLimits one_input = {.max_inputs = 1};
  EXPECT_EQ(ErrorOf(Field(5, "") + Field(5, ""), one_input, &counts),
            "the request has 2 inputs or more, the most is 1");
  EXPECT_EQ(counts.Of(Refused::kField), 1);
}

TEST(MessageScannerTest, GroupsMustEndAsTheyBeganAndNotBeTooDeep) {
  const auto groups = [](size_t deep) {
    return std::string(deep, kStartGroup) + std::string(deep, kEndGroup);
  };
  EXPECT_EQ(ErrorOf(groups(wire::kMaxGroupDepth)), "");
  EXPECT_EQ(ErrorOf(groups(wire::kMaxGroupDepth + 1)), "malformed ModelInferRequest");
  EXPECT_EQ(ErrorOf(std::string(1, kStartGroup)), "malformed ModelInferRequest");
  EXPECT_EQ(ErrorOf(std::string(1, kEndGroup)), "malformed ModelInferRequest");
  EXPECT_EQ(ErrorOf({kStartGroup, static_cast<char>(kEndGroup - 8)}),
            "malformed ModelInferRequest");
}

}  // namespace
}  // namespace cellbatch
