// Ten minutes of what the status page draws: of each line a point a second. Fixed memory: kPoints numbers a line, and no more
// lines than were allowed (kMostLines: 5 MB); one that comes beyond them is not kept, until another has gone.
//
// One thread adds; any thread reads, and waits for a copy of one line at most.
#ifndef CELLBATCH_SERVER_HTTP_STATUS_HISTORY_H_
#define CELLBATCH_SERVER_HTTP_STATUS_HISTORY_H_

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cellbatch {

class History {
 public:
  static constexpr int kPoints = 600;
  static constexpr size_t kMostLines = 2048;

  explicit History(size_t most_lines = kMostLines) : most_lines_(most_lines) {}

  // The next second: a point of each line named, and none of the others. A line without a point for kPoints seconds is gone.
  void Add(const std::vector<std::pair<std::string, float>>& points);

  // Oldest first, as many as seconds were added, kPoints at most; NaN where it had none. A line that is not there: all NaN.
  std::vector<float> Of(const std::string& line) const;
  size_t lines() const;
  int64_t seconds() const;  // kPoints at most

 private:
  struct Line {
    std::array<float, kPoints> points;
    int64_t last = 0;  // second with a point
  };
  void Forget();

  const size_t most_lines_;
  mutable std::mutex mutex_;
  int64_t next_ = 0;  // second; under it, like the lines
  std::unordered_map<std::string, std::unique_ptr<Line>> lines_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_STATUS_HISTORY_H_
