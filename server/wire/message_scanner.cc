#include "server/wire/message_scanner.h"

#include <algorithm>
#include <utility>

#include "cells/check.h"
#include "fmt/format.h"
#include "server/wire/wire_fields.h"

namespace cellbatch {

namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr int kMaxDepth = 64;             // of messages in messages
constexpr int kLargestFieldNumber = 256;  // of a table by number
// A list that grows by doubling has at most twice the room that it needs, and leaves in the arena
// all the rooms that it had before: as much again.
constexpr int64_t kGrowth = 4;

int8_t WidthOf(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT64:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return 8;
    case FieldDescriptor::CPPTYPE_BOOL:
      return 1;
    default:
      return 4;
  }
}

}  // namespace

// One message being looked at.
class MessageScanner::Scanning {
 public:
  explicit Scanning(const MessageScanner& scanner) : scanner_(scanner), limits_(scanner.limits_) {}

  // False: Refuse says why. `ordinal`: which of its kind the message is in the one around it.
  bool Message(const Kind& kind, std::string_view bytes, int64_t ordinal, int depth) {
    std::array<int64_t, kMaxCaps> seen = {};
    wire::Fields fields(bytes);
    for (wire::Field field; fields.Next(field);) {
      const Field& known = scanner_.FieldOf(kind, field.number, field.kind);
      if (known.holds == Field::Holds::kNothing) {
        if (!Unknown(field)) return false;
        continue;
      }
      const int64_t values = ValuesOf(field, known);
      if (values < 0 || !Count(known, values)) return false;
      list_bytes_ += values * known.width;
      int64_t which = 0;
      if (known.cap >= 0) {
        const FieldCap& cap = kind.caps[static_cast<size_t>(known.cap)];
        int64_t& count = seen[static_cast<size_t>(known.cap)];
        which = count;
        count += values;
        if (count > cap.most) {
          return TooMany(Refused::kField, fmt::format(fmt::runtime(cap.what), ordinal), count,
                         cap.most);
        }
      }
      if (known.holds == Field::Holds::kMessage &&
          (depth == kMaxDepth ||
           !Message(scanner_.kinds_[known.kind], field.body, which, depth + 1))) {
        return false;
      }
    }
    return !fields.malformed();
  }

  ScannedMessage Scanned(std::string_view bytes) const {
    const int64_t rest = unknown_ > 0 ? static_cast<int64_t>(bytes.size()) : 0;
    return {.unknown = unknown_, .parsing_bytes = kGrowth * list_bytes_ + rest};
  }
  // After a false Message.
  absl::Status Refuse() const {
    if (scanner_.counts_ != nullptr) scanner_.counts_->Add(why_);
    return broken_.empty() ? scanner_.Malformed() : absl::InvalidArgumentError(broken_);
  }

 private:
  // -1: it is no list of such numbers.
  static int64_t ValuesOf(const wire::Field& field, const Field& known) {
    const auto fixed = [&field](size_t size) {
      return field.body.size() % size == 0 ? static_cast<int64_t>(field.body.size() / size) : -1;
    };
    if (field.kind != wire::kLength) return 1;
    switch (known.holds) {
      case Field::Holds::kVarint:
        return wire::VarintsIn(field.body);
      case Field::Holds::kFixed32:
        return fixed(4);
      case Field::Holds::kFixed64:
        return fixed(8);
      default:
        return 1;
    }
  }

  bool Count(const Field& known, int64_t values) {
    switch (known.holds) {
      case Field::Holds::kMessage:
        return Within(messages_, 1, limits_.max_messages, Refused::kMessages,
                      "messages (--grpc-max-submessages)");
      case Field::Holds::kText:
        return Within(texts_, 1, limits_.max_bytes_elements, Refused::kTexts,
                      "texts (--grpc-max-texts)");
      default:
        return Within(numbers_, values, limits_.max_elements, Refused::kNumbers,
                      "numbers (--grpc-max-numbers)");
    }
  }

  bool Unknown(const wire::Field& field) {
    return Within(unknown_, field.fields, limits_.max_unknown_fields, Refused::kUnknownFields,
                  "unknown fields (--grpc-max-unknown-fields)") &&
           Within(unknown_bytes_, static_cast<int64_t>(field.whole.size()),
                  limits_.max_unknown_bytes, Refused::kUnknownBytes,
                  "bytes of unknown fields (--grpc-max-unknown-bytes)");
  }

  // `what`: the things, and the flag behind them.
  bool Within(int64_t& count, int64_t more, int64_t most, Refused why, std::string_view what) {
    count += more;
    if (count <= most) return true;
    const size_t flag = what.find(" (");
    TooMany(why, what.substr(0, flag), count, most);
    broken_ += what.substr(flag);
    return false;
  }

  bool TooMany(Refused why, std::string_view what, int64_t count, int64_t most) {
    why_ = why;
    broken_ = fmt::format("the request has {} {} or more, the most is {}", count, what, most);
    return false;
  }

  const MessageScanner& scanner_;
  const WireLimits& limits_;
  int64_t messages_ = 0, texts_ = 0, numbers_ = 0, unknown_ = 0, unknown_bytes_ = 0;
  int64_t list_bytes_ = 0;
  Refused why_ = Refused::kMalformed;
  std::string broken_;
};

