#include "tests/cuda_kernels/emulated_cell.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "cells/bf16.h"
#include "cells/check.h"
#include "gtest/gtest.h"
#include "tests/cuda_emulator/kernel_object.h"

namespace cellbatch {

struct EmulatedCell::Compiled {
  CudaCell cell;
  std::shared_ptr<const emulator::KernelObject> object;
};

std::function<std::string(std::string)> Plant(const std::string& from, const std::string& to) {
  return [from, to](std::string text) {
    const size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    return at == text.npos ? text : text.replace(at, from.size(), to);
  };
}

EmulatedCell::EmulatedCell(EmulatedOptions options)
    : options_(std::move(options)), runner_(options_.seed) {
  runner_.set_observer(&checker_);
}

EmulatedCell::~EmulatedCell() = default;

std::function<void(const PackedCell&, const CellColumns&, const NodeLists&)>
EmulatedCell::Runner() {
  return [this](const PackedCell& cell, const CellColumns& columns, const NodeLists& nodes) {
    Run(cell, columns, nodes);
  };
}

std::vector<std::string> EmulatedCell::Findings() const {
  std::vector<std::string> all = wrong_;
  all.insert(all.end(), runner_.findings().begin(), runner_.findings().end());
  all.insert(all.end(), checker_.findings().begin(), checker_.findings().end());
  return all;
}

const EmulatedCell::Compiled& EmulatedCell::Compile(const PackedCell& cell) {
  std::unique_ptr<Compiled>& compiled = compiled_[&cell];
  if (compiled != nullptr) return *compiled;
  compiled = std::make_unique<Compiled>();
  std::string text = CellSourcePrelude();
  const auto data = [&](ParameterId p) { return cell.Parameter(p); };
  const auto is_rounded = [](const Place&) { return true; };
  compiled->cell = AddCellSource("t0", cell.program(), data, is_rounded, options_.target, text);
  if (options_.rewrite) text = options_.rewrite(std::move(text));
  if (!options_.every_shape) LeaveOthersOut(compiled->cell, text);
  auto object = emulator::KernelObject::Compile(text, ::testing::TempDir());
  Check(object.ok(), object.status().ToString());
  compiled->object = *std::move(object);
  return *compiled;
}

const CudaShape& EmulatedCell::ShapeOf(const CudaStep& step) const {
  return step.shapes[std::min(options_.shape, step.shapes.size() - 1)];
}

// Kernels of other shapes are read by the compiler like any, but nothing is made of them, as nobody can call them: five times as
// fast where there are five shapes.
void EmulatedCell::LeaveOthersOut(const CudaCell& cell, std::string& text) const {
  constexpr std::string_view kKernel = "extern \"C\" __global__ void";
  for (const CudaStep& step : cell.steps) {
    for (const CudaShape& shape : step.shapes) {
      if (&shape == &ShapeOf(step)) continue;
      const size_t name = text.find(fmt::format(" {}(", shape.name));
      const size_t at = name == text.npos ? name : text.rfind(kKernel, name);
      Check(at != text.npos, "every shape is a kernel");
      text.replace(at, kKernel.size(), "static void");
    }
  }
}

cuda_abi::StepArgs EmulatedCell::Args(const PackedCell& cell, const CudaStep& step,
                                      const CellColumns& columns) const {
  cuda_abi::StepArgs args = {};
  args.now = &now_;
  args.scratch = const_cast<float*>(scratch_.data());
  args.rounded = const_cast<uint16_t*>(rounded_scratch_.data());
  args.scratch_stride = scratch_stride_;
  args.tokens = const_cast<int*>(tokens_.data());
  args.most_nodes = launch_nodes_;
  for (size_t c = 0; c < step.columns.size(); ++c) {
    const Place& place = step.columns[c];
    const auto index = static_cast<size_t>(place.index);
    const ColumnArray& column = place.kind == PlaceKind::kInput
                                    ? columns.inputs[index][static_cast<size_t>(place.column)]
                                    : columns.outputs[index];
    const auto rounded = rounded_.find(column.base);
    args.columns[c] = {column.base + place.offset, column.stride,
                       rounded == rounded_.end()
                           ? nullptr
                           : const_cast<uint16_t*>(rounded->second.data()) + place.offset};
  }
  for (size_t v = 0; v < step.values.size(); ++v) {
    const CudaValue& value = step.values[v];
    args.values[v] =
        value.parameter.valid() ? cell.Parameter(value.parameter) : value.floats.data();
  }
  return args;
}

// What a task's kernels may touch whatever its step: the rows that it names, its lists, what steps leave for one another. Rows
// of the output, scratch and tokens are not written yet.
void EmulatedCell::Allow(const PackedCell& cell, const CellColumns& columns,
                         const NodeLists& nodes) {
  const auto ints = [&](const auto* from, int64_t count, bool written) {
    checker_.Allow(from, static_cast<size_t>(4 * count), written);
  };
  const int64_t n = nodes.num_nodes;
  for (size_t i = 0; i < columns.inputs.size(); ++i) {
    const InputRows& input = nodes.inputs[i];
    const bool sums = cell.type().definition->inputs()[i].arity == Arity::kSum;
    const int64_t count = sums ? input.offsets[n] : n;
    ints(input.rows, count, true);
    if (sums) ints(input.offsets, n + 1, true);
    for (const ColumnArray& column : columns.inputs[i]) {
      for (int64_t r = 0; r < count; ++r) ints(column.At(input.rows[r]), column.width, true);
    }
  }
  ints(nodes.output_rows, n, true);
  for (const ColumnArray& column : columns.outputs) {
    for (int64_t r = 0; r < n; ++r) ints(column.At(nodes.output_rows[r]), column.width, false);
  }
  checker_.Allow(&now_, sizeof now_, true);
  ints(scratch_.data(), n * scratch_stride_, false);
  ints(tokens_.data(), static_cast<int64_t>(tokens_.size()) - 1, false);
}

// Rows that are read, rounded, and room for those that are written.
void EmulatedCell::AllowRounded(const CellColumns& columns, const NodeLists& nodes) {
  const auto row_at = [&](const ColumnArray& column, Row row) {
    std::vector<uint16_t>& all = rounded_[column.base];
    const auto end = static_cast<size_t>((row + 1) * column.stride);
    if (all.size() < end) all.resize(end, 0x7fff);
    return all.data() + row * column.stride;
  };
  const auto each = [&](auto&& visit) {
    for (size_t i = 0; i < columns.inputs.size(); ++i) {
      const InputRows& input = nodes.inputs[i];
      const int64_t count =
          input.offsets != nullptr ? input.offsets[nodes.num_nodes] : nodes.num_nodes;
      for (const ColumnArray& column : columns.inputs[i]) {
        for (int64_t r = 0; r < count; ++r) visit(column, input.rows[r], true);
      }
    }
    for (const ColumnArray& column : columns.outputs) {
      for (int32_t n = 0; n < nodes.num_nodes; ++n) visit(column, nodes.output_rows[n], false);
    }
  };
  // First all of them, as they move while they grow.
  each([&](const ColumnArray& column, Row row, bool) { row_at(column, row); });
  each([&](const ColumnArray& column, Row row, bool written) {
    uint16_t* const to = row_at(column, row);
    for (int32_t u = 0; written && u < column.width; ++u) to[u] = RoundedToBf16(column.At(row)[u]);
    checker_.Allow(to, static_cast<size_t>(2 * column.width), written);
  });
  rounded_scratch_.assign(scratch_.size(), 0x7fff);
  checker_.Allow(rounded_scratch_.data(), 2 * scratch_.size() - 2, false);
}

void EmulatedCell::CheckRounded(const PackedCell& cell, const CellColumns& columns,
                                const NodeLists& nodes) {
  for (size_t c = 0; c < columns.outputs.size(); ++c) {
    if (cell.type().definition->columns()[c].type != ElementType::kFp32) continue;
    const ColumnArray& column = columns.outputs[c];
    const std::vector<uint16_t>& all = rounded_[column.base];
    for (int32_t n = 0; n < nodes.num_nodes; ++n) {
      const Row row = nodes.output_rows[n];
      const uint16_t* const left = all.data() + row * column.stride;
      for (int32_t u = 0; u < column.width; ++u) {
        if (left[u] == RoundedToBf16(column.At(row)[u])) continue;
        wrong_.push_back(
            fmt::format("output {} of node {}: element {} is {:#06x} as bf16", c, n, u, left[u]));
      }
    }
  }
}

// One step's own arrays: the next step has no business with them.
void EmulatedCell::AllowValues(const PackedCell& cell, const CudaStep& step,
                               const cuda_abi::StepArgs& args) {
  for (size_t v = 0; v < step.values.size(); ++v) {
    const CudaValue& value = step.values[v];
    auto floats = static_cast<int64_t>(value.floats.size());
    if (value.parameter.valid()) {
      const Weights& weights = cell.type().weights;
      const auto p = static_cast<size_t>(value.parameter.value());
      floats = p < weights.size() ? weights[p].shape.size()
                                  : cell.program().prepared[p - weights.size()].width;
    }
    checker_.Allow(args.values[v], static_cast<size_t>(4 * floats), true);
  }
}

void EmulatedCell::Run(const PackedCell& cell, const CellColumns& columns, const NodeLists& nodes) {
  const Compiled& compiled = Compile(cell);
  launch_nodes_ = std::max(nodes.num_nodes, options_.launch_nodes);
  scratch_stride_ = (cell.program().scratch_width + 7) / 8 * 8;
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
  checker_.ForgetAll();
  Allow(cell, columns, nodes);
  rounded_.clear();
  const bool rounds = cell.program().precision == Precision::kBf16;
  if (rounds) AllowRounded(columns, nodes);
  for (const CudaStep& step : compiled.cell.steps) {
    cuda_abi::StepArgs args = Args(cell, step, columns);
    AllowValues(cell, step, args);
    const CudaShape& shape = ShapeOf(step);
    const emulator::KernelFunction* const function = compiled.object->Find(shape.name);
    Check(function != nullptr, "every step is a kernel");
    const int of_cluster = shape.nodes_a_block * shape.cluster;
    const int blocks = (launch_nodes_ + of_cluster - 1) / of_cluster * shape.cluster;
    const emulator::Grid grid = {
        static_cast<unsigned>(shape.blocks_x), static_cast<unsigned>(blocks),
        static_cast<unsigned>(shape.threads), static_cast<unsigned>(shape.shared_bytes), true};
    void* arguments[] = {&args};
    const absl::Status ran = runner_.Run(*compiled.object, *function, grid, arguments);
    Check(ran.ok(), ran.ToString());
    for (size_t v = 0; v < step.values.size(); ++v) checker_.Forget(args.values[v]);
  }
  if (rounds) CheckRounded(cell, columns, nodes);
}

}  // namespace cellbatch
