#include "tests/cuda_emulator/driver/emulated_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace cellbatch::emulator {

using cuda::kSuccess;
using cuda::Result;

EmulatedGpu::EmulatedGpu(int number, uint64_t seed, EmulatedMemory& memory, HostWrites& host_writes,
                         FindingList& findings)
    : number_(number),
      memory_(memory),
      findings_(findings),
      checks_(number, memory.registry(), host_writes, findings) {
  Seed(seed);
}

void EmulatedGpu::Seed(uint64_t seed) {
  const uint64_t own = seed * 1'000 + static_cast<uint64_t>(number_);
  order_.seed(own);
  lateness_.seed(own + 1);
  runner_seed_ = own;
}

Result EmulatedGpu::StateLocked() const { return retained_ == 0 ? kInvalidContext : error_; }

Result EmulatedGpu::state() const {
  const std::lock_guard lock(mutex_);
  return StateLocked();
}

uint64_t EmulatedGpu::context() const {
  const std::lock_guard lock(mutex_);
  return retained_ == 0 ? 0 : context_;
}

Result EmulatedGpu::Retain() {
  const std::lock_guard lock(mutex_);
  if (lost_) return kLaunchFailed;
  if (retained_++ == 0) ++context_;
  if (!std::exchange(started_, true)) std::thread([this] { Work(); }).detach();
  return kSuccess;
}

Result EmulatedGpu::Release() {
  std::unique_lock lock(mutex_);
  if (retained_ == 0) return kInvalidContext;
  if (retained_ > 1) {
    --retained_;
    return kSuccess;
  }
  changed_.wait(lock, [&] { return !running_ && (error_ != kSuccess || Idle()); });
  retained_ = 0;
  for (const auto& stream : streams_) stream->closed = true;
  streams_.clear();
  memory_.FreeAllOf(number_, error_ == kSuccess);
  error_ = lost_ ? kLaunchFailed : kSuccess;
  return kSuccess;
}

std::shared_ptr<EmulatedStream> EmulatedGpu::OpenStream() {
  const std::lock_guard lock(mutex_);
  auto stream = std::make_shared<EmulatedStream>();
  stream->gpu = number_;
  stream->context = context_;
  stream->number = ++opened_;
  streams_.push_back(stream);
  return stream;
}

void EmulatedGpu::CloseStream(EmulatedStream& stream) {
  const std::lock_guard lock(mutex_);
  stream.closed = true;
  stream.captures = false;
  std::erase_if(streams_, [](const auto& s) { return s->closed && s->finished == s->pushed; });
}

Result EmulatedGpu::Push(EmulatedStream& stream, const OperationList& operations, bool wait) {
  std::vector<QueuedOperation> queued;
  for (const auto& operation : operations) {
    QueuedOperation& added = queued.emplace_back(QueuedOperation{operation, {}, 0});
    if (checks_on_) added.source = checks_.See(*operation);
  }
  std::unique_lock lock(mutex_);
  if (const Result r = StateLocked(); r != kSuccess) return r;
  if (stream.closed) return kInvalidHandle;
  if (stream.captures) {
    stream.captured.insert(stream.captured.end(), operations.begin(), operations.end());
    return stream.capture_is_void ? kCaptureInvalidated : kSuccess;
  }
  for (QueuedOperation& added : queued) added.begun_before = begun_;
  stream.queue.insert(stream.queue.end(), queued.begin(), queued.end());
  stream.pushed += operations.size();
  changed_.notify_all();
  if (!wait) return kSuccess;
  const uint64_t last = stream.pushed;
  changed_.wait(lock, [&] { return stream.finished >= last; });
  return StateLocked();
}

Result EmulatedGpu::Query(EmulatedStream& stream) {
  const std::lock_guard lock(mutex_);
  if (const Result r = StateLocked(); r != kSuccess) return r;
  if (stream.captures) {
    stream.capture_is_void = true;
    return kCaptureUnsupported;
  }
  return stream.finished == stream.pushed ? kSuccess : cuda::kNotReady;
}

Result EmulatedGpu::Synchronize(EmulatedStream& stream) {
  std::unique_lock lock(mutex_);
  if (const Result r = StateLocked(); r != kSuccess) return r;
  if (stream.captures) {
    stream.capture_is_void = true;
    return kCaptureUnsupported;
  }
  const uint64_t last = stream.pushed;
  changed_.wait(lock, [&] { return stream.finished >= last; });
  return StateLocked();
}

bool EmulatedGpu::Captures(const EmulatedStream& stream) const {
  const std::lock_guard lock(mutex_);
  return stream.captures;
}

bool EmulatedGpu::CapturesHere() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(streams_.begin(), streams_.end(), [](const auto& s) {
    return s->captures && s->capturer == std::this_thread::get_id();
  });
}

