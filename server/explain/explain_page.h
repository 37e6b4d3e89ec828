// The page of a served model beside the status page, /explain/MODEL: what --explain prints, with the T(b) that was measured
// when the model was loaded.
//
// Made at the first look, by nothing that serving uses: no lock, no task, no device. By a thread of its own, for which the
// one that asks waits: a definition is walked as deep as its operators follow one another, and who asks may have little
// stack (an HTTP library's threads had 100 KiB, and the server ended). One at a time (who asks meanwhile is told to ask
// again, so that others always find a thread); the last few pages are kept, a page of one loaded version never changes.
#ifndef CELLBATCH_SERVER_EXPLAIN_EXPLAIN_PAGE_H_
#define CELLBATCH_SERVER_EXPLAIN_EXPLAIN_PAGE_H_

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cells/device/memory.h"
#include "cells/ids.h"
#include "scheduler/scheduler.h"
#include "server/http/http_exchange.h"
#include "server/requests/request_path.h"

namespace cellbatch {

inline constexpr size_t kKeptPages = 8;

class ExplainPage {
 public:
  // What it is given outlives it. `memories`: where models are loaded.
  ExplainPage(const Scheduler& scheduler, std::vector<const Memory*> memories, FindModel find)
      : scheduler_(scheduler), memories_(std::move(memories)), find_(std::move(find)) {}

  // 404: no such model is served, with the reason. 503: another page is being made, or no thread can be. Any thread.
  HttpReply Answer(std::string_view model) const;

 private:
  struct Page {
    ModelId model;
    std::shared_ptr<const std::string> html;
  };
  HttpReply Make(const Model& model) const;

  const Scheduler& scheduler_;
  const std::vector<const Memory*> memories_;
  const FindModel find_;
  mutable std::mutex making_;  // held while a page is made
  mutable std::mutex mutex_;
  mutable std::deque<Page> pages_;  // under mutex_; the newest last
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_EXPLAIN_EXPLAIN_PAGE_H_
