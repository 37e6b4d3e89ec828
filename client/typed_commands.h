// Our own typed service on the command line: inputs that tensors say badly, and words as they are decoded.

#ifndef CELLBATCH_CLIENT_TYPED_COMMANDS_H_
#define CELLBATCH_CLIENT_TYPED_COMMANDS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/flags.h"

namespace cellbatch {

struct TypedFlags {
  std::string text, source, tree, chars, spans;
  int64_t max_decode_steps = 0, decode_steps = 0, priority = 0;  // 0: not given

  void AddTo(Flags& flags);
  // Whether one of them says what to infer.
  bool NameAnInput() const {
    return !text.empty() || !source.empty() || !tree.empty() || !chars.empty();
  }
  std::map<std::string, int64_t> Parameters() const;
};

// "0-2:17, 1-3:8": words over characters [0, 2) and [1, 3).
absl::StatusOr<std::vector<LatticeInput::Word>> SpansFromText(const std::string& text);

// What --text, --source, --tree or --chars says; INVALID_ARGUMENT for several of them, or none.
absl::StatusOr<TypedInput> InputOf(const TypedFlags& flags);

// The answer to one input, in the form that ModelInfer's has.
absl::StatusOr<InferResult> InferOne(Client& client, const InferInput& names, TypedInput input,
                                     const TypedFlags& flags, CallOptions options);

// Streams the words of `source` to `print` as they come, then how it ended; with `json`, a line of JSON
// for each.
using Print = std::function<void(std::string_view)>;
absl::Status RunDecode(Client& client, const InferInput& names, SequenceInput source,
                       const TypedFlags& flags, bool json, CallOptions options, const Print& print);

}  // namespace cellbatch

#endif  // CELLBATCH_CLIENT_TYPED_COMMANDS_H_
