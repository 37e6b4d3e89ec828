// The protocol's field numbers are facts that other people's programs rely on. Each is checked by
// name and number against the tables of the protocol, and one request against bytes written by
// hand.

#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "proto/cell.pb.h"
#include "proto/cellbatch.grpc.pb.h"
#include "proto/grpc_service.grpc.pb.h"
#include "proto/model.pb.h"

namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;

struct Expected {
  std::string message;
  std::map<std::string, int> fields;
};

// Names and numbers only: whatever else a message has is unexpected.
const std::vector<Expected>& InferenceMessages() {
  static const auto* const kMessages = new std::vector<Expected>{
      {"ServerLiveResponse", {{"live", 1}}},
      {"ServerReadyResponse", {{"ready", 1}}},
      {"ModelReadyRequest", {{"name", 1}, {"version", 2}}},
      {"ModelReadyResponse", {{"ready", 1}}},
      {"ServerMetadataResponse", {{"name", 1}, {"version", 2}, {"extensions", 3}}},
      {"ModelMetadataRequest", {{"name", 1}, {"version", 2}}},
      {"ModelMetadataResponse",
       {{"name", 1},
        {"versions", 2},
        {"platform", 3},
        {"inputs", 4},
        {"outputs", 5},
        {"properties", 6}}},
      {"ModelMetadataResponse.TensorMetadata", {{"name", 1}, {"datatype", 2}, {"shape", 3}}},
      {"InferParameter",
       {{"bool_param", 1},
        {"int64_param", 2},
        {"string_param", 3},
        {"double_param", 4},
        {"uint64_param", 5}}},
      {"InferTensorContents",
       {{"bool_contents", 1},
        {"int_contents", 2},
        {"int64_contents", 3},
        {"uint_contents", 4},
        {"uint64_contents", 5},
        {"fp32_contents", 6},
        {"fp64_contents", 7},
        {"bytes_contents", 8}}},
      {"ModelInferRequest",
       {{"model_name", 1},
        {"model_version", 2},
        {"id", 3},
        {"parameters", 4},
        {"inputs", 5},
        {"outputs", 6},
        {"raw_input_contents", 7}}},
      {"ModelInferRequest.InferInputTensor",
       {{"name", 1}, {"datatype", 2}, {"shape", 3}, {"parameters", 4}, {"contents", 5}}},
      {"ModelInferRequest.InferRequestedOutputTensor", {{"name", 1}, {"parameters", 2}}},
      {"ModelInferResponse",
       {{"model_name", 1},
        {"model_version", 2},
        {"id", 3},
        {"parameters", 4},
        {"outputs", 5},
        {"raw_output_contents", 6}}},
      {"ModelInferResponse.InferOutputTensor",
       {{"name", 1}, {"datatype", 2}, {"shape", 3}, {"parameters", 4}, {"contents", 5}}},
      {"ModelStreamInferResponse", {{"error_message", 1}, {"infer_response", 2}}},
  };
  return *kMessages;
}

const std::vector<Expected>& ManagementMessages() {
  static const auto* const kMessages = new std::vector<Expected>{
      {"ModelConfigRequest", {{"name", 1}, {"version", 2}}},
      {"ModelConfigResponse", {{"config", 1}}},
      {"ModelStatisticsRequest", {{"name", 1}, {"version", 2}}},
      {"ModelStatisticsResponse", {{"model_stats", 1}}},
      {"ModelStatistics",
       {{"name", 1},
        {"version", 2},
        {"last_inference", 3},
        {"inference_count", 4},
        {"execution_count", 5},
        {"inference_stats", 6},
        {"batch_stats", 7},
        {"memory_usage", 8},
        {"response_stats", 9}}},
      {"StatisticDuration", {{"count", 1}, {"ns", 2}}},
      {"InferStatistics",
       {{"success", 1},
        {"fail", 2},
        {"queue", 3},
        {"compute_input", 4},
        {"compute_infer", 5},
        {"compute_output", 6},
        {"cache_hit", 7},
        {"cache_miss", 8}}},
      {"InferResponseStatistics",
       {{"compute_infer", 1},
        {"compute_output", 2},
        {"success", 3},
        {"fail", 4},
        {"empty_response", 5},
        {"cancel", 6}}},
      {"InferBatchStatistics",
       {{"batch_size", 1}, {"compute_input", 2}, {"compute_infer", 3}, {"compute_output", 4}}},
      {"MemoryUsage", {{"type", 1}, {"id", 2}, {"byte_size", 3}}},
      {"RepositoryIndexRequest", {{"repository_name", 1}, {"ready", 2}}},
      {"RepositoryIndexResponse", {{"models", 1}}},
      {"RepositoryIndexResponse.ModelIndex",
       {{"name", 1}, {"version", 2}, {"state", 3}, {"reason", 4}}},
      {"ModelRepositoryParameter",
       {{"bool_param", 1}, {"int64_param", 2}, {"string_param", 3}, {"bytes_param", 4}}},
      {"RepositoryModelLoadRequest",
       {{"repository_name", 1}, {"model_name", 2}, {"parameters", 3}}},
      {"RepositoryModelUnloadRequest",
       {{"repository_name", 1}, {"model_name", 2}, {"parameters", 3}}},
      {"TraceSettingRequest", {{"settings", 1}, {"model_name", 2}}},
      {"TraceSettingResponse", {{"settings", 1}}},
      {"LogSettingsRequest", {{"settings", 1}}},
      {"LogSettingsResponse", {{"settings", 1}}},
  };
  return *kMessages;
}

