#include "cells/device/cuda/cell_launch.h"

#include <algorithm>
#include <utility>

namespace cellbatch::cuda {
namespace {

constexpr int64_t kAligned =
    4;  // floats: rows of scratch begin where 16 bytes can be loaded at once

int64_t ScratchStride(const CellProgram& program) {
  return (program.scratch_width + kAligned - 1) / kAligned * kAligned;
}

struct Most {
  int64_t floats = 0, tokens = 0;
};

Most MostOf(const std::vector<CellProgram>& programs, int nodes) {
  Most most;
  for (const CellProgram& program : programs) {
    most.floats = std::max(most.floats, ScratchStride(program) * nodes);
    most.tokens = std::max(most.tokens, static_cast<int64_t>(program.lookups.size()) * nodes);
  }
  return most;
}

}  // namespace

int64_t ScratchSpace::BytesFor(const std::vector<CellProgram>& programs, int nodes) {
  const Most most = MostOf(programs, nodes);
  return most.floats * static_cast<int64_t>(sizeof(float)) +
         most.tokens * static_cast<int64_t>(sizeof(int));
}

absl::StatusOr<ScratchSpace> ScratchSpace::Make(std::shared_ptr<const GpuContext> gpu,
                                                const std::vector<CellProgram>& programs,
                                                int nodes) {
  const Most most = MostOf(programs, nodes);
  auto floats = DeviceBuffer::Make(gpu, most.floats * static_cast<int64_t>(sizeof(float)));
  if (!floats.ok()) return floats.status();
  auto tokens = DeviceBuffer::Make(std::move(gpu), most.tokens * static_cast<int64_t>(sizeof(int)));
  if (!tokens.ok()) return tokens.status();
  return ScratchSpace{*std::move(floats), *std::move(tokens), nodes};
}

absl::StatusOr<CellLaunch> MakeCellLaunch(const CudaCell& cell, const CellProgram& program,
                                          const KernelModule& module, const CellPlaces& places) {
  CellLaunch launch;
  for (const CudaStep& step : cell.steps) {
    const auto function = module.Find(step.name, step.shared_bytes);
    if (!function.ok()) return function.status();
    StepLaunch& out = launch.steps.emplace_back();
    out.function = *function;
    out.threads = step.threads;
    out.blocks_x = step.blocks_x;
    out.nodes_a_block = step.nodes_a_block;
    out.shared_bytes = step.shared_bytes;
    out.args.now = places.now;
    out.args.scratch = places.scratch.floats.as<float>();
    out.args.scratch_stride = ScratchStride(program);
    out.args.tokens = places.scratch.tokens.as<int>();
    out.args.most_nodes = places.scratch.nodes;
    for (size_t c = 0; c < step.columns.size(); ++c) {
      out.args.columns[c] = places.column(step.columns[c]);
    }
    for (size_t v = 0; v < step.values.size(); ++v) {
      out.args.values[v] = places.value(step.values[v]);
    }
  }
  return launch;
}

}  // namespace cellbatch::cuda
