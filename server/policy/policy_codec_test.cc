// Claims about policies on disk: what is written is read back; what is damaged, of another model or older than the
// model's cells is refused with the field and both values.
#include "server/policy/policy_codec.h"

#include <string>
#include <vector>

#include "cells/any_cell.h"
#include "cells/model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cellbatch {
namespace {

using ::testing::HasSubstr;
using Kind = StateEncoding::Kind;

// Leaf, internal, output: ids in this order.
Model Trees(const std::string& output = "output") {
  const std::vector<Column> h = {{"h", ElementType::kFp32, 4}};
  const Column x = {"x", ElementType::kFp32, 4};
  Model model;
  const auto add = [&](const std::string& name, std::vector<Input> inputs, std::vector<TableId> in,
                       int out) {
    CellType type;
    type.id = CellTypeId(static_cast<int64_t>(model.types.size()));
    type.name = name;
    type.definition = testing::AnyCell(name + "_cell", std::move(inputs), h);
    type.in = std::move(in);
    type.out = TableId(out);
    model.types.push_back(type);
  };
  add("leaf", {{"x", {x}}}, {TableId(0)}, 1);
  add("internal", {{"child0", h}, {"child1", h}}, {TableId(1), TableId(1)}, 1);
  add(output, {{"below", h}}, {TableId(1)}, 2);
  return model;
}

StateKey State(const StateEncoding& encoding, const std::vector<int>& types, int phase = 0) {
  std::vector<CellTypeId> ids;
  for (const int type : types) ids.emplace_back(type);
  return *MakeState(encoding, ids, phase);
}

PolicySpec Fsm() {
  PolicySpec spec;
  spec.kind = PolicyKind::kFsm;
  spec.encoding = {Kind::kSort, 2};
  spec.rules = {{State(spec.encoding, {0}), CellTypeId(0)},
                {State(spec.encoding, {2, 1}), CellTypeId(1)},
                {State(spec.encoding, {2, 1}, 1), CellTypeId(2)}};
  return spec;
}

std::string Refused(const std::string& text, const Model& model) {
  const absl::StatusOr<PolicySpec> spec = ParsePolicy(text, "policy.textproto", model);
  if (spec.ok()) return "taken";
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(spec.status().message());
}

std::string With(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " is not in\n" << text;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(PolicyCodecTest, PeopleCanReadItAStateALine) {
  disk::PolicyFile file = ToPolicyFile(Fsm(), Trees());
  file.mutable_learned()->set_requests("sst_train.txt, the first 32");
  file.mutable_learned()->set_batches(23);
  const std::string text = PolicyText(file);
  EXPECT_THAT(text, HasSubstr("kind: FSM\ncell_types: \"leaf\"\ncell_types: \"internal\"\n"));
  EXPECT_THAT(text, HasSubstr("requests: \"sst_train.txt, the first 32\""));
  EXPECT_THAT(text, HasSubstr("\nstates { ready: [\"leaf\"] run: \"leaf\" }\n"));
  EXPECT_THAT(text,
              HasSubstr("\nstates { ready: [\"output\", \"internal\"] run: \"internal\" }\n"));
  EXPECT_THAT(text, HasSubstr("ready: [\"output\", \"internal\"] phase: 1 run: \"output\" }\n"));
}

TEST(PolicyCodecTest, WhatIsWrittenIsReadBack) {
  const Model model = Trees();
  for (const Kind kind : {Kind::kBase, Kind::kMax, Kind::kSort}) {
    PolicySpec spec = Fsm();
    spec.encoding.kind = kind;
    const std::vector<int> both = kind == Kind::kMax ? std::vector{1, 2, 2} : std::vector{1, 2};
    spec.encoding.lowering = true;
    spec.encoding.fill = 4;
    const StateKey state = *MakeState(spec.encoding, TypesOf(State(spec.encoding, both, 1)), 1,
                                      {CellTypeId(1), CellTypeId(2)}, {CellTypeId(2)});
    spec.rules = {{state, CellTypeId(2)}};
    const auto read = ParsePolicy(PolicyText(ToPolicyFile(spec, model)), "p", model);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->kind, PolicyKind::kFsm);
    EXPECT_EQ(read->encoding, spec.encoding);
    ASSERT_EQ(read->rules.size(), 1u);
    EXPECT_EQ(read->rules[0].state, spec.rules[0].state);
    EXPECT_EQ(read->rules[0].action, CellTypeId(2));
  }
  for (const PolicyKind kind : kPolicyKinds) {
    if (kind == PolicyKind::kFsm) continue;
    PolicySpec spec;
    spec.kind = kind;
    spec.taller_first = kind == PolicyKind::kLbGreedy;
    const auto read = ParsePolicy(PolicyText(ToPolicyFile(spec, model)), "p", model);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->kind, kind);
    EXPECT_EQ(read->taller_first, spec.taller_first);
  }
}

