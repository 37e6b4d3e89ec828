#include "tests/simulation/checker.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cells/check.h"
#include "tests/simulation/sim_world.h"

namespace cellbatch::sim {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

// The subgraph a node number lies in.
size_t SubgraphOf(const Evaluation& e, int32_t node) {
  const auto after = std::upper_bound(e.first_node.begin(), e.first_node.end() - 1, node);
  return Index(after - e.first_node.begin()) - 1;
}

}  // namespace

void Checker::Watch(absl::Span<SimMemory* const> memories, const Model& model,
                    const std::vector<std::vector<int32_t>>& max_batch) {
  for (size_t m = 0; m < memories.size(); ++m) {
    SimModel* rows = memories[m]->loaded(model.id);
    if (rows == nullptr) continue;  // the memory had no device left
    Watched& w = watched_[rows];
    w.rows = rows;
    w.model = model.id;
    w.max_batch = max_batch[m];
    for (size_t t = 0; t < model.tables.size(); ++t) {
      const int32_t n = rows->num_rows(TableId(static_cast<int64_t>(t)));
      w.owner.emplace_back(Index(n), 0);
      rows->Free(TableId(static_cast<int64_t>(t)), 1, n - 1);  // what the warm-up left
    }
  }
  turns_.Open(model, max_batch);
}

void Checker::Closing(ModelId model) {
  turns_.Closing(model);
  for (const auto& [tag, live] : live_) {
    if (live->expected->model->id != model) continue;
    live->expected->unloaded = true;
    MayLeave(*live);
  }
}

void Checker::Unwatch(const Model& model) {
  for (const auto& [tag, live] : live_) {
    if (live->expected->model->id != model.id) continue;
    if (!live->paused)
      Violated(absl::StrCat("request ", tag, " is out, and its model was unloaded"));
    for (const OwnedRow& r : live->rows)
      live->where->owner[Index(r.table.value())][Index(r.row)] = 0;
    live->rows.clear();  // its taker has it, and nothing of it is left but the answer
    live->where = nullptr;
    turns_.Left(tag);
  }
  std::erase_if(watched_, [&](const auto& entry) {
    if (entry.second.model != model.id) return false;
    for (const std::vector<int32_t>& table : entry.second.owner) {
      const auto owned =
          std::find_if(table.begin(), table.end(), [](int32_t tag) { return tag != 0; });
      if (owned == table.end()) continue;
      Violated(absl::StrCat("request ", *owned, " has rows of a model that was unloaded"));
    }
    return true;
  });
  turns_.Close(model.id);
}

// Of the model that is being loaded, and of nobody else's rows.
bool Checker::IsWarmUp(const BatchedTask& task) const {
  if (watched_.contains(task.model)) return false;
  const ModelId model = static_cast<const SimModel*>(task.model)->model().id;
  Check(loading_ != nullptr && model == loading_->id, "a task names a model that nobody loaded");
  return true;
}

void Checker::Submitted(std::unique_ptr<Expectation> expected) {
  auto live = std::make_unique<Live>();
  const Evaluation& e = expected->evaluation;
  live->ran.assign(e.left.size(), 0);
  for (int32_t node = 0; node < e.num_nodes(); ++node) {
    nodes_[e.left[Index(node)]] = {expected->tag, node};
  }
  for (size_t s = 0; s < e.executed.size(); ++s) {
    if (!expected->plan.subgraphs[s].is_input) live->to_run += e.executed[s];
  }
  const int32_t tag = expected->tag;
  live->expected = std::move(expected);
  turns_.Submitted(tag, *live->expected->model, live->expected->plan, live->expected->evaluation,
                   live->expected->priority);
  live_[tag] = std::move(live);
}

Expectation* Checker::Find(int32_t tag) {
  const auto found = live_.find(tag);
  return found == live_.end() ? nullptr : found->second->expected.get();
}

Checker::Watched& Checker::At(const BatchedTask& task) {
  const auto found = watched_.find(task.model);
  Check(found != watched_.end(), "a task names a model that nobody loaded");
  return found->second;
}

