// RenderStatus: a StatusView as one HTML document.
#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "server/http/html_page.h"
#include "server/http/status_page.h"

namespace cellbatch {

namespace {

constexpr const char* kTail = R"(</main><script>
async function look() {
  try {
    const text = await (await fetch(location.href, {cache:"no-store"})).text();
    document.getElementById("page").innerHTML = new DOMParser().parseFromString(text, "text/html").getElementById("page").innerHTML;
  } catch (gone) { document.querySelector(".state").className = "state bad"; document.querySelector(".state").textContent = "not reachable"; }
}
setInterval(() => { if (!document.hidden) look(); }, 2500);
</script></body></html>
)";

// Three significant digits and a unit that fits.
std::string Time(int64_t ns) {
  const double t = static_cast<double>(ns);
  if (ns <= 0) return "–";
  if (t < 1e6) return fmt::format("{:.3g} µs", t / 1e3);
  if (t < 1e9) return fmt::format("{:.3g} ms", t / 1e6);
  return fmt::format("{:.3g} s", t / 1e9);
}

std::string Count(double n) {
  if (n < 1000) return n == std::floor(n) ? fmt::format("{:.0f}", n) : fmt::format("{:.3g}", n);
  if (n < 1e6) return fmt::format("{:.3g} k", n / 1e3);
  if (n < 1e9) return fmt::format("{:.3g} M", n / 1e6);
  return fmt::format("{:.3g} G", n / 1e9);
}

std::string Bytes(int64_t bytes) {
  const double n = static_cast<double>(bytes);
  if (bytes < 1024) return fmt::format("{} B", bytes);
  if (n < 1 << 20) return fmt::format("{:.3g} KiB", n / 1024);
  if (n < 1 << 30) return fmt::format("{:.3g} MiB", n / (1 << 20));
  return fmt::format("{:.3g} GiB", n / (1 << 30));
}

std::string Uptime(int64_t seconds) {
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 7200) return fmt::format("{} min", seconds / 60);
  if (seconds < 172800) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} days", seconds / 86400);
}

std::string Fact(const char* name, const std::string& value, const std::string& beside = "") {
  return fmt::format("<div><dt>{}</dt><dd>{}{}</dd></div>", name, value,
                     beside.empty() ? "" : " <small>" + beside + "</small>");
}

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
        px, py, point.batch, Time(point.task_ns));
  }
  const double knee = x(std::log2(std::max(1, cell.max_batch)));
  return fmt::format(
      "<svg width=\"{0}\" height=\"{1}\" role=\"img\" aria-label=\"time of a task over its batch "
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
      rows += fmt::format("<td class=\"num\">{}</td>", Time(value));
    }
    rows += "</tr>";
  }
  return "<table><tr><th></th><th class=\"num\">mean</th><th class=\"num\">p50</th><th "
         "class=\"num\">p90</th>"
         "<th class=\"num\">p99</th><th class=\"num\">p99.9</th><th class=\"num\">max</th></tr>" +
         rows + "</table>";
}

std::string CellTypes(const StatusView::ModelView& model) {
  std::string rows;
  for (const StatusView::CellTypeView& cell : model.types) {
    const auto time_of = [&](bool first) {
      if (cell.points.empty()) return std::string("–");
      const CalibrationPoint& p = first ? cell.points.front() : cell.points.back();
      return fmt::format("T({}) {}", p.batch, Time(p.task_ns));
    };
    rows += fmt::format(
        "<tr><td>{}<br><span class=\"faint\">{}</span></td><td class=\"num\">{}</td><td "
        "class=\"num\">{:.3g}</td>"
        "<td class=\"num\">{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td><td "
        "class=\"num\">{}<br>{}</td><td>{}</td></tr>",
        Escaped(cell.name), Escaped(cell.definition), cell.max_batch, cell.mean_batch,
        Count(cell.cells_per_second), Count(static_cast<double>(cell.cells)), cell.ready,
        time_of(true), time_of(false), Curve(cell));
  }
  return "<table><tr><th>cell type</th><th class=\"num\">b_max</th><th class=\"num\">mean "
         "batch</th>"
         "<th class=\"num\">cells/s</th><th class=\"num\">cells</th><th class=\"num\">ready</th>"
         "<th class=\"num\">measured</th><th>T(b), log–log</th></tr>" +
         rows + "</table>";
}

