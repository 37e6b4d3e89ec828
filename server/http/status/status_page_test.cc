#include "server/http/status/status_page.h"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "server/http/html_page.h"
#include "server/http/status/page_text.h"
#include "server/http/status/status_sampler.h"
#include "tests/testing/fake_scheduler.h"
#include "tests/testing/test_model.h"

namespace cellbatch {
namespace {

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The first thing in which a document is not well formed: tags that nest and close, attributes once each and in double quotes,
// entities that are, nothing but text between. Empty: none.
class WellFormed {
 public:
  explicit WellFormed(const std::string& html) : html_(html) {}

  std::string Problem() {
    while (at_ < html_.size() && problem_.empty()) {
      if (html_[at_] == '<') {
        Tag();
      } else if (html_[at_] == '&') {
        Entity();
      } else {
        if (html_[at_] == '>') Fail("a lone >");
        ++at_;
      }
    }
    if (problem_.empty() && !open_.empty()) Fail("<" + open_.back() + "> is never closed");
    return problem_;
  }

 private:
  void Fail(const std::string& what) {
    problem_ = fmt::format("{} at {}: {}", what, at_, html_.substr(at_, 60));
  }
  void Entity() {
    const size_t end = html_.find(';', at_);
    static const std::set<std::string> kKnown = {"lt", "gt", "amp", "quot"};
    if (end == std::string::npos || !kKnown.contains(html_.substr(at_ + 1, end - at_ - 1))) {
      return Fail("an entity");
    }
    at_ = end + 1;
  }
  std::string Word() {
    const size_t begin = at_;
    while (at_ < html_.size() && (std::isalnum(html_[at_]) || html_[at_] == '-')) ++at_;
    return html_.substr(begin, at_ - begin);
  }
  void Tag() {
    ++at_;
    if (html_.compare(at_, 8, "!doctype") == 0) {
      at_ = html_.find('>', at_) + 1;
      return;
    }
    const bool closes = html_[at_] == '/';
    if (closes) ++at_;
    const std::string name = Word();
    if (name.empty()) return Fail("no tag");
    std::set<std::string> attributes;
    while (at_ < html_.size() && html_[at_] == ' ') {
      ++at_;
      const std::string attribute = Word();
      if (attribute.empty() || !attributes.insert(attribute).second) return Fail("an attribute");
      if (html_[at_] != '=') continue;
      const size_t end = html_.find('"', at_ + 2);
      if (html_[at_ + 1] != '"' || end == std::string::npos) return Fail("an attribute's value");
      if (html_.substr(at_ + 2, end - at_ - 2).find('<') != std::string::npos) {
        return Fail("a tag in an attribute");
      }
      at_ = end + 1;
    }
    const bool empty = html_[at_] == '/';
    if (empty) ++at_;
    if (html_[at_] != '>') return Fail("a tag's end");
    ++at_;
    Nest(name, closes, empty);
  }
  void Nest(const std::string& name, bool closes, bool empty) {
    static const std::set<std::string> kVoid = {"meta", "br"};
    if (closes) {
      if (open_.empty() || open_.back() != name) return Fail("</" + name + ">");
      open_.pop_back();
      return;
    }
    if (empty || kVoid.contains(name)) return;
    if (name == "style") at_ = html_.find("</style>", at_);
    open_.push_back(name);
  }