TEST(PolicyCodecTest, WhatMayWaitIsWrittenAndReadBack) {
  PolicySpec spec;
  spec.may_wait = {CellTypeId(0), CellTypeId(2)};
  const Model trees = Trees();
  const std::string text = PolicyText(ToPolicyFile(spec, trees));
  const absl::StatusOr<PolicySpec> read = ParsePolicy(text, "policy.textproto", trees);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->may_wait, spec.may_wait);
  EXPECT_EQ(Refused(With(text, "may_wait: \"leaf\"", "may_wait: \"leaves\""), trees),
            "policy.textproto: may_wait is \"leaves\", the model's cell types are leaf, internal, "
            "output");
}

TEST(PolicyCodecTest, WhereItComesFromIsSaid) {
  disk::PolicyFile file = ToPolicyFile(Fsm(), Trees());
  file.mutable_learned()->set_requests("sst_train.txt");
  file.mutable_learned()->set_batches(24);
  file.mutable_learned()->set_bound(23);
  file.mutable_learned()->set_seed(5);
  EXPECT_EQ(ParsePolicy(PolicyText(file), "p", Trees())->about,
            "learned from sst_train.txt, 24 batches where none makes fewer than 23, seed 5");
}

TEST(PolicyCodecTest, OfOneLearnedForLatencyTheLoadTheMixAndTheCostsAreSaid) {
  disk::PolicyFile file = ToPolicyFile(Fsm(), Trees());
  file.mutable_learned()->set_requests("sst_train.txt");
  file.mutable_learned()->set_seed(5);
  disk::ServingOrigin& serving = *file.mutable_learned()->mutable_serving();
  serving.set_tail_weight(0.25);
  serving.set_load(0.6);
  serving.set_costs("measured on cpu:0-1");
  EXPECT_EQ(ParsePolicy(PolicyText(file), "p", Trees())->about,
            "learned from sst_train.txt for latency at 60 % load (0.75 mean + 0.25 p99), costs "
            "measured on cpu:0-1, seed 5");
}

TEST(PolicyCodecTest, WhatFillsNoBatchIsRefused) {
  PolicySpec spec = Fsm();
  spec.encoding.fill = 2;
  const std::vector<CellTypeId> types = {CellTypeId(2), CellTypeId(1)};
  spec.rules = {{*MakeState(spec.encoding, types, 0, {}, {CellTypeId(1)}), CellTypeId(2)}};
  const std::string text = PolicyText(ToPolicyFile(spec, Trees()));
  EXPECT_THAT(text, HasSubstr("ready: [\"output\", \"internal\"] filled: [\"internal\"] run:"));
  EXPECT_EQ(Refused(text, Trees()), "taken");
  EXPECT_THAT(Refused(With(text, "fill: 2", "fill: -1"), Trees()), HasSubstr("fill is -1"));
  EXPECT_THAT(Refused(With(text, "fill: 2", ""), Trees()), HasSubstr("its encoding does not"));
  EXPECT_THAT(Refused(With(text, "[\"internal\"] run", "[\"leaf\"] run"), Trees()),
              HasSubstr("none of the state's types"));
}

TEST(PolicyCodecTest, APolicyOfAnotherModelOrOfOlderCellsIsNoticed) {
  const std::string text = PolicyText(ToPolicyFile(Fsm(), Trees()));
  EXPECT_THAT(Refused(text, Trees("scores")),
              HasSubstr("cell_types are [leaf, internal, output], this model's are [leaf, "
                        "internal, scores]: it was learned for another model"));
  Model changed = Trees();
  changed.types[2].in = {TableId(0)};
  ASSERT_NE(CellTypesFingerprint(changed), CellTypesFingerprint(Trees()));
  EXPECT_THAT(Refused(text, changed),
              HasSubstr("fingerprint is \"" + CellTypesFingerprint(Trees()) +
                        "\", this model's is \"" + CellTypesFingerprint(changed) + "\""));
  EXPECT_EQ(Refused(text, Trees()), "taken");
}

TEST(PolicyCodecTest, TheFingerprintIsOfStructureAndNotOfWeights) {
  Model retrained = Trees();
  retrained.types[0].weights.push_back({});
  retrained.types[0].max_batch = 7;
  EXPECT_EQ(CellTypesFingerprint(retrained), CellTypesFingerprint(Trees()));
  EXPECT_EQ(CellTypesFingerprint(Trees()).size(), 16u);
}

