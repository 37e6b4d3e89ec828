#include "server/repository/text_file.h"

#include <fmt/format.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <vector>

#include "cells/unfold/utf8.h"
#include "server/names/nearest_name.h"

namespace cellbatch {
namespace {

namespace pb = google::protobuf;

constexpr int kMaxNesting = 12;

// What stands between `before` and the next quotation mark; nothing where `text` does not have it.
std::string Quoted(const std::string& text, std::string_view before) {
  const size_t at = text.find(before);
  if (at == std::string::npos) return "";
  const size_t begin = at + before.size();
  return text.substr(begin, text.find('"', begin) - begin);
}

// The fields of the message that the parser names, and the values of enumerations in fields that it names: it knows them
// and does not say.
class Remedies {
 public:
  explicit Remedies(const pb::Descriptor& root) { Visit(root); }

  std::string Of(const std::string& error) const {
    const std::string field = Quoted(error, "has no field named \"");
    if (!field.empty()) return OfField(Quoted(error, "Message type \""), field);
    const std::string value = Quoted(error, "Unknown enumeration value of \"");
    if (!value.empty()) return OfValue(Quoted(error, "for field \""), value);
    constexpr std::string_view kBare = "Expected string, got: ";
    if (error.compare(0, kBare.size(), kBare) != 0) return "";
    return fmt::format("; it stands in quotation marks, \"{}\"", error.substr(kBare.size()));
  }

 private:
  void Visit(const pb::Descriptor& message) {
    if (std::find(messages_.begin(), messages_.end(), &message) != messages_.end()) return;
    messages_.push_back(&message);
    for (int i = 0; i < message.field_count(); ++i) {
      const pb::Descriptor* inside = message.field(i)->message_type();
      if (inside != nullptr) Visit(*inside);
    }
  }
  std::string OfField(const std::string& message, const std::string& field) const {
    std::vector<std::string> names;
    for (const pb::Descriptor* m : messages_) {
      if (m->full_name() != message) continue;
      for (int i = 0; i < m->field_count(); ++i) names.push_back(m->field(i)->name());
    }
    return MeantOrThere(field, names);
  }
  // Fields of one name in several messages: the values of all.
  std::string OfValue(const std::string& field, const std::string& value) const {
    std::vector<std::string> names;
    for (const pb::Descriptor* m : messages_) {
      const pb::FieldDescriptor* f = m->FindFieldByName(field);
      if (f == nullptr || f->enum_type() == nullptr) continue;
      for (int i = 0; i < f->enum_type()->value_count(); ++i) {
        const pb::EnumValueDescriptor& v = *f->enum_type()->value(i);
        if (v.number() != 0) names.push_back(v.name());
      }
    }
    return MeantOrThere(value, names);
  }

  std::vector<const pb::Descriptor*> messages_;
};

// A place in a text, both from 0.
struct Place {
  int line, column;
};

// The parser looks at a word's value when it has read on: what it names may stand in a line before the place that it tells.
Place PlaceOfValue(std::string_view text, const std::string& error, Place told) {
  std::string value = Quoted(error, "Unknown enumeration value of \"");
  if (value.empty()) value = Quoted(error, ". Value: \"");  // of a boolean
  size_t line = 0;                                          // where the line that was told begins
  for (int i = 0; i < told.line && line != text.npos; ++i) {
    line = text.find('\n', line);
    if (line != text.npos) ++line;
  }
  if (value.empty() || line == text.npos) return told;
  const size_t here = text.substr(line, static_cast<size_t>(told.column)).find(value);
  const size_t at = text.substr(0, line).rfind(value);
  if (here != text.npos || at == text.npos) return told;
  const std::string_view before = text.substr(0, at);
  return {static_cast<int>(std::count(before.begin(), before.end(), '\n')),
          static_cast<int>(at - (before.rfind('\n') + 1))};
}

// Keeps the first error with its line.
class FirstError : public pb::io::ErrorCollector {
 public:
  FirstError(std::string_view parsed, const pb::Descriptor& root) : parsed_(parsed), root_(root) {}
  void AddError(int line, pb::io::ColumnNumber column, const std::string& message) override {
    if (!text_.empty()) return;
    const std::string remedy = Remedies(root_).Of(message);
    const std::string what(message, 0,
                           message.size() - (remedy.empty() || message.back() != '.' ? 0 : 1));
    const Place place = PlaceOfValue(parsed_, message, {line, column});
    text_ = fmt::format("{}:{}: {}{}", place.line + 1, place.column + 1, what, remedy);
  }
  const std::string& text() const { return text_; }

