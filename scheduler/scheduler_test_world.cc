#include "scheduler/scheduler_test_world.h"

#include <algorithm>

#include "cells/any_cell.h"
#include "cells/check.h"

namespace cellbatch::scheduler_testing {

std::shared_ptr<Model> MakeModel(ModelId id, std::vector<int32_t> max_batch) {
  const Column token{"token", ElementType::kInt32, 1}, h{"h", ElementType::kFp32, 4},
      y{"y", ElementType::kFp32, 2}, word{"word", ElementType::kInt32, 1};
  auto model = std::make_shared<Model>();
  model->id = id;
  model->name = "model" + std::to_string(id.value());
  model->tables = {{"tokens", {token}}, {"state", {h}}, {"logits", {y}}, {"words", {h, word}}};
  const auto add = [&](std::string name, std::vector<Input> inputs, std::vector<Column> leaves,
                       std::vector<TableId> in, TableId out, std::optional<InputId> carry = {}) {
    const size_t t = model->types.size();
    model->types.push_back({.id = CellTypeId(static_cast<int64_t>(t)),
                            .name = name,
                            .definition = testing::AnyCell(name, std::move(inputs), leaves, carry),
                            .weights = {},
                            .in = std::move(in),
                            .out = out,
                            .min_batch = 1,
                            .max_batch = t < max_batch.size() ? max_batch[t] : 8,
                            .priority = static_cast<int32_t>(t)});
  };
  add("chain", {{"x", {token}}, {"before", {h}}}, {h}, {kTokens, kState}, kState, kIn1);
  add("leaf", {{"x", {token}}}, {h}, {kTokens}, kState);
  add("pair", {{"left", {h}}, {"right", {h}}}, {h}, {kState, kState}, kState);
  add("head", {{"x", {h}}}, {y}, {kState}, kLogits);
  add("decoder", {{"x", {h}}, {"before", {h, word}}}, {h, word}, {kState, kWords}, kWords, kIn1);
  return model;
}

World::World(WorldOptions options) {
  DeviceSet set;
  for (const DeviceKind kind : options.kinds) {
    const bool blocks = kind == options.kinds.back();
    set.memories.push_back(std::make_unique<SimMemory>(
        SimMemoryOptions{.kind = kind,
                         .fingerprints = options.fingerprints,
                         .host_blocks = blocks ? options.host_blocks : nullptr}));
    memories_.push_back(static_cast<SimMemory*>(set.memories.back().get()));
  }
  for (int d = 0; d < options.devices; ++d) {
    SimDeviceOptions device;
    device.name = "sim:" + std::to_string(d);
    device.cost = options.cost;
    device.zero_cost = options.zero_cost;
    if (options.device) options.device(device);
    SimMemory& memory = *memories_[static_cast<size_t>(d) % memories_.size()];
    set.devices.push_back(std::make_unique<SimDevice>(device, memory, time_));
    devices_.push_back(static_cast<SimDevice*>(set.devices.back().get()));
    devices_.back()->set_moves_time(options.threads);
  }
  options.scheduler.threads = threads_ = options.threads;
  options.scheduler.calibrate = options.calibrate;
  options.scheduler.max_requests = std::min(options.scheduler.max_requests, 1 << 12);
  if (options.scheduler.row_budget_bytes == SchedulerOptions().row_budget_bytes) {
    options.scheduler.row_budget_bytes = 1 << 20;
  }
  auto made = Scheduler::Create(options.scheduler, std::move(set), clock_);
  Check(made.ok(), std::string(made.status().message()));
  scheduler_ = *std::move(made);
}

World::~World() { MoveTime(true); }

void World::Add(std::shared_ptr<const Model> model, LaneRules rules) {
  const absl::Status added = TryAdd(std::move(model), std::move(rules));
  Check(added.ok(), std::string(added.message()));
}

absl::Status World::TryAdd(std::shared_ptr<const Model> model, LaneRules rules) {
  MoveTime(true);
  const absl::Status added = scheduler_->AddModel(std::move(model), std::move(rules));
  MoveTime(false);
  return added;
}

absl::Status World::Remove(ModelId model) {
  MoveTime(true);
  const absl::Status removed = scheduler_->RemoveModel(model);
  MoveTime(false);
  return removed;
}

// Of devices that nobody else steps.
void World::MoveTime(bool moves) {
  if (threads_) return;
  for (SimDevice* device : devices_) device->set_moves_time(moves);
}

std::unique_ptr<Request> World::Make(std::shared_ptr<const Model> model,
                                     const std::function<void(CellGraph&)>& fill) {
  auto request = std::make_unique<Request>();
  request->model = std::move(model);
  fill(request->graph);
  const absl::Status sealed =
      request->graph.Seal(*request->model, scheduler_->max_tasks_in_flight());
  Check(sealed.ok(), std::string(sealed.message()));
  return request;
}

RequestId World::Submit(std::unique_ptr<Request> request, uint64_t tag) {
  request->tag = tag;
  request->times.submitted = time_.now_ns();
  const auto id = scheduler_->Submit(request);
  Check(id.has_value(), "the scheduler is full");
  return *id;
}

SubgraphId World::Tokens(CellGraph& graph, int32_t rows) {
  auto tokens = std::make_unique<int32_t[]>(static_cast<size_t>(rows));
  for (int32_t i = 0; i < rows; ++i) tokens[static_cast<size_t>(i)] = next_token_++;
  const auto* bytes = reinterpret_cast<const std::byte*>(tokens.get());
  tokens_.push_back(std::move(tokens));
  return graph.AddInput(kTokens, rows, bytes);
}

std::unique_ptr<Request> World::Sentence(std::shared_ptr<const Model> model, int32_t length) {
  return Make(std::move(model), [&](CellGraph& g) {
    const SubgraphId tokens = Tokens(g, length);
    const SubgraphId chain =
        g.Add(kChain, length, {{.from = tokens, .input = kIn0, .first = 0, .stride = 1}});
    const SubgraphId head = g.Add(kHead, 1, {{.from = chain, .input = kIn0, .first = kLastNode}});
    g.Return(head, kY, {}, {.tensor = g.AddTensor("OUTPUT", WireType::kFp32, {2})});
  });
}

std::unique_ptr<Request> World::Decoding(std::shared_ptr<const Model> model, int32_t cap,
                                         int32_t end) {
  return Make(std::move(model), [&](CellGraph& g) {
    const SubgraphId tokens = Tokens(g, 1);
    const SubgraphId leaf = g.Add(kLeaf, 1, {{.from = tokens, .input = kIn0}});
    const SubgraphId words =
        g.Add(kDecoder, cap, {{.from = leaf, .input = kIn0}}, Stop{kWord, end});
    const int32_t tensor = g.AddTensor("WORDS", WireType::kInt32, {cap});
    g.Return(words, kWord, {0, cap}, {.tensor = tensor, .stride_bytes = 4});
  });
}

std::unique_ptr<Request> World::Tree(std::shared_ptr<const Model> model, int32_t leaves) {
  return Make(std::move(model), [&](CellGraph& g) {
    const SubgraphId tokens = Tokens(g, leaves);
    const SubgraphId set =
        g.Add(kLeaf, leaves, {{.from = tokens, .input = kIn0, .first = 0, .stride = 1}});
    std::vector<Link> level;
    for (int32_t i = 0; i < leaves; ++i) level.push_back({.from = set, .input = kIn0, .first = i});
    while (level.size() > 1) {
      std::vector<Link> next;
      for (size_t i = 0; i + 1 < level.size(); i += 2) {
        Link left = level[i], right = level[i + 1];
        right.input = kIn1;
        next.push_back({.from = g.Add(kPair, 1, {left, right}), .input = kIn0});
      }
      if (level.size() % 2 == 1) next.push_back(level.back());
      level = std::move(next);
    }
    const SubgraphId head = g.Add(kHead, 1, {level[0]});
    g.Return(head, kY, {}, {.tensor = g.AddTensor("OUTPUT", WireType::kFp32, {2})});
  });
}

bool World::Step() {
  bool worked = scheduler_->StepManager();
  for (size_t d = 0; d < devices_.size(); ++d) {
    worked |= scheduler_->StepWorker(static_cast<int>(d));
  }
  if (worked) return true;
  std::optional<int64_t> next;
  for (const SimDevice* device : devices_) {
    const auto event = device->next_event_ns();
    if (event && (!next || *event < *next)) next = event;
  }
  if (!next) return false;
  time_.AdvanceTo(*next);
  return true;
}

void World::Run() {
  while (Step()) {
  }
}

std::vector<std::unique_ptr<Request>> World::Finished() {
  std::vector<std::unique_ptr<Request>> all;
  std::unique_ptr<Request> some[16];
  while (const int n = scheduler_->Take(OutboxId(0), absl::MakeSpan(some))) {
    for (int i = 0; i < n; ++i) all.push_back(std::move(some[i]));
  }
  return all;
}

std::vector<Delivery> World::Deliveries() {
  std::vector<Delivery> all;
  Delivery some[16];
  while (const int n = scheduler_->Take(OutboxId(0), absl::MakeSpan(some))) {
    for (int i = 0; i < n; ++i) all.push_back(std::move(some[i]));
  }
  return all;
}

std::unique_ptr<Request> World::TheOne() {
  auto all = Finished();
  EXPECT_EQ(all.size(), 1u);
  return all.empty() ? nullptr : std::move(all[0]);
}

std::unique_ptr<Request> World::WaitForOne() {
  std::unique_ptr<Request> one;
  while (scheduler_->Take(OutboxId(0), absl::MakeSpan(&one, 1)) == 0) {
    scheduler_->WaitForFinished(OutboxId(0), absl::InfiniteDuration());
  }
  return one;
}

int64_t World::RowsUsed() {
  int64_t rows = 0;
  for (const LaneStats& lane : scheduler_->stats().Lanes()) rows += lane.rows_used;
  return rows;
}

void World::ExpectClean() {
  for (SimMemory* memory : memories_) {
    EXPECT_EQ(memory->violations().count(), 0);
    for (const std::string& what : memory->violations().first()) ADD_FAILURE() << what;
  }
  EXPECT_EQ(RowsUsed(), 0);
  const absl::Status invariants = scheduler_->CheckInvariants();
  EXPECT_TRUE(invariants.ok()) << invariants;
}

}  // namespace cellbatch::scheduler_testing