const std::vector<Expected>& ConfigMessages() {
  static const auto* const kMessages = new std::vector<Expected>{
      {"ModelConfig",
       {{"name", 1},
        {"platform", 2},
        {"max_batch_size", 4},
        {"input", 5},
        {"output", 6},
        {"instance_group", 7},
        {"default_model_filename", 8},
        {"cc_model_filenames", 9},
        {"metric_tags", 10},
        {"dynamic_batching", 11},
        {"sequence_batching", 13},
        {"parameters", 14},
        {"backend", 17},
        {"model_transaction_policy", 19},
        {"response_cache", 24},
        {"runtime", 25},
        {"model_metrics", 26}}},
      {"ModelInput",
       {{"name", 1},
        {"data_type", 2},
        {"format", 3},
        {"dims", 4},
        {"is_shape_tensor", 6},
        {"allow_ragged_batch", 7},
        {"optional", 8}}},
      {"ModelOutput",
       {{"name", 1}, {"data_type", 2}, {"dims", 3}, {"label_filename", 4}, {"is_shape_tensor", 6}}},
      {"ModelQueuePolicy",
       {{"timeout_action", 1},
        {"default_timeout_microseconds", 2},
        {"allow_timeout_override", 3},
        {"max_queue_size", 4}}},
      {"ModelDynamicBatching",
       {{"preferred_batch_size", 1},
        {"max_queue_delay_microseconds", 2},
        {"preserve_ordering", 3},
        {"priority_levels", 4},
        {"default_priority_level", 5},
        {"default_queue_policy", 6},
        {"priority_queue_policy", 7}}},
      {"ModelSequenceBatching", {{"max_sequence_idle_microseconds", 1}, {"iterative_sequence", 6}}},
      {"ModelTransactionPolicy", {{"decoupled", 1}}},
      {"ModelInstanceGroup",
       {{"name", 1},
        {"count", 2},
        {"gpus", 3},
        {"kind", 4},
        {"profile", 5},
        {"passive", 7},
        {"host_policy", 9}}},
      {"ModelParameter", {{"string_value", 1}}},
      {"ModelMetrics", {{"metric_control", 1}}},
  };
  return *kMessages;
}

std::map<std::string, int> FieldsOf(const Descriptor& message) {
  std::map<std::string, int> fields;
  for (int i = 0; i < message.field_count(); ++i) {
    fields[message.field(i)->name()] = message.field(i)->number();
  }
  return fields;
}

void ExpectNumbers(const std::vector<Expected>& messages,
                   const std::string& package = "inference.") {
  for (const Expected& expected : messages) {
    const Descriptor* message =
        DescriptorPool::generated_pool()->FindMessageTypeByName(package + expected.message);
    ASSERT_NE(message, nullptr) << expected.message;
    EXPECT_EQ(FieldsOf(*message), expected.fields) << expected.message;
  }
}

TEST(WireTest, EveryFieldOfTheServiceHasItsPublishedNumber) {
  inference::ModelInferRequest linked_in;
  ExpectNumbers(InferenceMessages());
  ExpectNumbers(ManagementMessages());
}

TEST(WireTest, EveryFieldOfTheModelConfigurationHasItsPublishedNumber) {
  inference::ModelConfig linked_in;
  ExpectNumbers(ConfigMessages());
}

// Ours: what has been published stays.
const std::vector<Expected>& OurMessages() {
  static const auto* const kMessages = new std::vector<Expected>{
      {"Sequence",
       {{"tokens", 1},
        {"words", 2},
        {"vectors", 3},
        {"width", 4},
        {"character_ids", 5},
        {"character_counts", 6}}},
      {"BinaryNodes", {{"left", 1}, {"right", 2}}},
      {"Tree",
       {{"tokens", 1}, {"binary", 2}, {"parents", 3}, {"bracketed", 4}, {"internal_types", 5}}},
      {"LatticeWords", {{"start", 1}, {"end", 2}, {"word", 3}}},
      {"Lattice", {{"characters", 1}, {"words", 2}}},
      {"Edges", {{"from", 1}, {"to", 2}, {"input", 3}}},
      {"NodeRows", {{"name", 1}, {"width", 2}, {"floats", 3}, {"integers", 4}}},
      {"Graph", {{"node_types", 1}, {"edges", 2}, {"rows", 3}}},
      {"RawTensor", {{"name", 1}, {"datatype", 2}, {"shape", 3}, {"contents", 4}}},
      {"RawTensors", {{"tensors", 1}}},
      {"Input", {{"sequence", 1}, {"tree", 2}, {"lattice", 3}, {"graph", 4}, {"tensors", 5}}},
      {"InferRequest",
       {{"model_name", 1},
        {"model_version", 2},
        {"id", 3},
        {"inputs", 4},
        {"outputs", 5},
        {"parameters", 6}}},
      {"Output",
       {{"name", 1}, {"datatype", 2}, {"shape", 3}, {"floats", 4}, {"integers", 5}, {"texts", 6}}},
      {"Answer", {{"code", 1}, {"error", 2}, {"outputs", 3}}},
      {"InferResponse", {{"model_name", 1}, {"model_version", 2}, {"id", 3}, {"answers", 4}}},
      {"DecodeRequest",
       {{"model_name", 1},
        {"model_version", 2},
        {"source", 3},
        {"max_decode_steps", 4},
        {"decode_steps", 5},
        {"priority", 6}}},
      {"Word", {{"step", 1}, {"id", 2}, {"text", 3}}},
      {"End", {{"length", 1}, {"stopped", 2}}},
      {"DecodeResponse", {{"word", 1}, {"end", 2}}}};
  return *kMessages;
}

