#include "server/grpc/reflection.h"

#include "gmock/gmock.h"
#include "google/protobuf/descriptor.pb.h"
#include "gtest/gtest.h"
#include "proto/grpc_service.pb.h"

namespace cellbatch {
namespace {

using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;
using ::testing::ElementsAre;

std::vector<std::string> FilesOf(const ServerReflectionResponse& response) {
  std::vector<std::string> names;
  for (const std::string& bytes : response.file_descriptor_response().file_descriptor_proto()) {
    google::protobuf::FileDescriptorProto file;
    EXPECT_TRUE(file.ParseFromString(bytes));
    names.push_back(file.name());
  }
  return names;
}

TEST(ReflectionTest, ServicesAreListedAsTheyWereGiven) {
  ServerReflectionRequest request;
  request.set_list_services("*");
  request.set_host("here");
  const ServerReflectionResponse response = Reflect({"a.B", "c.D"}, request);
  ASSERT_EQ(response.list_services_response().service_size(), 2);
  EXPECT_EQ(response.list_services_response().service(1).name(), "c.D");
  EXPECT_EQ(response.valid_host(), "here");
  EXPECT_EQ(response.original_request().list_services(), "*");
}

TEST(ReflectionTest, AFileComesWithAllThatItImportsWhateverItWasAskedBy) {
  const std::string file = inference::ModelInferRequest::descriptor()->file()->name();
  for (const char* symbol :
       {"inference.GRPCInferenceService", "inference.GRPCInferenceService.ModelInfer",
        "inference.ModelInferRequest", "inference.ModelInferRequest.inputs"}) {
    ServerReflectionRequest request;
    request.set_file_containing_symbol(symbol);
    EXPECT_THAT(FilesOf(Reflect({}, request)), ElementsAre(file, "proto/model_config.proto"))
        << symbol;
  }
  ServerReflectionRequest request;
  request.set_file_by_filename("proto/model_config.proto");
  EXPECT_THAT(FilesOf(Reflect({}, request)), ElementsAre("proto/model_config.proto"));
}

TEST(ReflectionTest, WhatIsNotThereIsAnAnswerThatSaysSo) {
  constexpr int kNotFound = 5, kInvalidArgument = 3;
  const auto code = [](const ServerReflectionRequest& request) {
    return Reflect({}, request).error_response().error_code();
  };
  ServerReflectionRequest request;
  EXPECT_EQ(code(request), kInvalidArgument);
  request.set_file_by_filename("no.proto");
  EXPECT_EQ(code(request), kNotFound);
  request.set_file_containing_symbol("no.Such");
  EXPECT_EQ(code(request), kNotFound);
  request.set_all_extension_numbers_of_type("no.Such");
  EXPECT_EQ(code(request), kNotFound);
  request.mutable_file_containing_extension()->set_containing_type("inference.ModelInferRequest");
  EXPECT_EQ(code(request), kNotFound);
  request.set_all_extension_numbers_of_type("inference.ModelInferRequest");
  const ServerReflectionResponse none = Reflect({}, request);
  EXPECT_EQ(none.all_extension_numbers_response().base_type_name(), "inference.ModelInferRequest");
  EXPECT_EQ(none.all_extension_numbers_response().extension_number_size(), 0);
}

}  // namespace
}  // namespace cellbatch
