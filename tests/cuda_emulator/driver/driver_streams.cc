// The driver's entry points for streams, what is queued on them but kernels, and graphs.
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "cells/device/cuda/cuda_api.h"
#include "tests/cuda_emulator/driver/driver_state.h"

namespace cellbatch::emulator {
namespace {

using cuda::DevicePtr;
using cuda::DriverApi;
using cuda::Graph;
using cuda::GraphExec;
using cuda::kSuccess;
using cuda::Result;
using cuda::Stream;

// What most calls begin with. Usable if `result` is 0.
struct StreamCall {
  explicit StreamCall(Stream handle) : gpu(UsableGpu(&result)) {
    if (gpu != nullptr) stream = Known(DriverState::Get().streams, handle, *gpu, &result);
  }
  bool usable() const { return stream != nullptr; }
  Result Push(GpuOperation operation, bool wait = false) const {
    return gpu->Push(*stream, {std::make_shared<const GpuOperation>(std::move(operation))}, wait);
  }

  Result result = kSuccess;
  EmulatedGpu* const gpu;
  std::shared_ptr<EmulatedStream> stream;
};

// Whether CUDA knows nothing of host memory. False also for what begins in memory that it knows and goes on behind its end.
bool IsPageable(const void* at) {
  const MemoryRegistry& registry = DriverState::Get().memory.registry();
  return !registry.Holding(reinterpret_cast<uintptr_t>(at), 1).has_value();
}

}  // namespace

extern "C" {

// Pageable memory is copied by the call, as CUDA stages it; a graph reads it whenever it is launched.
Result cuMemcpyHtoDAsync_v2(DevicePtr to, const void* from, size_t bytes, Stream handle) {
  const StreamCall call(handle);
  if (!call.usable()) return call.result;
  if (bytes == 0) return kSuccess;
  if (from == nullptr) return kInvalidValue;
  MemoryCopy copy{.to = to,
                  .from = reinterpret_cast<uintptr_t>(from),
                  .bytes = bytes,
                  .from_pageable = IsPageable(from)};
  if (!call.gpu->Reaches("the target of cuMemcpyHtoDAsync", to, bytes)) return kInvalidValue;
  if (!copy.from_pageable &&
      !call.gpu->Reaches("the source of cuMemcpyHtoDAsync", copy.from, bytes)) {
    return kInvalidValue;
  }
  if (copy.from_pageable && !call.gpu->Captures(*call.stream)) {
    const auto* const source = static_cast<const std::byte*>(from);
    copy.staged.assign(source, source + bytes);
  }
  return call.Push(std::move(copy));
}

Result cuMemcpyDtoHAsync_v2(void* to, DevicePtr from, size_t bytes, Stream handle) {
  const StreamCall call(handle);
  if (!call.usable()) return call.result;
  if (bytes == 0) return kSuccess;
  if (to == nullptr) return kInvalidValue;
  const MemoryCopy copy{.to = reinterpret_cast<uintptr_t>(to),
                        .from = from,
                        .bytes = bytes,
                        .to_pageable = IsPageable(to)};
  if (!call.gpu->Reaches("the source of cuMemcpyDtoHAsync", from, bytes)) return kInvalidValue;
  if (!copy.to_pageable && !call.gpu->Reaches("the target of cuMemcpyDtoHAsync", copy.to, bytes)) {
    return kInvalidValue;
  }
  return call.Push(copy, copy.to_pageable);
}

Result cuMemsetD8Async(DevicePtr to, unsigned char value, size_t bytes, Stream handle) {
  const StreamCall call(handle);
  if (!call.usable()) return call.result;
  if (bytes == 0) return kSuccess;
  if (!call.gpu->Reaches("cuMemsetD8Async", to, bytes)) return kInvalidValue;
  return call.Push(MemoryFill{.to = to, .bytes = bytes, .value = value});
}

Result cuStreamWriteValue32_v2(Stream handle, DevicePtr to, uint32_t value, unsigned flags) {
  const StreamCall call(handle);
  if (!call.usable()) return call.result;
  if (flags != 0 || to % sizeof value != 0) return kInvalidValue;
  if (!call.gpu->Reaches("cuStreamWriteValue32", to, sizeof value)) return kInvalidValue;
  return call.Push(SignalWrite{.to = to, .value = value});
}

Result cuStreamCreate(Stream* stream, unsigned flags) {
  Result result = kSuccess;
  EmulatedGpu* const gpu = UsableGpu(&result);
  if (gpu == nullptr) return result;
  if (stream == nullptr || flags > cuda::kStreamNonBlocking) return kInvalidValue;
  *stream = DriverState::Get().streams.Add<Stream>(gpu->OpenStream());
  return kSuccess;
}

Result cuStreamDestroy_v2(Stream handle) {
  const StreamCall call(handle);
  if (!call.usable()) return call.result;
  if (!DriverState::Get().streams.Remove(handle)) return kInvalidHandle;
  call.gpu->CloseStream(*call.stream);
  return kSuccess;
}

Result cuStreamQuery(Stream handle) {
  const StreamCall call(handle);
  return call.usable() ? call.gpu->Query(*call.stream) : call.result;
}

Result cuStreamSynchronize(Stream handle) {
  const StreamCall call(handle);
  return call.usable() ? call.gpu->Synchronize(*call.stream) : call.result;
}

Result cuStreamBeginCapture_v2(Stream handle, int mode) {
  const StreamCall call(handle);
  if (!call.usable()) return call.result;
  if (mode != cuda::kCaptureThreadLocal) return kNotSupported;
  return call.gpu->BeginCapture(*call.stream);
}

Result cuStreamEndCapture(Stream handle, Graph* graph) {
  const StreamCall call(handle);
  if (!call.usable()) return call.result;
  if (graph == nullptr) return kInvalidValue;
  *graph = nullptr;
  auto captured = std::make_shared<CapturedGraph>();
  captured->gpu = call.gpu->number();
  captured->context = call.gpu->context();
  const Result result = call.gpu->EndCapture(*call.stream, &captured->operations);
  if (result == kSuccess) *graph = DriverState::Get().graphs.Add<Graph>(std::move(captured));
  return result;
}

Result cuGraphInstantiateWithFlags(GraphExec* exec, Graph handle, unsigned long long flags) {
  Result result = kSuccess;
  const EmulatedGpu* const gpu = UsableGpu(&result);
  if (gpu == nullptr) return result;
  if (exec == nullptr || flags != 0) return kInvalidValue;
  DriverState& state = DriverState::Get();
  const auto graph = Known(state.graphs, handle, *gpu, &result);
  if (graph == nullptr) return result;
  auto execution = std::make_shared<CapturedGraph>();
  execution->gpu = graph->gpu;
  execution->context = graph->context;
  execution->operations = graph->operations;
  *exec = state.executions.Add<GraphExec>(std::move(execution));
  return kSuccess;
}

Result cuGraphLaunch(GraphExec handle, Stream stream) {
  StreamCall call(stream);
  if (!call.usable()) return call.result;
  const auto execution = Known(DriverState::Get().executions, handle, *call.gpu, &call.result);
  if (execution == nullptr) return call.result;
  return call.gpu->Push(*call.stream, execution->operations);
}

Result cuGraphDestroy(Graph graph) {
  DriverState& state = DriverState::Get();
  if (!state.initialized()) return kNotInitialized;
  return state.graphs.Remove(graph) ? kSuccess : kInvalidHandle;
}

Result cuGraphExecDestroy(GraphExec exec) {
  DriverState& state = DriverState::Get();
  if (!state.initialized()) return kNotInitialized;
  return state.executions.Remove(exec) ? kSuccess : kInvalidHandle;
}

}  // extern "C"

static_assert(std::is_same_v<decltype(&cuMemcpyHtoDAsync_v2), decltype(DriverApi::copy_to_device)>);
static_assert(std::is_same_v<decltype(&cuMemcpyDtoHAsync_v2), decltype(DriverApi::copy_to_host)>);
static_assert(std::is_same_v<decltype(&cuMemsetD8Async), decltype(DriverApi::fill)>);
static_assert(std::is_same_v<decltype(&cuStreamCreate), decltype(DriverApi::stream_create)>);
static_assert(std::is_same_v<decltype(&cuStreamDestroy_v2), decltype(DriverApi::stream_destroy)>);
static_assert(std::is_same_v<decltype(&cuStreamQuery), decltype(DriverApi::stream_query)>);
static_assert(
    std::is_same_v<decltype(&cuStreamSynchronize), decltype(DriverApi::stream_synchronize)>);
static_assert(
    std::is_same_v<decltype(&cuStreamWriteValue32_v2), decltype(DriverApi::stream_write)>);
static_assert(
    std::is_same_v<decltype(&cuStreamBeginCapture_v2), decltype(DriverApi::capture_begin)>);
static_assert(std::is_same_v<decltype(&cuStreamEndCapture), decltype(DriverApi::capture_end)>);
static_assert(
    std::is_same_v<decltype(&cuGraphInstantiateWithFlags), decltype(DriverApi::graph_instantiate)>);
static_assert(std::is_same_v<decltype(&cuGraphLaunch), decltype(DriverApi::graph_launch)>);
static_assert(std::is_same_v<decltype(&cuGraphDestroy), decltype(DriverApi::graph_destroy)>);
static_assert(
    std::is_same_v<decltype(&cuGraphExecDestroy), decltype(DriverApi::graph_exec_destroy)>);

}  // namespace cellbatch::emulator