TEST(WireTest, EveryFieldOfOurOwnServiceHasItsPublishedNumber) {
  cellbatch::v1::InferRequest linked_in;
  ExpectNumbers(OurMessages(), "cellbatch.v1.");
}

TEST(WireTest, TheServiceOffersEveryCallButSharedMemory) {
  const auto* service = DescriptorPool::generated_pool()->FindServiceByName(
      inference::GRPCInferenceService::service_full_name());
  ASSERT_NE(service, nullptr);
  EXPECT_EQ(service->full_name(), "inference.GRPCInferenceService");
  std::vector<std::string> methods;
  for (int i = 0; i < service->method_count(); ++i) {
    methods.push_back(service->method(i)->name());
  }
  EXPECT_EQ(methods, (std::vector<std::string>{
                         "ServerLive", "ServerReady", "ModelReady", "ServerMetadata",
                         "ModelMetadata", "ModelInfer", "ModelStreamInfer", "ModelConfig",
                         "ModelStatistics", "RepositoryIndex", "RepositoryModelLoad",
                         "RepositoryModelUnload", "TraceSetting", "LogSettings"}));
}

TEST(WireTest, ARequestHasTheBytesThatExistingClientsSend) {
  inference::ModelInferRequest request;
  request.set_model_name("m");
  request.set_id("7");
  (*request.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(true);
  auto* input = request.add_inputs();
  input->set_name("T");
  input->set_datatype("INT32");
  input->add_shape(2);
  request.add_outputs()->set_name("O");
  request.add_raw_input_contents(std::string("\1\0\0\0\2\0\0\0", 8));
  const std::string parameter =
      std::string("\x0a\x22triton_enable_empty_final_response", 36) + "\x12\x02\x08\x01";
  const std::string expected = std::string("\x0a\x01m\x1a\x01") + "7" + "\x22" +
                               static_cast<char>(parameter.size()) + parameter +
                               "\x2a\x0d\x0a\x01T\x12\x05INT32\x1a\x01\x02" + "\x32\x03\x0a\x01O" +
                               std::string("\x3a\x08\1\0\0\0\2\0\0\0", 10);
  EXPECT_EQ(request.SerializeAsString(), expected);
}

TEST(WireTest, UnknownFieldsOfNewerClientsAreIgnored) {
  inference::ModelInferRequest request;
  ASSERT_TRUE(request.ParseFromString("\x0a\x01m\x9a\x06\x03new"));  // field 99
  EXPECT_EQ(request.model_name(), "m");
}

TEST(DiskTest, TheExampleOfTheCellFileIsACell) {
  cellbatch::disk::CellDefinition cell;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(name: "elman"
         inputs { name: "x" columns { name: "x" type: FP32 dims: "D" } }
         inputs { name: "before" columns { name: "h" type: FP32 dims: "H" } }
         parameters { name: "W" dims: "H" dims: "D" }
         ops { name: "from_x" kind: MATMUL args: "x.x" args: "W" }
         outputs { column: "h" value: "from_x" }
         carry: "before")",
      &cell));
  EXPECT_EQ(cell.ops(0).args(1), "W");
}

TEST(DiskTest, TheExampleOfTheModelFileIsAModel) {
  cellbatch::disk::ModelDescription model;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(name: "sentiment"
         cell_types {
           name: "embed" cell: "embed"
           sizes { key: "V" value: 30000 } sizes { key: "D" value: 256 }
           parameters { name: "table" tensors: "embedding.weight" }
         }
         cell_types { name: "layer0" cell: "lstm" max_batch: 512 }
         chain { input: TOKENS embedding: "embed" layers { forward: "layer0" } }
         vocabulary { size: 30000 })",
      &model));
  EXPECT_EQ(model.cell_types(0).sizes().at("D"), 256);
  EXPECT_EQ(model.chain().input(), cellbatch::disk::TOKENS);
}

}  // namespace
