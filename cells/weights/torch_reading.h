// What the parts of ReadTorchNames share while they read one state_dict. Internal to the PyTorch importer: torch_wrapped.cc
// looks for parameters that are made of others, torch_stack.cc for the recurrent layers, torch_ends.cc for what is left.
//
// One thread; lives as long as one call.
#ifndef CELLBATCH_CELLS_WEIGHTS_TORCH_READING_H_
#define CELLBATCH_CELLS_WEIGHTS_TORCH_READING_H_

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "cells/weights/torch_names.h"

namespace cellbatch {

struct TorchReading {
  const TorchHints& hints;
  std::map<std::string, const SafetensorsEntry*> by_name = {};  // without those that are ignored
  std::set<std::string> used = {};                              // tensors that have a place
  std::vector<std::string> problems = {};
  TorchModel model = {};

  const SafetensorsEntry* Find(const std::string& name) const {
    const auto found = by_name.find(name);
    return found == by_name.end() ? nullptr : found->second;
  }
  template <typename... Args>
  void Problem(fmt::format_string<Args...> text, Args&&... args) {
    problems.push_back(fmt::format(text, std::forward<Args>(args)...));
  }
  int64_t TopWidth() const {
    const TorchLayer& top = model.layers.back();
    return model.width(top) * (top.reverse ? 2 : 1);
  }
};

inline constexpr size_t kMaxTorchProblems = 20;  // of one kind

inline bool IsMatrix(const SafetensorsEntry& t) { return t.shape.size() == 2 && t.is_float(); }

// Each notes what is wrong as a problem; the next reads on only where there is none.
void FindWrapped(TorchReading& reading);
void FindStack(TorchReading& reading);
void FindEnds(TorchReading& reading);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_WEIGHTS_TORCH_READING_H_
