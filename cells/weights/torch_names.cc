#include "cells/weights/torch_names.h"

#include <algorithm>

#include "cells/weights/torch_reading.h"

namespace cellbatch {
namespace {

bool Covers(const std::string& prefix, const std::string& name) {
  return name == prefix || name.starts_with(prefix + ".");
}

TorchReading WithoutIgnored(absl::Span<const SafetensorsEntry> tensors, const TorchHints& hints) {
  TorchReading reading{.hints = hints};
  for (const SafetensorsEntry& t : tensors) {
    const bool ignored =
        std::any_of(hints.ignored.begin(), hints.ignored.end(),
                    [&](const std::string& prefix) { return Covers(prefix, t.name); });
    if (!ignored) reading.by_name[t.name] = &t;
  }
  for (const std::string& ignored : hints.ignored) {
    const bool any = std::any_of(tensors.begin(), tensors.end(), [&](const SafetensorsEntry& t) {
      return Covers(ignored, t.name);
    });
    if (any) continue;
    reading.Problem("--ignore {}: no tensor is called that, and none lies below it", ignored);
  }
  return reading;
}

}  // namespace

const char* Name(TorchCell cell) {
  switch (cell) {
    case TorchCell::kLstm:
      return "LSTM";
    case TorchCell::kGru:
      return "GRU";
    case TorchCell::kRnnTanh:
      return "RNN (tanh)";
    case TorchCell::kRnnRelu:
      return "RNN (relu)";
  }
  return "?";
}

absl::StatusOr<TorchModel> ReadTorchNames(absl::Span<const SafetensorsEntry> tensors,
                                          const TorchHints& hints) {
  if (!hints.nonlinearity.empty() && hints.nonlinearity != "tanh" && hints.nonlinearity != "relu") {
    return absl::InvalidArgumentError(
        fmt::format("--nonlinearity is \"{}\", it is tanh or relu", hints.nonlinearity));
  }
  TorchReading reading = WithoutIgnored(tensors, hints);
  for (const auto find : {FindWrapped, FindStack, FindEnds}) {
    if (reading.problems.empty()) find(reading);
  }
  if (reading.problems.empty()) return std::move(reading.model);
  return absl::InvalidArgumentError(fmt::format("{}", fmt::join(reading.problems, "\n")));
}

}  // namespace cellbatch
