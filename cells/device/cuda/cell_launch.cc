#include "cells/device/cuda/cell_launch.h"

#include <algorithm>
#include <utility>

namespace cellbatch::cuda {
namespace {

constexpr int64_t kAligned =
    8;  // rows of scratch begin where 16 bytes can be loaded at once, of bf16

int64_t ScratchStride(const CellProgram& program) {
  return (program.scratch_width + kAligned - 1) / kAligned * kAligned;
}

struct Most {
  int64_t floats = 0, rounded = 0, tokens = 0;
};

Most MostOf(const std::vector<CellProgram>& programs, int nodes) {
  Most most;
  for (const CellProgram& program : programs) {
    const int64_t floats = ScratchStride(program) * nodes;
    most.floats = std::max(most.floats, floats);
    if (program.precision == Precision::kBf16) most.rounded = std::max(most.rounded, floats);
    most.tokens = std::max(most.tokens, static_cast<int64_t>(program.lookups.size()) * nodes);
  }
  return most;
}

}  // namespace

int64_t ScratchSpace::BytesFor(const std::vector<CellProgram>& programs, int nodes) {
  const Most most = MostOf(programs, nodes);
  return most.floats * static_cast<int64_t>(sizeof(float)) +
         most.rounded * static_cast<int64_t>(sizeof(unsigned short)) +
         most.tokens * static_cast<int64_t>(sizeof(int));
}

absl::StatusOr<ScratchSpace> ScratchSpace::Make(std::shared_ptr<const GpuContext> gpu,
                                                const std::vector<CellProgram>& programs,
                                                int nodes) {
  const Most most = MostOf(programs, nodes);
  auto floats = DeviceBuffer::Make(gpu, most.floats * static_cast<int64_t>(sizeof(float)));
  if (!floats.ok()) return floats.status();
  auto rounded =
      DeviceBuffer::Make(gpu, most.rounded * static_cast<int64_t>(sizeof(unsigned short)));
  if (!rounded.ok()) return rounded.status();
  auto tokens = DeviceBuffer::Make(std::move(gpu), most.tokens * static_cast<int64_t>(sizeof(int)));
  if (!tokens.ok()) return tokens.status();
  return ScratchSpace{*std::move(floats), *std::move(rounded), *std::move(tokens), nodes};
}

absl::StatusOr<CellLaunch> MakeCellLaunch(const CudaCell& cell, const CellProgram& program,
                                          const KernelModule& module, const CellPlaces& places) {
  CellLaunch launch;
  for (const CudaStep& step : cell.steps) {
    StepLaunch& out = launch.steps.emplace_back();
    for (const CudaShape& shape : step.shapes) {
      const auto function = module.Find(shape.name, shape.shared_bytes);
      if (!function.ok()) return function.status();
      out.shapes.push_back({*function, shape.threads, shape.blocks_x, shape.nodes_a_block,
                            shape.shared_bytes, shape.most_nodes, shape.cluster});
    }
    out.args.now = places.now;
    out.args.scratch = places.scratch.floats.as<float>();
    out.args.rounded = places.scratch.rounded.as<unsigned short>();
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
