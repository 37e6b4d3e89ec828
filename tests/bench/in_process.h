// The scheduler and real CPU devices in this process, driven without a network: what the benchmarks
// `saturation` and `two_models` share. One thread drives; devices have their own.
//
//   Lengths ---> ChainRequest(model, length) ---> Scheduler::Submit ... Take ---> Completion
//
// Everything ends the process with a message when it fails: a benchmark has nobody to report to.
#ifndef CELLBATCH_TESTS_BENCH_IN_PROCESS_H_
#define CELLBATCH_TESTS_BENCH_IN_PROCESS_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cells/device/device.h"
#include "cells/model.h"
#include "cells/precision.h"
#include "scheduler/scheduler.h"

namespace cellbatch {

// Prints the status and ends the process unless it is OK.
void Require(const absl::Status& status, const std::string& doing);
template <typename T>
T Require(absl::StatusOr<T> value, const std::string& doing) {
  Require(value.status(), doing);
  return *std::move(value);
}

// The devices that cellbatch-server's --devices names.
DeviceSet MakeDevices(const std::string& spec);

// Sentence lengths: the English column of Europarl where the data folder is (CELLBATCH_DATA, or
// shared/data beside the checkout), else drawn from the same distribution; `source` says which.
struct Lengths {
  std::vector<int32_t> values;
  std::string source;
  double mean() const;
  static Lengths Europarl();
};

// Whole permutations of the lengths, from a seed: any two runs of n multiples see the same mix.
class LengthStream {
 public:
  LengthStream(const Lengths& lengths, uint64_t seed);
  int32_t Next();

 private:
  std::vector<int32_t> values_;
  size_t at_ = 0;
  std::mt19937_64 random_;
};

// A one-cell model whose nodes form a chain: cell "lstm" or "gru" of `hidden` units, reading FP32
// vectors as wide or (tokens) words of `vocabulary` through an embedding as wide.
struct ChainModelSpec {
  std::string cell = "lstm";
  int32_t hidden = 1024;
  bool tokens = false;
  int32_t vocabulary = 20000;
  Precision precision = Precision::kFp32;
  std::string name() const;  // "lstm_h1024_fp32", "lstm_h1024_bf16_tokens"
};
std::shared_ptr<const Model> MakeChainModel(const ChainModelSpec& spec, int32_t model_id);
// As Name() spells it.
Precision PrecisionNamed(const std::string& name);

// One request: `length` steps over random inputs, the last hidden state returned. Input bytes are
// shared between requests, from a pool made once.
class ChainRequests {
 public:
  ChainRequests(std::shared_ptr<const Model> model, int32_t max_length, uint64_t seed);
  std::unique_ptr<Request> Make(int32_t length, int max_tasks_in_flight);

 private:
  std::shared_ptr<const Model> model_;
  std::vector<float> pool_;
  int32_t row_floats_, max_length_;
  std::mt19937_64 random_;
};

// Seconds of one task of the model's only type at each batch size, gather included, on fresh devices
// of `spec`, all of them busy at once; median of `repeats`, mean over devices.
struct TaskTime {
  int32_t batch;
  double seconds;
};
std::vector<TaskTime> MeasureTaskTimes(const std::string& device_spec, const Model& model,
                                       const std::vector<int32_t>& batches, int repeats);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_IN_PROCESS_H_
