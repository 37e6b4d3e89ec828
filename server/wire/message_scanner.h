// The one look at the bytes of a message before anything is allocated for them, whatever kind of
// message it is: is it protobuf at all, and does it keep to the bounds? Two bytes of an empty
// message or of a field that nobody knows would otherwise grow thirty-fold and more when they are
// parsed.
//
//   bytes --Scan--> INVALID_ARGUMENT, or counts --Known, if anything is unknown--> bytes --protobuf--> message
//
// What is not known is left out: it reaches no UnknownFieldSet. A scanner is made of the message's
// descriptor, once; then any thread, one pass, no allocation but for errors, and for a copy of what
// is known where something is not.
#ifndef CELLBATCH_SERVER_WIRE_MESSAGE_SCANNER_H_
#define CELLBATCH_SERVER_WIRE_MESSAGE_SCANNER_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "server/wire/refusal_counts.h"
#include "server/wire/wire_limits.h"

namespace cellbatch {

// How often a field may stand in the message that has it; of a list of numbers how many.
struct FieldCap {
  const char* field;  // its full name
  int64_t most;
  const char* what;  // for people; {}: which of its kind the message is that has it
};

// What a look at a message found.
struct ScannedMessage {
  int64_t unknown = 0;  // fields
  // The most that parsing takes beside the message: for its lists of numbers, which may stand in a
  // byte each and become eight, and grow by doubling; and for what is left of it without unknown
  // fields.
  int64_t parsing_bytes = 0;
};

class MessageScanner {
 public:
  // `counts`, if any, outlives it: what it refuses is counted there.
  MessageScanner(const google::protobuf::Descriptor& type, const WireLimits& limits,
                 std::initializer_list<FieldCap> caps = {}, RefusalCounts* counts = nullptr);

  // Into `message`, of the scanner's type and empty. INVALID_ARGUMENT "malformed ModelInferRequest"
  // (its name), or the bound that is broken, with both values and its flag.
  absl::Status Parse(std::string_view bytes, google::protobuf::Message& message) const;

  // The steps of it.
  absl::Status Scan(std::string_view bytes, ScannedMessage& scanned) const;
  absl::Status ParseScanned(std::string_view bytes, const ScannedMessage& scanned,
                            google::protobuf::Message& message) const;
  // What Scan accepted, without them.
  std::string Known(std::string_view bytes) const;

 private:
  static constexpr size_t kMaxCaps = 8;  // of fields of one kind of message
  struct Field {
    enum class Holds : uint8_t { kNothing, kMessage, kText, kVarint, kFixed32, kFixed64 };
    Holds holds = Holds::kNothing;
    bool list = false;
    int8_t width = 0;  // of one number of a list that no cap bounds, as protobuf keeps it
    size_t kind = 0;   // of kMessage: its place in kinds_
    int cap = -1;      // its place in the kind's
  };
  struct Kind {
    std::vector<Field> fields;  // by number
    std::vector<FieldCap> caps;
  };
  class Scanning;

  size_t Learn(const google::protobuf::Descriptor& type, std::initializer_list<FieldCap> caps,
               std::map<const google::protobuf::Descriptor*, size_t>& known);
  const Field& FieldOf(const Kind& kind, uint32_t number, uint32_t wire_kind) const;
  void AppendKnown(const Kind& kind, std::string_view bytes, std::string& out) const;
  absl::Status Malformed() const;

  const std::string name_;
  const WireLimits limits_;
  RefusalCounts* const counts_;
  std::vector<Kind> kinds_;  // the first is the message itself
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_WIRE_MESSAGE_SCANNER_H_
