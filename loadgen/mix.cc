#include "loadgen/mix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"

namespace cellbatch {
namespace {

constexpr int64_t kMostInputs = 4096;  // of a message, as the server's own bound
constexpr int64_t kMostStreams = 65536;
// Times all requests of a schedule it is far from what a double holds.
constexpr double kMostWeight = 1e9;

absl::Status Wrong(std::string_view field, const std::string& value, const char* wants) {
  return absl::InvalidArgumentError(fmt::format("{}={}: wants {}", field, value, wants));
}

std::vector<std::string> Split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) {
    const size_t begin = part.find_first_not_of(" \t\n");
    const size_t end = part.find_last_not_of(" \t\n");
    parts.push_back(begin == part.npos ? "" : part.substr(begin, end - begin + 1));
  }
  return parts;
}

absl::Status SetCall(const std::string& value, MixEntry& entry) {
  for (const LoadCall call : {LoadCall::kInfer, LoadCall::kTyped, LoadCall::kDecode}) {
    if (value == Name(call)) {
      entry.call = call;
      return absl::OkStatus();
    }
  }
  return Wrong("call", value, "infer, typed or decode");
}

absl::Status SetNumber(std::string_view field, const std::string& value, MixEntry& entry) {
  double share = 0;
  int64_t number = 0;
  if (field == "weight") {
    if (!absl::SimpleAtod(value, &entry.weight) || !(entry.weight > 0) ||
        std::isinf(entry.weight)) {
      return Wrong(field, value, "a positive number");
    }
    if (entry.weight > kMostWeight) {
      return Wrong(field, value, "1000000000 at most");
    }
  } else if (field == "many") {
    if (!absl::SimpleAtoi(value, &entry.many) || entry.many < 1 || entry.many > kMostInputs) {
      return Wrong(field, value, "1 to 4096 inputs a message");
    }
  } else if (field == "piece") {
    if (!absl::SimpleAtoi(value, &entry.piece) || entry.piece < 1) {
      return Wrong(field, value, "steps of a piece, 1 or more");
    }
  } else if (field == "streams") {
    if (!absl::SimpleAtoi(value, &entry.streams) || entry.streams < 1 ||
        entry.streams > kMostStreams) {
      return Wrong(field, value, "1 to 65536 sequences at a time");
    }
  } else if (field == "spelled") {
    if (!absl::SimpleAtod(value, &share) || !(share >= 0 && share <= 1)) {
      return Wrong(field, value, "a share from 0 to 1");
    }
    entry.spelled = share;
  } else if (field == "priority") {
    if (!absl::SimpleAtoi(value, &number) || number < 0) {
      return Wrong(field, value, "a whole number, not negative");
    }
    entry.priority = number;
  } else if (!absl::SimpleAtoi(value, &entry.timeout_us) || entry.timeout_us < 0) {
    return Wrong(field, value, "microseconds, not negative");
  }
  return absl::OkStatus();
}

}  // namespace

const char* Name(LoadCall call) {
  switch (call) {
    case LoadCall::kInfer:
      return "infer";
    case LoadCall::kTyped:
      return "typed";
    case LoadCall::kDecode:
      break;
  }
  return "decode";
}

absl::Status SetField(std::string_view field, const std::string& value, MixEntry& entry) {
  if (field == "version") {
    entry.version = value;
  } else if (field == "call") {
    return SetCall(value, entry);
  } else if (field == "data") {
    entry.data = value;
  } else if (field == "lengths") {
    entry.lengths = value;
  } else if (field == "outputs") {
    entry.outputs = Split(value, '+');
  } else if (field == "steps") {
    if (value != "data" && value != "model") {
      return Wrong(field, value, "data (as many words as the data's target) or model");
    }
    entry.free_decode = value == "model";
  } else if (field == "weight" || field == "many" || field == "spelled" || field == "priority" ||
             field == "piece" || field == "streams" || field == "timeout-us") {
    return SetNumber(field, value, entry);
  } else {
    return absl::InvalidArgumentError(
        fmt::format("{}: no such field; there are version, weight, call, many, data, lengths, "
                    "outputs, steps, piece, streams, spelled, priority, timeout-us",
                    field));
  }
  return absl::OkStatus();
}

