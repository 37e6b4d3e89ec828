// The section of one model: what it does now, what it did, and each of its cell types.
#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "server/http/html_page.h"
#include "server/http/status/page_text.h"
#include "server/http/status/status_page.h"

namespace cellbatch {

namespace {

constexpr size_t kReasonBytes = 2000;

// T(b) over b, both logarithmic; the dashed line is b_max.
std::string Curve(const StatusView::CellTypeView& cell) {
  if (cell.points.size() < 2) return "";
  constexpr double kWidth = 150, kHeight = 44, kPad = 4;
  double b_low = 1e18, b_high = 0, t_low = 1e18, t_high = 0;
  for (const CalibrationPoint& point : cell.points) {
    const double b = std::log2(std::max(1, point.batch));
    const double t = std::log2(static_cast<double>(std::max<int64_t>(1, point.task_ns)));
    b_low = std::min(b_low, b), b_high = std::max(b_high, b);
    t_low = std::min(t_low, t), t_high = std::max(t_high, t);
  }
  const auto x = [&](double b) {
    return kPad + (b - b_low) / std::max(1e-9, b_high - b_low) * (kWidth - 2 * kPad);
  };
  const auto y = [&](double t) {
    return kHeight - kPad - (t - t_low) / std::max(1e-9, t_high - t_low) * (kHeight - 2 * kPad);
  };
  std::string line, dots;
  for (const CalibrationPoint& point : cell.points) {
    const double px = x(std::log2(std::max(1, point.batch)));
    const double py = y(std::log2(static_cast<double>(std::max<int64_t>(1, point.task_ns))));
    line += fmt::format("{:.1f},{:.1f} ", px, py);
    dots += fmt::format(
        "<circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2\"><title>T({}) = "
        "{}</title></circle>",
        px, py, point.batch, TimeText(point.task_ns));
  }
  const double knee = x(std::log2(std::max(1, cell.max_batch)));
  return fmt::format(
      "<svg class=\"tb\" width=\"{0}\" height=\"{1}\" role=\"img\" aria-label=\"time of a task "
      "over its batch "
      "size\">"
      "<line class=\"rule\" x1=\"{2:.1f}\" x2=\"{2:.1f}\" y1=\"0\" y2=\"{1}\" stroke-dasharray=\"3 "
      "3\"/>"
      "<polyline class=\"curve\" points=\"{3}\"/>{4}</svg>",
      kWidth, kHeight, knee, line, dots);
}

std::string Phases(const ModelPercentiles& times) {
  std::string rows;
  const std::pair<const char*, const ExactPercentiles*> phases[] = {
      {"request", &times.request}, {"queue", &times.queue}, {"compute", &times.compute}};
  for (const auto& [name, p] : phases) {
    rows += fmt::format("<tr><td>{}</td>", name);
    for (const int64_t value : {p->mean, p->p50, p->p90, p->p99, p->p999, p->max}) {
      rows += fmt::format("<td class=\"num\">{}</td>", TimeText(value));
    }
    rows += "</tr>";
  }
  return "<table class=\"phases\"><tr><th></th><th class=\"num\">mean</th><th "
         "class=\"num\">p50</th><th "
         "class=\"num\">p90</th>"
         "<th class=\"num\">p99</th><th class=\"num\">p99.9</th><th class=\"num\">max</th></tr>" +
         rows + "</table>";
}

// A card for each: its lines, T(b), and what it did since the start.
std::string CellTypes(const StatusView::ModelView& model) {
  std::string cards;
  for (const StatusView::CellTypeView& cell : model.types) {
    const auto time_of = [&](bool first) {
      if (cell.points.empty()) return std::string("–");
      const CalibrationPoint& p = first ? cell.points.front() : cell.points.back();
      return TimeText(p.task_ns);
    };
    cards += fmt::format(
        "<div class=\"cell\"><h4>{} <span class=\"faint\">{}</span></h4><dl class=\"lines\">{}{}"
        "<div class=\"line\"><dt>T(b){}; b_max {}{}</dt><dd><small>{} .. {}</small>{}"
        "</dd></div></dl><p class=\"faint\">{} cells in {} tasks, {} in one; {} "
        "ready</p></div>",
        Escaped(cell.name), Escaped(cell.definition),
        LineHtml("batch size", LineUnit::kCount, cell.batch_line),
        LineHtml("cells/s", LineUnit::kCount, cell.cells_line), cell.kept ? ", kept" : "",
        cell.max_batch,
        cell.peak_batch > cell.max_batch ? fmt::format(", {} in backlog", cell.peak_batch) : "",
        time_of(true), time_of(false), Curve(cell), CountText(static_cast<double>(cell.cells)),
        CountText(static_cast<double>(cell.tasks)), CountText(cell.mean_batch), cell.ready);
  }
  if (model.types_beyond > 0) {
    cards += fmt::format("<p class=\"faint\">and {} cell types more</p>", model.types_beyond);
  }
  return "<div class=\"cells\">" + cards + "</div>";
}

std::string Decisions(const std::vector<StatusView::DecisionView>& decisions) {
  if (decisions.empty()) return "";
  std::string facts;
  for (const StatusView::DecisionView& decision : decisions) {
    facts +=
        FactHtml(Escaped(decision.reason).c_str(), CountText(static_cast<double>(decision.tasks)),
                 fmt::format("{:.3g} %", decision.share * 100));
  }
  return "<h3>Tasks, by why their cell type was chosen</h3><dl>" + facts + "</dl>";
}

// What decides, and where it comes from; who joins.
std::string PolicyLine(const StatusView::ModelView& model) {
  return fmt::format("<p>Policy {}{}</p><p>Requests join: {}</p>", Escaped(model.policy),
                     model.policy_about.empty() ? "" : ": " + Escaped(model.policy_about),
                     Escaped(model.join));
}

std::string PriorityLine(const StatusView::ModelView& model) {
  return fmt::format("<p>Priority levels of requests: 1 (the most urgent) to {}, default {}</p>",
                     model.priority_levels, model.default_priority_level);
}

std::string Title(const StatusView::ModelView& model, bool ready) {
  return fmt::format(
      "<div class=\"title\"><h2>{}</h2><span class=\"faint\">version {}</span><span "
      "class=\"state {}\">{}</span>{}</div>",
      Escaped(model.name), model.version.empty() ? "–" : Escaped(model.version),
      ready                          ? "good"
      : model.state == "UNAVAILABLE" ? "bad"
                                     : "wait",
      Escaped(model.state),
      ready ? fmt::format("<a href=\"/explain/{}\">what became of its cells</a>",
                          PathPart(model.name))
            : "");
}

std::string Facts(const StatusView::ModelView& model) {
  int64_t others = 0;
  for (size_t i = 1; i < model.counts.outcomes.size(); ++i) others += model.counts.outcomes[i];
  return "<dl>" + FactHtml("answered", CountText(static_cast<double>(model.counts.done))) +
         FactHtml("ended otherwise", CountText(static_cast<double>(others))) +
         FactHtml("running", std::to_string(model.running),
                  fmt::format("{} waiting", model.waiting)) +
         FactHtml("rows in use", CountText(static_cast<double>(model.rows_used)),
                  "of " + CountText(static_cast<double>(model.rows_total))) +
         FactHtml("precision", Escaped(model.precision)) +
         FactHtml("lives on", Escaped(model.devices)) + "</dl>";
}

}  // namespace

std::string ModelSectionHtml(const StatusView::ModelView& model, double window_seconds) {
  const bool ready = model.state == "READY";
  std::string html = "<section>" + Title(model, ready);
  if (!model.reason.empty()) {
    html += fmt::format("<p class=\"bad\">{}</p>", Escaped(ShortText(model.reason, kReasonBytes)));
  }
  if (!ready) return html + "</section>";
  html += "<dl class=\"lines\">" + LineHtml("requests/s", LineUnit::kCount, model.requests_line) +
          LineHtml("p50", LineUnit::kMilliseconds, model.p50_line) +
          LineHtml("p99", LineUnit::kMilliseconds, model.p99_line) +
          LineHtml("queue p99", LineUnit::kMilliseconds, model.queue_line) +
          LineHtml("failed/s", LineUnit::kCount, model.failed_line) + "</dl>" + Facts(model);
  html += fmt::format("<h3>Latency of the last {:.0f} s, exact; {} requests/s</h3>",
                      std::min(window_seconds, model.times.covered_seconds),
                      CountText(std::round(model.requests_per_second * 10) / 10)) +
          Phases(model.times);
  html += "<h3>Cells</h3>" + CellTypes(model);
  if (!model.folded.empty()) {
    html += fmt::format("<p>Computed at load for each word: {}</p>", Escaped(model.folded));
  }
  if (!model.policy.empty()) html += PolicyLine(model);
  if (model.priority_levels > 1) html += PriorityLine(model);
  html += Decisions(model.decisions);
  return html + "</section>";
}

}  // namespace cellbatch
