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
#include "server/record/recorded_model.h"

namespace cellbatch {
namespace {

constexpr int kMostVarint = 5, kCheckBytes = 4;
constexpr char kMagic[] = "cellbatch-record";

size_t Index(int64_t i) { return static_cast<size_t>(i); }

uint32_t CheckOf(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

void Describe(const PieceShape& shape, disk::RecordedPiece& piece) {
  bool stops = false;
  for (const SubgraphShape& s : shape.subgraphs) {
    piece.add_type(s.type);
    piece.add_table(s.table);
    piece.add_length(s.length);
    piece.add_links(s.num_links);
    piece.add_returns(s.num_returns);
    piece.add_keeps_rows(s.keeps_rows);
    stops |= s.stop_column >= 0;
  }
  const auto any = [&](auto says) {
    return std::any_of(shape.subgraphs.begin(), shape.subgraphs.end(), says);
  };
  const bool phases = any([](const SubgraphShape& s) { return s.phase != 0; });
  const bool places = any([](const SubgraphShape& s) { return s.place >= 0; });
  for (const SubgraphShape& s : shape.subgraphs) {
    if (phases) piece.add_phase(s.phase);
    if (places) piece.add_place(s.place);
  }
  for (const SubgraphShape& s : shape.subgraphs) {
    if (!stops) break;
    piece.add_stop_column(s.stop_column);
    piece.add_stop_value(s.stop_value);
  }
  for (const LinkShape& l : shape.links) {
    piece.add_link_from(l.from);
    piece.add_link_input(l.input);
    piece.add_link_first(l.first);
    piece.add_link_stride(l.stride);
  }
  for (const ReturnShape& r : shape.returns) {
    piece.add_return_column(r.column);
    piece.add_return_first(r.first);
    piece.add_return_count(r.count);
  }
  piece.set_grows(shape.grows);
}

// None: its lists are not as long as each other.
std::optional<PieceShape> ShapeOf(const disk::RecordedPiece& piece) {
  const int n = piece.type_size(), links = piece.link_from_size(),
            ranges = piece.return_first_size();
  const int stops = piece.stop_column_size(), phases = piece.phase_size(),
            places = piece.place_size();
  const bool even = piece.table_size() == n && piece.length_size() == n &&
                    piece.links_size() == n && piece.returns_size() == n &&
                    piece.keeps_rows_size() == n && (stops == 0 || stops == n) &&
                    (phases == 0 || phases == n) && (places == 0 || places == n) &&
                    piece.stop_value_size() == stops && piece.link_input_size() == links &&
                    piece.link_first_size() == links && piece.link_stride_size() == links &&
                    piece.return_column_size() == ranges && piece.return_count_size() == ranges;
  if (!even) return std::nullopt;
  PieceShape shape;
  shape.grows = piece.grows();
  for (int i = 0; i < n; ++i) {
    shape.subgraphs.push_back({.type = piece.type(i),
                               .table = piece.table(i),
                               .length = piece.length(i),
                               .num_links = piece.links(i),
                               .num_returns = piece.returns(i),
                               .keeps_rows = piece.keeps_rows(i),
                               .stop_column = stops == 0 ? -1 : piece.stop_column(i),
                               .stop_value = stops == 0 ? 0 : piece.stop_value(i),
                               .phase = phases == 0 ? 0 : piece.phase(i),
                               .place = places == 0 ? -1 : piece.place(i)});
  }
  for (int i = 0; i < links; ++i) {
    shape.links.push_back(
        {piece.link_from(i), piece.link_input(i), piece.link_first(i), piece.link_stride(i)});
  }
  for (int i = 0; i < ranges; ++i) {
    shape.returns.push_back({piece.return_column(i), piece.return_first(i), piece.return_count(i)});
  }
  return shape;
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
  if (header.magic() != kMagic) return Wrong("its header is no record's");
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

disk::RecordEntry EntryOf(const RecordedSetup& setup) {
  disk::RecordEntry entry;
  disk::RecordHeader& header = *entry.mutable_header();
  header.set_magic(kMagic);
  header.set_version(kRecordVersion);
  header.set_max_tasks_in_flight(setup.max_tasks_in_flight);
  header.set_few_tasks_in_flight(setup.few_tasks_in_flight);
  header.set_max_requests(setup.max_requests);
  header.set_max_wait_tasks(setup.max_wait_tasks);
  header.set_chain_turn(setup.chain_turn);
  header.set_priority_ageing(setup.priority_ageing);
  header.set_batch_limit(setup.batch_limit);
  header.set_calibrate(setup.calibrate);
  header.set_stealing(setup.stealing);
  for (const int memory : setup.memory_of) header.add_memory_of(memory);
  return entry;
}

disk::RecordEntry EntryOf(const RecordedLane& lane) {
  disk::RecordEntry entry;
  disk::RecordedLane& to = *entry.mutable_lane();
  to.set_index(lane.index);
  to.set_serial(lane.serial);
  DescribeModel(*lane.model, to);
  to.set_lives_in(lane.lives_in);
  for (const int32_t rows : lane.rows) to.add_rows(rows);
  if (lane.policy.made) to.set_policy(PolicyText(ToPolicyFile(lane.policy.spec, *lane.model)));
  to.set_policy_seed(lane.policy.spec.seed);
  to.set_join_by_code(!lane.join_made);
  *to.mutable_join() = ToJoinChoice(lane.join);
  return entry;
}

disk::RecordEntry TakeoverEntry(uint32_t serial, uint32_t number, const RecordedPolicy& policy,
                                const Model& model) {
  disk::RecordEntry entry;
  disk::RecordedTakeover& to = *entry.mutable_takeover();
  to.set_serial(serial);
  to.set_number(number);
  if (policy.made) to.set_policy(PolicyText(ToPolicyFile(policy.spec, model)));
  to.set_policy_seed(policy.spec.seed);
  return entry;
}

disk::RecordEntry EntryOf(const RecordedRequest& request) {
  disk::RecordEntry entry;
  disk::RecordedRequest& to = *entry.mutable_request();
  to.set_id(request.id);
  to.set_lane(request.lane);
  to.set_serial(request.serial);
  to.set_received_ns(request.received_ns);
  to.set_submitted_ns(request.submitted_ns);
  to.set_deadline_ns(request.deadline_ns);
  to.set_stream(request.stream);
  to.set_priority(request.priority);
  Describe(request.shape.pieces.front(), *to.mutable_piece());
  to.set_most_pieces(request.shape.most_pieces);
  to.set_most_nodes(request.shape.most_nodes);
  for (const int32_t rows : request.shape.most_rows) to.add_most_rows(rows);
  return entry;
}

disk::RecordEntry NextPieceEntry(uint64_t request, const PieceShape& piece) {
  disk::RecordEntry entry;
  entry.mutable_next_piece()->set_id(request);
  Describe(piece, *entry.mutable_next_piece()->mutable_piece());
  return entry;
}

disk::RecordEntry NewsEntry(uint64_t request, bool expired, int64_t at_ns) {
  disk::RecordEntry entry;
  entry.mutable_news()->set_id(request);
  entry.mutable_news()->set_expired(expired);
  entry.mutable_news()->set_at_ns(at_ns);
  return entry;
}

disk::RecordEntry EndEntry(uint64_t request, const RecordedEnd& end) {
  disk::RecordEntry entry;
  disk::RecordedEnd& to = *entry.mutable_end();
  to.set_id(request);
  to.set_status(static_cast<int>(end.code));
  to.set_first_task_start_ns(end.first_task_start_ns);
  to.set_last_task_end_ns(end.last_task_end_ns);
  to.set_nodes_executed(end.nodes_executed);
  for (const int32_t node : end.stopped_at) to.add_stopped_at(node);
  return entry;
}

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
  return std::string_view(first.data(), static_cast<size_t>(file.gcount())).find(kMagic) !=
         std::string_view::npos;
}

}  // namespace cellbatch
