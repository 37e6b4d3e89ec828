#include "tests/cuda_emulator/driver/emulated_gpus.h"
#include "tests/zoo/computes.h"

namespace cellbatch::zoo {

// Two, whose operations are late at random. What a task of more nodes takes is seconds there, by multiply-add; on tensor cores
// more. Unchecked, as nobody would hear of findings in the server's process.
Computes WhatComputes() {
  return {{"--devices=cuda:0,cuda:1", "--cuda-libraries=" + emulator::EmulatedDriverFolder(),
           "--cuda-host-bytes=64MiB", "--cuda-fp32=fma", "--batch-limit=16"},
          {"CELLBATCH_EMULATED_GPUS=2", "CELLBATCH_EMULATED_GPU_BYTES=17179869184",
           "CELLBATCH_EMULATOR_FAULTS=delay=50:200", "CELLBATCH_EMULATOR_CHECKS=0"}};
}

}  // namespace cellbatch::zoo
