#include "loadgen/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/cellbatch.pb.h"
#include "proto/grpc_service.pb.h"

namespace cellbatch {
namespace {

ModelMetadata TokenModel(const char* datatype) {
  return {"m", {"1"}, "", {{"TOKENS", datatype, {-1}}}, {}};
}

ModelConfiguration Settings(std::map<std::string, std::string> parameters) {
  return {"m", "", 0, std::move(parameters), ""};
}

ModelNeeds Needs(const ModelMetadata& metadata, std::map<std::string, std::string> parameters) {
  return *NeedsOf(metadata, Settings(std::move(parameters)), "");
}

ModelNeeds DecoderNeeds() {
  const ModelMetadata metadata{"nmt", {"1"}, "", {{"SOURCE", "INT32", {-1}}}, {}};
  return Needs(metadata, {{"vocabulary_size", "50"}, {"max_decode_steps", "100"}});
}

std::string Whole(const PreparedRequest& request) {
  return std::string(request.header) + std::string(request.content);
}

TEST(StripRequestsTest, TokensStayInsideTheVocabularyAndDifferFromRequestToRequest) {
  const auto requests = StripRequests::Create(
      Needs(TokenModel("INT64"), {{"vocabulary_size", "11"}}), {}, {7, 20}, 5);
  ASSERT_TRUE(requests.ok()) << requests.status();
  std::set<std::string> contents;
  std::set<int64_t> tokens;
  for (uint64_t turn = 0; turn < 200; ++turn) {
    const PreparedRequest request = (*requests)->Request(1, turn);
    ASSERT_EQ(request.content.size(), 20 * sizeof(int64_t));
    contents.insert(std::string(request.content));
    for (size_t i = 0; i < 20; ++i) {
      int64_t token;
      std::memcpy(&token, request.content.data() + i * sizeof(token), sizeof(token));
      tokens.insert(token);
    }
  }
  EXPECT_GE(*tokens.begin(), 0);
  EXPECT_EQ(*tokens.rbegin(), 10);
  EXPECT_GT(contents.size(), 150u);
}

TEST(StripRequestsTest, VectorsAreFiniteAndOfTheModelsWidth) {
  const ModelMetadata metadata{"m", {"1"}, "", {{"X", "FP32", {-1, 3}}}, {}};
  const auto requests = StripRequests::Create(Needs(metadata, {}), {}, {4}, 5);
  ASSERT_TRUE(requests.ok()) << requests.status();
  const PreparedRequest request = (*requests)->Request(0, 77);
  ASSERT_EQ(request.content.size(), 4 * 3 * sizeof(float));
  for (size_t i = 0; i < 12; ++i) {
    float value;
    std::memcpy(&value, request.content.data() + i * sizeof(value), sizeof(value));
    EXPECT_TRUE(value >= -1 && value < 1) << value;
  }
}

TEST(StripRequestsTest, LengthsAreCutToTheModelsLimitAndThatIsSaid) {
  const auto requests = StripRequests::Create(
      Needs(TokenModel("INT32"), {{"vocabulary_size", "9"}, {"max_sequence_length", "50"}}), {},
      {10, 51, 400, 50}, 5);
  ASSERT_TRUE(requests.ok()) << requests.status();
  EXPECT_EQ((*requests)->length(2), 50);
  EXPECT_NE((*requests)->description().find("(2 cut to the model's limit of 50)"),
            std::string::npos)
      << (*requests)->description();
}

TEST(StripRequestsTest, EveryRequestCarriesWhatTheEntrySays) {
  MixEntry entry;
  entry.priority = 3;
  entry.timeout_us = 2500;
  entry.outputs = {"FINAL_H"};
  const auto requests =
      StripRequests::Create(Needs(TokenModel("INT32"), {{"vocabulary_size", "9"}}), entry, {2}, 5);
  inference::ModelInferRequest message;
  ASSERT_TRUE(message.ParseFromString(Whole((*requests)->Request(0, 0))));
  EXPECT_EQ(message.parameters().at("priority").int64_param(), 3);
  EXPECT_EQ(message.parameters().at("timeout").int64_param(), 2500);
  EXPECT_EQ(message.outputs(0).name(), "FINAL_H");
  EXPECT_EQ(message.raw_input_contents(0).size(), 8u);
}

TEST(MakeRequestsTest, EveryMessageNamesTheVersionAndTheOutputsThatWereAskedFor) {
  MixEntry entry;
  entry.version = "7";
  entry.outputs = {"FINAL_H"};
  const ModelConfiguration settings = Settings({{"vocabulary_size", "9"}});
  const auto strip = MakeRequests(TokenModel("INT32"), settings, entry, 5);
  ASSERT_TRUE(strip.ok()) << strip.status();
  inference::ModelInferRequest infer;
  ASSERT_TRUE(infer.ParseFromString(Whole((*strip)->Request(0, 0))));
  EXPECT_EQ(infer.model_version(), "7");
  EXPECT_EQ(infer.outputs(0).name(), "FINAL_H");
  entry.call = LoadCall::kTyped;
  const auto typed = MakeRequests(TokenModel("INT32"), settings, entry, 5);
  ASSERT_TRUE(typed.ok()) << typed.status();
  v1::InferRequest message;
  EXPECT_EQ((*typed)->Request(0, 0).call, PreparedCall::kInfer);
  ASSERT_TRUE(message.ParseFromString(Whole((*typed)->Request(0, 0))));
  EXPECT_EQ(message.model_version(), "7");
  EXPECT_EQ(message.outputs(0), "FINAL_H");
}

TEST(MakeRequestsTest, AModelThatReadsSomethingElseIsRefused) {
  EXPECT_EQ(MakeRequests(TokenModel("INT32"), Settings({}), {}, 5).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(MakeRequestsTest, PiecesAskForTheStateThatTheyLeave) {
  MixEntry entry;
  entry.piece = 4;
  entry.version = "7";
  const auto requests = MakeRequests(TokenModel("INT32"),
                                     Settings({{"vocabulary_size", "9"},
                                               {"input.INITIAL_H.datatype", "FP32"},
                                               {"input.INITIAL_H.dims", "1,3"}}),
                                     entry, 5);
  ASSERT_TRUE(requests.ok()) << requests.status();
  int brought = 0;
  for (uint32_t r = 0; r < (*requests)->size(); ++r) {
    inference::ModelInferRequest message;
    ASSERT_TRUE(message.ParseFromString(Whole((*requests)->Request(r, 0))));
    ASSERT_EQ(message.model_version(), "7");
    ASSERT_EQ(message.outputs_size(), 2);
    EXPECT_EQ(message.outputs(0).name(), "OUTPUT");
    EXPECT_EQ(message.outputs(1).name(), "FINAL_H");
    EXPECT_LE((*requests)->length(r), 4);
    brought += message.inputs_size() == 2 ? 1 : 0;
  }
  EXPECT_GT(brought, 0);
  EXPECT_NE((*requests)->description().find("pieces of 4 steps or fewer of 1000"),
            std::string::npos)
      << (*requests)->description();
}

TEST(MakeRequestsTest, FieldsThatTheModelCannotUseAreNamed) {
  const auto error = [](const MixEntry& entry) {
    return std::string(
        MakeRequests(TokenModel("INT32"), Settings({{"vocabulary_size", "9"}}), entry, 5)
            .status()
            .message());
  };
  MixEntry decode, model_steps, spelled;
  decode.call = LoadCall::kDecode;
  EXPECT_EQ(error(decode),
            "call=decode: model \"m\" reads TOKENS, sentences; only a decoder answers in words");
  model_steps.free_decode = true;
  EXPECT_EQ(
      error(model_steps),
      "steps=model: model \"m\" reads TOKENS, sentences; only a decoder has steps of its own");
  spelled.spelled = 0.5;
  EXPECT_EQ(error(spelled),
            "spelled=0.5: model \"m\" reads TOKENS, sentences; it reads no characters");
  MixEntry pieces;
  pieces.piece = 7;
  EXPECT_EQ(error(pieces),
            "piece=7: model \"m\" reads TOKENS, sentences; it begins from no state of a request's");
  ModelMetadata trees = TokenModel("INT32");
  trees.inputs.push_back({"CHILDREN", "INT32", {-1, 2}});
  const ModelConfiguration states = Settings({{"vocabulary_size", "9"},
                                              {"input.INITIAL_H.datatype", "FP32"},
                                              {"input.INITIAL_H.dims", "1,3"}});
  EXPECT_EQ(MakeRequests(trees, states, pieces, 5).status().code(),
            absl::StatusCode::kFailedPrecondition)
      << "a tree has no pieces";
  pieces.outputs = {"FINAL_H"};
  const auto asked = MakeRequests(TokenModel("INT32"), states, pieces, 5);
  ASSERT_TRUE(asked.ok()) << asked.status();
  inference::ModelInferRequest message;
  ASSERT_TRUE(message.ParseFromString(Whole((*asked)->Request(0, 0))));
  EXPECT_EQ(message.outputs_size(), 1) << "the state that is asked for already";
}

ContentsList Sources(std::vector<int64_t> steps) {
  ContentsList list;
  for (const int64_t step : steps) {
    RequestContents& contents = list.requests.emplace_back();
    contents.inputs = {Int32Tensor("SOURCE", {2}, {1, 2})};
    contents.parameters["decode_steps"] = step;
    contents.size = static_cast<int32_t>(2 + step);
  }
  return list;
}

TEST(MessageRequestsTest, ManyInputsOfOneMessageAreWholePermutations) {
  MixEntry entry;
  entry.call = LoadCall::kTyped;
  entry.many = 4;
  ContentsList list;
  for (int32_t i = 0; i < 10; ++i) {
    list.requests.push_back({{Int32Tensor("TOKENS", {1}, {i})}, {}, i});
  }
  const auto requests = MessageRequests::Create(
      Needs(TokenModel("INT32"), {{"vocabulary_size", "10"}}), entry, list, 5);
  ASSERT_TRUE(requests.ok()) << requests.status();
  ASSERT_EQ((*requests)->size(), 3u) << "the last is filled up";
  std::multiset<int32_t> tokens;
  for (uint32_t m = 0; m < 3; ++m) {
    const PreparedRequest request = (*requests)->Request(m, 0);
    EXPECT_EQ(request.call, PreparedCall::kInfer);
    EXPECT_EQ(request.inputs, 4u);
    v1::InferRequest message;
    ASSERT_TRUE(message.ParseFromString(Whole(request)));
    ASSERT_EQ(message.inputs_size(), 4);
    int32_t size = 0;
    for (const v1::Input& input : message.inputs()) {
      tokens.insert(input.sequence().tokens(0));
      size += input.sequence().tokens(0);
    }
    EXPECT_EQ((*requests)->length(m), size);
  }
  for (int32_t token = 0; token < 10; ++token) {
    EXPECT_GE(tokens.count(token), 1u);
  }
  const auto messages = [&](uint64_t seed) {
    auto made = *MessageRequests::Create(Needs(TokenModel("INT32"), {{"vocabulary_size", "10"}}),
                                         entry, list, seed);
    std::vector<std::string> all;
    for (uint32_t m = 0; m < made->size(); ++m) all.push_back(Whole(made->Request(m, 0)));
    return all;
  };
  EXPECT_EQ(messages(5), messages(5));
  EXPECT_NE(messages(5), messages(6));
  list.requests.resize(8);
  EXPECT_EQ(messages(5).size(), 2u) << "two are full";
}

TEST(MessageRequestsTest, StepsThatDifferWithinAMessageAreRefused) {
  MixEntry entry;
  entry.call = LoadCall::kTyped;
  entry.many = 2;
  EXPECT_EQ(MessageRequests::Create(DecoderNeeds(), entry, Sources({3, 4}), 5).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const auto same = MessageRequests::Create(DecoderNeeds(), entry, Sources({3, 3}), 5);
  ASSERT_TRUE(same.ok()) << same.status();
  v1::InferRequest message;
  ASSERT_TRUE(message.ParseFromString(Whole((*same)->Request(0, 0))));
  EXPECT_EQ(message.parameters().at("decode_steps"), 3);
}

// As a request of a file has them; the entry's are for those that name none.
TEST(MessageRequestsTest, ARequestsOwnOutputsAreAskedFor) {
  const ModelNeeds needs = Needs(TokenModel("INT32"), {{"vocabulary_size", "10"}});
  ContentsList list;
  for (int32_t i = 0; i < 2; ++i) {
    list.requests.push_back({{Int32Tensor("TOKENS", {1}, {i})}, {}, 1});
  }
  list.requests[0].outputs = {"FINAL_H", "LABELS"};
  MixEntry entry;
  entry.outputs = {"ALL_HIDDEN"};
  const auto infer = MessageRequests::Create(needs, entry, list, 5);
  ASSERT_TRUE(infer.ok()) << infer.status();
  std::multiset<std::string> asked;
  for (uint32_t m = 0; m < 2; ++m) {
    inference::ModelInferRequest message;
    ASSERT_TRUE(message.ParseFromString(Whole((*infer)->Request(m, 0))));
    for (const auto& output : message.outputs()) asked.insert(output.name());
  }
  EXPECT_EQ(asked, (std::multiset<std::string>{"ALL_HIDDEN", "FINAL_H", "LABELS"}));

  entry.call = LoadCall::kTyped;
  const auto typed = MessageRequests::Create(needs, entry, list, 5);
  ASSERT_TRUE(typed.ok()) << typed.status();
  std::multiset<std::string> of_typed;
  for (uint32_t m = 0; m < 2; ++m) {
    v1::InferRequest message;
    ASSERT_TRUE(message.ParseFromString(Whole((*typed)->Request(m, 0))));
    of_typed.insert(message.outputs().begin(), message.outputs().end());
  }
  EXPECT_EQ(of_typed, asked);
  entry.many = 2;
  EXPECT_EQ(std::string(MessageRequests::Create(needs, entry, list, 5).status().message()),
            "many: inputs of one message name other outputs, and a message names them once");
}

TEST(MessageRequestsTest, ADecoderIsAskedForItsStepsAtItsPriorityInEveryCall) {
  for (const LoadCall call : {LoadCall::kInfer, LoadCall::kTyped, LoadCall::kDecode}) {
    MixEntry entry;
    entry.call = call;
    entry.priority = 2;
    const auto requests = MessageRequests::Create(DecoderNeeds(), entry, Sources({6}), 5);
    ASSERT_TRUE(requests.ok()) << requests.status();
    const PreparedRequest request = (*requests)->Request(0, 0);
    if (call == LoadCall::kInfer) {
      inference::ModelInferRequest message;
      ASSERT_TRUE(message.ParseFromString(Whole(request)));
      EXPECT_EQ(message.parameters().at("decode_steps").int64_param(), 6);
      EXPECT_EQ(message.parameters().at("priority").int64_param(), 2);
      EXPECT_EQ(message.inputs(0).name(), "SOURCE");
    } else if (call == LoadCall::kTyped) {
      v1::InferRequest message;
      ASSERT_TRUE(message.ParseFromString(Whole(request)));
      EXPECT_EQ(message.parameters().at("decode_steps"), 6);
      EXPECT_EQ(message.parameters().at("priority"), 2);
    } else {
      v1::DecodeRequest message;
      ASSERT_TRUE(message.ParseFromString(Whole(request)));
      EXPECT_EQ(message.decode_steps(), 6);
      EXPECT_EQ(message.priority(), 2);
      EXPECT_EQ(message.source().tokens_size(), 2);
      EXPECT_EQ(request.call, PreparedCall::kDecode);
    }
  }
  MixEntry entry;
  entry.call = LoadCall::kDecode;
  ModelNeeds needs = DecoderNeeds();
  needs.version = "7";
  ContentsList list = Sources({6});
  list.requests[0].parameters = {{"max_decode_steps", int64_t{9}}};
  const auto most = MessageRequests::Create(needs, entry, list, 5);
  ASSERT_TRUE(most.ok()) << most.status();
  v1::DecodeRequest message;
  ASSERT_TRUE(message.ParseFromString(Whole((*most)->Request(0, 0))));
  EXPECT_EQ(message.max_decode_steps(), 9);
  EXPECT_FALSE(message.has_decode_steps());
  EXPECT_EQ(message.model_version(), "7");
}

// Sequence s has 1 + s % 4 pieces; piece p of it is the token 10 s + p.
ContentsList Streams(int32_t sequences) {
  ContentsList list;
  for (int32_t s = 0; s < sequences; ++s) {
    for (int32_t p = 0; p < 1 + s % 4; ++p) {
      list.requests.push_back(
          {{Int32Tensor("TOKENS", {1}, {10 * s + p})}, {}, 1 + p, /*goes_on=*/p > 0});
    }
  }
  return list;
}

std::unique_ptr<RequestSet> StreamsOf(int64_t lanes, int32_t sequences) {
  MixEntry entry;
  entry.piece = 1;
  entry.streams = lanes;
  auto made = StreamRequests::Create(Needs(TokenModel("INT32"), {{"vocabulary_size", "999"}}),
                                     entry, Streams(sequences), "name");
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

struct Piece {
  std::string id;
  int32_t token = -1;
  bool starts = false, ends = false;
};

Piece PieceOf(const PreparedRequest& request) {
  inference::ModelInferRequest message;
  EXPECT_TRUE(message.ParseFromString(Whole(request)));
  EXPECT_EQ(message.model_name(), "m");
  const auto& parameters = message.parameters();
  Piece piece{.id = parameters.at("sequence_id").string_param(),
              .starts = parameters.count("sequence_start") > 0,
              .ends = parameters.count("sequence_end") > 0};
  std::memcpy(&piece.token, message.raw_input_contents(0).data(), sizeof(piece.token));
  return piece;
}

// What a server sees: each id's sequences one after the other, each whole but for the first of a lane.
TEST(StreamRequestsTest, LanesTakeTurnsWithWholeSequencesInOrder) {
  constexpr int32_t kLanes = 7, kSequences = 50;
  const auto requests = StreamsOf(kLanes, kSequences);
  const std::vector<uint32_t> order = requests->Order(2000, 3);
  ASSERT_EQ(order.size(), 2000u);
  std::map<std::string, Piece> last;  // by id
  std::map<int32_t, int> begun;       // by sequence
  int begin_inside = 0;
  for (size_t turn = 0; turn < order.size(); ++turn) {
    const Piece piece = PieceOf(requests->Request(order[turn], turn));
    const int32_t sequence = piece.token / 10, at = piece.token % 10;
    ASSERT_EQ(piece.id, "name-" + std::to_string(turn % kLanes));
    ASSERT_EQ(requests->length(order[turn]), 1 + at);
    const auto before = last.find(piece.id);
    if (before == last.end()) {
      ASSERT_TRUE(piece.starts) << "who begins inside a sequence starts there";
      begin_inside += at > 0 ? 1 : 0;
    } else if (before->second.ends) {
      ASSERT_TRUE(piece.starts && at == 0);
      ++begun[sequence];
    } else {
      ASSERT_EQ(piece.token, before->second.token + 1);
      ASSERT_FALSE(piece.starts);
    }
    ASSERT_EQ(piece.ends, at == sequence % 4);
    last[piece.id] = piece;
  }
  EXPECT_GT(begin_inside, 0);
  ASSERT_EQ(begun.size(), static_cast<size_t>(kSequences)) << "equal issue";
  const auto [least, most] = std::minmax_element(
      begun.begin(), begun.end(), [](auto& a, auto& b) { return a.second < b.second; });
  EXPECT_LE(most->second - least->second, 2);
}

TEST(StreamRequestsTest, TheSeedDecidesTheOrderAndLanesMayBeMoreThanSequences) {
  const auto requests = StreamsOf(9, 3);
  EXPECT_EQ(requests->Order(100, 5), requests->Order(100, 5));
  EXPECT_NE(requests->Order(100, 5), requests->Order(100, 6));
  EXPECT_EQ(requests->Order(4, 5).size(), 4u) << "fewer than there are lanes";
  // One lane, 40 sequences of 100 pieces in all: each 100 are a permutation, the next another one.
  const auto one = StreamsOf(1, 40);
  const std::vector<uint32_t> order = one->Order(301, 5);
  EXPECT_FALSE(std::equal(order.end() - 200, order.end() - 100, order.end() - 100));
}

TEST(StreamRequestsTest, MorePiecesThanCanBeNumberedAreRefused) {
  MixEntry entry;
  entry.piece = 1;
  entry.streams = int64_t{1} << 30;
  EXPECT_EQ(StreamRequests::Create(Needs(TokenModel("INT32"), {{"vocabulary_size", "999"}}), entry,
                                   Streams(3), "name")
                .status()
                .code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(MakeRequestsTest, StreamsAskForNoStateAndHaveNamesOfTheirOwn) {
  MixEntry entry;
  entry.piece = 4;
  entry.streams = 3;
  entry.priority = 2;
  std::set<std::string> ids;
  for (int process = 0; process < 2; ++process) {
    const auto requests = MakeRequests(TokenModel("INT32"),
                                       Settings({{"vocabulary_size", "9"},
                                                 {"input.INITIAL_H.datatype", "FP32"},
                                                 {"input.INITIAL_H.dims", "1,3"}}),
                                       entry, 5);
    ASSERT_TRUE(requests.ok()) << requests.status();
    inference::ModelInferRequest message;
    ASSERT_TRUE(
        message.ParseFromString(Whole((*requests)->Request((*requests)->Order(1, 1)[0], 0))));
    EXPECT_EQ(message.outputs_size(), 0) << message.DebugString();
    EXPECT_EQ(message.inputs_size(), 1);
    EXPECT_EQ(message.parameters().at("priority").int64_param(), 2);
    ids.insert(message.parameters().at("sequence_id").string_param());
    EXPECT_NE((*requests)->description().find("3 sequences at a time"), std::string::npos)
        << (*requests)->description();
  }
  EXPECT_EQ(ids.size(), 2u) << "two generators beside each other";
}

// A part of `size` entries, entry i of length i + 1.
Workload::Part PartOf(const std::string& name, double weight, int32_t size) {
  std::vector<int32_t> lengths;
  for (int32_t i = 1; i <= size; ++i) {
    lengths.push_back(i);
  }
  auto requests = StripRequests::Create(Needs(TokenModel("INT32"), {{"vocabulary_size", "9"}}), {},
                                        std::move(lengths), 1);
  return {name, "m", weight, 1, *std::move(requests)};
}

Workload TwoModels() {
  std::vector<Workload::Part> parts;
  parts.push_back(PartOf("a", 3, 10));
  parts.push_back(PartOf("b", 1, 5));
  return Workload(std::move(parts));
}

TEST(WorkloadTest, EachModelGetsItsShareInWholePermutationsOfItsOwn) {
  const Workload workload = TwoModels();
  EXPECT_EQ(workload.name(), "a+b");
  const std::string a = workload.parts()[0].requests->description();
  const std::string b = workload.parts()[1].requests->description();
  EXPECT_EQ(workload.description(), "a (weight 3): " + a + "\nb (weight 1): " + b);
  const std::vector<Pick> order = workload.Order(80, 4);
  std::map<uint32_t, std::vector<uint32_t>> entries;
  for (const Pick pick : order) {
    entries[pick.part].push_back(pick.entry);
  }
  ASSERT_EQ(entries[0].size(), 60u);
  ASSERT_EQ(entries[1].size(), 20u);
  for (const auto& [part, list] : entries) {
    const size_t size = part == 0 ? 10 : 5;
    for (size_t begin = 0; begin < list.size(); begin += size) {
      EXPECT_EQ(std::set<uint32_t>(list.begin() + begin, list.begin() + begin + size).size(), size);
    }
  }
}

TEST(WorkloadTest, AClosedLoopKeepsOnePieceOfAStreamInFlight) {
  std::vector<Workload::Part> parts;
  EXPECT_EQ(TwoModels().MostInFlight(256), 256);
  parts.push_back(PartOf("a", 3, 10));
  parts.push_back({"b", "m", 1, 1, StreamsOf(8, 3)});
  const Workload workload(std::move(parts));
  EXPECT_EQ(workload.MostInFlight(256), 32) << "a quarter of them is of 8 streams";
  EXPECT_EQ(workload.MostInFlight(20), 20);
  std::vector<Workload::Part> one;
  one.push_back({"b", "m", 1, 1, StreamsOf(1, 3)});
  EXPECT_EQ(Workload(std::move(one)).MostInFlight(256), 1);
}

TEST(WorkloadTest, TheSeedDecidesTheWholeOrder) {
  const Workload workload = TwoModels();
  const auto same = [](Pick one, Pick two) {
    return one.part == two.part && one.entry == two.entry;
  };
  const auto one = workload.Order(500, 9), again = workload.Order(500, 9),
             other = workload.Order(500, 10);
  EXPECT_TRUE(std::equal(one.begin(), one.end(), again.begin(), same));
  EXPECT_FALSE(std::equal(one.begin(), one.end(), other.begin(), same));
}

TEST(WorkloadTest, APartsOrderIsItsOwn) {
  std::vector<Workload::Part> parts;
  parts.push_back(PartOf("a", 1, 10));
  EXPECT_EQ(Workload(std::move(parts)).description(), PartOf("a", 1, 10).requests->description());
  parts.clear();
  parts.push_back(PartOf("a", 1, 10));
  parts.push_back(PartOf("b", 1, 10));
  std::vector<uint32_t> of[2];
  for (const Pick pick : Workload(std::move(parts)).Order(40, 4)) {
    of[pick.part].push_back(pick.entry);
  }
  EXPECT_NE(of[0], of[1]);
}

TEST(WorkloadTest, ARequestIsTheOneThatWasPicked) {
  const Workload workload = TwoModels();
  for (const Pick pick : workload.Order(30, 1)) {
    EXPECT_EQ(workload.Request(pick, 5).content.size(),
              static_cast<size_t>(workload.length(pick)) * 4);
  }
}

}  // namespace
}  // namespace cellbatch
