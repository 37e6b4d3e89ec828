#include "server/explain/explain_page.h"

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include "server/explain/explain_model.h"

namespace cellbatch {
namespace {

HttpReply Html(const std::string& html) { return {200, "text/html; charset=utf-8", html}; }

}  // namespace

HttpReply ExplainPage::Answer(std::string_view name) const {
  const auto model = find_(name, "");
  if (!model.ok()) return {.status = 404, .body = std::string(model.status().message()) + "\n"};
  {
    const std::lock_guard lock(mutex_);
    const auto page = std::find_if(pages_.begin(), pages_.end(),
                                   [&](const Page& p) { return p.model == (*model)->id; });
    if (page != pages_.end()) return Html(*page->html);
  }
  const std::unique_lock making(making_, std::try_to_lock);
  if (!making.owns_lock()) return {.status = 503, .body = "a page is being made; ask again\n"};
  HttpReply reply;
  try {
    std::thread([&] { reply = Make(**model); }).join();
  } catch (const std::system_error& error) {
    return {.status = 503,
            .body = std::string("no thread can be started for the page: ") + error.what() +
                    "; ask again\n"};
  }
  return reply;
}

HttpReply ExplainPage::Make(const Model& model) const {
  const absl::StatusOr<ExplainedModel> explained =
      ExplainModel(model, HomeOf(model, memories_), scheduler_.Calibration(model.id));
  if (!explained.ok()) {
    return {.status = 500, .body = std::string(explained.status().message()) + "\n"};
  }
  auto html = std::make_shared<const std::string>(ToHtml(*explained));
  const std::lock_guard lock(mutex_);
  pages_.push_back({model.id, html});
  if (pages_.size() > kKeptPages) pages_.pop_front();
  return Html(*html);
}

}  // namespace cellbatch
