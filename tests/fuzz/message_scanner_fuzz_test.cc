// Damaged messages of every kind that is received, through the one scanner and through protobuf's own parser: what the
// scanner accepts is what the parser accepts, no more and no less (beside text that is no UTF-8, which is the parser's
// business), and the message without what is unknown is the one that DiscardUnknownFields leaves.
#include <memory>

#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/dynamic_message.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "gtest/gtest.h"
#include "proto/cellbatch.pb.h"
#include "proto/grpc_service.pb.h"
#include "server/wire/message_scanner.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/fuzz/mutator.h"

namespace cellbatch {
namespace {

using google::protobuf::FieldDescriptorProto;
using google::protobuf::FileDescriptor;
using google::protobuf::FileDescriptorProto;
using google::protobuf::Message;

// The same messages with bytes for every text: their parsers look at no UTF-8.
class WithoutTexts {
 public:
  explicit WithoutTexts(const FileDescriptor& file) {
    for (int i = 0; i < file.dependency_count(); ++i) Add(*file.dependency(i));
    Add(file);
  }
  std::unique_ptr<Message> New(const std::string& name) {
    return std::unique_ptr<Message>(
        factory_.GetPrototype(pool_.FindMessageTypeByName(name))->New());
  }

 private:
  void Add(const FileDescriptor& file) {
    FileDescriptorProto proto;
    file.CopyTo(&proto);
    for (auto& message : *proto.mutable_message_type()) Change(message);
    ASSERT_NE(pool_.BuildFile(proto), nullptr);
  }
  static void Change(google::protobuf::DescriptorProto& message) {
    message.clear_options();  // an entry of a map is a message like others then: keys are no bytes
    for (auto& field : *message.mutable_field()) {
      if (field.type() == FieldDescriptorProto::TYPE_STRING) {
        field.set_type(FieldDescriptorProto::TYPE_BYTES);
      }
    }
    for (auto& nested : *message.mutable_nested_type()) Change(nested);
  }
  google::protobuf::DescriptorPool pool_;
  google::protobuf::DynamicMessageFactory factory_{&pool_};
};

// What is unknown in it, too; of equal messages equal.
std::string Bytes(const Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream to(&bytes);
  google::protobuf::io::CodedOutputStream out(&to);
  out.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&out);
  out.Trim();
  return bytes;
}

// One of everything that its kind of message has.
void Fill(Message& message, Mutator& mutator, int depth = 0) {
  const auto& type = *message.GetDescriptor();
  const auto& set = *message.GetReflection();
  using Kind = google::protobuf::FieldDescriptor::CppType;
  for (int i = 0; i < type.field_count(); ++i) {
    const auto* field = type.field(i);
    const int values = field->is_repeated() ? static_cast<int>(1 + mutator.Below(3)) : 1;
    if (!field->is_repeated() && mutator.Below(3) == 0) continue;
    for (int v = 0; v < values; ++v) {
      const bool many = field->is_repeated();
      const auto number = static_cast<int32_t>(mutator.Below(300));
      const std::string text(mutator.Below(4), 'x');
      switch (field->cpp_type()) {
        case Kind::CPPTYPE_MESSAGE:
          if (depth < 6) {
            Fill(many ? *set.AddMessage(&message, field) : *set.MutableMessage(&message, field),
                 mutator, depth + 1);
          }
          break;
        case Kind::CPPTYPE_STRING:
          many ? set.AddString(&message, field, text) : set.SetString(&message, field, text);
          break;
        case Kind::CPPTYPE_INT32:
          many ? set.AddInt32(&message, field, -number) : set.SetInt32(&message, field, -number);
          break;
        case Kind::CPPTYPE_INT64:
          many ? set.AddInt64(&message, field, number) : set.SetInt64(&message, field, number);
          break;
        case Kind::CPPTYPE_UINT32:
          many ? set.AddUInt32(&message, field, 7) : set.SetUInt32(&message, field, 7);
          break;
        case Kind::CPPTYPE_UINT64:
          many ? set.AddUInt64(&message, field, 7) : set.SetUInt64(&message, field, 7);
          break;
        case Kind::CPPTYPE_DOUBLE:
          many ? set.AddDouble(&message, field, 0.5) : set.SetDouble(&message, field, 0.5);
          break;
        case Kind::CPPTYPE_FLOAT:
          many ? set.AddFloat(&message, field, 0.5f) : set.SetFloat(&message, field, 0.5f);
          break;
        case Kind::CPPTYPE_BOOL:
          many ? set.AddBool(&message, field, true) : set.SetBool(&message, field, true);
          break;
        case Kind::CPPTYPE_ENUM:
          break;
      }
    }
  }
}

TEST(MessageScannerFuzzTest, WhatItAcceptsParsesAndWhatItLeavesOutIsWhatIsUnknown) {
  const uint64_t seed = 20261123;
  SCOPED_TRACE(seed);
  Mutator mutator(seed, {std::string("\x7a\x00", 2), "\x78\x05", "\x7b\x78\x05\x7c", "\x7b\x7c",
                         "\xfa\x01\x02xx", "\x08\x01", "\x0a\x02\x08\x01", "\x22\x04\x0a\x02xx",
                         "\x2a\x03\x78\xff\x01", "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
                         "\x0d\x01\x02\x03\x04", "\xff\xff\xff\xff\x0f", "\xc3\x28"});
  const auto* kserve = inference::ModelInferRequest::descriptor()->file();
  const auto* ours = v1::InferRequest::descriptor()->file();
  WithoutTexts of_kserve(*kserve), of_ours(*ours);
  WireLimits limits;
  limits.max_unknown_fields = limits.max_unknown_bytes = 1 << 20;  // all within the bounds
  int64_t accepted = 0, left_out = 0;
  FuzzBudget budget(2000);
  while (budget.Next()) {
    const FileDescriptor& file = mutator.Below(2) == 0 ? *kserve : *ours;
    const auto& service = *file.service(0);
    const auto& type =
        *service
             .method(static_cast<int>(mutator.Below(static_cast<uint64_t>(service.method_count()))))
             ->input_type();
    const MessageScanner scanner(type, limits);
    const auto generated = [&type] {
      return std::unique_ptr<Message>(
          google::protobuf::MessageFactory::generated_factory()->GetPrototype(&type)->New());
    };
    const auto whole = generated();
    Fill(*whole, mutator);
    const std::string bytes = mutator.Mutate(whole->SerializeAsString());
    const auto texts_as_bytes = (&file == kserve ? of_kserve : of_ours).New(type.full_name());
    const bool is_message = texts_as_bytes->ParsePartialFromString(bytes);
    ScannedMessage looked;
    const absl::Status scanned = scanner.Scan(bytes, looked);
    ASSERT_EQ(scanned.ok(), is_message)
        << type.full_name() << " " << scanned << " " << testing::PrintToString(bytes);
    const auto parsed = generated();
    const bool parses = parsed->ParseFromString(bytes);
    const auto ours_parsed = generated();
    ASSERT_EQ(scanner.Parse(bytes, *ours_parsed).ok(), parses) << testing::PrintToString(bytes);
    if (!parses) continue;
    ++accepted;
    left_out += looked.unknown > 0 ? 1 : 0;
    parsed->DiscardUnknownFields();
    ASSERT_EQ(Bytes(*parsed), Bytes(*ours_parsed)) << testing::PrintToString(bytes);
  }
  // Damage that leaves nothing alive, or everything, tests nothing.
  EXPECT_GT(accepted, budget.cases() / 10);
  EXPECT_LT(accepted, budget.cases() * 9 / 10);
  EXPECT_GT(left_out, budget.cases() / 50);
}

}  // namespace
}  // namespace cellbatch
