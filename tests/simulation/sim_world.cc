#include "tests/simulation/sim_world.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cells/any_cell.h"
#include "cells/check.h"

namespace cellbatch::sim {
namespace {

const Column token{"token", ElementType::kInt32, kTokenWords};
const Column h{"h", ElementType::kFp32, 2};
const Column c{"c", ElementType::kFp32, 2};
const Column word{"word", ElementType::kInt32, 1};
const Column y{"y", ElementType::kFp32, kLogitWidth};
const Column f{"f", ElementType::kFp32, 2};

struct Sketch {
  const char* name;
  std::vector<Input> inputs;
  std::vector<TableId> in;
  TableId out;
  bool carries = false;  // by its last input
  int32_t priority = 0;
};

std::vector<Sketch> Sketches() {
  const std::vector<Column> tokens = {token}, state = {h, c}, words = {h, word};
  const Input left{"left", state, Arity::kOne}, right{"right", state, Arity::kOne};
  const Input x_token{"x", tokens, Arity::kOne}, x_state{"x", state, Arity::kOne};
  const Input prev{"prev", state, Arity::kOne};
  return {
      {"chain", {x_token, prev}, {kTokens, kState}, kState, true, 0},
      {"stack", {x_state, prev}, {kState, kState}, kState, true, 1},
      {"leaf", {x_token}, {kTokens}, kState, false, 0},
      {"pair", {left, right}, {kState, kState}, kState, false, 1},
      {"triple",
       {left, right, {"up", state, Arity::kOne}},
       {kState, kState, kState},
       kState,
       false,
       1},
      {"bridge", {x_state}, {kState}, kWords, false, 1},
      {"decoder", {{"prev", words, Arity::kOne}}, {kWords}, kWords, true, 2},
      {"project", {{"x", words, Arity::kOne}}, {kWords}, kState, false, 2},
      {"edge", {{"child", state, Arity::kOne}, x_token}, {kState, kTokens}, kEdges, false, 1},
      {"gather", {x_token, {"edges", {f}, Arity::kSum}}, {kTokens, kEdges}, kState, false, 1},
      {"merge", {x_token, {"states", state, Arity::kSum}}, {kTokens, kState}, kState, false, 1},
      {"head", {x_state}, {kState}, kLogits, false, 3},
  };
}

}  // namespace

int32_t PhaseOf(CellTypeId type) {
  if (type == kHead) return 2;
  return type == kBridge || type == kDecoder || type == kProject ? 1 : 0;
}

std::shared_ptr<const Model> MakeModel(ModelId id, Limits limits, Priorities priorities,
                                       double weight, bool measured, RequestLevels levels,
                                       UnfoldOptions unfold, DeviceKinds devices) {
  const int32_t sign = priorities == Priorities::kLaterFirst     ? 1
                       : priorities == Priorities::kEarlierFirst ? -1
                                                                 : 0;
  auto model = std::make_shared<Model>();
  model->id = id;
  model->weight = weight;
  model->priority_levels = levels.levels;
  model->default_priority_level = levels.default_level;
  model->unfold = unfold;
  model->devices = devices;
  model->name = absl::StrCat("world", id.value());
  model->tables = {{"tokens", {token}},
                   {"state", {h, c}},
                   {"words", {h, word}},
                   {"logits", {y}},
                   {"edges", {f}}};
  for (const Sketch& sketch : Sketches()) {
    const bool left_open = measured && model->types.size() % 2 == 0;
    const std::optional<InputId> carry =
        sketch.carries ? std::optional(InputId(static_cast<int64_t>(sketch.inputs.size()) - 1))
                       : std::nullopt;
    model->types.push_back({.id = CellTypeId(static_cast<int64_t>(model->types.size())),
                            .name = sketch.name,
                            .definition = testing::AnyCell(sketch.name, sketch.inputs,
                                                           model->table(sketch.out).columns, carry),
                            .weights = {},
                            .in = sketch.in,
                            .out = sketch.out,
                            .min_batch = limits.min_batch,
                            .max_batch = left_open ? 0 : limits.max_batch,
                            .priority = sign * sketch.priority});
  }
  const absl::Status valid = model->Validate();
  Check(valid.ok(), valid.ToString());
  return model;
}

}  // namespace cellbatch::sim