void Checker::Started(const Device& device, const BatchedTask& task) {
  started_[&device] = time_.now_ns();
  if (const Model& model = task.model->model(); !model.devices.Has(device.info().memory->kind())) {
    Violated(absl::StrCat("a task of model ", model.id.value(), " runs on ", device.info().name,
                          ", where it does not live"));
  }
  if (IsWarmUp(task)) return;
  Watched& where = At(task);
  const CellType& type = where.rows->model().type(task.cell);
  if (const int32_t most = where.max_batch[Index(task.cell.value())]; task.num_nodes > most) {
    Violated(absl::StrCat("a task of type \"", type.name, "\" has ", task.num_nodes,
                          " nodes; its max_batch is ", most));
  }
  for (int32_t c = 0; c < task.num_copies_in; ++c) {
    const CopyIn& copy = task.copies_in[c];
    const CopyIn* const before = c > 0 ? &task.copies_in[c - 1] : nullptr;
    if (before != nullptr && before->table == copy.table && before->first == copy.first) {
      continue;  // another column of rows that were looked at
    }
    for (int32_t r = 0; r < copy.rows; ++r) {
      const Row row = copy.first + r;
      Ran(where, task, where.rows->row(copy.table, row).fingerprint, copy.table, row, false);
    }
  }
}

// One task after the other, as a queue runs them.
int64_t Checker::Took(const Device& device) {
  return time_.now_ns() - std::exchange(started_[&device], time_.now_ns());
}

void Checker::Done(const Device& device, const BatchedTask& task,
                   absl::Span<const Fingerprint> nodes) {
  if (IsWarmUp(task)) {
    ++tally_.warm_tasks;
    turns_.WarmUp(device, task, *loading_, Took(device));
    return;
  }
  Watched& where = At(task);
  const TableId out = where.rows->model().type(task.cell).out;
  ++tally_.tasks;
  turns_.BeginTask(device, task, where.rows->model().id, Took(device));
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (task.output_rows[i] == where.rows->trash_row(out)) {
      ++tally_.padding;
    } else {
      Ran(where, task, nodes[i], out, task.output_rows[i], true);
    }
  }
  turns_.EndTask();
}

void Checker::Ran(Watched& where, const BatchedTask& task, Fingerprint what, TableId table, Row row,
                  bool is_cell) {
  tally_.nodes += is_cell ? 1 : 0;
  const auto found = nodes_.find(what);
  if (found == nodes_.end()) {
    Violated(absl::StrCat("task ", task.sequence, " of type ", task.cell.value(), " left in row ",
                          row, " of table ", table.value(),
                          " what nobody who is there asked for (wrong inputs, or too late)"));
    return;
  }
  const NodeRef ref = found->second;
  Live& live = *live_.at(ref.tag);
  if (std::exchange(live.ran[Index(ref.node)], 1) != 0) {
    Violated(absl::StrCat("request ", ref.tag, ": node ", ref.node, " ran twice"));
  }
  if (live.where == nullptr) live.where = &where;
  if (live.where != &where) Violated(absl::StrCat("request ", ref.tag, " runs in two memories"));
  if (live.paused) Violated(absl::StrCat("request ", ref.tag, " runs between two pieces"));
  if (is_cell) {
    ++live.cells_ran;
    const Evaluation& e = live.expected->evaluation;
    const size_t s = SubgraphOf(e, ref.node);
    if (ref.node - e.first_node[s] < e.executed[s]) {
      turns_.Node(ref.tag, s);
      if (--live.to_run == 0) MayLeave(live);
    } else {
      CheckPastStop(live, ref.node);
    }
  }
  int32_t& owner = where.owner[Index(table.value())][Index(row)];
  if (owner == ref.tag) return;
  if (owner != 0) {
    Violated(absl::StrCat("row ", row, " of table ", table.value(), " is written for request ",
                          ref.tag, " and belongs to request ", owner));
  }
  owner = ref.tag;
  live.rows.push_back({table, row});
}

