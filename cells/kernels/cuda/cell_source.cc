#include "cells/kernels/cuda/cell_source.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "cells/check.h"
#include "cells/kernels/cuda/kernel_texts.h"
#include "cells/kernels/cuda/product_tile.h"
#include "cells/kernels/cuda/step_writer.h"
#include "cells/kernels/cuda/write_tail.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

using cuda_kernels::kRowThreads;

// One block a node, which leaves where there is none.
constexpr char kOneNode[] =
    "  const int node = blockIdx.y;\n  if (node >= now.num_nodes) return;\n";

CudaStep OneKernel(CudaShape shape, const std::string& body, StepWriter writer) {
  writer.AddShape("", std::move(shape), StepWriter::kBegin + body);
  return writer.Finish();
}

// Behind what a block left of one node.
std::string Rounded(const Place& to, int64_t width, StepWriter& writer) {
  if (!writer.IsRounded(to, width)) return "";
  return fmt::format("  RoundRow({}, {}, {});\n", writer.Row(to, "node"), width,
                     writer.RoundedRow(to, "node"));
}

struct Writers {
  StepWriter writer;

  CudaStep operator()(const ProductStep& step) {
    Check(!step.arg_max.has_value(), "CUDA programs have their argmax as a step");
    const bool multiplies = std::any_of(
        step.segments.begin(), step.segments.end(),
        [](const SegmentPlan& segment) { return segment.depth > 0 && !GroupsOf(segment).empty(); });
    const bool by_tensor_cores = writer.program().precision != Precision::kFp32 ||
                                 writer.target().fp32 == Fp32By::kTensorCores;
    return multiplies && by_tensor_cores ? WriteMmaProduct(step, std::move(writer))
                                         : WriteProduct(step, std::move(writer));
  }
  CudaStep operator()(const PlainStep& step) { return WritePlain(step, std::move(writer)); }
  CudaStep operator()(const SumStep& step) {
    const Place column = {PlaceKind::kInput, step.input.value(), step.column, 0};
    writer.Row(column, "0");  // gives the column its number: 0
    std::string body =
        fmt::format("{}  SumRows(a.columns[0], now.inputs[{}], node, {}, {});\n", kOneNode,
                    step.input.value(), step.width, writer.Row(step.to, "node"));
    body += Rounded(step.to, step.width, writer);
    return OneKernel({"", kRowThreads, 1, 1, 0}, body, std::move(writer));
  }
  CudaStep operator()(const IndexStep& step) {
    const LookupSpec& lookup = writer.program().lookups[static_cast<size_t>(step.lookup)];
    const std::string body = fmt::format(
        "  const int node = blockIdx.y * {} + threadIdx.x;\n  if (node >= now.num_nodes) return;\n"
        "  a.tokens[{} * a.most_nodes + node] = Clamped({}, {});\n",
        kRowThreads, step.lookup, writer.Row(lookup.token, "node"), lookup.rows);
    return OneKernel({"", kRowThreads, 1, kRowThreads, 0}, body, std::move(writer));
  }
};

}  // namespace

CudaStep WritePlain(const PlainStep& step, StepWriter writer) {
  const std::string to = writer.Row(step.to, "node");
  std::vector<std::string> args;
  for (const Place& place : step.args) args.push_back(writer.Row(place, "node"));
  const auto count = step.shapes.empty() ? 0 : step.shapes[0].size();
  const auto each = [&](const std::string& value) {
    return fmt::format(
        "  const float* const x = {};\n  float* const y = {};\n"
        "  for (int i = threadIdx.x; i < {}; i += kRowThreads) y[i] = {};\n",
        args[0], to, step.shape.size(), value);
  };
  const auto product = [&](int64_t unit_stride, int64_t depth_stride) {
    return fmt::format("  MatMul({}, {}LL, {}, {}LL, {}LL, {}, {}, {}, {});\n", args[0],
                       step.strides[0], args[1], unit_stride, depth_stride, step.shape.rows,
                       step.shapes[0].cols, step.shape.cols, to);
  };
  std::string body;
  switch (step.kind) {
    case PlainKind::kCopy:
      body = each("x[i]");
      break;
    case PlainKind::kBroadcast:
      body = each("x[0]");
      break;
    case PlainKind::kMatMulByRows:
      body = product(step.strides[1], 1);
      break;
    case PlainKind::kMatMulByColumns:
      body = product(1, step.strides[1]);
      break;
    case PlainKind::kTranspose:
      body = each(fmt::format("x[i % {} * {} + i / {}]", step.shape.cols, step.shape.rows,
                              step.shape.cols));
      break;
    case PlainKind::kSlice:
      body = each(fmt::format("x[i / {} * {} + {} + i % {}]", step.shape.cols, step.shapes[0].cols,
                              step.begin, step.shape.cols));
      break;
    case PlainKind::kSum:
    case PlainKind::kMean:
      body = fmt::format("  SumElements({}, {}, {}.0, {});\n", args[0], count,
                         step.kind == PlainKind::kMean ? count : 1, to);
      break;
    case PlainKind::kSumSquares:
    case PlainKind::kMeanSquares:
      break;  // kCudaLimits has none
    case PlainKind::kSoftmax:
      body = fmt::format("  Softmax({}, {}, {});\n", args[0], count, to);
      break;
    case PlainKind::kArgMax:
      body = fmt::format("  ArgMax({}, {}, {});\n", args[0], count, to);
      break;
  }
  Check(!body.empty(), "every kind of step is written");
  const int shared = kRowThreads * static_cast<int>(sizeof(double));
  body += step.type == ElementType::kFp32 ? Rounded(step.to, step.shape.size(), writer) : "";
  return OneKernel({"", kRowThreads, 1, 1, shared}, kOneNode + body, std::move(writer));
}

CudaCell AddCellSource(const std::string& prefix, const CellProgram& program, ParameterData data,
                       IsRounded is_rounded, const CudaTarget& target, std::string& text) {
  CudaCell cell;
  for (size_t s = 0; s < program.steps.size(); ++s) {
    Writers writers{
        StepWriter(fmt::format("{}_s{}", prefix, s), program, data, is_rounded, target, text)};
    cell.steps.push_back(std::visit(writers, program.steps[s]));
  }
  return cell;
}

std::string CellSourcePrelude() { return kKernelTexts; }

std::string TaskKernelSource() { return std::string(kKernelTexts) + kTaskKernels; }

}  // namespace cellbatch
