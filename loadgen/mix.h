// What is to be sent: one or more models, each with a share of the requests.
//
//   --model=treelstm --call=typed --many=8
//   --mix='treelstm,weight=3,data=sst_test.ptb;nmt,call=decode;lstm,weight=0.5,priority=2'
//
// Plain values, pure functions.

#ifndef CELLBATCH_LOADGEN_MIX_H_
#define CELLBATCH_LOADGEN_MIX_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace cellbatch {

enum class LoadCall {
  kInfer,   // ModelInfer, one input a request
  kTyped,   // cellbatch.v1 Infer, `many` inputs in one message
  kDecode,  // cellbatch.v1 Decode: words as they come
};
const char* Name(LoadCall call);

// One model's part of the load. Every field is a flag, too: what a mix does not say, the flags do.
struct MixEntry {
  std::string model;
  std::string version;  // empty: the one that is served
  double weight = 1;
  LoadCall call = LoadCall::kInfer;
  int64_t many = 1;                  // kTyped: inputs of a message
  std::string data;                  // a file of items; empty: built-in ones that fit the model
  std::string lengths;               // a file of lengths, instead
  std::vector<std::string> outputs;  // by name; empty: OUTPUT alone
  bool free_decode = false;  // steps=model: until the model ends; else as long as the data's target
  std::optional<double> spelled;    // share of running words spelled out, the rarest first
  std::optional<int64_t> priority;  // KServe's parameter
  int64_t timeout_us = 0;           // KServe's parameter; 0: none
  // Sequences come in pieces of so many steps, as live streams do: a request each, which asks for the state that it leaves
  // and, but for the first of a sequence, brings one, unless there are `streams`. 0: whole.
  int64_t piece = 0;
  // So many sequences are live at a time, and the server keeps their states (sequence_id). 0: each piece brings its state.
  int64_t streams = 0;
};

// Sets one field from its text. INVALID_ARGUMENT names field and text; an unknown field, too.
absl::Status SetField(std::string_view field, const std::string& value, MixEntry& entry);

// Whether the fields go together, as far as can be said without the model.
absl::Status CheckEntry(const MixEntry& entry);

// Entries parted by ';', each a model's name and FIELD=VALUE, parted by ','. `defaults` has what they do not say.
absl::StatusOr<std::vector<MixEntry>> ParseMix(const std::string& text, const MixEntry& defaults);

// `count` indices into `weights`, each as often as its share says (largest remainders, so the counts are exact for any
// count), in an order from the seed.
std::vector<uint32_t> MixOrder(const std::vector<double>& weights, size_t count, uint64_t seed);

}  // namespace cellbatch

#endif  // CELLBATCH_LOADGEN_MIX_H_