// Each part of the structure that a policy may have been learned for, changed alone.
TEST(PolicyCodecTest, TheFingerprintIsOfAllOfTheStructure) {
  const std::vector<Column> h = {{"h", ElementType::kFp32, 4}};
  const auto changed = [](auto change) {
    Model model = Trees();
    change(model.types[2]);
    return CellTypesFingerprint(model);
  };
  const std::string was = CellTypesFingerprint(Trees());
  EXPECT_NE(changed([](CellType& type) { type.name = "scores"; }), was);
  EXPECT_NE(changed([](CellType& type) { type.out = TableId(3); }), was);
  EXPECT_NE(changed([&](CellType& type) {
              type.definition = testing::AnyCell("other_cell", {{"below", h}}, h);
            }),
            was);
  EXPECT_NE(changed([&](CellType& type) {
              type.definition = testing::AnyCell("output_cell", {{"above", h}}, h);
            }),
            was);
  EXPECT_NE(changed([&](CellType& type) {
              type.definition = testing::AnyCell("output_cell", {{"below", h, Arity::kSum}}, h);
            }),
            was);
  EXPECT_NE(changed([&](CellType& type) {
              type.definition = testing::AnyCell("output_cell", {{"below", h}}, h, InputId(0));
            }),
            was);
}

TEST(PolicyCodecTest, DamageIsNamedWithItsLineItsFieldAndBothValues) {
  const Model model = Trees();
  const std::string good = PolicyText(ToPolicyFile(Fsm(), model));
  const auto with = [&](const std::string& from, const std::string& to) {
    return Refused(With(good, from, to), model);
  };
  for (const char* nothing :
       {"", "\n", "# a comment\n"}) {  // as a copy that was interrupted leaves it
    EXPECT_THAT(Refused(nothing, model), HasSubstr("policy.textproto: there is nothing in it"));
  }
  EXPECT_THAT(with("kind: FSM", "kind: LEARNED"),
              HasSubstr("kind is LEARNED, which is no policy's"));
  EXPECT_THAT(with("kind: FSM", ""), HasSubstr("kind is POLICY_KIND_UNSPECIFIED"));
  EXPECT_THAT(with("kind: FSM", "kind: AGENDA"),
              HasSubstr("kind is AGENDA, and there are 3 states"));
  EXPECT_THAT(with("kind: FSM", "kin: FSM"), HasSubstr("policy.textproto:2:"));
  EXPECT_THAT(with("encoding: MOST_READY_FIRST", ""),
              HasSubstr("encoding is STATE_ENCODING_UNSPECIFIED, an FSM has one of"));
  EXPECT_THAT(with("phases: 2", "phases: 17"), HasSubstr("phases is 17, allowed are 1 to 16"));
  EXPECT_THAT(with("phases: 2", "phases: 1"), HasSubstr("policy.textproto:12: phase 1 of 1"));
  EXPECT_THAT(
      with("[\"leaf\"] run: \"leaf\"", "[\"leaves\"] run: \"leaf\""),
      HasSubstr("policy.textproto:10: ready is \"leaves\", the model's cell types are leaf, "
                "internal, output"));
  EXPECT_THAT(with("[\"leaf\"] run: \"leaf\"", "[\"leaf\"] run: \"output\""),
              HasSubstr("policy.textproto:10: run is \"output\", ready are leaf"));
  EXPECT_THAT(with("[\"leaf\"]", "[\"leaf\", \"leaf\"]"),
              HasSubstr("10: a state has a type twice"));
  EXPECT_THAT(with("[\"leaf\"]", "[\"leaf\"] most: \"leaf\""),
              HasSubstr("10: most is \"leaf\", and the encoding MOST_READY_FIRST"));
  EXPECT_THAT(with(" phase: 1", ""), HasSubstr("a state comes twice"));
  EXPECT_THAT(with("[\"leaf\"]", "[\"leaf\"] lowers: \"leaf\""),
              HasSubstr("10: a state says what lowers the bound, and its encoding does not"));
  EXPECT_THAT(Refused(good.substr(0, good.find("states_in_all")), model),
              HasSubstr("an FSM without states"));
  EXPECT_THAT(Refused("kind: FSM", model), HasSubstr("cell_types are [], this model's are [leaf"));
}

// As a copy looks that is under way, or was interrupted: at the end of any line.
TEST(PolicyCodecTest, HalfOfAFileIsNoPolicyOfFewerStates) {
  const Model model = Trees();
  const std::string good = PolicyText(ToPolicyFile(Fsm(), model));
  EXPECT_EQ(Refused(good, model), "taken");
  for (size_t end = good.find('\n'); end + 1 < good.size(); end = good.find('\n', end + 1)) {
    EXPECT_NE(Refused(good.substr(0, end + 1), model), "taken") << end;
  }
  const size_t last = good.rfind("states {");
  EXPECT_EQ(Refused(good.substr(0, last), model),
            "policy.textproto: states_in_all is 3, there are 2 states: it is not all of a file");
  // Who writes one by hand need not count, nor say that there is one phase.
  PolicySpec one = Fsm();
  one.encoding.phases = 1;
  one.rules.pop_back();
  one.rules[0].state = State(one.encoding, {0});
  one.rules[1].state = State(one.encoding, {2, 1});
  const std::string by_hand = PolicyText(ToPolicyFile(one, model));
  EXPECT_EQ(Refused(With(by_hand, "phases: 1\n", ""), model), "taken");
  EXPECT_EQ(Refused(With(good, "states_in_all: 3\n", ""), model), "taken");
}

}  // namespace
}  // namespace cellbatch