void Checker::CheckPastStop(Live& live, int32_t node) {
  ++tally_.discarded;
  ++live.past_stop;
  const Evaluation& e = live.expected->evaluation;
  const size_t s = SubgraphOf(e, node);
  const int32_t past = node - e.first_node[s] - (e.executed[s] - 1);
  if (past > max_tasks_in_flight_ - 1) {
    Violated(absl::StrCat("request ", live.expected->tag, ": subgraph ", s, " ran ", past,
                          " nodes past its stop with ", max_tasks_in_flight_,
                          " tasks in flight at most"));
  }
}

void Checker::MayLeave(Live& live) {
  if (!std::exchange(live.may_leave, true)) ++may_leave_;
}

void Checker::Notified(int32_t tag, News news) {
  Live& live = *live_.at(tag);
  (news == News::kCancelled ? live.expected->cancelled : live.expected->expired) = true;
  MayLeave(live);
  turns_.Left(tag);
  if (live.paused) FreeRows(live);  // its rows go back before it is answered
}

void Checker::Told(const Request& request, int32_t words) {
  const int32_t tag = static_cast<int32_t>(request.tag);
  const auto found = live_.find(tag);
  if (found == live_.end() || !found->second->expected->streams) {
    Violated(absl::StrCat("request ", tag, " is told of, and is not there or does not stream"));
    return;
  }
  Live& live = *found->second;
  ++tally_.news;
  if (words <= live.words) {
    Violated(absl::StrCat("request ", tag, " is told of with ", words, " words; ", live.words,
                          " were known"));
  }
  CheckWords(live, request, WordsAreRight(live, request, live.pieces_done, words), words);
  live.words = words;
}

void Checker::PieceDone(const Request& request, int32_t words) {
  const int32_t tag = static_cast<int32_t>(request.tag);
  const auto found = live_.find(tag);
  if (found == live_.end() || found->second->paused ||
      found->second->pieces_done == found->second->expected->plan.num_pieces()) {
    Violated(absl::StrCat("a piece of request ", tag, " is done that nobody waits for"));
    return;
  }
  Live& live = *found->second;
  CheckPiece(live, request, live.pieces_done);
  CheckWords(live, request, WordsAreRight(live, request, live.pieces_done, words), words);
  ++tally_.pieces;
  ++live.pieces_done;
  live.paused = true;
  if (live.expected->cancelled || live.expected->expired) FreeRows(live);
}

// All of it ran, nothing of the next one did, and what it returns is there.
void Checker::CheckPiece(const Live& live, const Request& request, int piece) {
  const Plan& plan = live.expected->plan;
  const Evaluation& e = live.expected->evaluation;
  bool right = request.graph.pieces() == piece + 1;
  for (int32_t s = plan.piece_begin(piece); s < plan.piece_end(piece); ++s) {
    const auto first = live.ran.begin() + e.first_node[Index(s)];
    right = right && std::count(first, first + e.executed[Index(s)], 0) == 0;
  }
  const auto end = live.ran.begin() + e.first_node[Index(plan.piece_end(piece))];
  right = right && std::count(end, live.ran.end(), 0) == live.ran.end() - end;
  for (size_t t = 0; right && t < plan.returns.size(); ++t) {
    const int32_t from = plan.returns[t].from.value();
    if (from < plan.piece_begin(piece) || from >= plan.piece_end(piece)) continue;
    right = std::equal(e.answer[t].begin(), e.answer[t].end(),
                       request.graph.tensors()[t].bytes.begin());
  }
  if (!right) {
    Violated(absl::StrCat("request ", live.expected->tag, ": piece ", piece,
                          " is not done, or what it returns is not there"));
  }
}

void Checker::Extended(int32_t tag, bool failed) {
  Live& live = *live_.at(tag);
  live.paused = false;
  live.words = 0;
  live.expected->extend_failed = failed;
  if (failed) {
    turns_.Left(tag);
  } else {
    turns_.Extended(tag);
  }
  if (failed || live.pieces_done == live.expected->plan.num_pieces()) MayLeave(live);
}

void Checker::CheckWords(const Live& live, const Request& request, bool right, int32_t words) {
  (void)request;
  if (right) return;
  Violated(absl::StrCat("request ", live.expected->tag, ": ", words,
                        " words are told of that did not all run or are not all there"));
}

