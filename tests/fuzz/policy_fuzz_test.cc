// Damaged policy files: each is refused in words, or is a policy that can be made, says where it came from and chooses
// only what is ready.
#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <vector>

#include "cells/any_cell.h"
#include "server/policy/policy_codec.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/fuzz/mutator.h"

namespace cellbatch {
namespace {

constexpr uint64_t kSeed = 20261122;

Model ThreeTypes() {
  const std::vector<Column> h = {{"h", ElementType::kFp32, 4}};
  Model model;
  for (const char* name : {"leaf", "internal", "output"}) {
    CellType type;
    type.id = CellTypeId(static_cast<int64_t>(model.types.size()));
    type.name = name;
    type.definition = testing::AnyCell(name, {{"x", h}}, h);
    type.in = {TableId(0)};
    type.out = TableId(0);
    model.types.push_back(type);
  }
  return model;
}

// Every set of types in every order, in four phases.
disk::PolicyFile Large(const Model& model) {
  PolicySpec spec;
  spec.kind = PolicyKind::kFsm;
  spec.encoding = {StateEncoding::Kind::kSort, 4};
  for (const std::vector<int>& types :
       {std::vector{0}, {1}, {2}, {0, 1}, {1, 0}, {0, 2}, {2, 0}, {2, 1}, {2, 0, 1}}) {
    std::vector<CellTypeId> ids;
    for (const int type : types) ids.emplace_back(type);
    for (int phase = 0; phase < 4; ++phase) {
      spec.rules.push_back({*MakeState(spec.encoding, ids, phase), ids.back()});
    }
  }
  return ToPolicyFile(spec, model);
}

void ExpectChoosesWhatIsReady(const Policy& policy, Mutator& mutator) {
  std::vector<TypeView> views(3);
  bool any = false;
  for (size_t t = 0; t < views.size(); ++t) {
    views[t].type = CellTypeId(static_cast<int64_t>(t));
    views[t].ready = static_cast<int32_t>(mutator.Below(3));
    views[t].nodes.remaining = views[t].nodes.total = views[t].nodes.tops = views[t].nodes.heads =
        views[t].ready + 1;
    any |= views[t].ready > 0;
  }
  const std::optional<Choice> choice = policy.Choose(views);
  ASSERT_EQ(choice.has_value(), any);
  if (!any) return;
  ASSERT_TRUE(choice->type.valid() && choice->type.value() < 3);
  EXPECT_GT(views[static_cast<size_t>(choice->type.value())].ready, 0);
  EXPECT_LT(choice->reason, static_cast<int>(policy.reasons().size()));
}

TEST(PolicyFuzzTest, DamagedPoliciesAreRefusedOrChooseWhatIsReady) {
  std::cout << "seed " << kSeed << "\n";
  const Model model = ThreeTypes();
  const std::string good = PolicyText(Large(model));
  Mutator mutator(
      kSeed, {"kind: LB_GREEDY", "kind: FSM", "encoding: WHICH_ARE_READY",
              "encoding: WHICH_ARE_READY_AND_MOST", "most: \"leaf\"", "phases: 2", "phase: 3",
              "fill: 2", "filled: \"leaf\"", "ready: \"leaf\"", "run: \"output\"", "states {", "}",
              "fingerprint: \"\"", "\"internal\"", "# a comment", "\"\\377\""});
  int taken = 0, refused = 0;
  FuzzBudget budget(2000);
  while (budget.Next() && !HasFailure()) {
    const auto spec = ParsePolicy(mutator.Mutate(good), "policy.textproto", model);
    if (!spec.ok()) {
      ++refused;
      EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument) << spec.status();
      EXPECT_EQ(spec.status().message().find("policy.textproto:"), 0u) << spec.status();
      continue;
    }
    ++taken;
    const auto policy = MakePolicy(*spec, model.types.size());
    ASSERT_TRUE(policy.ok()) << policy.status();
    for (int i = 0; i < 8; ++i) ExpectChoosesWhatIsReady(**policy, mutator);
  }
  std::cout << taken << " taken, " << refused << " refused\n";
  EXPECT_GT(taken, budget.cases() / 60);
  EXPECT_GT(refused, budget.cases() / 6);
}

}  // namespace
}  // namespace cellbatch
