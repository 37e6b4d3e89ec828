#include "tests/cuda_kernels/emulated_cell.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "cells/check.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/cuda_emulator/kernel_object.h"

namespace cellbatch {

struct EmulatedCell::Compiled {
  CudaCell cell;
  std::shared_ptr<const emulator::KernelObject> object;
};

// What kernels may touch, by address: each buffer with the address behind its end.
class EmulatedCell::Bounds final : public emulator::AccessObserver {
 public:
  void Clear() { ends_.clear(); }
  void Allow(const void* from, int64_t bytes) {
    const auto at = reinterpret_cast<uintptr_t>(from);
    if (bytes > 0) ends_[at] = std::max(ends_[at], at + static_cast<uintptr_t>(bytes));
  }
  void Accessed(const emulator::RunningThread& thread, const void* at, size_t bytes,
                int kind) override {
    const auto from = reinterpret_cast<uintptr_t>(at);
    auto found = ends_.upper_bound(from);
    if (found != ends_.begin() && from + bytes <= std::prev(found)->second) return;
    if (OnStack(from) || findings_.size() >= 10) return;
    findings_.push_back(fmt::format("block {},{} thread {}: {} bytes at {}, kind {}: no buffer",
                                    thread.block_x, thread.block_y, thread.thread, bytes, at,
                                    kind));
  }
  const std::vector<std::string>& findings() const { return findings_; }

 private:
  // Of the fibre that runs, this call's frame being at its end.
  static bool OnStack(uintptr_t at) {
    const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    return at >= here && at - here < (64 << 10);
  }

