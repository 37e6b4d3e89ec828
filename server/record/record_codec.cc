#include "server/record/record_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "server/policy/join_codec.h"
#include "server/policy/policy_codec.h"
#include "server/record/piece_codec.h"
#include "server/record/recorded_model.h"

namespace cellbatch {
namespace {

constexpr int kMostVarint = 5, kCheckBytes = 4;

size_t Index(int64_t i) { return static_cast<size_t>(i); }

uint32_t CheckOf(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

// One file's entries, one after the other.
class Parser {
 public:
  explicit Parser(const std::string& name) : name_(name) {}

  absl::Status Add(const disk::RecordEntry& entry);
  RecordedRun Take() { return std::move(run_); }
  bool begun() const { return begun_; }

 private:
  absl::Status Wrong(std::string_view what) const {
    return absl::InvalidArgumentError(fmt::format("{}: {}", name_, what));
  }
  absl::Status AddHeader(const disk::RecordHeader& header);
  absl::Status AddLane(const disk::RecordedLane& lane);
  absl::Status AddTakeover(const disk::RecordedTakeover& takeover);
  absl::Status ReadPolicy(const std::string& text, uint64_t seed, const Model& model,
                          RecordedPolicy& policy) const;
  absl::Status AddRequest(const disk::RecordedRequest& request);
  absl::Status AddPiece(const disk::RecordedNextPiece& piece);
  void AddEnd(const disk::RecordedEnd& end);
  RecordedRequest* Find(uint64_t id) {
    const auto at = run_.request_at.find(id);
    return at == run_.request_at.end() ? nullptr : &run_.requests[at->second];
  }

  const std::string& name_;
  RecordedRun run_;
  bool begun_ = false;
};

absl::Status Parser::Add(const disk::RecordEntry& entry) {
  if (!begun_ && !entry.has_header()) return Wrong("its first entry is no header");
  switch (entry.entry_case()) {
    case disk::RecordEntry::kHeader:
      return AddHeader(entry.header());
    case disk::RecordEntry::kLane:
      return AddLane(entry.lane());
    case disk::RecordEntry::kTakeover:
      return AddTakeover(entry.takeover());
    case disk::RecordEntry::kRequest:
      return AddRequest(entry.request());
    case disk::RecordEntry::kNextPiece:
      return AddPiece(entry.next_piece());
    case disk::RecordEntry::kNews:
      if (RecordedRequest* const r = Find(entry.news().id())) {
        (entry.news().expired() ? r->expired_ns : r->cancelled_ns) = entry.news().at_ns();
      }
      return absl::OkStatus();
    case disk::RecordEntry::kEnd:
      AddEnd(entry.end());
      return absl::OkStatus();
    case disk::RecordEntry::kSteps:
      run_.tape.insert(run_.tape.end(), entry.steps().words().begin(), entry.steps().words().end());
      return absl::OkStatus();
    case disk::RecordEntry::kClosed:
      run_.end = entry.closed().full() ? RecordEnd::kFull : RecordEnd::kClosed;
      run_.lost_steps = entry.closed().lost_steps();
      run_.lost_requests = entry.closed().lost_requests();
      return absl::OkStatus();
    case disk::RecordEntry::ENTRY_NOT_SET:
      break;
  }
  return absl::OkStatus();  // of a newer server
}

absl::Status Parser::AddHeader(const disk::RecordHeader& header) {
  if (begun_) return Wrong("it has two headers");
  if (header.magic() != kRecordMagic) return Wrong("its header is no record's");
  if (header.version() != kRecordVersion) {
    return Wrong(fmt::format("it is of version {}, {} is read", header.version(), kRecordVersion));
  }
  begun_ = true;
  RecordedSetup& setup = run_.setup;
  setup.max_tasks_in_flight = header.max_tasks_in_flight();
  setup.few_tasks_in_flight = header.few_tasks_in_flight();
  setup.max_requests = header.max_requests();
  setup.max_wait_tasks = header.max_wait_tasks();
  setup.chain_turn = header.chain_turn();
  if (header.priority_ageing() != 0) setup.priority_ageing = header.priority_ageing();
  setup.batch_limit = header.batch_limit();
  setup.calibrate = header.calibrate();
  setup.stealing = header.stealing();
  setup.memory_of.assign(header.memory_of().begin(), header.memory_of().end());
  return absl::OkStatus();
}

absl::Status Parser::AddLane(const disk::RecordedLane& lane) {
  RecordedLane made;
  made.index = lane.index();
  made.serial = lane.serial();
  auto model = ModelOf(lane, ModelId(static_cast<int64_t>(run_.lanes.size())));
  if (!model.ok()) return Wrong(std::string(model.status().message()));
  made.model = *std::move(model);
  if (lane.lives_in() != 0) made.lives_in = lane.lives_in();
  made.rows.assign(lane.rows().begin(), lane.rows().end());
  absl::Status policy = ReadPolicy(lane.policy(), lane.policy_seed(), *made.model, made.policy);
  if (!policy.ok()) return policy;
  made.join_made = !lane.join_by_code();
  absl::StatusOr<JoinSpec> join = ParseJoin(lane.join(), name_);
  if (!join.ok()) return join.status();
  made.join = *join;
  if (!run_.lanes.emplace(made.serial, std::move(made)).second) {
    return Wrong(fmt::format("lane {} is there twice", lane.serial()));
  }
  return absl::OkStatus();
}

absl::Status Parser::ReadPolicy(const std::string& text, uint64_t seed, const Model& model,
                                RecordedPolicy& policy) const {
  policy.made = !text.empty();
  if (!policy.made) return absl::OkStatus();
  auto spec = ParsePolicy(text, fmt::format("{}: policy of {}", name_, model.name), model);
  if (!spec.ok()) return spec.status();
  policy.spec = *std::move(spec);
  policy.spec.seed = seed;
  return absl::OkStatus();
}

absl::Status Parser::AddTakeover(const disk::RecordedTakeover& takeover) {
  const auto lane = run_.lanes.find(takeover.serial());
  if (lane == run_.lanes.end()) {
    return Wrong(fmt::format("lane {} takes over a policy, and is not there", takeover.serial()));
  }
  return ReadPolicy(takeover.policy(), takeover.policy_seed(), *lane->second.model,
                    lane->second.taken[takeover.number()]);
}

absl::Status Parser::AddRequest(const disk::RecordedRequest& request) {
  std::optional<PieceShape> piece = ShapeOf(request.piece());
  if (!piece) return Wrong(fmt::format("request {} is of no shape", request.id()));
  RecordedRequest made;
  made.id = request.id();
  made.lane = request.lane();
  made.serial = request.serial();
  made.received_ns = request.received_ns();
  made.submitted_ns = request.submitted_ns();
  made.deadline_ns = request.deadline_ns();
  made.stream = request.stream();
  made.priority = request.priority();
  made.shape.pieces.push_back(*std::move(piece));
  made.shape.most_pieces = request.most_pieces();
  made.shape.most_nodes = request.most_nodes();
  made.shape.most_rows.assign(request.most_rows().begin(), request.most_rows().end());
  if (!run_.request_at.emplace(made.id, run_.requests.size()).second) {
    return Wrong(fmt::format("request {} is there twice", made.id));
  }
  run_.requests.push_back(std::move(made));
  return absl::OkStatus();
}

absl::Status Parser::AddPiece(const disk::RecordedNextPiece& piece) {
  std::optional<PieceShape> shape = ShapeOf(piece.piece());
  if (!shape) return Wrong(fmt::format("a piece of request {} is of no shape", piece.id()));
  RecordedRequest* const request = Find(piece.id());
  if (request != nullptr) request->shape.pieces.push_back(*std::move(shape));
  return absl::OkStatus();
}

void Parser::AddEnd(const disk::RecordedEnd& end) {
  RecordedRequest* const request = Find(end.id());
  if (request == nullptr) return;
  request->ended = true;
  request->end.code = static_cast<absl::StatusCode>(end.status());
  request->end.first_task_start_ns = end.first_task_start_ns();
  request->end.last_task_end_ns = end.last_task_end_ns();
  request->end.nodes_executed = end.nodes_executed();
  request->end.stopped_at.assign(end.stopped_at().begin(), end.stopped_at().end());
}

// The next length, and past it; none: the bytes end, or (false in `sane`) it is none.
std::optional<size_t> ReadLength(std::string_view& bytes, bool& sane) {
  uint64_t length = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    length |= uint64_t{byte & 0x7fu} << 7 * i;
    if (byte < 0x80) {
      sane = length <= INT32_MAX;
      bytes.remove_prefix(i + 1);
      return sane ? std::optional(static_cast<size_t>(length)) : std::nullopt;
    }
    if (i + 1 == kMostVarint) {
      sane = false;
      return std::nullopt;
    }
  }
  return std::nullopt;
}

uint32_t ReadCheck(std::string_view bytes) {
  uint32_t check = 0;
  for (int i = kCheckBytes; i-- > 0;) {
    check = check << 8 | static_cast<unsigned char>(bytes[Index(i)]);
  }
  return check;
}

}  // namespace

void AppendEntry(const disk::RecordEntry& entry, std::string& bytes) {
  AppendMessage(entry.SerializeAsString(), bytes);
}

void AppendMessage(std::string_view message, std::string& bytes) {
  for (size_t left = message.size();;) {
    bytes.push_back(static_cast<char>(left < 0x80 ? left : (left & 0x7f) | 0x80));
    left >>= 7;
    if (left == 0) break;
  }
  bytes.append(message);
  const uint32_t check = CheckOf(message);
  for (int i = 0; i < kCheckBytes; ++i) bytes.push_back(static_cast<char>(check >> 8 * i));
}

absl::StatusOr<RecordedRun> ParseRecord(std::string_view bytes, const std::string& name) {
  Parser parser(name);
  const size_t size = bytes.size();
  disk::RecordEntry entry;
  while (!bytes.empty()) {
    const size_t at = size - bytes.size();
    const auto damaged = [&](std::string_view how) {
      return absl::InvalidArgumentError(
          fmt::format("{}: the entry at byte {} of {} {}", name, at, size, how));
    };
    bool sane = true;
    const std::optional<size_t> length = ReadLength(bytes, sane);
    if (!sane) return damaged("has no length");
    if (!length || bytes.size() < *length + kCheckBytes) break;  // the writer ended here
    const std::string_view message = bytes.substr(0, *length);
    if (ReadCheck(bytes.substr(*length)) != CheckOf(message)) return damaged("is damaged");
    if (!entry.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
      return damaged("is no message");
    }
    if (absl::Status s = parser.Add(entry); !s.ok()) return s;
    bytes.remove_prefix(*length + kCheckBytes);
  }
  if (!parser.begun()) {
    return absl::InvalidArgumentError(fmt::format("{}: it is no record: no header", name));
  }
  return parser.Take();
}

absl::StatusOr<RecordedRun> ReadRecord(const std::string& path, int64_t most_bytes) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return absl::NotFoundError(fmt::format("{}: it cannot be read", path));
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) {
    return absl::InvalidArgumentError(fmt::format("{}: it is no file", path));
  }
  const auto size = static_cast<int64_t>(file.tellg());
  if (size > most_bytes) {
    return absl::ResourceExhaustedError(
        fmt::format("{}: it has {} bytes, {} are read", path, size, most_bytes));
  }
  std::string bytes(Index(std::max<int64_t>(size, 0)), '\0');
  file.seekg(0);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (file.gcount() != static_cast<std::streamsize>(bytes.size())) {
    return absl::InvalidArgumentError(fmt::format("{}: it cannot be read", path));
  }
  return ParseRecord(bytes, path);
}

// The header's first field, behind a few lengths.
bool LooksLikeRecord(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 32> first = {};
  file.read(first.data(), first.size());
  return std::string_view(first.data(), static_cast<size_t>(file.gcount())).find(kRecordMagic) !=
         std::string_view::npos;
}

}  // namespace cellbatch
