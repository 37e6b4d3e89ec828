// The paths of KServe v2 over HTTP, as Triton spells them. Pure.
#ifndef CELLBATCH_SERVER_HTTP_KSERVE_KSERVE_PATH_H_
#define CELLBATCH_SERVER_HTTP_KSERVE_KSERVE_PATH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cellbatch {

enum class KServeAsk : uint8_t {
  kServer,      // /v2
  kLive,        // /v2/health/live
  kReady,       // /v2/health/ready
  kMetadata,    // /v2/models/NAME[/versions/VERSION]
  kModelReady,  // .../ready
  kConfig,      // .../config
  kStatistics,  // .../stats, and /v2/models/stats of all
  kInfer,       // .../infer
  kIndex,       // /v2/repository/index
  kLoad,        // /v2/repository/models/NAME/load
  kUnload,      // /v2/repository/models/NAME/unload
  kLogging,     // /v2/logging
  kTrace,       // /v2/trace/setting, /v2/models/NAME/trace/setting
  kUnserved,    // what Triton has and we have not: shared memory, generate
};

struct KServePath {
  KServeAsk ask;
  std::string model = {};    // decoded; empty: none, or all
  std::string version = {};  // decoded
};

// %41 is A. What follows a % and is no number of two digits stays as it is.
std::string PercentDecoded(std::string_view part);
// None: no path of the protocol.
std::optional<KServePath> ParseKServePath(std::string_view path);
// The methods that it is asked with: "GET", "POST" or kGetOrPost.
inline constexpr std::string_view kGetOrPost = "GET, POST";
std::string_view MethodsOf(KServeAsk ask);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_KSERVE_KSERVE_PATH_H_
