#include "server/requests/last_errors.h"

#include <algorithm>

namespace cellbatch {

namespace {

// FNV-1a. Of a text: without its digits.
uint64_t Hash(uint64_t hash, std::string_view text, bool digits) {
  for (const char c : text) {
    if (!digits && c >= '0' && c <= '9') continue;
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return (hash ^ 0xff) * 0x100000001b3;  // no byte of UTF-8: where one ends and the next begins
}

// At most `most` bytes, and no half character of UTF-8 at the end.
std::string_view Cut(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  return text.substr(0, most);
}

}  // namespace

void LastErrors::Note(std::string_view model, std::string_view version, const absl::Status& status,
                      int64_t now_ns) {
  if (status.ok() || status.code() == absl::StatusCode::kCancelled) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) {
    only_counted_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const std::string_view text = Cut({status.message().data(), status.message().size()}, kTextBytes);
  uint64_t key = Hash(0xcbf29ce484222325 + static_cast<uint64_t>(status.code()), model, true);
  key = Hash(Hash(key, version, true), text, false);
  auto kind =
      std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& k) { return k.key == key; });
  if (kind == kinds_.end() && kinds_.size() < kKinds) kind = kinds_.insert(kind, Kind());
  if (kind == kinds_.end()) {
    kind = std::min_element(kinds_.begin(), kinds_.end(), [](const Kind& a, const Kind& b) {
      return a.error.at_ns < b.error.at_ns;
    });
  }
  if (kind->key != key || kind->error.count == 0) {
    kind->key = key;
    kind->error.model = Cut(model, kTextBytes);
    kind->error.version = Cut(version, kTextBytes);
    kind->error.code = status.code();
    kind->error.count = 0;
  }
  kind->error.text = text;
  kind->error.at_ns = now_ns;
  ++kind->error.count;
}

std::vector<LastError> LastErrors::Newest() const {
  std::vector<LastError> errors;
  {
    const std::lock_guard lock(mutex_);
    for (const Kind& kind : kinds_) errors.push_back(kind.error);
  }
  std::stable_sort(errors.begin(), errors.end(),
                   [](const LastError& a, const LastError& b) { return a.at_ns > b.at_ns; });
  return errors;
}

}  // namespace cellbatch
