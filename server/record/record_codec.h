// A record's entries, to and from what the scheduler says (scheduler/record): proto/record.proto describes the file.
//
//   AppendEntry   a message as an entry, behind what is there
//   ParseRecord   all entries of a file, or of what is left of it
//
// Plain functions; any thread. What is parsed may be anybody's bytes: everything is checked, and nothing is allocated that
// the bytes do not pay for.
#ifndef CELLBATCH_SERVER_RECORD_RECORD_CODEC_H_
#define CELLBATCH_SERVER_RECORD_RECORD_CODEC_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/record.pb.h"
#include "scheduler/record/recorded_run.h"

namespace cellbatch {

inline constexpr uint32_t kRecordVersion = 1;
inline constexpr char kRecordMagic[] = "cellbatch-record";  // a header begins with it

disk::RecordEntry EntryOf(const RecordedSetup& setup);
disk::RecordEntry EntryOf(const RecordedLane& lane);
disk::RecordEntry EntryOf(const RecordedRequest& request);
// `model`: the lane's.
disk::RecordEntry TakeoverEntry(uint32_t serial, uint32_t number, const RecordedPolicy& policy,
                                const Model& model);
disk::RecordEntry NextPieceEntry(uint64_t request, const PieceShape& piece);
disk::RecordEntry NewsEntry(uint64_t request, bool expired, int64_t at_ns);
disk::RecordEntry EndEntry(uint64_t request, const RecordedEnd& end);

void AppendEntry(const disk::RecordEntry& entry, std::string& bytes);
// The same of an entry's bytes.
void AppendMessage(std::string_view message, std::string& bytes);

// `name`: what errors begin with. INVALID_ARGUMENT: it is no record, of another version, or damaged; the byte says where.
// Where the bytes end within an entry, as they do when a process dies, those before it count (RecordEnd::kTruncated).
absl::StatusOr<RecordedRun> ParseRecord(std::string_view bytes, const std::string& name);
// Of a file. NOT_FOUND; RESOURCE_EXHAUSTED: larger than `most_bytes`.
absl::StatusOr<RecordedRun> ReadRecord(const std::string& path, int64_t most_bytes);
// Whether a file begins as a record does: what else people learn from is text.
bool LooksLikeRecord(const std::string& path);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_RECORD_RECORD_CODEC_H_
