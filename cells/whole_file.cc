#include "cells/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

namespace cellbatch {

namespace fs = std::filesystem;

namespace {

// Writers of one path at this moment, and those that died.
constexpr int kMostBeside = 1000;

ssize_t WriteSome(int descriptor, std::string_view bytes) {
  ssize_t put = 0;
  do {
    put = write(descriptor, bytes.data(), bytes.size());
  } while (put < 0 && errno == EINTR);
  return put;
}

// Where links lead, be it to what is yet to be (std::filesystem's weakly_canonical stops at such a link).
fs::path LeadsTo(fs::path path, std::error_code& error) {
  constexpr int kMostLinks = 40;  // as Linux follows
  std::error_code ignored;        // what cannot be looked at cannot be created, which says why
  for (int i = 0; fs::is_symlink(fs::symlink_status(path, ignored)) && !error; ++i) {
    path = path.parent_path() / fs::read_symlink(path, error);
    if (i == kMostLinks) error = std::make_error_code(std::errc::too_many_symbolic_link_levels);
  }
  return path;
}

}  // namespace

WholeFile::WholeFile(const std::string& path) {
  path_ = LeadsTo(path, error_);
  if (!error_) CreateAside();
}

WholeFile::~WholeFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!aside_.empty()) unlink(aside_.c_str());
}

void WholeFile::CreateAside() {
  const fs::path whole(path_);
  const std::string begin =
      (whole.parent_path() / kPrefix).string() + whole.filename().string() + ".";
  for (int i = 0; i < kMostBeside && descriptor_ < 0; ++i) {
    const std::string name = begin + std::to_string(i);
    descriptor_ = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ >= 0) aside_ = name;
    if (descriptor_ < 0 && errno != EEXIST) break;
  }
  Note(descriptor_ >= 0);
}

void WholeFile::Note(bool done) {
  if (!done && !error_) error_ = std::make_error_code(std::errc(errno));
}

void WholeFile::LetAllRead() {
  if (!error_) Note(fchmod(descriptor_, 0644) == 0);
}

void WholeFile::Append(std::string_view bytes) {
  while (!bytes.empty() && !error_) {
    const ssize_t put = WriteSome(descriptor_, bytes);
    Note(put >= 0);
    if (put > 0) bytes.remove_prefix(static_cast<size_t>(put));
  }
}

std::error_code WholeFile::Publish() {
  if (!error_) Note(fsync(descriptor_) == 0);
  if (descriptor_ >= 0) Note(close(descriptor_) == 0);
  descriptor_ = -1;
  if (!error_) Note(std::rename(aside_.c_str(), path_.c_str()) == 0);
  if (!error_) aside_.clear();
  return error_;
}

std::error_code WriteWholeFile(const std::string& path, std::string_view text) {
  WholeFile file(path);
  file.Append(text);
  return file.Publish();
}

}  // namespace cellbatch
