#include "tests/golden/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cells/kernels/reference/graph_interpreter.h"

namespace cellbatch::golden {
namespace {

// One run of the case, as a graph that returns every output the file has an answer for.
struct Asked {
  std::unique_ptr<TorchInput> input;
  std::vector<std::string> outputs;
};

}  // namespace

absl::StatusOr<Agreement> Compare(const TorchCase& torch_case, const std::string& folder,
                                  ModelId id, Served& served) {
  const auto model = ConvertTorchCase(torch_case, folder, id);
  if (!model.ok()) return model.status();
  if (absl::Status s = served.Add(*model); !s.ok()) return s;

  Agreement agreement;
  std::vector<Asked> asked;
  std::vector<CellGraph> graphs;
  for (const TorchRun& run : torch_case.runs) {
    Asked& ask = asked.emplace_back();
    ask.input = std::make_unique<TorchInput>(torch_case, run.length);
    for (const auto& [output, values] : run.answers) ask.outputs.push_back(output);
    absl::StatusOr<CellGraph> graph = Unfolded(**model, ask.input->Request(ask.outputs));
    if (!graph.ok()) return graph.status();
    const std::vector<std::vector<double>> interpreted = InterpretGraph(**model, *graph);
    for (size_t i = 0; i < ask.outputs.size(); ++i) {
      const double part = PartOfBound(run.answers.at(ask.outputs[i]), interpreted[i]);
      agreement.interpreted = std::max(agreement.interpreted, part);
    }
    graphs.push_back(*std::move(graph));
  }
  const auto answers = served.Answer(*model, std::move(graphs));
  for (size_t r = 0; r < answers.size(); ++r) {
    if (!answers[r]->status.ok()) return answers[r]->status;
    for (const ReturnedTensor& tensor : answers[r]->graph.tensors()) {
      const double part = PartOfBound(torch_case.runs[r].answers.at(tensor.name), Doubles(tensor));
      ++agreement.answers;
      if (part < agreement.served) continue;
      agreement.served = part;
      agreement.worst = fmt::format("{} of {} steps", tensor.name, torch_case.runs[r].length);
    }
  }
  return agreement;
}

}  // namespace cellbatch::golden