// The first stopping chain of that piece has run that far, and its words lie in the answer.
bool Checker::WordsAreRight(const Live& live, const Request& request, int piece,
                            int32_t words) const {
  const Plan& plan = live.expected->plan;
  const Evaluation& e = live.expected->evaluation;
  if (piece < 0 || piece >= plan.num_pieces()) return false;
  const auto end = plan.subgraphs.begin() + plan.piece_end(piece);
  const auto chain = std::find_if(plan.subgraphs.begin() + plan.piece_begin(piece), end,
                                  [](const PlannedSubgraph& s) { return s.stop.column.valid(); });
  const size_t s = Index(chain - plan.subgraphs.begin());
  bool right = chain != end ? words <= e.executed[s] : words == 0;
  for (int32_t node = 0; right && node < words; ++node) {
    right = live.ran[Index(e.first_node[s] + node)] != 0;
  }
  for (size_t r = 0; r < plan.returns.size() && right && words > 0; ++r) {
    const PlannedReturn& piece = plan.returns[r];
    if (Index(piece.from.value()) != s) continue;
    const int64_t elements = std::clamp(words - piece.nodes.first, 0, piece.nodes.count);
    right = std::equal(e.answer[r].begin(), e.answer[r].begin() + 4 * elements,
                       request.graph.tensors()[r].bytes.begin());
  }
  return right;
}

void Checker::Finished(const Request& request, int32_t words, int64_t now_ns, int devices_failed,
                       int devices_left) {
  const int32_t tag = static_cast<int32_t>(request.tag);
  const auto found = live_.find(tag);
  if (found == live_.end()) {
    Violated(absl::StrCat("request ", tag, " was answered twice, or never asked"));
    return;
  }
  Live& live = *found->second;
  if (words < live.words) Violated(absl::StrCat("request ", tag, " takes back words"));
  // Of the latest piece that the manager heard of.
  CheckWords(live, request,
             WordsAreRight(live, request, live.pieces_done, words) ||
                 WordsAreRight(live, request, live.pieces_done - 1, words),
             words);
  if (live.paused) Violated(absl::StrCat("request ", tag, " is answered between two pieces"));
  CheckStatus(live, request, devices_failed, devices_left);
  if (request.status.ok()) CheckAnswer(live, request);
  if (devices_failed == 0) CheckAccount(live, request, now_ns);
  FreeRows(live);
  if (live.may_leave) --may_leave_;
  turns_.Left(tag);
  for (Fingerprint f : live.expected->evaluation.left) nodes_.erase(f);
  live_.erase(found);
}

void Checker::CheckStatus(const Live& live, const Request& request, int devices_failed,
                          int devices_left) {
  const Expectation& expected = *live.expected;
  bool allowed = true;
  switch (request.status.code()) {
    case absl::StatusCode::kOk:
      ++tally_.ok;
      break;
    case absl::StatusCode::kCancelled:
      ++tally_.cancelled;
      allowed = expected.cancelled;
      break;
    case absl::StatusCode::kDeadlineExceeded:
      ++tally_.expired;
      allowed = expected.expired;
      break;
    case absl::StatusCode::kInternal:
      ++tally_.failed;
      allowed = devices_failed > expected.failures_known || devices_left == 0;
      break;
    case absl::StatusCode::kInvalidArgument:
      ++tally_.refused;
      allowed = expected.extend_failed;
      break;
    case absl::StatusCode::kUnavailable:
      ++tally_.unloaded;
      allowed = expected.unloaded;
      break;
    default:
      allowed = false;
  }
  if (!allowed) {
    Violated(absl::StrCat("request ", expected.tag, " was answered ", request.status.ToString(),
                          " for no reason"));
  }
}

