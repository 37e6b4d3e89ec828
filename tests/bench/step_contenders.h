// Who takes part in the benchmark `step`: ways of doing one LSTM step of b rows, all from the same weights and rows.
//
//   kernel          the product with its gates, on rows by number: what the CPU device spends its time in
//                   (in fp32, W8 or bf16; in bf16 the rows are rounded first)
//   device          the compiled cell as a server runs it: Memory::Load, then one task a step through Enqueue, Advance
//   product peers   rows gathered into a matrix, a library's product, our gates on its sums
//   LSTM peers      rows gathered, oneDNN's own LSTM step, states scattered
//
// One thread. A contender is started for one b and then steps; states start from zeros.
#ifndef CELLBATCH_TESTS_BENCH_STEP_CONTENDERS_H_
#define CELLBATCH_TESTS_BENCH_STEP_CONTENDERS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cells/kernels/cpu/kernel_table.h"
#include "cells/kernels/cpu/product.h"
#include "tests/bench/peers.h"
#include "tests/bench/step_cell.h"

namespace cellbatch {

class Contender {
 public:
  virtual ~Contender() = default;
  virtual const std::string& name() const = 0;
  // New rows for batches of b, and whatever else steps need. False: it cannot.
  virtual bool Start(int b, uint64_t seed) = 0;
  virtual void Step() = 0;
  // One more step; the hidden states it leaves, [b][h].
  virtual std::vector<float> StepAndShow() = 0;
};

// What all contenders of one width share; outlives them.
struct StepSetting {
  StepSetting(int h, uint64_t seed, const kernels::CpuKernels& kernels, kernels::Tuning tuning);

  const kernels::CpuKernels& kernels;
  const kernels::Tuning tuning;
  const StepWeights weights;
  const kernels::PackedProduct product, gates, product_w8, product_bf16;
  const std::optional<kernels::PackedProduct> product_split;  // where the kernels split fp32
  const kernels::PackedMemory for_products;                   // as libraries read them
  const std::vector<float> by_input[2];  // as oneDNN's LSTM reads them: input, recurrent
};

// REQUIRES: the kernels split fp32, if that is asked for.
std::unique_ptr<Contender> KernelContender(const StepSetting& setting, Precision precision);
// `most`: the largest b it will be started for; `cpu`: where this thread is pinned. The model is loaded here: seconds.
std::unique_ptr<Contender> DeviceContender(const StepSetting& setting, int most, int cpu);
std::unique_ptr<Contender> PeerContender(const StepSetting& setting, ProductPeer& peer);
std::unique_ptr<Contender> PeerContender(const StepSetting& setting, LstmPeer& peer);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_STEP_CONTENDERS_H_