  std::map<uintptr_t, uintptr_t> ends_;
  std::vector<std::string> findings_;
};

EmulatedCell::EmulatedCell(EmulatedOptions options)
    : options_(std::move(options)), runner_(options_.seed), bounds_(std::make_unique<Bounds>()) {
  runner_.set_observer(bounds_.get());
}

EmulatedCell::~EmulatedCell() = default;

std::function<void(const PackedCell&, const CellColumns&, const NodeLists&)>
EmulatedCell::Runner() {
  return [this](const PackedCell& cell, const CellColumns& columns, const NodeLists& nodes) {
    Run(cell, columns, nodes);
  };
}

std::vector<std::string> EmulatedCell::Findings() const {
  std::vector<std::string> all = runner_.findings();
  all.insert(all.end(), bounds_->findings().begin(), bounds_->findings().end());
  return all;
}

const EmulatedCell::Compiled& EmulatedCell::Compile(const PackedCell& cell) {
  std::unique_ptr<Compiled>& compiled = compiled_[&cell];
  if (compiled != nullptr) return *compiled;
  compiled = std::make_unique<Compiled>();
  std::string text = CellSourcePrelude();
  compiled->cell = AddCellSource(
      "t0", cell.program(), [&](ParameterId p) { return cell.Parameter(p); }, text);
  if (options_.rewrite) text = options_.rewrite(std::move(text));
  auto object = emulator::KernelObject::Compile(text, ::testing::TempDir());
  Check(object.ok(), object.status().ToString());
  compiled->object = *std::move(object);
  return *compiled;
}

cuda_abi::StepArgs EmulatedCell::Args(const PackedCell& cell, const CudaStep& step,
                                      const CellColumns& columns) const {
  cuda_abi::StepArgs args = {};
  args.now = &now_;
  args.scratch = const_cast<float*>(scratch_.data());
  args.scratch_stride = scratch_stride_;
  args.tokens = const_cast<int*>(tokens_.data());
  args.most_nodes = launch_nodes_;
  for (size_t c = 0; c < step.columns.size(); ++c) {
    const Place& place = step.columns[c];
    const auto index = static_cast<size_t>(place.index);
    const ColumnArray& column = place.kind == PlaceKind::kInput
                                    ? columns.inputs[index][static_cast<size_t>(place.column)]
                                    : columns.outputs[index];
    args.columns[c] = {column.base + place.offset, column.stride};
  }
  for (size_t v = 0; v < step.values.size(); ++v) {
    const CudaValue& value = step.values[v];
    args.values[v] =
        value.parameter.valid() ? cell.Parameter(value.parameter) : value.floats.data();
  }
  return args;
}

// The rows that the task names, and its lists.
void EmulatedCell::Allow(const PackedCell& cell, const CellColumns& columns,
                         const NodeLists& nodes) {
  const auto row = [&](const ColumnArray& column, Row r) {
    bounds_->Allow(column.At(r), int64_t{4} * column.width);
  };
  const int64_t n = nodes.num_nodes;
  for (size_t i = 0; i < columns.inputs.size(); ++i) {
    const InputRows& input = nodes.inputs[i];
    const bool sums = cell.type().definition->inputs()[i].arity == Arity::kSum;
    const int64_t count = sums ? input.offsets[n] : n;
    bounds_->Allow(input.rows, 4 * count);
    if (sums) bounds_->Allow(input.offsets, 4 * (n + 1));
    for (const ColumnArray& column : columns.inputs[i]) {
      for (int64_t r = 0; r < count; ++r) row(column, input.rows[r]);
    }
  }
  bounds_->Allow(nodes.output_rows, 4 * n);
  for (const ColumnArray& column : columns.outputs) {
    for (int64_t r = 0; r < n; ++r) row(column, nodes.output_rows[r]);
  }
}

void EmulatedCell::Allow(const PackedCell& cell, const CudaStep& step,
                         const cuda_abi::StepArgs& args) {
  const int64_t nodes = now_.num_nodes;
  bounds_->Allow(&now_, sizeof now_);
  bounds_->Allow(scratch_.data(), 4 * nodes * scratch_stride_);
  bounds_->Allow(tokens_.data(), 4 * static_cast<int64_t>(tokens_.size() - 1));
  for (size_t v = 0; v < step.values.size(); ++v) {
    const CudaValue& value = step.values[v];
    auto floats = static_cast<int64_t>(value.floats.size());
    if (value.parameter.valid()) {
      const Weights& weights = cell.type().weights;
      const auto p = static_cast<size_t>(value.parameter.value());
      floats = p < weights.size() ? weights[p].shape.size()
                                  : cell.program().prepared[p - weights.size()].width;
    }
    bounds_->Allow(args.values[v], 4 * floats);
  }
}

void EmulatedCell::Run(const PackedCell& cell, const CellColumns& columns, const NodeLists& nodes) {
  const Compiled& compiled = Compile(cell);
  launch_nodes_ = std::max(nodes.num_nodes, options_.launch_nodes);
  scratch_stride_ = (cell.program().scratch_width + 3) / 4 * 4;
  const auto launched = static_cast<size_t>(launch_nodes_);
  // NaN: what is read before it was written does not pass for a number.
  scratch_.assign(launched * static_cast<size_t>(scratch_stride_) + 1,
                  std::numeric_limits<float>::quiet_NaN());
  tokens_.assign(launched * cell.program().lookups.size() + 1, -1);
  now_.num_nodes = nodes.num_nodes;
  now_.output_rows = nodes.output_rows;
  for (size_t i = 0; i < columns.inputs.size(); ++i) {
    now_.inputs[i] = {nodes.inputs[i].rows, nodes.inputs[i].offsets};
  }
  for (const CudaStep& step : compiled.cell.steps) {
    cuda_abi::StepArgs args = Args(cell, step, columns);
    bounds_->Clear();
    Allow(cell, columns, nodes);
    Allow(cell, step, args);
    bounds_->Allow(compiled.object->shared_memory(), step.shared_bytes);
    for (int i = 0; i < 4; ++i) {  // threadIdx and its like
      bounds_->Allow(compiled.object->index(i), sizeof(emulator::KernelIndex));
    }
    const emulator::KernelFunction* const function = compiled.object->Find(step.name);
    Check(function != nullptr, "every step is a kernel");
    const auto blocks = (launch_nodes_ + step.nodes_a_block - 1) / step.nodes_a_block;
    const emulator::Grid grid = {static_cast<unsigned>(step.blocks_x),
                                 static_cast<unsigned>(blocks), static_cast<unsigned>(step.threads),
                                 static_cast<unsigned>(step.shared_bytes)};
    void* arguments[] = {&args};
    const absl::Status ran = runner_.Run(*compiled.object, *function, grid, arguments);
    Check(ran.ok(), ran.ToString());
  }
}

}  // namespace cellbatch
