// Damaged paths of KServe over HTTP: each is what a slow reading by a table of the protocol's paths makes of it, or none.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/http/kserve/kserve_path.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/fuzz/mutator.h"

namespace cellbatch {
namespace {

// NAME and VERSION: any part that is not empty; .. at the end: any more parts. The first that fits counts.
struct Form {
  const char* path;
  KServeAsk ask;
};
constexpr Form kForms[] = {
    {"/v2", KServeAsk::kServer},
    {"/v2/health/live", KServeAsk::kLive},
    {"/v2/health/ready", KServeAsk::kReady},
    {"/v2/models/stats", KServeAsk::kStatistics},
    {"/v2/models/NAME", KServeAsk::kMetadata},
    {"/v2/models/NAME/ready", KServeAsk::kModelReady},
    {"/v2/models/NAME/config", KServeAsk::kConfig},
    {"/v2/models/NAME/stats", KServeAsk::kStatistics},
    {"/v2/models/NAME/infer", KServeAsk::kInfer},
    {"/v2/models/NAME/generate", KServeAsk::kUnserved},
    {"/v2/models/NAME/generate_stream", KServeAsk::kUnserved},
    {"/v2/models/NAME/trace/setting", KServeAsk::kTrace},
    {"/v2/models/NAME/versions/VERSION", KServeAsk::kMetadata},
    {"/v2/models/NAME/versions/VERSION/ready", KServeAsk::kModelReady},
    {"/v2/models/NAME/versions/VERSION/config", KServeAsk::kConfig},
    {"/v2/models/NAME/versions/VERSION/stats", KServeAsk::kStatistics},
    {"/v2/models/NAME/versions/VERSION/infer", KServeAsk::kInfer},
    {"/v2/models/NAME/versions/VERSION/generate", KServeAsk::kUnserved},
    {"/v2/models/NAME/versions/VERSION/generate_stream", KServeAsk::kUnserved},
    {"/v2/models/NAME/versions/VERSION/trace/setting", KServeAsk::kTrace},
    {"/v2/repository/index", KServeAsk::kIndex},
    {"/v2/repository/models/NAME/load", KServeAsk::kLoad},
    {"/v2/repository/models/NAME/unload", KServeAsk::kUnload},
    {"/v2/logging", KServeAsk::kLogging},
    {"/v2/trace/setting", KServeAsk::kTrace},
    {"/v2/systemsharedmemory/..", KServeAsk::kUnserved},
    {"/v2/cudasharedmemory/..", KServeAsk::kUnserved},
};

std::vector<std::string> SplitAtSlashes(const std::string& path) {
  std::vector<std::string> parts = {""};
  for (const char c : path) {
    if (c == '/') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::string Decoded(const std::string& part) {
  std::string out;
  for (size_t i = 0; i < part.size(); ++i) {
    const auto digit = [&](size_t at) {
      return at < part.size() && std::isxdigit(static_cast<unsigned char>(part[at])) != 0;
    };
    if (part[i] == '%' && digit(i + 1) && digit(i + 2)) {
      out += static_cast<char>(std::strtol(part.substr(i + 1, 2).c_str(), nullptr, 16));
      i += 2;
    } else {
      out += part[i];
    }
  }
  return out;
}

std::optional<KServePath> AsForm(const std::vector<std::string>& parts, const Form& form) {
  KServePath path{.ask = form.ask};
  const std::vector<std::string> wanted = SplitAtSlashes(form.path);
  size_t i = 0;
  for (; i < wanted.size() && wanted[i] != ".."; ++i) {
    if (i >= parts.size()) return std::nullopt;
    const bool name = wanted[i] == "NAME", version = wanted[i] == "VERSION";
    if (name) path.model = parts[i];
    if (version) path.version = parts[i];
    if (name || version ? parts[i].empty() : parts[i] != wanted[i]) return std::nullopt;
  }
  if (i == wanted.size() && parts.size() > i) return std::nullopt;
  return path;
}

std::optional<KServePath> ByTheTable(const std::string& path) {
  std::vector<std::string> parts = SplitAtSlashes(path);
  if (!parts[0].empty()) return std::nullopt;
  for (std::string& part : parts) part = Decoded(part);
  if (parts.size() > 1 && parts.back().empty()) parts.pop_back();  // a / at the end
  for (const Form& form : kForms) {
    if (auto found = AsForm(parts, form)) return found;
  }
  return std::nullopt;
}

// Some letters as %41.
std::string Escaped(const std::string& part, Mutator& mutator) {
  constexpr char kDigits[] = "0123456789abcdefABCDEF";
  std::string out;
  for (const char c : part) {
    if (mutator.Below(4) != 0) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    const int low = byte & 15;
    out += {'%', kDigits[byte >> 4], kDigits[low > 9 && mutator.Below(2) == 0 ? low + 6 : low]};
  }
  return out;
}

TEST(KServePathFuzzTest, APathIsWhatTheProtocolsTableSaysOrNone) {
  const uint64_t seed = 20261130;
  SCOPED_TRACE(seed);
  Mutator mutator(seed, {"/",
                         "//",
                         "/v2",
                         "/models/",
                         "stats",
                         "/versions/",
                         "/infer",
                         "ready",
                         "/trace/setting",
                         "%2F",
                         "%",
                         "%%",
                         "%0",
                         "%g1",
                         "%+1",
                         "%00",
                         "/..",
                         "/load",
                         "/x/y/z",
                         std::string(1, '\0'),
                         "\xff"});
  const std::string names[] = {"a",  "stats", "models", "versions", "trace",   "a/b", "%41",  "ä",
                               "..", "infer", "v2",     "ready",    "setting", "a b", "load", "-1"};
  int64_t accepted = 0;
  FuzzBudget budget(20'000);
  while (budget.Next()) {
    KServePath meant;
    std::string path;
    const Form& form = kForms[mutator.Below(std::size(kForms))];
    for (const std::string& part : SplitAtSlashes(form.path + 1)) {
      std::string named = part;
      if (part == "NAME" || part == "VERSION") {
        named = names[mutator.Below(std::size(names))];
        (part == "NAME" ? meant.model : meant.version) = named;
        // What would be taken for something else is written by its numbers.
        std::string safe;
        for (const char c : named) safe += c == '/' ? "%2f" : c == '%' ? "%25" : std::string(1, c);
        path += "/" + safe;
      } else {
        path += "/" + Escaped(named, mutator);
      }
    }
    if (mutator.Below(8) == 0) path += "/";
    const bool damaged = mutator.Below(4) != 0;
    if (damaged) path = mutator.Mutate(path);
    SCOPED_TRACE(::testing::PrintToString(path));
    const std::optional<KServePath> read = ParseKServePath(path);
    const std::optional<KServePath> expected = ByTheTable(path);
    ASSERT_EQ(read.has_value(), expected.has_value());
    if (!damaged) {
      ASSERT_TRUE(read.has_value());
    }
    if (!read) continue;
    ++accepted;
    ASSERT_EQ(static_cast<int>(read->ask), static_cast<int>(expected->ask));
    ASSERT_EQ(read->model, expected->model);
    ASSERT_EQ(read->version, expected->version);
    // /v2/models/stats is no model's metadata.
    if (!damaged && !(form.ask == KServeAsk::kMetadata && meant.model == "stats")) {
      ASSERT_EQ(read->model, meant.model);
      ASSERT_EQ(read->version, meant.version);
    }
    ASSERT_FALSE(MethodsOf(read->ask).empty());
  }
  EXPECT_GT(accepted, budget.cases() / 4);
  EXPECT_LT(accepted, budget.cases() * 9 / 10);
}

}  // namespace
}  // namespace cellbatch
