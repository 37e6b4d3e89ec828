#include "server/record/record_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "scheduler/record/record_of.h"
#include "server/record/record_codec.h"
#include "spdlog/spdlog.h"

namespace cellbatch {
namespace {

constexpr int64_t kLastEntryBytes = 64;      // so that a file that is full can say so
constexpr size_t kWordsOfAnEntry = 1 << 17;  // 1 MB: a message stays far from protobuf's bounds

uint64_t WordOf(RequestId id) { return ScheduleTape::RequestWord(id.slot, id.generation); }

// The end of the last whole step that begins at or before `at` words more than `from`; beyond, where one step is longer.
size_t EndOfSteps(const std::vector<uint64_t>& words, size_t from, size_t most) {
  size_t end = from;
  for (size_t at = from; at < words.size();) {
    size_t next = at + 1;
    while (next < words.size() && OpOf(words[next]) != TapeOp::kStep) {
      next += 1 + static_cast<size_t>(TapeOperands(words[next]));
    }
    if (end > from && next - from > most) break;
    end = at = next;
  }
  return end;
}

}  // namespace

// Who is started with the flags of a server that runs ends at its ports, and must not have emptied its record by then.
absl::StatusOr<std::unique_ptr<RecordWriter>> RecordWriter::Open(const std::string& path,
                                                                 int64_t limit) {
  const auto failed = [&path](const char* why) {
    return absl::FailedPreconditionError(fmt::format("--record {}: {}", path, why));
  };
  // A pipe that nobody reads is an error, too, rather than a start that waits for its reader without a word.
  const int held = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
  if (held < 0) return failed(errno == ENXIO ? "a pipe that nobody reads" : std::strerror(errno));
  struct stat found = {};
  const bool on_disk = fstat(held, &found) == 0 && S_ISREG(found.st_mode);
  // A disk that knows no locks guards nothing.
  if (on_disk && flock(held, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(held);
    return failed("another server that runs records to it");
  }
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) {
    absl::Status status = failed(std::strerror(errno));
    close(held);
    return status;
  }
  return std::unique_ptr<RecordWriter>(new RecordWriter(path, limit, file, held));
}

RecordWriter::RecordWriter(std::string path, int64_t limit, std::FILE* file, int held)
    : path_(std::move(path)), limit_(limit), held_(held), file_(file), thread_([this] { Run(); }) {
  pthread_setname_np(thread_.native_handle(), "cb-record");
}

RecordWriter::~RecordWriter() {
  Close();
  close(held_);
}

void RecordWriter::Close() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

RecordWriter::State RecordWriter::state() const {
  return {.bytes = bytes_.load(),
          .requests = requests_.load(),
          .lost_requests = lost_requests_.load(),
          .lost_steps = tape_.lost_steps(),
          .full = full_.load(),
          .failed = failed_.load()};
}

// Callers' and takers' threads --------------------------------------------------------------------

void RecordWriter::Queue(const disk::RecordEntry& entry) {
  std::string bytes;
  AppendEntry(entry, bytes);
  const std::lock_guard lock(mutex_);
  if (queued_bytes_ + bytes.size() > kMostQueuedBytes) {
    lost_requests_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  queued_bytes_ += bytes.size();
  queue_.push_back(std::move(bytes));
}

void RecordWriter::Began(const RecordedSetup& setup) { Queue(EntryOf(setup)); }

void RecordWriter::LaneMade(const RecordedLane& lane) {
  if (!done()) Queue(EntryOf(lane));
}

void RecordWriter::PolicyTaken(uint32_t serial, uint32_t number, const RecordedPolicy& policy,
                               const Model& model) {
  if (!done()) Queue(TakeoverEntry(serial, number, policy, model));
}

void RecordWriter::Submitted(RequestId id, int lane, uint32_t serial, const Request& request) {
  if (done()) return;
  requests_.fetch_add(1, std::memory_order_relaxed);
  Queue(EntryOf(RecordOf(id, lane, serial, request)));
}

void RecordWriter::Extended(RequestId id, const Request& request) {
  if (!done()) Queue(NextPieceEntry(WordOf(id), ShapeOfPiece(request.graph)));
}

void RecordWriter::Notified(RequestId id, bool expired, int64_t now_ns) {
  if (!done()) Queue(NewsEntry(WordOf(id), expired, now_ns));
}

void RecordWriter::Answered(RequestId id, const Request& request) {
  if (!done()) Queue(EndEntry(WordOf(id), EndOf(request)));
}

// Its own thread ----------------------------------------------------------------------------------

void RecordWriter::Run() {
  for (bool stop = false; !stop;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, kWriteEvery, [this] { return stop_; });
      stop = stop_;
    }
    WriteWhatIsThere();
  }
  if (!done()) End(/*full=*/false);
}

void RecordWriter::WriteWhatIsThere() {
  std::vector<uint64_t> words;
  tape_.Read(words);  // before the queue: what they name is in it by now
  std::vector<std::string> queue;
  {
    const std::lock_guard lock(mutex_);
    queue.swap(queue_);
    queued_bytes_ = 0;
  }
  if (done()) return;
  for (const std::string& bytes : queue) {
    if (!Write(bytes)) return;
  }
  for (size_t at = 0; at < words.size();) {
    const size_t end = EndOfSteps(words, at, kWordsOfAnEntry);
    disk::RecordEntry entry;
    auto& to = *entry.mutable_steps()->mutable_words();
    to.Add(words.data() + at, words.data() + end);
    std::string bytes;
    AppendEntry(entry, bytes);
    if (!Write(bytes)) return;
    at = end;
  }
  if (std::fflush(file_) != 0) {
    spdlog::error("--record {}: {}; nothing more is recorded", path_, std::strerror(errno));
    failed_ = true;
    End(/*full=*/false);
  }
}

// False: the file is closed.
bool RecordWriter::Write(const std::string& bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  if (bytes_.load() + size > limit_ - kLastEntryBytes) {
    spdlog::warn("--record {}: full at {} bytes (--record-limit {}); nothing more is recorded",
                 path_, bytes_.load(), limit_);
    End(/*full=*/true);
    return false;
  }
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) {
    spdlog::error("--record {}: {}; nothing more is recorded", path_, std::strerror(errno));
    failed_ = true;
    End(/*full=*/false);
    return false;
  }
  bytes_.fetch_add(size);
  return true;
}

void RecordWriter::End(bool full) {
  full_ = full;
  done_.store(true, std::memory_order_release);
  disk::RecordEntry entry;
  disk::RecordClosed& closed = *entry.mutable_closed();
  closed.set_full(full);
  closed.set_lost_steps(tape_.lost_steps());
  closed.set_lost_requests(lost_requests_.load());
  std::string bytes;
  AppendEntry(entry, bytes);
  if (!failed_)
    bytes_.fetch_add(static_cast<int64_t>(std::fwrite(bytes.data(), 1, bytes.size(), file_)));
  std::fclose(std::exchange(file_, nullptr));
}

}  // namespace cellbatch