std::string Decisions(const std::vector<StatusView::DecisionView>& decisions) {
  if (decisions.empty()) return "";
  std::string facts;
  for (const StatusView::DecisionView& decision : decisions) {
    facts += Fact(Escaped(decision.reason).c_str(), Count(static_cast<double>(decision.tasks)),
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

std::string ModelSection(const StatusView::ModelView& model, double window_seconds) {
  const bool ready = model.state == "READY";
  std::string html = fmt::format(
      "<section><div class=\"title\"><h2>{}</h2><span class=\"faint\">version {}</span><span "
      "class=\"state {}\">{}</span>{}</div>",
      Escaped(model.name), model.version.empty() ? "–" : Escaped(model.version),
      ready                          ? "good"
      : model.state == "UNAVAILABLE" ? "bad"
                                     : "wait",
      Escaped(model.state),
      ready
          ? fmt::format("<a href=\"/explain/{}\">what became of its cells</a>", Escaped(model.name))
          : "");
  if (!model.reason.empty()) html += fmt::format("<p class=\"bad\">{}</p>", Escaped(model.reason));
  if (!ready) return html + "</section>";
  int64_t others = 0;
  for (size_t i = 1; i < model.counts.outcomes.size(); ++i) others += model.counts.outcomes[i];
  html += "<dl>" + Fact("requests/s", Count(std::round(model.requests_per_second * 10) / 10)) +
          Fact("answered", Count(static_cast<double>(model.counts.done))) +
          Fact("ended otherwise", Count(static_cast<double>(others))) +
          Fact("running", std::to_string(model.running), fmt::format("{} waiting", model.waiting)) +
          Fact("rows in use", Count(static_cast<double>(model.rows_used)),
               "of " + Count(static_cast<double>(model.rows_total))) +
          Fact("precision", Escaped(model.precision)) + "</dl>";
  html += fmt::format("<h3>Latency of the last {:.0f} s, exact</h3>", window_seconds) +
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

std::string Devices(const std::vector<StatusView::DeviceView>& devices) {
  std::string rows;
  for (const StatusView::DeviceView& device : devices) {
    rows += fmt::format(
        "<tr><td>{}</td><td><span class=\"state {}\">{}</span></td><td><span class=\"bar\"><i "
        "style=\"width:{:.0f}%\"></i></span>{:.0f} %</td>"
        "<td class=\"num\">{}</td><td class=\"num\">{}</td></tr>",
        Escaped(device.stats.name), device.stats.healthy ? "good" : "bad",
        device.stats.healthy ? "healthy" : "failed", device.busy_share * 100,
        device.busy_share * 100, device.stats.tasks_in_flight,
        Count(static_cast<double>(device.stats.tasks)));
  }
  return "<section><h2>Devices</h2><table><tr><th>device</th><th></th><th>busy</th>"
         "<th class=\"num\">tasks in flight</th><th class=\"num\">tasks</th></tr>" +
         rows + "</table></section>";
}

// What the process may take first, then every flag.
std::string Limits(const std::vector<std::pair<std::string, double>>& limits) {
  if (limits.empty()) return "";
  std::string rows;
  for (const auto& [name, value] : limits) {
    rows += fmt::format("<tr><td>{}</td><td class=\"num\">{}</td></tr>", Escaped(name), value);
  }
  return "<section><details><summary>Limits in force</summary><table>" + rows +
         "</table></details></section>";
}

}  // namespace

std::string RenderStatus(const StatusView& view) {
  std::string html = PageHead("cellbatch");
  html += fmt::format(
      "<header><h1>cellbatch</h1><span class=\"state {}\">{}</span><span class=\"faint\">up {}, "
      "version {}</span></header>",
      view.ready ? "good" : "wait", view.ready ? "ready" : Escaped(view.phase),
      Uptime(view.uptime_seconds), kServerVersion);
  html += "<section><h2>In flight</h2><dl>" +
          Fact("requests", Count(static_cast<double>(view.in_flight.requests)),
               "of " + Count(static_cast<double>(view.limits.max_requests))) +
          Fact("cells", Count(static_cast<double>(view.in_flight.cells)),
               "of " + Count(static_cast<double>(view.limits.max_cells))) +
          Fact("bytes", Bytes(view.in_flight.bytes), "of " + Bytes(view.limits.max_bytes)) +
          "</dl></section>";
  for (const StatusView::ModelView& model : view.models)
    html += ModelSection(model, view.window_seconds);
  html += Devices(view.devices) + Limits(view.limits_in_force);
  html +=
      "<footer>Metrics for Prometheus: <a href=\"/metrics\">/metrics</a>. Health: "
      "<a href=\"/v2/health/live\">live</a>, <a href=\"/v2/health/ready\">ready</a>.</footer>";
  return html + kTail;
}

}  // namespace cellbatch
