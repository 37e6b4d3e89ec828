#include "server/text_file.h"

#include <fmt/format.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cstdio>
#include <filesystem>
#include <memory>

namespace cellbatch {
namespace {

namespace pb = google::protobuf;

constexpr int kMaxNesting = 12;

// Keeps the first error with its line.
class FirstError : public pb::io::ErrorCollector {
 public:
  void AddError(int line, pb::io::ColumnNumber column, const std::string& message) override {
    if (text_.empty()) text_ = fmt::format("{}:{}: {}", line + 1, column + 1, message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

absl::StatusOr<std::string> ReadTextFile(const std::string& path, int64_t max_bytes) {
  std::error_code error;
  const auto kind = std::filesystem::status(path, error).type();
  if (kind == std::filesystem::file_type::not_found) {
    return absl::NotFoundError(fmt::format("{}: no such file", path));
  }
  if (kind != std::filesystem::file_type::regular) {
    return absl::InvalidArgumentError(fmt::format("{}: no file", path));
  }
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rbe"));
  if (file == nullptr) return absl::InvalidArgumentError(fmt::format("{}: cannot be read", path));
  std::string text;
  char block[1 << 14];
  for (size_t got; (got = std::fread(block, 1, sizeof(block), file.get())) > 0;) {
    text.append(block, got);
    if (static_cast<int64_t>(text.size()) > max_bytes) {
      return absl::InvalidArgumentError(
          fmt::format("{}: has more than {} bytes, the limit", path, max_bytes));
    }
  }
  if (std::ferror(file.get()) == 0) return text;
  return absl::InvalidArgumentError(fmt::format("{}: cannot be read", path));
}

absl::Status ParseTextFormat(std::string_view text, const std::string& file, pb::Message& message,
                             pb::TextFormat::ParseInfoTree* places) {
  FirstError error;
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (places != nullptr) parser.WriteLocationsTo(places);
  parser.SetRecursionLimit(kMaxNesting);
  pb::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  if (parser.Parse(&stream, &message)) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{}:{}", file, error.text()));
}

std::string PlaceOf(const pb::TextFormat::ParseInfoTree& places, const pb::Descriptor& descriptor,
                    const char* field, int index, const std::string& file) {
  return fmt::format("{}:{}", file,
                     places.GetLocation(descriptor.FindFieldByName(field), index).line + 1);
}

}  // namespace cellbatch