 private:
  const std::string_view parsed_;
  const pb::Descriptor& root_;
  std::string text_;
};

// The first text of a message that is no UTF-8, as "LINE:COLUMN: what"; nothing where all are. Names that stand here are sent
// in texts of proto3 and on the page of metrics, and whoever reads one that is no UTF-8 refuses the whole message or page.
std::string WhatIsNoUtf8(const pb::Message& message, const pb::TextFormat::ParseInfoTree* places) {
  std::vector<const pb::FieldDescriptor*> set;
  const pb::Reflection& fields = *message.GetReflection();
  fields.ListFields(message, &set);
  for (const pb::FieldDescriptor* field : set) {
    const int count = field->is_repeated() ? fields.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const int at = field->is_repeated() ? i : -1;
      if (field->message_type() != nullptr) {
        const pb::Message& inside = field->is_repeated()
                                        ? fields.GetRepeatedMessage(message, field, i)
                                        : fields.GetMessage(message, field);
        std::string found =
            WhatIsNoUtf8(inside, places == nullptr ? nullptr : places->GetTreeForNested(field, at));
        if (!found.empty()) return found;
      } else if (field->type() == pb::FieldDescriptor::TYPE_STRING) {
        const std::string text = field->is_repeated() ? fields.GetRepeatedString(message, field, i)
                                                      : fields.GetString(message, field);
        if (IsUtf8(text)) continue;
        const pb::TextFormat::ParseLocation place =
            places == nullptr ? pb::TextFormat::ParseLocation() : places->GetLocation(field, at);
        return fmt::format("{}:{}: {} is no UTF-8", place.line + 1, place.column + 1,
                           field->name());
      }
    }
  }
  return "";
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

// RESOURCE_EXHAUSTED where files or memory are short.
absl::StatusOr<std::string> ReadTextFile(const std::string& path, int64_t max_bytes) {
  const auto cannot = [&](const std::error_code& why) {
    const std::string text = fmt::format("{}: cannot be read: {}", path, why.message());
    const bool shortage = why == std::errc::too_many_files_open ||
                          why == std::errc::too_many_files_open_in_system ||
                          why == std::errc::not_enough_memory;
    return shortage ? absl::ResourceExhaustedError(text) : absl::InvalidArgumentError(text);
  };
  const auto last_error = [] { return std::error_code(errno, std::generic_category()); };
  std::error_code error;
  const auto kind = std::filesystem::status(path, error).type();
  if (kind == std::filesystem::file_type::not_found) {
    return absl::NotFoundError(fmt::format("{}: no such file", path));
  }
  if (error) return cannot(error);
  if (kind != std::filesystem::file_type::regular) {
    return absl::InvalidArgumentError(fmt::format("{}: no file", path));
  }
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rbe"));
  if (file == nullptr) return cannot(last_error());
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
  return cannot(last_error());
}

absl::Status ParseTextFormat(std::string_view text, const std::string& file, pb::Message& message,
                             pb::TextFormat::ParseInfoTree* places) {
  FirstError error(text, *message.GetDescriptor());
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  pb::TextFormat::ParseInfoTree own;
  if (places == nullptr) places = &own;
  parser.WriteLocationsTo(places);
  parser.SetRecursionLimit(kMaxNesting);
  pb::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  const std::string wrong =
      parser.Parse(&stream, &message) ? WhatIsNoUtf8(message, places) : error.text();
  if (wrong.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{}:{}", file, wrong));
}

std::string PlaceOf(const pb::TextFormat::ParseInfoTree& places, const pb::Descriptor& descriptor,
                    const char* field, int index, const std::string& file) {
  return fmt::format("{}:{}", file,
                     places.GetLocation(descriptor.FindFieldByName(field), index).line + 1);
}

}  // namespace cellbatch