void Checker::CheckAnswer(const Live& live, const Request& request) {
  const int32_t tag = live.expected->tag;
  if (live.to_run != 0) {
    Violated(absl::StrCat("request ", tag, " was answered with ", live.to_run, " nodes to run"));
  }
  const Evaluation& e = live.expected->evaluation;
  if (request.graph.tensors().size() != e.answer.size()) {
    Violated(absl::StrCat("request ", tag, " has ", request.graph.tensors().size(), " tensors"));
    return;
  }
  for (size_t t = 0; t < e.answer.size(); ++t) {
    const absl::Span<const std::byte> bytes = request.graph.tensors()[t].bytes;
    if (!std::equal(bytes.begin(), bytes.end(), e.answer[t].begin(), e.answer[t].end())) {
      Violated(absl::StrCat("request ", tag, ": tensor ", t, " of the answer is wrong"));
    }
  }
}

// What it says it took.
void Checker::CheckAccount(const Live& live, const Request& request, int64_t now_ns) {
  if (request.nodes_executed != live.cells_ran) {
    Violated(absl::StrCat("request ", live.expected->tag, " says ", request.nodes_executed,
                          " nodes were executed; ", live.cells_ran, " were"));
  }
  if (!request.status.ok()) return;
  tally_.overrun += request.overrun_nodes;
  if (request.overrun_nodes != live.past_stop) {
    Violated(absl::StrCat("request ", live.expected->tag, " says ", request.overrun_nodes,
                          " nodes ran past a stop; ", live.past_stop, " did"));
  }
  const RequestTimes& t = request.times;
  const bool ordered = t.submitted <= t.first_task_start && t.first_task_start <= t.last_task_end &&
                       t.last_task_end <= now_ns;
  if (!ordered) {
    Violated(absl::StrCat("request ", live.expected->tag, " was submitted at ", t.submitted,
                          ", started at ", t.first_task_start, ", ended at ", t.last_task_end,
                          ", answered at ", now_ns));
  }
}

void Checker::FreeRows(Live& live) {
  const int32_t tag = live.expected->tag;
  for (const OwnedRow& r : live.rows) {
    int32_t& owner = live.where->owner[Index(r.table.value())][Index(r.row)];
    if (owner != tag) {
      Violated(absl::StrCat("request ", tag, " lost row ", r.row, " of table ", r.table.value(),
                            " to request ", owner));
      continue;
    }
    owner = 0;
    const RowState state = live.where->rows->row(r.table, r.row).state;
    if (state == RowState::kBeingWritten) {
      Violated(absl::StrCat("request ", tag, " left while row ", r.row, " of table ",
                            r.table.value(), " was being written"));
    }
    live.where->rows->Free(r.table, r.row, 1);
  }
  live.rows.clear();
}

void Checker::CheckAll() {
  std::unordered_map<const Watched*, int64_t> owned;
  for (const auto& [tag, live] : live_) {
    for (const OwnedRow& r : live->rows) {
      if (live->where->owner[Index(r.table.value())][Index(r.row)] != tag) {
        Violated(absl::StrCat("request ", tag, " does not own its row ", r.row, " any more"));
      }
    }
    owned[live->where] += static_cast<int64_t>(live->rows.size());
  }
  for (const auto& [loaded, watched] : watched_) {
    int64_t rows = 0;
    for (const std::vector<int32_t>& table : watched.owner) {
      rows +=
          static_cast<int64_t>(table.size()) - std::count(table.begin(), table.end(), int32_t{0});
    }
    if (rows != owned[&watched]) {
      Violated(absl::StrCat(rows, " rows have owners; requests own ", owned[&watched]));
    }
  }
}

std::vector<std::string> Checker::Outstanding() const {
  std::vector<std::string> lines;
  for (const auto& [tag, live] : live_) {
    if (lines.size() == 5) break;
    std::string waits;
    const Evaluation& e = live->expected->evaluation;
    for (size_t s = 0; s < e.executed.size(); ++s) {
      const auto first = live->ran.begin() + e.first_node[s];
      const int64_t ran = std::count(first, first + e.executed[s], uint8_t{1});
      if (ran < e.executed[s]) {
        absl::StrAppend(&waits, " subgraph ", s, " (type ",
                        live->expected->plan.subgraphs[s].type.value(), ") ran ", ran, " of ",
                        e.executed[s], ";");
      }
    }
    lines.push_back(absl::StrCat("request ", tag, " waits:", waits));
  }
  return lines;
}

}  // namespace cellbatch::sim