MessageScanner::MessageScanner(const Descriptor& type, const WireLimits& limits,
                               std::initializer_list<FieldCap> caps, RefusalCounts* counts)
    : name_(type.name()), limits_(limits), counts_(counts) {
  std::map<const Descriptor*, size_t> known;
  Learn(type, caps, known);
  size_t placed = 0;
  for (const Kind& kind : kinds_) placed += kind.caps.size();
  Check(placed == caps.size(), "a cap names a field that the message has not");
}

size_t MessageScanner::Learn(const Descriptor& type, std::initializer_list<FieldCap> caps,
                             std::map<const Descriptor*, size_t>& known) {
  const auto [place, first] = known.emplace(&type, kinds_.size());
  if (!first) return place->second;
  const size_t self = place->second;
  kinds_.emplace_back();
  Kind kind;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    Check(field.number() <= kLargestFieldNumber, "a field's number is too large for a table");
    const auto number = static_cast<size_t>(field.number());
    kind.fields.resize(std::max(kind.fields.size(), number + 1));
    Field& out = kind.fields[number];
    out.list = field.is_packable();
    switch (field.type()) {
      case FieldDescriptor::TYPE_MESSAGE:
        out.holds = Field::Holds::kMessage;
        out.kind = Learn(*field.message_type(), caps, known);
        break;
      case FieldDescriptor::TYPE_STRING:
      case FieldDescriptor::TYPE_BYTES:
        out.holds = Field::Holds::kText;
        break;
      case FieldDescriptor::TYPE_FLOAT:
      case FieldDescriptor::TYPE_FIXED32:
      case FieldDescriptor::TYPE_SFIXED32:
        out.holds = Field::Holds::kFixed32;
        break;
      case FieldDescriptor::TYPE_DOUBLE:
      case FieldDescriptor::TYPE_FIXED64:
      case FieldDescriptor::TYPE_SFIXED64:
        out.holds = Field::Holds::kFixed64;
        break;
      case FieldDescriptor::TYPE_GROUP:
        Check(false, "groups are not served");
        break;
      default:
        out.holds = Field::Holds::kVarint;
    }
    for (const FieldCap& cap : caps) {
      if (field.full_name() != cap.field) continue;
      out.cap = static_cast<int>(kind.caps.size());
      kind.caps.push_back(cap);
    }
    if (out.list && out.cap < 0) out.width = WidthOf(field);
  }
  Check(kind.caps.size() <= kMaxCaps, "too many caps of one kind of message");
  kinds_[self] = std::move(kind);
  return self;
}

// What protobuf would take for the field of that number: a field of another kind on the wire is
// unknown to it.
const MessageScanner::Field& MessageScanner::FieldOf(const Kind& kind, uint32_t number,
                                                     uint32_t wire_kind) const {
  static constexpr Field kUnknown;
  if (number >= kind.fields.size()) return kUnknown;
  const Field& field = kind.fields[number];
  bool fits = false;
  switch (field.holds) {
    case Field::Holds::kNothing:
      break;
    case Field::Holds::kMessage:
    case Field::Holds::kText:
      fits = wire_kind == wire::kLength;
      break;
    case Field::Holds::kVarint:
      fits = wire_kind == wire::kVarint;
      break;
    case Field::Holds::kFixed32:
      fits = wire_kind == wire::kFixed32;
      break;
    case Field::Holds::kFixed64:
      fits = wire_kind == wire::kFixed64;
      break;
  }
  return fits || (field.list && wire_kind == wire::kLength) ? field : kUnknown;
}

absl::Status MessageScanner::Malformed() const {
  return absl::InvalidArgumentError("malformed " + name_);
}

absl::Status MessageScanner::Scan(std::string_view bytes, ScannedMessage& scanned) const {
  Scanning scanning(*this);
  const bool fine = scanning.Message(kinds_.front(), bytes, 0, 0);
  scanned = scanning.Scanned(bytes);
  return fine ? absl::OkStatus() : scanning.Refuse();
}

std::string MessageScanner::Known(std::string_view bytes) const {
  std::string out;
  out.reserve(bytes.size());
  AppendKnown(kinds_.front(), bytes, out);
  return out;
}

void MessageScanner::AppendKnown(const Kind& kind, std::string_view bytes, std::string& out) const {
  wire::Fields fields(bytes);
  for (wire::Field field; fields.Next(field);) {
    const Field& known = FieldOf(kind, field.number, field.kind);
    if (known.holds == Field::Holds::kNothing) continue;
    if (known.holds != Field::Holds::kMessage) {
      out.append(field.whole);
      continue;
    }
    std::string inside;
    AppendKnown(kinds_[known.kind], field.body, inside);
    wire::AppendVarint(field.number << 3 | wire::kLength, out);
    wire::AppendVarint(inside.size(), out);
    out.append(inside);
  }
}

absl::Status MessageScanner::Parse(std::string_view bytes,
                                   google::protobuf::Message& message) const {
  ScannedMessage scanned;
  absl::Status status = Scan(bytes, scanned);
  return status.ok() ? ParseScanned(bytes, scanned, message) : status;
}

absl::Status MessageScanner::ParseScanned(std::string_view bytes, const ScannedMessage& scanned,
                                          google::protobuf::Message& message) const {
  const std::string known = scanned.unknown > 0 ? Known(bytes) : std::string();
  const std::string_view rest = scanned.unknown > 0 ? known : bytes;
  if (message.ParseFromArray(rest.data(), static_cast<int>(rest.size()))) return absl::OkStatus();
  if (counts_ != nullptr) counts_->Add(Refused::kMalformed);
  return Malformed();
}

}  // namespace cellbatch
