#include "server/explain/explain_model.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "cells/check.h"
#include "cells/device/cpu/cpu_limits.h"
#include "cells/explain/explain_cell.h"
#include "cells/kernels/cuda/cuda_limits.h"
#include "cells/recurrent_columns.h"
#include "fmt/format.h"
#include "server/http/html_page.h"

namespace cellbatch {
namespace {

std::string Cut(std::string text) {
  if (text.size() <= kMostPartBytes) return text;
  const size_t line = text.rfind('\n', kMostPartBytes);
  const size_t keep = line == std::string::npos ? kMostPartBytes : line + 1;
  const std::string rest = fmt::format("... {} bytes more\n", text.size() - keep);
  text.resize(keep);
  return text + rest;
}

std::string Interface(const Model& model, const CellType& type, bool may_wait) {
  const CellDefinition& cell = *type.definition;
  std::string text;
  for (size_t i = 0; i < cell.inputs().size(); ++i) {
    const Input& input = cell.inputs()[i];
    const bool carry = cell.carry().has_value() && static_cast<size_t>(cell.carry()->value()) == i;
    text += fmt::format("reads   {} {} of table {}{}{}\n", input.name, ColumnsText(input.reads),
                        model.table(type.in[i]).name, carry ? ", the node before" : "",
                        input.arity == Arity::kSum ? ", the sum of any number of rows" : "");
  }
  for (const Parameter& p : cell.parameters()) {
    text += fmt::format("weights {} {}\n", p.name, p.shape.ToString());
  }
  text += fmt::format("leaves  {} in table {}\n", ColumnsText(cell.columns()),
                      model.table(type.out).name);
  return text +
         (may_wait ? "nothing recurrent reads it: with `defer: ON` it waits for others\n" : "");
}

std::string Program(const CellExplanation& cell, const CellAccount& account) {
  size_t width = 0;
  for (const std::string& step : cell.steps) width = std::max(width, step.size());
  width = std::min<size_t>(width, 72);
  std::string text;
  for (size_t s = 0; s < cell.steps.size(); ++s) {
    const std::string by = s < account.steps.size() ? account.steps[s] : "";
    text +=
        fmt::format("{:>3}  {:<{}}{}{}\n", s, cell.steps[s], width, by.empty() ? "" : "   ", by);
  }
  return text + fmt::format("scratch of a node between steps: {} bytes\n", cell.scratch_bytes);
}

// A line under the picture for those who see one the first time.
constexpr const char* kPlanLegend =
    "Side by side as they lie, a bar where a place of its own begins; 1 2 3: who of the batch "
    "reads "
    "or writes it.\ngroupS.G, partS.G: sums of group G of step S, done and before; keptN: stored "
    "between steps; ->C: column C that is left; E[]: a row of table E; preparedN: what is prepared "
    "at "
    "load, outN there.\n";

std::string Copies(const CellExplanation& cell) {
  std::string text = "                 ";
  for (const ComparedCopies& c : cell.copies) {
    text += fmt::format("   {:^34}", c.nodes == 1 ? "a task of one node"
                                                  : fmt::format("a task of {} nodes", c.nodes));
  }
  text += "\n                 ";
  for (size_t i = 0; i < cell.copies.size(); ++i) {
    text += fmt::format("   {:>8} {:>8} {:>16}", "launches", "copies", "bytes");
  }
  const auto row = [&](const char* name, TaskCopies ComparedCopies::*way) {
    text += fmt::format("\n{:<17}", name);
    for (const ComparedCopies& c : cell.copies) {
      const TaskCopies& task = c.*way;
      text += fmt::format("   {:>8} {:>8} {:>16}", task.launches, task.copies, task.bytes);
    }
  };
  row("naive layout", &ComparedCopies::naive);
  row("planned layout", &ComparedCopies::planned);
  row("fused program", &ComparedCopies::fused);
  return text + fmt::format(
                    "\nThe first two: its {} operators in batches, as a system without fusion runs "
                    "them.\n",
                    cell.operators);
}

std::string Prepared(const CellExplanation& cell, const CellAccount& account) {
  std::string text;
  for (const std::string& step : cell.at_load) text += "once: " + step + "\n";
  for (const PreparedPart& part : account.prepared) {
    text += fmt::format("{}: {} bytes\n", part.what, part.bytes);
  }
  if (text.empty()) text = "nothing\n";
  for (const std::string& fold : account.folds) text += fold + "\n";
  return text + fmt::format("packed weights, with that: {} bytes\n", account.weight_bytes);
}

std::string Times(const CellTypeCalibration& measured) {
  std::string text = fmt::format("{:>6} {:>12} {:>14}\n", "b", "T(b), us", "us a node");
  for (const CalibrationPoint& point : measured.points) {
    const double us = static_cast<double>(point.task_ns) / 1e3;
    text += fmt::format("{:>6} {:>12.2f} {:>14.3f}\n", point.batch, us, us / point.batch);
  }
  text += fmt::format("a task has at most b_max = {} nodes", measured.max_batch);
  if (measured.peak_batch > measured.max_batch) {
    text += fmt::format(", {} while more than b_max wait", measured.peak_batch);
  }
  return text + "\n";
}

const CellTypeCalibration* FindFirst(absl::Span<const CellTypeCalibration> calibration,
                                     CellTypeId type) {
  const auto found = std::find_if(calibration.begin(), calibration.end(),
                                  [&](const CellTypeCalibration& c) { return c.type == type; });
  return found == calibration.end() ? nullptr : &*found;
}

ExplainedType Parts(const Model& model, const CellType& type, bool may_wait,
                    const CellExplanation& cell, const CellAccount& account,
                    const CellTypeCalibration* measured) {
  ExplainedType made;
  made.title = fmt::format("cell type \"{}\": cell \"{}\", {} operations a node", type.name,
                           type.definition->name(), type.definition->flops());
  const auto add = [&](const char* heading, std::string text) {
    made.parts.push_back({heading, Cut(std::move(text))});
  };
  add("What it reads and leaves", Interface(model, type, may_wait));
  add("Equations", cell.equations);
  add("Program, and what computes it", Program(cell, account));
  if (!cell.plan.empty()) {
    add(cell.least ? "Plan (none copies or stores less): who reads what, in which order"
                   : "Plan (the search ended early): who reads what, in which order",
        cell.plan + kPlanLegend);
  }
  if (!cell.copies.empty()) add("Copies inside a task", Copies(cell));
  add("Prepared at load", Prepared(cell, account));
  if (measured != nullptr && !measured->points.empty()) {
    add(measured->kept ? "Time of a task, measured at an earlier start and confirmed at load"
                       : "Time of a task, measured at load",
        Times(*measured));
  }
  return made;
}

size_t BytesOf(const ExplainedType& type) {
  size_t bytes = type.title.size();
  for (const ExplainedPart& part : type.parts) bytes += part.heading.size() + part.text.size();
  return bytes;
}

std::string LeftOut(const ExplainedModel& model) {
  return model.left_out == 0 ? "" : fmt::format("{} more cell types are left out", model.left_out);
}

std::string Indented(const std::string& text) {
  std::string out;
  bool begins = true;
  for (const char c : text) {
    if (begins && c != '\n') out += "    ";
    out += c;
    begins = c == '\n';
  }
  return out;
}

const ProgramLimits& LimitsOf(DeviceKind kind) {
  return kind == DeviceKind::kCpu ? kCpuLimits : kCudaLimits;
}

}  // namespace

std::vector<const Memory*> MemoriesIn(const DeviceSet& devices) {
  std::vector<const Memory*> memories;
  for (const std::unique_ptr<Memory>& memory : devices.memories) memories.push_back(memory.get());
  return memories;
}

const Memory& HomeOf(const Model& model, absl::Span<const Memory* const> memories) {
  const auto there = std::find_if(memories.begin(), memories.end(), [&](const Memory* memory) {
    return model.devices.Has(memory->kind());
  });
  Check(there != memories.end(), "a model is explained that lives in no memory");
  return **there;
}

absl::StatusOr<ExplainedModel> ExplainModel(const Model& model, const Memory& memory,
                                            absl::Span<const CellTypeCalibration> calibration) {
  const absl::StatusOr<ModelAccount> account = memory.Account(model);
  if (!account.ok()) return account.status();
  const ProgramLimits& limits = LimitsOf(memory.kind());
  ExplainedModel made;
  made.title = fmt::format("model \"{}\" version {}: {} cell type{}{}", model.name, model.version,
                           model.types.size(), model.types.size() == 1 ? "" : "s",
                           account->kernels.empty() ? "" : ", kernels " + account->kernels);
  const std::vector<CellTypeId> may_wait = TypesThatMayWait(model);
  size_t bytes = 0;
  for (size_t t = 0; t < model.types.size(); ++t) {
    if (bytes > kMostExplainedBytes) {
      ++made.left_out;
      continue;
    }
    const CellType& type = model.types[t];
    const absl::StatusOr<CellExplanation> cell =
        ExplainCell(*type.definition, limits.In(limits.Computed(type.precision)));
    if (!cell.ok()) return cell.status();
    const bool waits = std::find(may_wait.begin(), may_wait.end(), type.id) != may_wait.end();
    made.types.push_back(Parts(model, type, waits, *cell,
                               t < account->types.size() ? account->types[t] : CellAccount(),
                               FindFirst(calibration, type.id)));
    bytes += BytesOf(made.types.back());
  }
  return made;
}

std::string ToText(const ExplainedModel& model) {
  std::string text = model.title + "\n";
  for (const ExplainedType& type : model.types) {
    text += "\n" + type.title + "\n";
    for (const ExplainedPart& part : type.parts) {
      text += "\n  " + part.heading + "\n" + Indented(part.text);
    }
  }
  const std::string left_out = LeftOut(model);
  return left_out.empty() ? text : text + "\n" + left_out + "\n";
}

std::string ToHtml(const ExplainedModel& model) {
  std::string html = PageHead(model.title) + "<header><h1>" + Escaped(model.title) +
                     "</h1><a href=\"/\">status</a></header>\n";
  for (const ExplainedType& type : model.types) {
    html += "<section><h2>" + Escaped(type.title) + "</h2>\n";
    for (const ExplainedPart& part : type.parts) {
      html += "<h3>" + Escaped(part.heading) + "</h3><pre>" + Escaped(part.text) + "</pre>\n";
    }
    html += "</section>\n";
  }
  return html + "<footer>" + Escaped(LeftOut(model)) + "</footer></main></body></html>\n";
}

}  // namespace cellbatch
