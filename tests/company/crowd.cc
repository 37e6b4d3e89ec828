#include "tests/company/crowd.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "cells/check.h"
#include "cells/kernels/reference/graph_interpreter.h"
#include "tests/company/computing_world.h"
#include "tests/simulation/generator.h"

namespace cellbatch::company {

// One pass over many requests.
struct Crowd::Flight {
  std::mt19937_64 random;
  std::vector<RequestId> ids;      // by tag; generation 0: not submitted, or answered
  std::vector<uint8_t> cancelled;  // by tag
  std::vector<size_t> planned;     // by tag
  Tally tally;
};

Crowd::Crowd(DeviceSet devices, const CrowdOptions& options) : options_(options) {
  SchedulerOptions o;
  o.max_requests = 1024;
  o.row_budget_bytes = options.row_budget_bytes;
  o.batch_limit = 32;
  o.calibrate = false;
  auto made = Scheduler::Create(o, std::move(devices), clock_);
  Check(made.ok(), made.status().ToString());
  scheduler_ = *std::move(made);
  model_ = MakeComputingModel(ModelId(1), {.min_batch = 1, .max_batch = 32}, options.seed);
  const absl::Status added = scheduler_->AddModel(model_, nullptr);
  Check(added.ok(), added.ToString());
  Prepare();
}

Crowd::~Crowd() { scheduler_->Stop(); }

bool Crowd::Fits(const CellGraph& graph) const {
  const std::vector<int32_t> most = scheduler_->MaxRowsPerRequest(model_->id);
  for (size_t t = 0; t < most.size(); ++t) {
    if (graph.row_counts()[t] > most[t]) return false;
  }
  return true;
}

void Crowd::Prepare() {
  sim::Generator generator(options_.seed);
  while (planned_.size() < static_cast<size_t>(options_.plans)) {
    Planned& p = planned_.emplace_back();
    p.whole = p.in_pieces = generator.Any();
    generator.Cut(p.in_pieces);
    // A column that is not brought may hold anything, and here somebody computes with it.
    for (sim::PlannedSubgraph& s : p.in_pieces.subgraphs) s.brought = kEveryColumn;
    // Cutting may add what no piece before it had: then both are the longer one.
    p.whole.subgraphs = p.in_pieces.subgraphs;
    p.whole.returns = p.in_pieces.returns;
    p.inputs = sim::MakeInputs(p.whole, *model_, static_cast<int32_t>(planned_.size()));
    const bool fits = Fits(Make(planned_.size() - 1, false)->graph) &&
                      Fits(Make(planned_.size() - 1, true)->graph);
    if (!fits) planned_.pop_back();
  }
}

std::unique_ptr<Request> Crowd::Make(size_t planned, bool in_pieces) const {
  const Planned& p = planned_[planned];
  auto request = std::make_unique<Request>();
  request->model = model_;
  request->graph = sim::Build(in_pieces ? p.in_pieces : p.whole, *model_, p.inputs);
  const absl::Status sealed = request->graph.Seal(*model_, scheduler_->max_tasks_in_flight());
  Check(sealed.ok(), sealed.ToString());
  return request;
}

// The largest difference from what the interpreter says; words that differ end the comparison: what follows them does, too.
double Crowd::Compare(size_t planned, const CellGraph& graph) {
  const std::unique_ptr<Request> again = Make(planned, false);
  const std::vector<std::vector<double>> right = InterpretGraph(*model_, again->graph);
  double worst = 0;
  bool same_words = true;
  for (size_t t = 0; t < right.size(); ++t) {
    const ReturnedTensor& tensor = graph.tensors()[t];
    for (size_t i = 0; i < right[t].size(); ++i) {
      const std::byte* const at = tensor.bytes.data() + 4 * i;
      if (tensor.type == WireType::kInt32) {
        int32_t word;
        std::memcpy(&word, at, sizeof word);
        same_words = same_words && word == static_cast<int32_t>(right[t][i]);
      } else {
        float value;
        std::memcpy(&value, at, sizeof value);
        worst = std::max(worst, std::abs(static_cast<double>(value) - right[t][i]));
      }
    }
  }
  words_as_interpreted_ += same_words ? 1 : 0;
  return same_words ? worst : 0;
}

double Crowd::AnswerAlone() {
  double worst = 0;
  for (size_t i = 0; i < planned_.size(); ++i) {
    std::unique_ptr<Request> request = Make(i, false);
    Check(scheduler_->Submit(request).has_value(), "a request alone is taken");
    std::array<std::unique_ptr<Request>, 1> done;
    while (scheduler_->Take(OutboxId(0), absl::MakeSpan(done)) == 0) {
      scheduler_->WaitForFinished(OutboxId(0), absl::Milliseconds(5));
    }
    Check(done[0]->status.ok(), done[0]->status.ToString());
    for (const ReturnedTensor& tensor : done[0]->graph.tensors()) {
      planned_[i].alone.emplace_back(tensor.bytes.begin(), tensor.bytes.end());
    }
    worst = std::max(worst, Compare(i, done[0]->graph));
  }
  return worst;
}

void Crowd::Extend(Request& request, Flight& flight) {
  const Planned& p = planned_[flight.planned[request.tag]];
  ++flight.tally.pieces;
  const int piece = request.graph.pieces();
  absl::Status status;
  if (piece < p.in_pieces.num_pieces()) {
    sim::BuildPiece(p.in_pieces, *model_, p.inputs, piece, request.graph);
    status = request.graph.Seal(*model_, scheduler_->max_tasks_in_flight());
  }
  scheduler_->Extended(request, std::move(status));
}

void Crowd::Judge(const Request& request, Flight& flight) const {
  Tally& tally = flight.tally;
  if (absl::IsInternal(request.status)) {
    ++tally.lost;
  } else if (!request.status.ok()) {
    const bool asked = absl::IsCancelled(request.status) && flight.cancelled[request.tag] != 0;
    ++(asked ? tally.cancelled : tally.unasked);
  } else {
    ++tally.ok;
    const Planned& p = planned_[flight.planned[request.tag]];
    for (size_t t = 0; t < p.alone.size(); ++t) {
      const absl::Span<const std::byte> bytes = request.graph.tensors()[t].bytes;
      if (std::equal(bytes.begin(), bytes.end(), p.alone[t].begin(), p.alone[t].end())) continue;
      ++tally.wrong;
      break;
    }
  }
  flight.ids[request.tag] = {};
}

Tally Crowd::AnswerTogether(int64_t requests) {
  Flight flight;
  flight.random.seed(options_.seed);
  std::array<Delivery, 16> some;
  int64_t answered = 0;
  std::unique_ptr<Request> next;
  while (answered < requests) {
    const auto submitted = static_cast<int64_t>(flight.ids.size());
    if (submitted < requests && submitted - answered < options_.outstanding) {
      const size_t planned = flight.random() % planned_.size();
      next = Make(planned, flight.random() % 3 == 0);
      next->tag = flight.ids.size();
      const std::optional<RequestId> id = scheduler_->Submit(next);
      Check(id.has_value(), "there is room for so many requests");
      flight.ids.push_back(*id);
      flight.planned.push_back(planned);
      flight.cancelled.push_back(0);
      if (flight.random() % 16 != 0) continue;
      const size_t back = flight.random() % std::min<size_t>(flight.ids.size(), 32);
      const size_t whom = flight.ids.size() - 1 - back;
      if (flight.ids[whom].generation == 0) continue;
      flight.cancelled[whom] = 1;
      scheduler_->Notify(flight.ids[whom], News::kCancelled);
      continue;
    }
    const int n = scheduler_->Take(OutboxId(0), absl::MakeSpan(some));
    for (int i = 0; i < n; ++i) {
      const Delivery& delivery = some[static_cast<size_t>(i)];
      if (delivery.kind == Delivery::Kind::kPiece) {
        Extend(*delivery.request, flight);
      } else if (delivery.kind == Delivery::Kind::kDone) {
        Judge(*delivery.done, flight);
        ++answered;
      }
    }
    if (n == 0) scheduler_->WaitForFinished(OutboxId(0), absl::Milliseconds(5));
  }
  return flight.tally;
}

}  // namespace cellbatch::company
