#include "server/assemble/unfolder_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "server/repository/model_files.h"

namespace cellbatch {
namespace {

constexpr char kEntry[] = "cellbatch_unfolder";
// Since Linux 6.3, so that a system that forbids executable memory files by default lets this one be.
constexpr unsigned kMfdExec = 0x10;

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// Keeps the memory file as long as the library: its number is part of the name by which the loader
// knows it.
struct OpenLibrary {
  OpenLibrary(FileDescriptor from, void* opened) : file(std::move(from)), handle(opened) {}
  ~OpenLibrary() { dlclose(handle); }
  OpenLibrary(const OpenLibrary&) = delete;
  OpenLibrary& operator=(const OpenLibrary&) = delete;
  FileDescriptor file;
  void* handle;
};

std::string ErrorText() { return std::strerror(errno); }

// The real path of `file`, inside the real folder.
absl::StatusOr<std::string> Locate(const std::string& folder, const std::string& file) {
  const auto wrong = [](std::string text) { return absl::InvalidArgumentError(std::move(text)); };
  if (file.empty() || file[0] == '.' || file.find_first_of(std::string("/\\\0", 3)) != file.npos) {
    return wrong("expected is the name of a file in the model's folder");
  }
  const absl::StatusOr<std::string> real = RealPathInside(folder, file);
  return real.ok() ? real : wrong(std::string(real.status().message()));
}

// The loader maps what the headers name and touches it there: where the file ends before, that is a SIGBUS, not an error.
// What is no library at all is the loader's to say.
absl::Status CheckWhole(int file, int64_t bytes) {
  Elf64_Ehdr header = {};
  if (pread(file, &header, sizeof(header), 0) != sizeof(header)) return absl::OkStatus();
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return absl::OkStatus();
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment = {};
    const auto at = static_cast<off_t>(header.e_phoff) + i * int64_t{header.e_phentsize};
    if (at < 0 || pread(file, &segment, sizeof(segment), at) != sizeof(segment)) {
      return absl::InvalidArgumentError(
          fmt::format("is cut: {} bytes, its program headers lie beyond", bytes));
    }
    const auto whole = static_cast<uint64_t>(bytes);
    if (segment.p_offset <= whole && segment.p_filesz <= whole - segment.p_offset) continue;
    return absl::InvalidArgumentError(fmt::format("is cut: {} bytes, a segment of {} lies at {}",
                                                  bytes, segment.p_filesz, segment.p_offset));
  }
  return absl::OkStatus();
}

absl::StatusOr<FileDescriptor> CopyToMemory(const std::string& path, const std::string& name,
                                            int64_t max_bytes) {
  const auto wrong = [](std::string text) { return absl::InvalidArgumentError(std::move(text)); };
  const FileDescriptor from(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat about = {};
  if (from.get() < 0 || fstat(from.get(), &about) != 0) return wrong(ErrorText());
  if (!S_ISREG(about.st_mode)) return wrong("is no file");
  if (about.st_size > max_bytes) {
    return wrong(fmt::format("has {} bytes, the limit is {}", about.st_size, max_bytes));
  }
  int fd = memfd_create(name.c_str(), MFD_CLOEXEC | kMfdExec);
  if (fd < 0 && errno == EINVAL) fd = memfd_create(name.c_str(), MFD_CLOEXEC);
  FileDescriptor to(fd);
  if (to.get() < 0) return wrong(fmt::format("no memory file: {}", ErrorText()));
  off_t at = 0;
  while (at < about.st_size) {
    const ssize_t sent =
        sendfile(to.get(), from.get(), &at, static_cast<size_t>(about.st_size - at));
    if (sent < 0) return wrong(fmt::format("cannot be read: {}", ErrorText()));
    if (sent == 0) return wrong("became shorter while it was read");
  }
  if (absl::Status whole = CheckWhole(to.get(), about.st_size); !whole.ok()) return whole;
  return to;
}

}  // namespace

absl::StatusOr<UnfolderLibrary> OpenUnfolderLibrary(const std::string& model_folder,
                                                    const std::string& file, int64_t max_bytes) {
  const auto wrong = [&](std::string_view what) {
    return absl::InvalidArgumentError(fmt::format("unfolder library \"{}\": {}", file, what));
  };
  const absl::StatusOr<std::string> path = Locate(model_folder, file);
  if (!path.ok()) return wrong(std::string(path.status().message()));
  absl::StatusOr<FileDescriptor> copy = CopyToMemory(*path, file, max_bytes);
  if (!copy.ok()) return wrong(std::string(copy.status().message()));
  const std::string name = fmt::format("/proc/self/fd/{}", copy->get());
  void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    std::string text = dlerror();
    if (const size_t at = text.find(name); at != text.npos) text.replace(at, name.size(), file);
    return wrong(text);
  }
  const auto library = std::make_shared<OpenLibrary>(*std::move(copy), handle);
  void* const entry = dlsym(handle, kEntry);
  if (entry == nullptr) return wrong(fmt::format("has no function {}", kEntry));
  const auto table = reinterpret_cast<decltype(&cellbatch_unfolder)>(entry);
  return UnfolderLibrary{library, table()};
}

}  // namespace cellbatch
