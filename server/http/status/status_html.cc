// RenderStatus: a StatusView as one HTML document.
#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "server/http/html_page.h"
#include "server/http/status/page_text.h"
#include "server/http/status/status_page.h"

namespace cellbatch {

namespace {

constexpr size_t kMostRows = 512;     // of models without a section
constexpr size_t kReasonInRow = 200;  // bytes

std::string InFlight(const StatusView& view) {
  return "<section><h2>In flight</h2><dl>" +
         FactHtml("requests", CountText(static_cast<double>(view.in_flight.requests)),
                  "of " + CountText(static_cast<double>(view.limits.max_requests))) +
         FactHtml("cells", CountText(static_cast<double>(view.in_flight.cells)),
                  "of " + CountText(static_cast<double>(view.limits.max_cells))) +
         FactHtml("bytes", BytesText(view.in_flight.bytes),
                  "of " + BytesText(view.limits.max_bytes)) +
         "</dl><dl class=\"lines\">" +
         LineHtml("requests in flight", LineUnit::kCount, view.in_flight_line) +
         LineHtml("answered/s", LineUnit::kCount, view.requests_line) +
         LineHtml("rejected/s", LineUnit::kCount, view.rejected_line) + "</dl>" +
         fmt::format(
             "<p class=\"faint\">Lines: the last {}, a point a second, from 0 to the highest. "
             "T(b): time of a task of b cells, both logarithmic; dashed: b_max.</p>",
             UptimeText(view.history_seconds)) +
         "</section>";
}

// Of the bounds, those that turned anybody away.
std::string Rejected(const std::vector<StatusView::RejectedView>& rejected) {
  std::string lines;
  for (const StatusView::RejectedView& one : rejected) {
    lines += LineHtml(Name(one.reason), LineUnit::kCount, one.line,
                      fmt::format("({} in all)", CountText(static_cast<double>(one.count))));
  }
  return "<section><h2>Rejected, by the bound</h2>" +
         (lines.empty() ? std::string("<p class=\"faint\">nobody</p>")
                        : "<dl class=\"lines\">" + lines + "</dl>") +
         "</section>";
}

std::string Errors(const std::vector<StatusView::ErrorView>& errors) {
  std::string rows;
  for (const auto& [error, age_seconds] : errors) {
    const std::string model = error.model.empty() ? "–" : Escaped(error.model);
    rows += fmt::format(
        "<tr><td class=\"num\">{} ago</td><td class=\"num\">{} ×</td><td>{}<br><span "
        "class=\"faint\">{}</span></td><td class=\"text\">{}</td></tr>",
        UptimeText(age_seconds), CountText(static_cast<double>(error.count)), model,
        absl::StatusCodeToString(error.code), Escaped(error.text));
  }
  return "<section><h2>Last errors</h2>" +
         (rows.empty() ? std::string("<p class=\"faint\">none</p>")
                       : "<table><tr><th class=\"num\">last</th><th class=\"num\">times</th>"
                         "<th>model</th><th>what its clients read</th></tr>" +
                             rows + "</table>") +
         "</section>";
}

// Those beyond kMostSections.
std::string OtherModels(const std::vector<StatusView::ModelView>& models) {
  if (models.size() <= kMostSections) return "";
  const size_t end = std::min(models.size(), kMostSections + kMostRows);
  std::string rows;
  for (size_t i = kMostSections; i < end; ++i) {
    const StatusView::ModelView& model = models[i];
    rows += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td>"
        "<td class=\"text\">{}</td></tr>",
        Escaped(model.name), Escaped(model.version), Escaped(model.state),
        CountText(static_cast<double>(model.counts.done)), model.running,
        Escaped(ShortText(model.reason, kReasonInRow)));
  }
  const std::string beyond =
      end == models.size()
          ? ""
          : fmt::format("<p class=\"faint\">and {} models more</p>", models.size() - end);
  return fmt::format(
      "<section><h2>{} models more</h2><table><tr><th>model</th><th>version</th><th>state</th>"
      "<th class=\"num\">answered</th><th class=\"num\">running</th><th></th></tr>{}</table>{}"
      "</section>",
      models.size() - kMostSections, rows, beyond);
}

std::string Devices(const std::vector<StatusView::DeviceView>& devices) {
  std::string rows;
  for (const StatusView::DeviceView& device : devices) {
    rows += fmt::format(
        "<tr><td>{}<br><span class=\"state {}\">{}</span><br><span "
        "class=\"faint\">{}</span></td><td><dl class=\"lines\">{}</dl></td>"
        "<td class=\"num\">{}</td><td class=\"num\">{}</td></tr>",
        Escaped(device.stats.name), device.stats.healthy ? "good" : "bad",
        device.stats.healthy ? "healthy" : "failed", Escaped(device.stats.details),
        LineHtml(fmt::format("busy now {:.0f} %", device.busy_share * 100), LineUnit::kShare,
                 device.busy_line),
        device.stats.tasks_in_flight, CountText(static_cast<double>(device.stats.tasks)));
  }
  return "<section><h2>Devices</h2><table><tr><th>device</th><th>share of the time</th>"
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
  return "<section><details id=\"limits\"><summary>Limits in force</summary><table>" + rows +
         "</table></details></section>";
}

}  // namespace

// Its own document again, without a flicker, and what was unfolded stays so. Not location.href: browsers fetch no address
// that has a name and a password in it, as that of a page may.
const char* const kStatusScript = R"(async function look() {
  try {
    const text = await (await fetch(location.origin + location.pathname, {cache: "no-store"})).text();
    const open = [...document.querySelectorAll("details[open]")].map(d => d.id);
    const page = new DOMParser().parseFromString(text, "text/html").getElementById("page");
    for (const id of open) page.querySelector("#" + id)?.setAttribute("open", "");
    document.getElementById("page").replaceWith(document.adoptNode(page));
  } catch (gone) {
    const state = document.querySelector(".state");
    state.className = "state bad";
    state.textContent = "not reachable";
  }
}
setInterval(() => { if (!document.hidden) look(); }, 2500);
)";

std::string RenderStatus(const StatusView& view) {
  std::string html = PageHead("cellbatch", PageRefresh{.script = "/status.js", .seconds = 5});
  html += fmt::format(
      "<header><h1>cellbatch</h1><span class=\"state {}\">{}</span><span class=\"faint\">up {}, "
      "version {}</span></header>",
      view.ready ? "good" : "wait", view.ready ? "ready" : Escaped(view.phase),
      UptimeText(view.uptime_seconds), kServerVersion);
  html += InFlight(view);
  const size_t sections = std::min(view.models.size(), kMostSections);
  for (size_t i = 0; i < sections; ++i) {
    html += ModelSectionHtml(view.models[i], view.window_seconds);
  }
  html += OtherModels(view.models) + Devices(view.devices) + Rejected(view.rejected) +
          Errors(view.errors) + Limits(view.limits_in_force);
  html +=
      "<footer>Metrics for Prometheus: <a href=\"/metrics\">/metrics</a>. Health: "
      "<a href=\"/v2/health/live\">live</a>, <a href=\"/v2/health/ready\">ready</a>.</footer>";
  return html + "</main></body></html>\n";
}

}  // namespace cellbatch