absl::Status CheckEntry(const MixEntry& entry) {
  const auto wrong = [](std::string text) { return absl::InvalidArgumentError(std::move(text)); };
  if (entry.many > 1 && entry.call != LoadCall::kTyped) {
    return wrong(fmt::format("many={}: call={} sends one input a request; many need call=typed",
                             entry.many, Name(entry.call)));
  }
  if (!entry.data.empty() && !entry.lengths.empty()) {
    return wrong(
        fmt::format("data={} and lengths={} exclude each other", entry.data, entry.lengths));
  }
  if (entry.streams > 0 && (entry.piece == 0 || entry.call != LoadCall::kInfer)) {
    return wrong(
        fmt::format("streams={}: wants piece=STEPS and call=infer, there are piece={} and call={}",
                    entry.streams, entry.piece, Name(entry.call)));
  }
  if (entry.call != LoadCall::kDecode) {
    return absl::OkStatus();
  }
  if (!entry.outputs.empty()) {
    return wrong(fmt::format("outputs={}: call=decode answers in words", entry.outputs[0]));
  }
  if (entry.timeout_us > 0) {
    return wrong(fmt::format("timeout-us={}: call=decode has no such parameter", entry.timeout_us));
  }
  if (entry.piece > 0) {
    return wrong(fmt::format("piece={}: call=decode reads its source whole", entry.piece));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<MixEntry>> ParseMix(const std::string& text, const MixEntry& defaults) {
  std::vector<MixEntry> entries;
  for (const std::string& part : Split(text, ';')) {
    if (part.empty()) {
      continue;
    }
    const std::vector<std::string> fields = Split(part, ',');
    MixEntry entry = defaults;
    entry.model = fields[0];
    const auto in_entry = [&](const std::string& what) {
      return absl::InvalidArgumentError(
          fmt::format("--mix: entry {} ({}): {}", entries.size() + 1, entry.model, what));
    };
    if (entry.model.empty() || entry.model.find('=') != std::string::npos) {
      return in_entry("begins with no model's name");
    }
    for (size_t i = 1; i < fields.size(); ++i) {
      const size_t equals = fields[i].find('=');
      if (equals == std::string::npos) {
        return in_entry(fmt::format("\"{}\" is no FIELD=VALUE", fields[i]));
      }
      const absl::Status set =
          SetField(fields[i].substr(0, equals), fields[i].substr(equals + 1), entry);
      if (!set.ok()) {
        return in_entry(std::string(set.message()));
      }
    }
    if (const absl::Status fits = CheckEntry(entry); !fits.ok()) {
      return in_entry(std::string(fits.message()));
    }
    entries.push_back(std::move(entry));
  }
  if (entries.empty()) {
    return absl::InvalidArgumentError("--mix: names no model");
  }
  return entries;
}

std::vector<uint32_t> MixOrder(const std::vector<double>& weights, size_t count, uint64_t seed) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<size_t> counts;
  std::vector<std::pair<double, uint32_t>> rests;  // what is missing to the next whole one
  size_t given = 0;
  for (uint32_t i = 0; i < weights.size(); ++i) {
    const double share = static_cast<double>(count) * weights[i] / sum;
    counts.push_back(static_cast<size_t>(share));
    rests.emplace_back(static_cast<double>(counts.back()) - share, i);
    given += counts.back();
  }
  std::sort(rests.begin(), rests.end());
  for (size_t i = 0; given < count; ++given, ++i) {
    ++counts[rests[i % rests.size()].second];
  }
  std::vector<uint32_t> order;
  order.reserve(count);
  for (uint32_t i = 0; i < counts.size(); ++i) {
    order.insert(order.end(), counts[i], i);
  }
  std::mt19937_64 random(seed);
  for (size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[random() % left]);
  }
  return order;
}

}  // namespace cellbatch
