// Honest clients of a server under siege: each asks, one request after the other, and compares every bit of every answer with
// what the server answered before the siege (and the model's definition, where one is at hand). Who is refused for now asks again.
//
//   Honest honest(addresses);      asks each of its questions once: what is right
//   honest.Begin(pause);           a thread for each way of asking: ModelInfer, Infer, Decode, HTTP, probes
//   honest.Draining();             from now on the server may refuse for good, and only that
//   honest.End();
//
// Counts may be read at any time, from any thread.
#ifndef CELLBATCH_TESTS_BENCH_SIEGE_HONEST_H_
#define CELLBATCH_TESTS_BENCH_SIEGE_HONEST_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/server_process.h"

namespace cellbatch {

// What came of one request.
struct Heard {
  enum class How : uint8_t { kAnswer, kFull, kClosing, kFailed };
  How how = How::kFailed;
  std::string bytes;  // of the answer's numbers; else what was said instead
};

class Honest {
 public:
  // Adds what it asks for to a repository: before the server is started.
  static void AddModels(const std::string& repository);
  // Of a server, or of a proxy before it. Ends the program where it does not answer, or not rightly.
  Honest(const std::string& grpc, const std::string& http);
  ~Honest() { End(); }

  void Begin(std::chrono::milliseconds pause);
  void Draining() { draining_ = true; }
  // Joins; an answer that is under way is waited for.
  void End();

  struct Counts {
    std::atomic<int64_t> right = 0, lost = 0, refused = 0;
    std::atomic<int64_t> longest_ns = 0;  // from the first try to the right answer
  };
  struct Way {
    const char* name;
    std::function<Heard(size_t which)> ask;
    std::vector<std::string> right = {};  // by `which`
    Counts counts = {};
  };
  const std::vector<std::unique_ptr<Way>>& ways() const { return ways_; }
  int64_t lost() const;
  // What was lost, the first few: for people.
  std::string Losses();

 private:
  void AddWay(const char* name, std::function<Heard(size_t)> ask);
  void Ask(Way& way, size_t which);
  void Lose(Way& way, const std::string& why);

  std::vector<std::unique_ptr<Way>> ways_;
  std::vector<std::thread> threads_;
  std::atomic<bool> draining_ = false, ending_ = false;
  std::mutex mutex_;
  std::string losses_;
};

// Requests that take long, begun together: those that are in flight when the server is told to go.
class HonestCrowd {
 public:
  explicit HonestCrowd(const std::string& grpc);
  ~HonestCrowd();
  void Begin(int calls);
  // Once all have ended: how many had the right answer, how many were refused because the server was full, and how many
  // had anything else.
  struct End {
    int right = 0, refused = 0, lost = 0;
    std::string why;
  };
  End Wait();

 private:
  struct Calls;
  std::unique_ptr<Calls> calls_;
};

// The most memory that the server has had begins anew from what it has now.
void ForgetPeak(const ServerProcess& server);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_SIEGE_HONEST_H_
