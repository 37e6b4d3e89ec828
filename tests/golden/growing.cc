#include "tests/golden/growing.h"

#include <utility>

#include "cells/check.h"
#include "cells/unfold/unfolder.h"

namespace cellbatch::golden {

std::vector<std::unique_ptr<Request>> AnswerGrowing(Scheduler& scheduler,
                                                    const std::shared_ptr<const Model>& model,
                                                    absl::Span<const RequestInput> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    auto request = std::make_unique<Request>();
    request->tag = i;
    request->model = model;
    absl::Status s = model->unfolder->Unfold(inputs[i], request->graph);
    if (s.ok()) s = request->graph.Seal(*model, scheduler.max_tasks_in_flight());
    Check(s.ok(), s.ToString());
    Check(scheduler.Submit(request).has_value(), "room for every request");
  }
  std::vector<std::unique_ptr<Request>> answers(inputs.size());
  std::vector<Delivery> some(16);
  for (size_t left = answers.size(); left > 0;) {
    const int n = scheduler.Take(OutboxId(0), absl::MakeSpan(some));
    for (int i = 0; i < n; ++i) {
      Delivery& d = some[static_cast<size_t>(i)];
      if (d.kind == Delivery::Kind::kPiece) {
        CellGraph& graph = d.request->graph;
        absl::Status s = model->unfolder->Extend(inputs[d.request->tag], graph);
        if (s.ok() && graph.added()) s = graph.Seal(*model, scheduler.max_tasks_in_flight());
        scheduler.Extended(*d.request, s);
      } else {
        --left;
        const size_t place = d.done->tag;
        answers[place] = std::move(d.done);
      }
    }
    if (n == 0) scheduler.WaitForFinished(OutboxId(0), absl::Seconds(1));
  }
  return answers;
}

}  // namespace cellbatch::golden
