#include "server/http/kserve/kserve_path.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

namespace cellbatch {

namespace {

// One more than the longest path has with a / at its end: what goes on behind that is none either.
constexpr size_t kMostParts = 9;

// Without the first, empty one.
std::vector<std::string> Parts(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty() && path.front() == '/' && parts.size() < kMostParts) {
    path.remove_prefix(1);
    const size_t end = std::min(path.find('/'), path.size());
    parts.push_back(PercentDecoded(path.substr(0, end)));
    path.remove_prefix(end);
  }
  return parts;
}

std::optional<KServeAsk> OfModel(std::string_view what) {
  constexpr std::pair<std::string_view, KServeAsk> kAll[] = {
      {"ready", KServeAsk::kModelReady},  {"config", KServeAsk::kConfig},
      {"stats", KServeAsk::kStatistics},  {"infer", KServeAsk::kInfer},
      {"generate", KServeAsk::kUnserved}, {"generate_stream", KServeAsk::kUnserved}};
  for (const auto& [name, ask] : kAll) {
    if (name == what) return ask;
  }
  return std::nullopt;
}

// parts: v2, models, NAME, [versions, VERSION,] [what]
std::optional<KServePath> ModelPath(const std::vector<std::string>& parts) {
  if (parts.size() == 3 && parts[2] == "stats") return KServePath{.ask = KServeAsk::kStatistics};
  KServePath path{.ask = KServeAsk::kMetadata, .model = parts[2]};
  if (path.model.empty()) return std::nullopt;  // which would be all
  size_t next = 3;
  if (parts.size() > 4 && parts[3] == "versions") {
    path.version = parts[4];
    if (path.version.empty()) return std::nullopt;
    next = 5;
  }
  if (parts.size() == next + 2 && parts[next] == "trace" && parts[next + 1] == "setting") {
    path.ask = KServeAsk::kTrace;
    return path;
  }
  if (parts.size() == next) return path;
  const auto ask = parts.size() == next + 1 ? OfModel(parts[next]) : std::nullopt;
  if (!ask) return std::nullopt;
  path.ask = *ask;
  return path;
}

std::optional<KServePath> RepositoryPath(const std::vector<std::string>& parts) {
  if (parts.size() == 3 && parts[2] == "index") return KServePath{.ask = KServeAsk::kIndex};
  if (parts.size() != 5 || parts[2] != "models" || parts[3].empty()) return std::nullopt;
  if (parts[4] == "load") return KServePath{.ask = KServeAsk::kLoad, .model = parts[3]};
  if (parts[4] == "unload") return KServePath{.ask = KServeAsk::kUnload, .model = parts[3]};
  return std::nullopt;
}

}  // namespace

std::string PercentDecoded(std::string_view part) {
  std::string out;
  for (size_t i = 0; i < part.size(); ++i) {
    unsigned value = 0;
    const char* digits = part.data() + i + 1;
    if (part[i] == '%' && part.size() - i > 2 &&
        std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2) {
      out.push_back(static_cast<char>(value));
      i += 2;
    } else {
      out.push_back(part[i]);
    }
  }
  return out;
}

std::optional<KServePath> ParseKServePath(std::string_view path) {
  std::vector<std::string> parts = Parts(path);
  if (!parts.empty() && parts.back().empty()) parts.pop_back();  // a / at the end
  if (parts.empty() || parts[0] != "v2") return std::nullopt;
  if (parts.size() == 1) return KServePath{.ask = KServeAsk::kServer};
  if (parts[1] == "models" && parts.size() > 2) return ModelPath(parts);
  if (parts[1] == "repository") return RepositoryPath(parts);
  if (parts[1] == "logging" && parts.size() == 2) return KServePath{.ask = KServeAsk::kLogging};
  if (parts[1] == "trace" && parts.size() == 3 && parts[2] == "setting") {
    return KServePath{.ask = KServeAsk::kTrace};
  }
  constexpr std::array<std::string_view, 2> kUnserved = {"systemsharedmemory", "cudasharedmemory"};
  if (std::ranges::find(kUnserved, parts[1]) != kUnserved.end()) {
    return KServePath{.ask = KServeAsk::kUnserved};
  }
  if (parts.size() != 3 || parts[1] != "health") return std::nullopt;
  if (parts[2] == "live") return KServePath{.ask = KServeAsk::kLive};
  if (parts[2] == "ready") return KServePath{.ask = KServeAsk::kReady};
  return std::nullopt;
}

std::string_view MethodsOf(KServeAsk ask) {
  switch (ask) {
    case KServeAsk::kInfer:
    case KServeAsk::kIndex:
    case KServeAsk::kLoad:
    case KServeAsk::kUnload:
      return "POST";
    case KServeAsk::kLogging:
    case KServeAsk::kTrace:
      return kGetOrPost;
    default:
      return "GET";
  }
}

}  // namespace cellbatch