Result EmulatedGpu::BeginCapture(EmulatedStream& stream) {
  const std::lock_guard lock(mutex_);
  if (const Result r = StateLocked(); r != kSuccess) return r;
  if (stream.captures) return kIllegalState;
  stream.captures = true;
  stream.capture_is_void = false;
  stream.capturer = std::this_thread::get_id();
  stream.captured.clear();
  return kSuccess;
}

Result EmulatedGpu::EndCapture(EmulatedStream& stream, OperationList* captured) {
  const std::lock_guard lock(mutex_);
  if (const Result r = StateLocked(); r != kSuccess) return r;
  if (!stream.captures) return kIllegalState;
  if (stream.capturer != std::this_thread::get_id()) return kCaptureWrongThread;
  stream.captures = false;
  *captured = std::exchange(stream.captured, {});
  return stream.capture_is_void ? kCaptureInvalidated : kSuccess;
}

// Not until it is idle: other threads may queue more and more.
Result EmulatedGpu::WaitForQueued() {
  std::unique_lock lock(mutex_);
  std::vector<std::pair<std::shared_ptr<EmulatedStream>, uint64_t>> last;
  for (const auto& stream : streams_) last.emplace_back(stream, stream->pushed);
  for (const auto& [stream, pushed] : last) {
    changed_.wait(lock, [&, s = stream.get(), p = pushed] { return s->finished >= p; });
  }
  return StateLocked();
}

bool EmulatedGpu::Reaches(const char* who, uintptr_t at, size_t bytes) {
  const MemoryRegistry& registry = memory_.registry();
  const std::optional<MemoryBlock> block = registry.Holding(at, bytes);
  if (block.has_value() && (block->kind == MemoryKind::kHost || block->gpu == number_)) return true;
  findings_.Add(fmt::format("GPU {}: {}: {}", number_, who, registry.Describe(at, bytes)));
  return false;
}

void EmulatedGpu::SetSeed(uint64_t seed) {
  const std::lock_guard lock(mutex_);
  Seed(seed);
}

void EmulatedGpu::Hang(bool hangs) {
  const std::lock_guard lock(mutex_);
  hangs_ = hangs;
  changed_.notify_all();
}

// The kernel that runs may write until it ends, and nobody is told before.
void EmulatedGpu::Lose() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  changed_.wait(lock, [&] { return !running_; });
  stopping_ = false;
  lost_ = true;
  Fail(kLaunchFailed);
}

void EmulatedGpu::FailLaunch(int64_t after) {
  const std::lock_guard lock(mutex_);
  fail_after_ = after;
}

void EmulatedGpu::Delay(int one_in, int most_us) {
  const std::lock_guard lock(mutex_);
  one_in_ = one_in;
  most_us_ = most_us;
}

void EmulatedGpu::Restore() {
  std::unique_lock lock(mutex_);
  hangs_ = lost_ = false;
  fail_after_ = one_in_ = most_us_ = 0;
  error_ = kSuccess;
  changed_.notify_all();
}

bool EmulatedGpu::Ready() const {
  return !hangs_ && !stopping_ && error_ == kSuccess &&
         std::any_of(streams_.begin(), streams_.end(),
                     [](const auto& s) { return !s->queue.empty(); });
}

bool EmulatedGpu::Idle() const {
  return std::all_of(streams_.begin(), streams_.end(),
                     [](const auto& s) { return s->finished == s->pushed; });
}

std::shared_ptr<EmulatedStream> EmulatedGpu::Draw() {
  std::vector<std::shared_ptr<EmulatedStream>> ready;
  std::copy_if(streams_.begin(), streams_.end(), std::back_inserter(ready),
               [](const auto& s) { return !s->queue.empty(); });
  return ready[order_() % ready.size()];
}

int EmulatedGpu::DrawDelay() {
  if (one_in_ < 1 || most_us_ < 1 || lateness_() % static_cast<uint64_t>(one_in_) != 0) return 0;
  return static_cast<int>(lateness_() % static_cast<uint64_t>(most_us_)) + 1;
}

void EmulatedGpu::Fail(Result result) {
  if (error_ == kSuccess) error_ = result;
  for (const auto& stream : streams_) {
    stream->queue.clear();
    stream->finished = stream->pushed;
  }
  changed_.notify_all();
}

void EmulatedGpu::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return Ready(); });
    Step(lock);
  }
}

StreamPlace EmulatedGpu::Place(const EmulatedStream& stream, const QueuedOperation& queued) const {
  const bool others_wait = std::any_of(streams_.begin(), streams_.end(), [&](const auto& s) {
    return s.get() != &stream && !s->queue.empty();
  });
  return {stream.number, begun_, queued.begun_before, others_wait};
}

