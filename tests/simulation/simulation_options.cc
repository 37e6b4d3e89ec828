#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "cells/device/sim/fingerprint.h"
#include "tests/simulation/sim_world.h"
#include "tests/simulation/simulation.h"

namespace cellbatch::sim {

namespace {

// However it is delayed, by itself or in what its signal shows.
int64_t LongestTaskNs(const SimulationOptions& o) {
  const int64_t ns = o.cost.task_ns + o.limits.max_batch * o.cost.node_ns;
  return ns + (o.delay_chance > 0 ? 20 * o.cost.task_ns : 0);
}

// What devices do that others see; of a stream of their own.
void DrawDevices(SimulationOptions& o) {
  std::mt19937_64 devices(MixBits(o.seed, 78));
  const auto one_in = [&](uint64_t n) { return devices() % n == 0; };
  o.asynchronous = one_in(2);
  o.late_writes = o.asynchronous && one_in(2);
  if (one_in(2)) {
    o.first_sequence = (uint64_t{1} << std::array{9, 16, 31, 32}[devices() % 4]) - devices() % 500;
  }
  if (one_in(3)) o.launch_multiple = 2 + static_cast<int>(devices() % 7);
  o.host_blocks = one_in(3);
  if (o.asynchronous) {
    if (one_in(3)) o.hang_chance = 0.0002;
    if (o.workers == 1 && !o.may_lose_all) o.hang_chance = 0;
    // Beyond whatever a task takes that is only late, or shown late, for as long as a signal is held.
    o.task_time_limit_ns = 1000 + (kHeldSteps + 10) * LongestTaskNs(o);
    o.task_time_factor = 1 + static_cast<int>(devices() % 100);
  }
}

// Batches of whole graphs, however they are padded, sorted by length or answered.
JoinSpec DrawJoin(uint64_t seed) {
  std::mt19937_64 random(seed);
  JoinSpec join{.whole_graphs = 1 + static_cast<int64_t>(random() % 16)};
  join.batching.padding = static_cast<GraphBatching::Padding>(random() % 3);
  const bool to_the_bucket = join.batching.padding == GraphBatching::Padding::kBucket;
  if (to_the_bucket || random() % 3 == 0) {
    join.batching.bucket_width = 1 + static_cast<int32_t>(random() % 8);
  }
  join.batching.leave_together = random() % 2 == 0;
  return join;
}

// Of a stream of its own, in one run of three: from one task, which is next to nothing, to more than there are.
void DrawLevels(SimulationOptions& o) {
  std::mt19937_64 levels(MixBits(o.seed, 82));
  if (levels() % 3 != 0) return;
  o.priority_levels = 2 + static_cast<int32_t>(levels() % 3);
  o.default_priority_level =
      1 + static_cast<int32_t>(levels() % static_cast<uint64_t>(o.priority_levels));
  o.priority_ageing = std::array{1, 5, 20, 100, 100'000}[levels() % 5];
}

}  // namespace

TurnRules RulesOf(const SimulationOptions& o) {
  TurnRules rules;
  rules.max_tasks_in_flight = o.max_tasks_in_flight;
  rules.max_wait_tasks = o.max_wait_tasks;
  rules.chain_turn = o.chain_turn;
  rules.idle_types_first = o.policy == PolicyKind::kCellular && !o.may_wait;
  rules.picks_depth = o.policy == PolicyKind::kDepth;
  rules.busy_steal = o.stealing == Stealing::kAlways;
  rules.padded = o.join.batching.padding != GraphBatching::Padding::kNone;
  rules.by_length = o.join.batching.bucket_width > 0;
  rules.priority_ageing = o.priority_ageing;
  rules.whole_graphs = o.join.whole_graphs > 0;
  rules.may_wait = o.may_wait;
  const int64_t ns = o.cost.task_ns + o.limits.max_batch * o.cost.node_ns;
  // A signal that was held shows several tasks at once, and so late.
  const int64_t held = o.hold_chance > 0 ? o.max_tasks_in_flight * ns : 0;
  rules.longest_task_ns = LongestTaskNs(o) + held;
  return rules;
}

int64_t MostTaskNs(const SimulationOptions& o) {
  return std::max(o.task_time_limit_ns, o.task_time_factor * LongestTaskNs(o));
}

SimulationOptions RandomOptions(uint64_t seed, int64_t requests) {
  std::mt19937_64 random(MixBits(seed, 77));
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  const auto often = [&](int percent, double value) { return pick(0, 99) < percent ? value : 0; };
  SimulationOptions o;
  o.seed = seed;
  o.requests = requests;
  o.workers = pick(1, 4);
  o.memories = o.workers > 1 ? pick(1, 2) : 1;
  o.models = pick(0, 3) == 0 ? 2 : 1;
  o.max_tasks_in_flight = pick(1, 5);
  o.stealing = static_cast<Stealing>(pick(0, 2));
  o.limits = {.min_batch = pick(1, 3), .max_batch = 1 << pick(2, 5)};
  o.max_wait_tasks = pick(2, 20);
  o.row_budget_bytes = int64_t{1} << pick(13, 18);
  o.in_flight = pick(0, 3) == 0 ? pick(100, 400) : pick(1, 60);
  o.cancel_permille = pick(0, 2) == 0 ? 0 : pick(1, 60);
  o.cost = {pick(0, 4) == 0 ? 0 : pick(100, 2000), pick(0, 100)};
  o.delay_chance = often(40, 0.02);
  o.refusal_chance = often(30, 0.2);
  o.hold_chance = often(30, 0.002);
  o.fail_chance = o.workers > 1 ? often(25, 0.0002) : 0;
  o.signal_bits = pick(0, 1) == 0 ? 64 : pick(8, 32);
  o.lock_step = pick(0, 3) == 0;
  o.late_take_chance = often(50, 0.8);
  o.grow_chance = often(60, 0.3);
  o.priorities = static_cast<Priorities>(pick(0, 2));
  o.weight_ratio = pick(0, 2) == 0 ? 1 : pick(1, 4);
  if (pick(0, 3) == 0) {
    // What random runs hardly reach: predecessors and ends on several workers.
    o.workers = pick(2, 4);
    o.memories = 1;
    o.stealing = Stealing::kAlways;
    o.limits = {.min_batch = 1, .max_batch = pick(2, 4)};
    o.in_flight = pick(10, 60);
    o.delay_chance = 0.1;
    o.shapes = {Shape::kDag, Shape::kTwoSinks, Shape::kTree, Shape::kLattice, Shape::kEdgeTree};
  }
  o.chain_turn = pick(0, 2) == 0 ? 64 : pick(1, 12);  // chains that give way again and again
  const bool other_policy = pick(-2, 2) > 0;
  o.may_lose_all = pick(0, 2) == 0;
  o.change_chance = often(40, 0.002);
  o.calibrate = pick(0, 3) == 0;
  if (pick(0, 4) == 0) {
    // Models that share one device, and nothing else: what each gets can be said exactly.
    o.workers = o.memories = 1;
    o.models = pick(2, 3);
    o.in_flight = pick(50, 200);
    o.cost = {pick(100, 2000), pick(0, 100)};
    o.fail_chance = 0;
  }
  DrawDevices(o);
  DrawLevels(o);
  o.may_wait = MixBits(seed, 83) % 3 == 0;
  o.two_kinds = o.memories == 2 && MixBits(seed, 84) % 2 == 0;
  if (other_policy) {
    if (MixBits(seed, 81) % 2 == 0) o.policy_change_chance = 0.002;
    constexpr std::array kOthers = {PolicyKind::kAgenda, PolicyKind::kAgendaOfRemaining,
                                    PolicyKind::kDepth,  PolicyKind::kLbGreedy,
                                    PolicyKind::kFsm,    PolicyKind::kRandom};
    o.policy = kOthers[MixBits(seed, 80) % kOthers.size()];
  } else if (MixBits(seed, 81) % 6 == 0) {
    o.join = DrawJoin(MixBits(seed, 82));
  }
  return o;
}

DeviceKind KindOfMemory(const SimulationOptions& o, int memory) {
  return o.two_kinds && memory % 2 == 1 ? DeviceKind::kGpu : DeviceKind::kCpu;
}

DeviceKinds KindsOfModel(const SimulationOptions& o, int model) {
  if (!o.two_kinds) return {};
  return {.cpu = model % 3 != 1, .gpu = model % 3 != 0};
}

SimulationOptions WithUnfolding(SimulationOptions o) {
  const uint64_t unfold = MixBits(o.seed, 81);
  o.unfold = {.phases = (unfold & 1) != 0 ? kNumPhases : 1,
              .ghosts = (unfold & 2) != 0,
              .level_rows = (unfold & 4) != 0};
  return o;
}

SimulationOptions LongLivedOptions(int64_t requests) {
  SimulationOptions o;
  o.requests = requests;
  o.workers = 2;
  o.models = 2;
  o.change_chance = 0.0005;
  o.late_take_chance = 0.5;
  o.grow_chance = 0.2;
  return o;
}

std::string Describe(const SimulationOptions& o) {
  return absl::StrCat(
      "seed ", o.seed, ": ", o.requests, " requests, ", o.workers, " workers on ", o.memories,
      " memories", o.two_kinds ? " of two kinds, " : ", ", o.models, " models, ",
      o.max_tasks_in_flight, " tasks in flight, stealing ", static_cast<int>(o.stealing),
      ", batches ", o.limits.min_batch, "-", o.limits.max_batch, ", ", o.row_budget_bytes,
      " B of rows, ", o.in_flight, " in flight, cancels ", o.cancel_permille, "/1000, fails ",
      o.fail_chance, ", hangs ", o.hang_chance, ", limit ", o.task_time_limit_ns, " ns or x",
      o.task_time_factor, ", lock step ", o.lock_step, ", priorities ",
      static_cast<int>(o.priorities), ", weights x", o.weight_ratio, ", T(b) = ", o.cost.task_ns,
      " + ", o.cost.node_ns, " b ns, late ", o.delay_chance, ", held ", o.hold_chance, ", grow ",
      o.grow_chance, ", levels ", o.priority_levels, " (default ", o.default_priority_level,
      "), ageing ", o.priority_ageing, ", chain turn ", o.chain_turn, ", policy ",
      std::string(Name(o.policy)), ", some wait ", o.may_wait, ", phases ", o.unfold.phases,
      ", ghosts ", o.unfold.ghosts, ", rows by level ", o.unfold.level_rows, ", join ",
      Name(o.join), ", changes ", o.change_chance, ", takes over ", o.policy_change_chance,
      ", calibrate ", o.calibrate, ", asynchronous ", o.asynchronous, ", late writes ",
      o.late_writes, ", first task ", o.first_sequence, ", launches of ", o.launch_multiple,
      ", host blocks ", o.host_blocks);
}

}  // namespace cellbatch::sim
