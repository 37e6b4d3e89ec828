#include "tests/cuda_emulator/kernel_object.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "tests/cuda_emulator/kernel_texts.h"

namespace cellbatch::emulator {
namespace {

namespace fs = std::filesystem;

constexpr int kMostArguments = 64;

using Flags = std::vector<std::string>;

// No contraction: a fused multiply-add is one where the source says fmaf, and then the CPU's own.
Flags CompilerFlags() {
  Flags flags = {"-std=c++20",          "-O1", "-fPIC",
                 "-ffp-contract=off",   "-w",  "-fvisibility=hidden",
                 "-fno-strict-aliasing"};
  if (__builtin_cpu_supports("fma")) flags.insert(flags.end(), {"-mavx2", "-mfma"});
  return flags;
}

// Calls and returns are nobody's business.
Flags KernelFlags(Watched watched) {
  Flags flags = CompilerFlags();
  if (watched == Watched::kNo) return flags;
  flags.insert(flags.end(), {"-fsanitize=thread", "--param=tsan-instrument-func-entry-exit=0"});
  return flags;
}

// Nothing of the caller's environment but where programs are: not what its sanitizers are told.
absl::Status RunCompiler(std::vector<std::string> arguments, const std::string& log) {
  arguments.insert(arguments.begin(), "g++");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::string path = "PATH=/usr/local/bin:/usr/bin:/bin", language = "LC_ALL=C";
  std::array<char*, 3> environment = {path.data(), language.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child = 0;
  const int spawned =
      posix_spawnp(&child, "g++", &actions, nullptr, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (spawned != 0) return absl::NotFoundError("g++ cannot be started");
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  std::ifstream said(log);
  return absl::InvalidArgumentError(
      std::string(std::istreambuf_iterator<char>(said), std::istreambuf_iterator<char>()));
}

uint64_t Hash(const std::string& text) {  // FNV-1a
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// The source with what a launch needs to know of each kernel. The array of shared memory is declared by the prelude.
std::string WithLaunches(const std::string& source, const std::vector<std::string>& names) {
  constexpr std::string_view kShared = "extern __shared__ float4 cellbatch_shared[];";
  std::string text = fmt::format("{}\n#line 1 \"kernels\"\n{}\n", kPrelude, source);
  for (size_t at = text.find(kShared); at != text.npos; at = text.find(kShared, at)) {
    text.erase(at, kShared.size());
  }
  for (const std::string& name : names) {
    text += fmt::format(
        "extern \"C\" __attribute__((visibility(\"default\"))) void {0}__launch(void** arguments) "
        "{{\n"
        "  CellbatchLaunch(&{0}, arguments);\n}}\n"
        "extern \"C\" __attribute__((visibility(\"default\"))) int {0}__sizes(size_t* sizes) {{\n"
        "  return CellbatchSizes(&{0}, sizes);\n}}\n",
        name);
  }
  return text;
}

class Workshop {  // a folder that is gone afterwards
 public:
  explicit Workshop(const std::string& cache) : folder_(cache + "/making-XXXXXX") {
    ok_ = mkdtemp(folder_.data()) != nullptr;
  }
  ~Workshop() {
    std::error_code ignored;
    if (ok_) fs::remove_all(folder_, ignored);
  }
  bool ok() const { return ok_; }
  std::string File(const char* name) const { return folder_ + "/" + name; }

 private:
  std::string folder_;
  bool ok_ = false;
};

absl::Status MakeObject(const std::string& text, Flags flags, const Workshop& at) {
  std::ofstream(at.File("text.cc")) << text;
  flags.insert(flags.end(), {"-c", at.File("text.cc"), "-o", at.File("made")});
  return RunCompiler(std::move(flags), at.File("log"));
}

// The shim, which is the same for all: made once for a folder.
absl::StatusOr<std::string> Shim(const std::string& cache) {
  const Flags flags = CompilerFlags();
  std::string file =
      fmt::format("{}/{:016x}.o", cache, Hash(fmt::format("{} {}", fmt::join(flags, " "), kShim)));
  if (fs::exists(file)) return file;
  const Workshop at(cache);
  if (!at.ok()) return absl::NotFoundError(fmt::format("no folder can be made in {}", cache));
  if (absl::Status s = MakeObject(kShim, flags, at); !s.ok()) return s;
  fs::rename(at.File("made"), file);  // whole or not at all, whoever else made it meanwhile
  return file;
}

absl::Status Make(const std::string& text, const Flags& flags, const std::string& cache,
                  const std::string& object) {
  absl::StatusOr<std::string> shim = Shim(cache);
  if (!shim.ok()) return shim.status();
  const Workshop at(cache);
  if (!at.ok()) return absl::NotFoundError(fmt::format("no folder can be made in {}", cache));
  if (absl::Status s = MakeObject(text, flags, at); !s.ok()) return s;
  // Of the C library alone: the linker would read all of C++'s.
  const absl::Status linked =
      RunCompiler({"-shared", "-nostdlib", "-Wl,-z,defs", at.File("made"), *std::move(shim), "-lm",
                   "-lc", "-lgcc", "-o", at.File("linked")},
                  at.File("log"));
  if (linked.ok()) fs::rename(at.File("linked"), object);  // likewise
  return linked;
}

// std::regex takes ten times as long over all of a source as to look where a match may begin.
std::vector<std::vector<std::string>> AllThatBegin(const std::string& text, const char* word,
                                                   const std::regex& regex) {
  std::vector<std::vector<std::string>> all;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    std::smatch match;
    const auto from = text.begin() + static_cast<ptrdiff_t>(at);
    if (!std::regex_search(from, text.end(), match, regex,
                           std::regex_constants::match_continuous)) {
      continue;
    }
    all.emplace_back(match.begin(), match.end());
  }
  return all;
}

// Each is a space.
std::string WithoutComments(const std::string& source) {
  std::string text;
  size_t from = 0;
  while (from < source.size()) {
    const size_t slash = std::min(source.find('/', from), source.size());
    text.append(source, from, slash - from);
    const bool line = source.compare(slash, 2, "//") == 0,
               block = source.compare(slash, 2, "/*") == 0;
    if (!line && !block) {
      text.append(source, slash, 1);
      from = slash + 1;
      continue;
    }
    text += ' ';
    const size_t end = line ? source.find('\n', slash) : source.find("*/", slash + 2);
    from = end == source.npos ? source.size() : line ? end : end + 2;
  }
  return text;
}

template <typename Function>
bool FindSymbol(void* handle, const std::string& name, Function*& to) {
  to = reinterpret_cast<Function*>(dlsym(handle, name.c_str()));
  return to != nullptr;
}

}  // namespace

std::vector<std::string> KernelNames(const std::string& source) {
  static const std::regex kKernel(
      R"(__global__\s+(?:__\w+__\s*\([^)]*\)\s*)*void\s+(?:__\w+__\s*\([^)]*\)\s*)*(\w+)\s*\()");
  std::vector<std::string> names;
  for (const auto& kernel : AllThatBegin(WithoutComments(source), "__global__", kKernel)) {
    names.push_back(kernel[1]);
  }
  return names;
}

absl::StatusOr<std::shared_ptr<const KernelObject>> KernelObject::Compile(
    const std::string& source, const std::string& cache_folder, Watched watched) {
  const std::vector<std::string> names = KernelNames(source);
  const Flags flags = KernelFlags(watched);
  const std::string text = WithLaunches(source, names);
  const std::string key = fmt::format("{}\n{}\n{}", fmt::join(flags, " "), kShim, text);
  const std::string file = fmt::format("{}/{:016x}.so", cache_folder, Hash(key));
  std::error_code failed;
  fs::create_directories(cache_folder, failed);
  if (!fs::exists(file)) {
    if (absl::Status s = Make(text, flags, cache_folder, file); !s.ok()) return s;
  }
  std::shared_ptr<KernelObject> object(new KernelObject());
  object->source_ = source;
  object->cache_folder_ = cache_folder;
  object->watched_ = watched;
  if (absl::Status s = object->Open(file, names); !s.ok()) return s;
  static const std::regex kCluster(
      R"(__cluster_dims__\s*\(1, (\d+), 1\)\s*(?:__\w+__\s*\([^)]*\)\s*)*(\w+)\s*\()");
  for (const auto& cluster : AllThatBegin(source, "__cluster_dims__", kCluster)) {
    const auto function = object->functions_.find(cluster[2]);
    if (function == object->functions_.end()) continue;
    function->second.cluster_y = static_cast<unsigned>(std::stoi(cluster[1]));
  }
  return object;
}

absl::StatusOr<const KernelObject*> KernelObject::As(Watched watched) const {
  if (watched == watched_) return this;
  const std::lock_guard lock(mutex_);
  if (other_ == nullptr) {
    auto other = Compile(source_, cache_folder_, watched);
    if (!other.ok()) return other.status();
    other_ = *std::move(other);
  }
  return other_.get();
}

absl::Status KernelObject::Open(const std::string& file, const std::vector<std::string>& names) {
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return absl::InternalError(dlerror());
  if (!FindSymbol(handle, "cellbatch_index", index_) ||
      !FindSymbol(handle, "cellbatch_shared_place", shared_place_) ||
      !FindSymbol(handle, "cellbatch_set_hooks", set_hooks_)) {
    return absl::InternalError(fmt::format("{} is no kernel object", file));
  }
  for (const std::string& name : names) {
    KernelFunction function;
    function.name = name;
    int (*sizes)(size_t*) = nullptr;
    void* kernel = nullptr;
    if (!FindSymbol(handle, name, kernel)) {
      return absl::InvalidArgumentError(fmt::format("kernel {} is not extern \"C\"", name));
    }
    FindSymbol(handle, name + "__launch", function.launch);
    FindSymbol(handle, name + "__sizes", sizes);
    std::array<size_t, kMostArguments> bytes = {};
    const int count = sizes(bytes.data());
    if (count > kMostArguments) {
      return absl::InvalidArgumentError(fmt::format("kernel {} has {} parameters", name, count));
    }
    function.argument_bytes.assign(bytes.begin(), bytes.begin() + count);
    functions_[name] = std::move(function);
  }
  return absl::OkStatus();
}

const KernelFunction* KernelObject::Find(const std::string& name) const {
  const auto found = functions_.find(name);
  return found == functions_.end() ? nullptr : &found->second;
}

}  // namespace cellbatch::emulator