void EmulatedGpu::Step(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<EmulatedStream> stream = Draw();
  const QueuedOperation queued = std::move(stream->queue.front());
  stream->queue.pop_front();
  const bool launches = std::holds_alternative<KernelLaunch>(*queued.operation);
  const bool fails = launches && fail_after_ > 0 && --fail_after_ == 0;
  if (runner_seed_.has_value()) runner_ = std::make_unique<GridRunner>(*runner_seed_);
  runner_seed_.reset();
  const int late_us = DrawDelay();
  ++begun_;
  const StreamPlace place = Place(*stream, queued);
  running_ = true;
  lock.unlock();
  if (late_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(late_us));
  checks_.Begins(checks_on_, place);
  const Result result = fails ? kLaunchFailed : Execute(queued);
  checks_.Ends();
  lock.lock();
  running_ = false;
  ++stream->finished;
  if (result != kSuccess) Fail(result);
  std::erase_if(streams_, [](const auto& s) { return s->closed && s->finished == s->pushed; });
  changed_.notify_all();
}

Result EmulatedGpu::Execute(const QueuedOperation& queued) {
  const GpuOperation& operation = *queued.operation;
  if (const auto* launch = std::get_if<KernelLaunch>(&operation)) return Launch(*launch);
  if (const auto* copy = std::get_if<MemoryCopy>(&operation)) return Copy(*copy, queued.source);
  if (const auto* fill = std::get_if<MemoryFill>(&operation)) return Fill(*fill);
  return Write(std::get<SignalWrite>(operation));
}

Result EmulatedGpu::Launch(const KernelLaunch& launch) {
  // Each thread of the kernel is called with copies of them.
  auto* const arguments = const_cast<ArgumentWord*>(launch.arguments.data());
  std::vector<void*> pointers;
  size_t word = 0;
  for (const size_t bytes : launch.function->argument_bytes) {
    pointers.push_back(arguments + word);
    word += (bytes + sizeof(ArgumentWord) - 1) / sizeof(ArgumentWord);
  }
  runner_->set_observer(checks_.observer());
  const absl::Status ran = Run(launch, pointers.data());
  for (std::string& finding : runner_->TakeFindings()) {
    findings_.Add(fmt::format("GPU {}: {}", number_, finding));
  }
  if (!ran.ok()) {
    findings_.Add(fmt::format("GPU {}: {}", number_, std::string(ran.message())));
    return kLaunchFailed;
  }
  ++launches_;
  return kSuccess;
}

// By kernels that tell of their accesses, if anybody wants to know.
absl::Status EmulatedGpu::Run(const KernelLaunch& launch, void* const* arguments) {
  const Watched watched = checks_.observer() != nullptr ? Watched::kYes : Watched::kNo;
  const auto object = launch.object->As(watched);
  if (!object.ok()) return object.status();
  const KernelFunction* const function =
      *object == launch.object.get() ? launch.function : (*object)->Find(launch.function->name);
  return runner_->Run(**object, *function, launch.grid, arguments);
}

// Looked up again: what was allocated at the call may be free by now.
Result EmulatedGpu::Copy(const MemoryCopy& copy, const std::optional<SeenSource>& seen) {
  const bool staged = !copy.staged.empty();
  if (!copy.to_pageable && !Reaches("a copy's target, as it runs", copy.to, copy.bytes)) {
    return kLaunchFailed;
  }
  if (!staged && !copy.from_pageable &&
      !Reaches("a copy's source, as it runs", copy.from, copy.bytes)) {
    return kLaunchFailed;
  }
  if (!staged && !copy.from_pageable) checks_.Reads("a copy", copy.from, copy.bytes);
  if (!copy.to_pageable) checks_.Writes("a copy", copy.to, copy.bytes);
  checks_.SourceIs(copy, seen);
  std::memmove(reinterpret_cast<void*>(copy.to),
               staged ? copy.staged.data() : reinterpret_cast<const void*>(copy.from), copy.bytes);
  return kSuccess;
}

Result EmulatedGpu::Fill(const MemoryFill& fill) {
  if (!Reaches("a fill, as it runs", fill.to, fill.bytes)) return kLaunchFailed;
  checks_.Writes("a fill", fill.to, fill.bytes);
  std::memset(reinterpret_cast<void*>(fill.to), fill.value, fill.bytes);
  return kSuccess;
}

Result EmulatedGpu::Write(const SignalWrite& write) {
  if (!Reaches("a write, as it runs", write.to, sizeof write.value)) return kLaunchFailed;
  checks_.Writes("a write of a stream", write.to, sizeof write.value);
  __atomic_store_n(reinterpret_cast<uint32_t*>(write.to), write.value, __ATOMIC_RELEASE);
  return kSuccess;
}

}  // namespace cellbatch::emulator
