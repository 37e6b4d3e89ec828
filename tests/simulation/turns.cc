#include "tests/simulation/turns.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "cells/check.h"

namespace cellbatch::sim {
namespace {

constexpr int64_t kMostNodesAtOnce = 96;  // ready of one request, of what the generator makes

size_t Index(int64_t i) { return static_cast<size_t>(i); }

}  // namespace

void Turns::AddWorker(const Device& device, int memory) {
  worker_of_[&device] = static_cast<int>(workers_.size());
  workers_.push_back({.memory = memory, .model = {}});
  levels_.AddWorker(memory);
}

void Turns::Open(const Model& model, const std::vector<std::vector<int32_t>>& max_batch) {
  Lane& lane = lanes_[model.id.value()];
  lane = Lane();
  lane.model = model.id;
  lane.types = &model.types;
  lane.has_levels = model.priority_levels > 1;
  levels_.Open(model, max_batch);
  // The guard's own, for which twice the types are the least; then each other type that waited too long once,
  // as often as the policy repeats it; and what was submitted when the type became ready, on either side.
  const int64_t types = static_cast<int64_t>(model.types.size());
  const int64_t depth = rules_.max_tasks_in_flight;
  lane.most_passed =
      std::max<int64_t>(rules_.max_wait_tasks, 2 * types) + types * depth + 3 * depth;
  if (workers_.size() == 1) shares_.Open(model.id, model.weight);
  const PerWorker none(workers_.size(), 0);
  lane.overtaken_tasks = lane.overtaken_since = none;
  int memories = 0;
  for (const Worker& w : workers_) memories = std::max(memories, w.memory + 1);
  for (int m = 0; m < memories; ++m) {
    Place& place = lane.places.emplace_back();
    place.max_batch = max_batch[Index(m)];
    place.tasks = none;
    place.types.resize(model.types.size());
    for (TypeTurn& t : place.types) {
      t.tasks = t.last = t.sequence = t.since = t.front_tasks = t.front_since = none;
    }
  }
}

void Turns::Close(ModelId model) {
  lanes_.erase(model.value());
  shares_.Close(model);
}

LongestWaits Turns::longest() const {
  LongestWaits longest = longest_;
  longest.model_ns = shares_.longest_wait_ns();
  longest.shares_apart = shares_.furthest_apart();
  longest.levels_compared = levels_.compared();
  return longest;
}

void Turns::Add(Lane& lane, Place& place, size_t type, int64_t nodes) {
  place.types[type].ready += nodes;
  if (workers_.size() == 1) shares_.Ready(lane.model, nodes);
}

void Turns::Failed(const Device& device) {
  Worker& failed = workers_[Index(worker_of_.at(&device))];
  failed.alive = false;
  levels_.Failed(failed.memory);
  for (auto& [model, lane] : lanes_) {
    lane.overtaken = 0;
    Place& place = lane.places[Index(failed.memory)];
    place.in_order = false;
    for (TypeTurn& t : place.types) t.since = place.tasks;
  }
}

bool Turns::IsChain(const Lane& lane, size_t type) const {
  return (*lane.types)[type].definition->carry().has_value();
}

// Before the longest waiting of a type: what joined with it or just before (two batches and one request are
// let in at once), and, where chains hold their places, their turns.
int64_t Turns::MostTasks(const Lane& lane, const Place& place, size_t type) const {
  const int64_t batch = place.max_batch[type];
  const int64_t most = 4 + rules_.max_tasks_in_flight + (kMostNodesAtOnce + batch - 1) / batch;
  const int64_t guard =
      std::max<int64_t>(rules_.max_wait_tasks, 2 * static_cast<int64_t>(lane.types->size()));
  if (rules_.picks_depth) return (guard + 2) * most;
  return IsChain(lane, type) ? rules_.chain_turn * most : most;
}

void Turns::Submitted(int32_t tag, const Model& model, const Plan& plan,
                      const Evaluation& evaluation, int32_t level) {
  levels_.Submitted(tag, model, plan, level);
  auto runner = std::make_unique<Runner>(Runner{.plan = &plan, .model = model.id, .subgraphs = {}});
  runner->subgraphs.resize(plan.subgraphs.size());
  for (size_t s = 0; s < plan.subgraphs.size(); ++s) {
    SubgraphTurn& turn = runner->subgraphs[s];
    turn.left = plan.subgraphs[s].is_input ? 0 : evaluation.executed[s];
    for (const Link& link : plan.subgraphs[s].links) {
      if (link.from == kZeroSource || plan.subgraphs[Index(link.from.value())].is_input) continue;
      std::vector<int32_t>& readers = runner->subgraphs[Index(link.from.value())].readers;
      if (!readers.empty() && readers.back() == static_cast<int32_t>(s)) continue;
      readers.push_back(static_cast<int32_t>(s));
      ++turn.pending;
    }
  }
  runners_[tag] = std::move(runner);
  lanes_.at(model.id.value()).unstarted.push_back(tag);
}

void Turns::Ready(Runner& runner, int32_t tag, size_t subgraph) {
  Lane& lane = lanes_.at(runner.model.value());
  Place& place = lane.places[Index(runner.memory)];
  const size_t type = Index(runner.plan->subgraphs[subgraph].type.value());
  SubgraphTurn& s = runner.subgraphs[subgraph];
  if (place.types[type].ready == 0) place.types[type].since = place.tasks;
  Add(lane, place, type, IsChain(lane, type) ? 1 : s.left);
  s.stamp = ++stamps_;
  s.ready_at = SequenceIn(runner.memory);
  Push(runner, place, type, tag, subgraph);
}

void Turns::Push(const Runner& runner, Place& place, size_t type, int32_t tag, size_t subgraph) {
  Waiting waiting = {tag, subgraph, runner.subgraphs[subgraph].stamp};
  if (WorkersOf(runner.memory) > 1) waiting.since = place.tasks;
  place.types[type].line.push_back(std::move(waiting));
  levels_.Waits(tag, subgraph, runner.memory, static_cast<int32_t>(type),
                SequenceIn(runner.memory));
}

// Somebody left who had not run. Where a memory has several workers, who is left may wait on another one of them,
// and there only since it became ready: from then on the wait of the type is known to be theirs.
void Turns::WaitsAnew(Place& place, size_t type) {
  TypeTurn& turn = place.types[type];
  const auto oldest = std::find_if(turn.line.begin(), turn.line.end(),
                                   [&](const Waiting& w) { return Find(w) != nullptr; });
  if (oldest == turn.line.end()) return;
  for (size_t w = 0; w < oldest->since.size(); ++w) {
    turn.since[w] = std::max(turn.since[w], oldest->since[w]);
  }
}

void Turns::Starts(Runner& runner, int32_t tag) {
  runner.memory = workers_[Index(worker_)].memory;
  levels_.Starts(tag);
  for (int32_t s = 0; s < runner.plan->piece_end(0); ++s) {
    const SubgraphTurn& turn = runner.subgraphs[Index(s)];
    if (!runner.plan->subgraphs[Index(s)].is_input && turn.pending == 0)
      Ready(runner, tag, Index(s));
  }
  Unstarted(*lane_, tag);
}

// Whoever came before `starter` and has not started was in front of it in the line.
void Turns::Unstarted(Lane& lane, int32_t starter) {
  const auto waits = [&](int32_t tag) {
    const auto found = runners_.find(tag);
    return found != runners_.end() && found->second->memory < 0;
  };
  while (!lane.unstarted.empty() && !waits(lane.unstarted.front())) lane.unstarted.pop_front();
  if (lane.unstarted.empty() || lane.unstarted.front() > starter) return;
  const int32_t oldest = lane.unstarted.front();
  if (lane.overtaken == oldest) return;
  lane.overtaken = oldest;
  const Runner& runner = *runners_.at(oldest);
  for (size_t s = 0; s < runner.subgraphs.size(); ++s) {
    if (runner.plan->subgraphs[s].is_input || runner.subgraphs[s].pending > 0) continue;
    lane.overtaken_type = Index(runner.plan->subgraphs[s].type.value());
    break;
  }
  for (size_t w = 0; w < workers_.size(); ++w) {
    const Place& place = lane.places[Index(workers_[w].memory)];
    lane.overtaken_tasks[w] = place.types[lane.overtaken_type].tasks[w];
    lane.overtaken_since[w] = place.tasks[w];
  }
}

void Turns::Extended(int32_t tag) {
  const auto found = runners_.find(tag);
  if (found == runners_.end()) return;
  Runner& runner = *found->second;
  const int piece = runner.pieces++;
  if (piece >= runner.plan->num_pieces()) return;
  for (int32_t s = runner.plan->piece_begin(piece); s < runner.plan->piece_end(piece); ++s) {
    const SubgraphTurn& turn = runner.subgraphs[Index(s)];
    if (!runner.plan->subgraphs[Index(s)].is_input && turn.pending == 0)
      Ready(runner, tag, Index(s));
  }
}

void Turns::Left(int32_t tag) {
  const auto found = runners_.find(tag);
  if (found == runners_.end()) return;
  levels_.Left(tag);
  Runner& runner = *found->second;
  for (size_t s = 0; s < runner.subgraphs.size() && runner.memory >= 0; ++s) {
    if (std::exchange(runner.subgraphs[s].stamp, 0) == 0) continue;
    Lane& lane = lanes_.at(runner.model.value());
    Place& place = lane.places[Index(runner.memory)];
    const size_t type = Index(runner.plan->subgraphs[s].type.value());
    Add(lane, place, type, IsChain(lane, type) ? -1 : -runner.subgraphs[s].left);
    WaitsAnew(place, type);
  }
  runners_.erase(found);
}

void Turns::BeginTask(const Device& device, const BatchedTask& task, ModelId model, int64_t ns) {
  worker_ = worker_of_.at(&device);
  Worker& worker = workers_[Index(worker_)];
  lane_ = &lanes_.at(model.value());
  place_ = &lane_->places[Index(worker.memory)];
  const size_t w = Index(worker_), type = Index(task.cell.value());
  if (!rules_.padded) CheckPriority(*lane_, *place_, worker_, task);
  if (!rules_.padded && rules_.may_wait) CheckWaited(*lane_, *place_, worker_, task);
  worker.sequence = task.sequence;
  worker.model = model;
  worker.type = task.cell.value();
  ++place_->tasks[w];
  levels_.BeginTask(model, worker.memory, task.cell.value(), task.sequence);
  TypeTurn& turn = place_->types[type];
  ++turn.tasks[w];
  turn.last[w] = place_->tasks[w];
  turn.sequence[w] = static_cast<int64_t>(task.sequence);
  turn.since = place_->tasks;
  if (workers_.size() == 1) shares_.Ran(model, 0, ns);
}

void Turns::WarmUp(const Device& device, const BatchedTask& task, const Model& model, int64_t ns) {
  Worker& worker = workers_[Index(worker_of_.at(&device))];
  worker.sequence = task.sequence;
  worker.type = -1;
  if (workers_.size() == 1) shares_.Ran(model.id, model.weight, ns);
}

void Turns::Node(int32_t tag, size_t subgraph) {
  const auto found = runners_.find(tag);
  if (found == runners_.end()) return;
  Runner& runner = *found->second;
  if (runner.memory < 0) Starts(runner, tag);
  SubgraphTurn& s = runner.subgraphs[subgraph];
  if (s.stamp == 0) return;  // not ready, and it ran: somebody else's violation
  const size_t type = Index(runner.plan->subgraphs[subgraph].type.value());
  levels_.Runs(tag, subgraph, IsChain(*lane_, type));
  --s.left;
  if (!IsChain(*lane_, type) || s.left == 0) {
    Add(*lane_, *place_, type, -1);
  }
  if (s.left > 0) {
    s.stamp = ++stamps_;
    Push(runner, *place_, type, tag, subgraph);
    return;
  }
  s.stamp = 0;
  for (const int32_t reader : s.readers) {
    const bool ready = --runner.subgraphs[Index(reader)].pending == 0;
    if (ready && reader < runner.plan->piece_end(runner.pieces - 1)) {
      Ready(runner, tag, Index(reader));
    }
  }
}

void Turns::EndTask() {
  const int memory = workers_[Index(worker_)].memory;
  const bool stays = (!rules_.busy_steal || WorkersOf(memory) == 1) && !rules_.padded;
  const bool alike = !lane_->has_levels;
  for (size_t t = 0; t < place_->types.size(); ++t) {
    if (stays) CheckType(*lane_, *place_, memory, t);
    if (stays && place_->in_order && alike) CheckFront(*lane_, *place_, memory, t);
  }
  if (!rules_.busy_steal && !rules_.padded && !rules_.by_length && alike) CheckOvertaken(*lane_);
  levels_.EndTask();
}

uint64_t Turns::SequenceIn(int memory) const {
  uint64_t latest = 0;
  for (const Worker& w : workers_) {
    if (w.memory == memory) latest = std::max(latest, w.sequence);
  }
  return latest;
}

int64_t Turns::WorkersOf(int memory) const {
  return std::count_if(workers_.begin(), workers_.end(),
                       [memory](const Worker& w) { return w.memory == memory; });
}

Turns::SubgraphTurn* Turns::Find(const Waiting& waiting) {
  const auto found = runners_.find(waiting.tag);
  if (found == runners_.end()) return nullptr;
  SubgraphTurn& s = found->second->subgraphs[waiting.subgraph];
  return s.stamp == waiting.stamp ? &s : nullptr;
}

template <typename Test>
bool Turns::OnAll(int memory, Test test) const {
  bool any = false;
  for (size_t w = 0; w < workers_.size(); ++w) {
    if (!workers_[w].alive || (memory >= 0 && workers_[w].memory != memory)) continue;
    if (!test(static_cast<int>(w))) return false;
    any = true;
  }
  return any;
}

void Turns::CheckType(const Lane& lane, Place& place, int memory, size_t type) {
  TypeTurn& turn = place.types[type];
  if (turn.ready == 0) return;
  int64_t least = INT64_MAX;
  OnAll(memory, [&](int w) {
    least = std::min(least, place.tasks[Index(w)] - turn.since[Index(w)]);
    return true;
  });
  if (least == INT64_MAX) return;
  longest_.type_tasks = std::max(longest_.type_tasks, least);
  if (least <= lane.most_passed) return;
  violated_(
      absl::StrCat("type ", type, " starves: it is ready, and ", least,
                   " tasks of its model ran on each worker of its memory without it; at most ",
                   lane.most_passed));
  turn.since = place.tasks;
}

// Whether that worker ran so much that nobody can have waited there since.
bool Turns::PassedBy(const Lane& lane, const Place& place, int worker, size_t type,
                     int64_t tasks_then, int64_t since) {
  const TypeTurn& turn = place.types[type];
  const int64_t of_type = turn.tasks[Index(worker)] - tasks_then;
  const int64_t without = place.tasks[Index(worker)] - std::max(since, turn.last[Index(worker)]);
  return of_type > MostTasks(lane, place, type) || without > lane.most_passed;
}

void Turns::CheckFront(const Lane& lane, Place& place, int memory, size_t type) {
  TypeTurn& turn = place.types[type];
  while (!turn.line.empty() && Find(turn.line.front()) == nullptr) turn.line.pop_front();
  if (turn.line.empty()) return;
  const Waiting& front = turn.line.front();
  if (front.stamp != turn.front.stamp) {
    turn.front = front;
    turn.front_tasks = turn.tasks;
    turn.front_since = place.tasks;
    return;
  }
  int64_t least = INT64_MAX;
  const bool passed = OnAll(memory, [&](int w) {
    least = std::min(least, turn.tasks[Index(w)] - turn.front_tasks[Index(w)]);
    return PassedBy(lane, place, w, type, turn.front_tasks[Index(w)], turn.front_since[Index(w)]);
  });
  if (least != INT64_MAX) longest_.subgraph_tasks = std::max(longest_.subgraph_tasks, least);
  if (!passed) return;
  violated_(absl::StrCat("request ", front.tag, " starves: no subgraph of type ", type,
                         " waits longer than its ", front.subgraph, ", which ", least,
                         " tasks of that type passed by; at most ", MostTasks(lane, place, type)));
  turn.front_tasks = turn.tasks;
}

void Turns::CheckOvertaken(Lane& lane) {
  if (lane.overtaken == 0) return;
  const auto found = runners_.find(lane.overtaken);
  if (found == runners_.end() || found->second->memory >= 0) {
    lane.overtaken = 0;
    return;
  }
  const size_t type = lane.overtaken_type;
  const bool in_order = std::all_of(lane.places.begin(), lane.places.end(),
                                    [](const Place& p) { return p.in_order; });
  const bool passed = in_order && OnAll(-1, [&](int w) {
                        const Place& place = lane.places[Index(workers_[Index(w)].memory)];
                        return PassedBy(lane, place, w, type, lane.overtaken_tasks[Index(w)],
                                        lane.overtaken_since[Index(w)]);
                      });
  if (!passed) return;
  violated_(absl::StrCat("request ", lane.overtaken,
                         " starves in the line: later ones run, and its first subgraph, of type ",
                         type, ", does not"));
  lane.overtaken = 0;
}

// Nodes of the type that the manager knew to be ready when it formed the task with that sequence: it keeps so
// many in flight at most, so it had seen the one so far before it done.
int64_t Turns::SurelyReady(const TypeTurn& type, uint64_t sequence, int64_t enough) {
  int64_t nodes = 0;
  for (const Waiting& waiting : type.line) {
    const SubgraphTurn* s = Find(waiting);
    if (s == nullptr) continue;
    if (s->ready_at + static_cast<uint64_t>(rules_.max_tasks_in_flight) >= sequence) continue;
    const Runner& runner = *runners_.at(waiting.tag);
    const Lane& lane = lanes_.at(runner.model.value());
    const int32_t t = runner.plan->subgraphs[waiting.subgraph].type.value();
    nodes += IsChain(lane, Index(t)) ? 1 : s->left;
    if (nodes >= enough) break;
  }
  return nodes;
}

// Of a type that may wait, less than a full batch, and less than is enough after so many tasks without it, while something
// else was ready. A task may also be cut short where its requests' rows find no room.
void Turns::CheckWaited(const Lane& lane, const Place& place, int worker, const BatchedTask& task) {
  const size_t type = Index(task.cell.value());
  if (!TypeMayWait(task.cell) || task.num_copies_in > 0 || rules_.picks_depth) return;
  if (WorkersOf(workers_[Index(worker)].memory) > 1) return;
  const int64_t waited = place.tasks[Index(worker)] - place.types[type].last[Index(worker)];
  const int64_t guard =
      std::max<int64_t>(rules_.max_wait_tasks, 2 * static_cast<int64_t>(lane.types->size()));
  const int64_t most = place.max_batch[type];
  if (task.num_nodes >= most) return;
  ++longest_.waits_compared;
  if (waited > guard || task.num_nodes * guard >= most * (guard - waited)) return;
  for (size_t t = 0; t < place.types.size(); ++t) {
    if (TypeMayWait(CellTypeId(static_cast<int64_t>(t)))) continue;
    if (SurelyReady(place.types[t], task.sequence, 1) == 0) continue;
    violated_(absl::StrCat("waiting: task ", task.sequence, " has ", task.num_nodes, " of ", most,
                           " nodes of type ", type, ", ", waited,
                           " tasks after the one before it, while type ", t, " is ready"));
    return;
  }
}

// The task was formed when its worker had done no more than it has now, and what is ready now and was then is
// in no task before it. A repeated type was chosen before; one that waited too long goes before any other.
void Turns::CheckPriority(const Lane& lane, const Place& place, int worker,
                          const BatchedTask& task) {
  const Worker& w = workers_[Index(worker)];
  const size_t type = Index(task.cell.value());
  const TypeTurn& chosen = place.types[type];
  const bool repeated = w.type == task.cell.value() && w.model == lane.model;
  const int64_t waited = place.tasks[Index(worker)] - chosen.last[Index(worker)];
  const int64_t guard =
      std::max<int64_t>(rules_.max_wait_tasks, 2 * static_cast<int64_t>(lane.types->size()));
  if (WorkersOf(w.memory) > 1 || repeated || waited > guard) return;
  ++longest_.priorities_compared;
  const int32_t priority = (*lane.types)[type].priority;
  // A task may also be cut short where its sums or its requests' rows find no room.
  const bool small =
      rules_.idle_types_first && task.num_nodes < place.max_batch[type] && task.num_copies_in == 0;
  const uint64_t depth = static_cast<uint64_t>(rules_.max_tasks_in_flight);
  for (size_t t = 0; t < place.types.size(); ++t) {
    const TypeTurn& other = place.types[t];
    const bool before = (*lane.types)[t].priority > priority;
    const bool last_of_equals = (*lane.types)[t].priority == priority && t > type;
    if (other.ready == 0 || (!before && !last_of_equals)) continue;
    const int64_t ready = SurelyReady(other, task.sequence, place.max_batch[t]);
    const bool full = ready >= place.max_batch[t] && !rules_.picks_depth;
    const bool idle = static_cast<uint64_t>(other.sequence[Index(worker)]) + depth < task.sequence;
    if (!full && !(before && small && idle && ready > 0)) continue;
    violated_(absl::StrCat("priority: task ", task.sequence, " is of type ", type, " while ", ready,
                           full ? " nodes, a full batch, of type " : " nodes of idle type ", t,
                           " are ready, which goes before it"));
    return;
  }
}

}  // namespace cellbatch::sim