  const std::string& html_;
  size_t at_ = 0;
  std::vector<std::string> open_;
  std::string problem_;
};

// Everything that others name: a text that would break out wherever it is not escaped.
const std::string kEvil = "</td></table><script>alert('x')</script>\"&'><img src=x onerror=y>\x01";

StatusView Full(const std::string& name, size_t models, size_t types) {
  StatusView view;
  view.phase = name;
  view.history_seconds = History::kPoints;
  const StatusView::Line line(History::kPoints, 12345.678F);
  view.requests_line = view.rejected_line = view.in_flight_line = line;
  for (size_t m = 0; m < models; ++m) {
    StatusView::ModelView& model = view.models.emplace_back();
    model.name = model.version = model.policy = model.policy_about = model.join = name;
    model.precision = model.folded = name;
    model.state = m % 3 == 2 ? "UNAVAILABLE" : "READY";
    if (m % 3 == 2) model.reason = name + std::string(100'000, 'r');
    model.priority_levels = 3;
    model.decisions = {{name, 7, 0.5}};
    model.requests_line = model.failed_line = model.p50_line = model.p99_line = line;
    model.queue_line = line;
    for (size_t t = 0; t < types; ++t) {
      StatusView::CellTypeView& cell = model.types.emplace_back();
      cell.name = cell.definition = name;
      cell.points = {{1, 100'000}, {64, 200'000}, {512, 1'500'000}};
      cell.batch_line = cell.cells_line = line;
    }
  }
  StatusView::DeviceView& device = view.devices.emplace_back();
  device.stats.name = name;
  device.busy_line = line;
  for (int i = 0; i < kNumRejections; ++i) {
    view.rejected.push_back({static_cast<Rejection>(i), 5, line});
  }
  for (size_t i = 0; i < LastErrors::kKinds; ++i) {
    view.errors.push_back({{.model = name.substr(0, LastErrors::kTextBytes),
                            .version = "1",
                            .code = absl::StatusCode::kInvalidArgument,
                            .text = name.substr(0, LastErrors::kTextBytes),
                            .count = 3},
                           90});
  }
  view.limits_in_force = {{name, 0.5}};
  return view;
}

TEST(StatusPageTest, IsWellFormedAndEscapesWhateverOthersNamed) {
  const std::string html = RenderStatus(Full(kEvil, kMostSections + 3, 2));
  EXPECT_EQ(WellFormed(html).Problem(), "");
  EXPECT_FALSE(Has(html, "<script>"));
  EXPECT_FALSE(Has(html, "<img"));
  EXPECT_FALSE(Has(html, "\x01"));
  EXPECT_TRUE(Has(html, "&lt;script&gt;alert('x')"));
  EXPECT_EQ(WellFormed(RenderStatus(StatusView())).Problem(), "");
}

TEST(StatusPageTest, TheCheckOfWellFormedDocumentsFindsWhatIsNot) {
  for (const char* wrong : {"<p>", "</p>", "<p><b></p></b>", "a & b", "a > b", "<p a=b></p>",
                            "<p a=\"b\" a=\"c\"></p>", "<p a=\"<\"></p>", "< p></p>"}) {
    EXPECT_NE(WellFormed(wrong).Problem(), "") << wrong;
  }
  EXPECT_EQ(WellFormed("<!doctype html><p a=\"b\" c>x &amp; y<br><i/></p>").Problem(), "");
}

TEST(StatusPageTest, LoadsNothingFromElsewhereAndRunsOneScriptOfItsOwn) {
  const std::string html = RenderStatus(Full("a", 3, 2));
  EXPECT_FALSE(Has(html, "http://"));
  EXPECT_FALSE(Has(html, "https://"));
  EXPECT_FALSE(Has(html, "url("));
  EXPECT_FALSE(Has(html, "@import"));
  EXPECT_EQ(html.find("<script"), html.rfind("<script"));
  EXPECT_TRUE(Has(html, "<script src=\"/status.js\" defer></script>"));
  EXPECT_TRUE(Has(html, "<noscript><meta http-equiv=\"refresh\""));
  EXPECT_TRUE(Has(kPagePolicy, "default-src 'none'"));
  EXPECT_FALSE(Has(kPagePolicy, "script-src 'unsafe"));
}

TEST(StatusPageTest, ItsSizeIsBoundedWhateverThereIs) {
  const std::string name(256, 'n');
  EXPECT_LT(RenderStatus(Full("tagger", 4, 3)).size(), 150'000u);
  EXPECT_LT(RenderStatus(Full(name, kMostSections, kMostTypes)).size(), 4'000'000u);
  EXPECT_LT(RenderStatus(Full(name, 2000, 1)).size(), 3'000'000u);
}

TEST(StatusPageTest, ModelsBeyondThoseWithASectionHaveARow) {
  const std::string html = RenderStatus(Full("m", kMostSections + 600, 1));
  EXPECT_TRUE(Has(html, "<h2>600 models more</h2>"));
  EXPECT_TRUE(Has(html, "and 88 models more"));
  EXPECT_FALSE(Has(RenderStatus(Full("m", kMostSections, 1)), "models more"));
}

TEST(StatusPageTest, ErrorsAndRejectionsAreShownOrSaidToBeNone) {
  StatusView view;
  std::string html = RenderStatus(view);
  EXPECT_TRUE(Has(html, "<h2>Last errors</h2><p class=\"faint\">none</p>"));
  EXPECT_TRUE(Has(html, "<h2>Rejected, by the bound</h2><p class=\"faint\">nobody</p>"));
  view.errors = {{{.model = "",
                   .version = "",
                   .code = absl::StatusCode::kNotFound,
                   .text = "model \"x\" is not served",
                   .count = 1700},
                  75}};
  view.rejected = {{Rejection::kClientShare, 12, {1.0F, 3.0F}}};
  html = RenderStatus(view);
  EXPECT_TRUE(Has(html, "<td class=\"num\">75 s ago</td><td class=\"num\">1.7 k ×</td><td>–<br>"));
  EXPECT_TRUE(Has(html, "NOT_FOUND</span></td><td class=\"text\">model &quot;x&quot; is not"));
  EXPECT_TRUE(Has(html, "client_share <small>(12 in all)</small></dt><dd>3 <small>max 3</small>"));
}

TEST(PageTextTest, NumbersHaveThreeDigitsAndAUnitAndNeverAnExponent) {
  EXPECT_EQ(CountText(0), "0");
  EXPECT_EQ(CountText(12.34), "12.3");
  EXPECT_EQ(CountText(999), "999");
  EXPECT_EQ(CountText(999.7), "1 k");
  EXPECT_EQ(CountText(1234), "1.23 k");
  EXPECT_EQ(CountText(999'499), "999 k");
  EXPECT_EQ(CountText(999'700), "1 M");
  EXPECT_EQ(CountText(999'700'000), "1 G");
  EXPECT_EQ(CountText(1.2345e12), "1234 G");
  EXPECT_EQ(TimeText(0), "–");
  EXPECT_EQ(TimeText(1'500), "1.5 µs");
  EXPECT_EQ(TimeText(999'700), "1 ms");
  EXPECT_EQ(TimeText(999'700'000), "1 s");
  EXPECT_EQ(TimeText(1'234'567'000'000), "1235 s");
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(1010 << 10), "1010 KiB");
  EXPECT_EQ(BytesText((1 << 20) - 1), "1024 KiB");
  EXPECT_EQ(BytesText(1000 << 20), "1000 MiB");
  EXPECT_EQ(BytesText(int64_t{3} << 29), "1.5 GiB");
  EXPECT_EQ(BytesText(int64_t{2048} << 30), "2048 GiB");
}

TEST(LineTest, IsBrokenWhereThereIsNothingAndEndsAtTheRightEdge) {
  const std::string line = LineHtml("x", LineUnit::kCount, {1, 2, NAN, 4, NAN, 2, 1});
  EXPECT_TRUE(Has(line, "<dt>x</dt><dd>1 <small>max 4</small>"));
  EXPECT_EQ(std::count(line.begin(), line.end(), 'M'), 3);
  EXPECT_TRUE(Has(line, "h0"));
  EXPECT_TRUE(Has(line, "L120.0 "));
  EXPECT_TRUE(Has(LineHtml("x", LineUnit::kCount, {}), "<dd>– <small>max 0</small>"));
  EXPECT_FALSE(Has(LineHtml("x", LineUnit::kCount, {NAN, NAN}), "<path"));
}

TEST(LineTest, OfManySecondsItShowsTheMeanOrOfTimesTheHighest) {
  std::vector<float> points(History::kPoints, 1);
  points[300] = 11;
  EXPECT_TRUE(Has(LineHtml("x", LineUnit::kCount, points), "max 3<"));
  EXPECT_TRUE(Has(LineHtml("x", LineUnit::kMilliseconds, points), "<dd>1 ms <small>max 11 ms<"));
  for (size_t n = 0; n <= points.size(); ++n) {
    const std::string line =
        LineHtml("x", LineUnit::kCount, {points.begin(), points.begin() + static_cast<long>(n)});
    ASSERT_LE(std::count(line.begin(), line.end(), 'L'), kDrawn);
    ASSERT_LT(line.size(), 2300u);
  }
  EXPECT_TRUE(Has(LineHtml("x", LineUnit::kShare, {0.25F}), "<dd>25 %"));
}

TEST(StatusPageTest, ShowsDecisionsByReasonWithTheirShares) {
  StatusView view;
  StatusView::ModelView model;
  model.name = "tiny";
  model.state = "READY";
  view.models.push_back(model);
  EXPECT_FALSE(Has(RenderStatus(view), "why their cell type was chosen"));
  view.models[0].decisions = {{"full_batch", 1500, 0.75}, {"<b>", 500, 0.25}};
  const std::string html = RenderStatus(view);
  EXPECT_TRUE(Has(html, "why their cell type was chosen"));
  EXPECT_TRUE(Has(html, "<dt>full_batch</dt><dd>1.5 k <small>75 %</small></dd>"));
  EXPECT_TRUE(Has(html, "<dt>&lt;b&gt;</dt><dd>500 <small>25 %</small></dd>"));
}

// What it looks up itself: the shares, of a model that the scheduler knows.
TEST(StatusPageTest, TakesDecisionsOfEachModelFromItsLane) {
  FakeScheduler scheduler;
  StatsRegistry stats(1);
  Admission admission({});
  Lifecycle lifecycle;
  const std::shared_ptr<const Model> model = TinyModel();
  LaneStats stranger;
  stranger.model = ModelId(model->id.value() + 1);
  stranger.decisions = {{"overdue", 99}};
  LaneStats lane;
  lane.model = model->id;
  lane.decisions = {{"overdue", 1}, {"full_batch", 3}};
  scheduler.fake_stats.lanes = {stranger, lane};
  const FindModel find = [&](std::string_view, std::string_view) {
    return absl::StatusOr<std::shared_ptr<const Model>>(model);
  };
  const SteadyClock clock;
  RequestPath path({}, find, scheduler, admission, stats, clock);
  const auto index = [] { return std::vector<IndexEntry>{{"tiny", "1", "READY", ""}}; };
  const StatusPage page(scheduler, path, stats, admission, lifecycle, index, find, clock);
  const StatusView view = page.Look();
  ASSERT_EQ(view.models.size(), 1u);
  const std::vector<StatusView::DecisionView>& decisions = view.models[0].decisions;
  ASSERT_EQ(decisions.size(), 2u);
  EXPECT_EQ(decisions[0].reason, "overdue");
  EXPECT_EQ(decisions[0].share, 0.25);
  EXPECT_EQ(decisions[1].tasks, 3u);
  EXPECT_EQ(decisions[1].share, 0.75);
}

TEST(StatusPageTest, ShowsLimitsInForce) {
  StatusView view;
  EXPECT_FALSE(Has(RenderStatus(view), "Limits in force"));
  view.limits_in_force = {{"cpu_quota", 0.5}, {"max-queued-bytes", 4294967297.0}};
  const std::string html = RenderStatus(view);
  EXPECT_TRUE(Has(html, "<td>cpu_quota</td><td class=\"num\">0.5</td>"));
  EXPECT_TRUE(Has(html, "<td>max-queued-bytes</td><td class=\"num\">4294967297</td>"));
}

TEST(StatusPageTest, ShowsWhatIsThereAndEscapesWhatOthersNamed) {
  StatusView view;
  view.ready = true;
  view.window_seconds = 30;
  StatusView::ModelView model;
  model.name = "<script>alert(1)</script>";
  model.version = "3";
  model.state = "READY";
  model.times.request = {.count = 5,
                         .mean = 1'500'000,
                         .p50 = 1'000'000,
                         .p90 = 2,
                         .p99 = 3,
                         .p999 = 4,
                         .max = 2'000'000'000};
  StatusView::CellTypeView cell;
  cell.name = "lstm_l0";
  cell.max_batch = 64;
  cell.points = {{1, 100'000}, {64, 200'000}, {512, 1'500'000}};
  model.types.push_back(cell);
  model.policy = "fsm";
  model.policy_about = "learned from <trees>";
  model.join = "whole_graphs of 64";
  model.precision = "W8";
  model.devices = "cuda:0, <cpu:0>";
  model.folded = "all of \"leaf\" (4096 bytes)";
  model.priority_levels = 3;
  model.default_priority_level = 2;
  view.models.push_back(model);
  model.name = "cold";
  model.state = "UNAVAILABLE";
  model.reason = "weights & words disagree";
  view.models.push_back(model);
  const std::string html = RenderStatus(view);
  EXPECT_FALSE(Has(html, "<script>alert"));
  EXPECT_TRUE(Has(html, "&lt;script&gt;alert(1)"));
  EXPECT_TRUE(Has(html, "weights &amp; words disagree"));
  EXPECT_TRUE(Has(html, "1.5 ms"));
  EXPECT_TRUE(Has(html, ".. 1.5 ms</small>"));
  EXPECT_TRUE(Has(html, "<polyline"));
  EXPECT_TRUE(Has(html, "lives on"));
  EXPECT_TRUE(Has(html, "cuda:0, &lt;cpu:0&gt;"));
  EXPECT_TRUE(Has(html, "Policy fsm: learned from &lt;trees&gt;"));
  EXPECT_TRUE(Has(html, "Requests join: whole_graphs of 64"));
  EXPECT_TRUE(Has(html, "Computed at load for each word: all of &quot;leaf&quot; (4096 bytes)"));
  EXPECT_TRUE(Has(html, "Priority levels of requests: 1 (the most urgent) to 3, default 2"));
}

}  // namespace
}  // namespace cellbatch
