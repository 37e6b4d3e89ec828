// Protobuf text files, as people write them: bounded, and errors with their line. Any thread.
#ifndef CELLBATCH_SERVER_REPOSITORY_TEXT_FILE_H_
#define CELLBATCH_SERVER_REPOSITORY_TEXT_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"

namespace cellbatch {

// The whole file. NOT_FOUND; INVALID_ARGUMENT beyond `max_bytes` or no file; texts start with the path.
absl::StatusOr<std::string> ReadTextFile(const std::string& path, int64_t max_bytes);

// Parses `text` into `message`; `places` (may be null) says where its fields are. INVALID_ARGUMENT
// "FILE:LINE:COLUMN: what".
absl::Status ParseTextFormat(std::string_view text, const std::string& file,
                             google::protobuf::Message& message,
                             google::protobuf::TextFormat::ParseInfoTree* places);

// "FILE:LINE" of element `index` of a repeated field at the top of a parsed text.
std::string PlaceOf(const google::protobuf::TextFormat::ParseInfoTree& places,
                    const google::protobuf::Descriptor& descriptor, const char* field, int index,
                    const std::string& file);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REPOSITORY_TEXT_FILE_H_
