#include "tests/cuda_emulator/driver/gpu_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>
#include <variant>

namespace cellbatch::emulator {
namespace {

uint64_t Hash(uintptr_t at, size_t bytes) {
  return std::hash<std::string_view>()({reinterpret_cast<const char*>(at), bytes});
}

}  // namespace

GpuChecks::GpuChecks(int gpu, const MemoryRegistry& registry, HostWrites& host_writes,
                     FindingList& findings)
    : gpu_(gpu), registry_(registry), host_writes_(host_writes), findings_(findings) {}

std::optional<SeenSource> GpuChecks::See(const GpuOperation& operation) const {
  const auto* const copy = std::get_if<MemoryCopy>(&operation);
  if (copy == nullptr || copy->from_pageable) return std::nullopt;
  const std::optional<MemoryBlock> block = registry_.Holding(copy->from, copy->bytes);
  if (!block.has_value() || block->kind != MemoryKind::kHost) return std::nullopt;
  const HostWrites::Seen writes = host_writes_.Of(block->number);
  if (writes.busy) return std::nullopt;
  return SeenSource{block->number, Hash(copy->from, copy->bytes), writes.begun};
}

void GpuChecks::Begins(bool on, const StreamPlace& place) {
  if (!on) {
    on_ = false;
    missed_ = true;
    return;
  }
  if (!std::exchange(on_, true)) {
    // What it knew is of old.
    checker_ = std::make_unique<AccessChecker>();
    checker_->DeferRacesOfWrites();
    checker_->set_writes_host([this](uintptr_t at) { WritesHost(at); });
    known_.clear();
    version_ = ~registry_.version();
  }
  Follow();
  checker_->BeginsOperation(place);
}

// What this GPU's kernels may touch: its own memory, and the host's.
void GpuChecks::Follow() {
  const uint64_t version = registry_.version();
  const bool missed = std::exchange(missed_, false);
  if (version == version_) return;
  version_ = version;
  std::map<int64_t, MemoryBlock> blocks;
  for (const MemoryBlock& block : registry_.Blocks()) {
    if (block.kind == MemoryKind::kHost || block.gpu == gpu_) blocks[block.number] = block;
  }
  const auto at = [](const MemoryBlock& block) {
    return reinterpret_cast<const void*>(block.start);
  };
  for (const auto& [number, block] : known_) {
    if (!blocks.contains(number)) checker_->Forget(at(block));
  }
  for (const auto& [number, block] : blocks) {
    if (known_.contains(number)) continue;
    const bool of_host = block.kind == MemoryKind::kHost;
    checker_->Allow(at(block), block.bytes, of_host || missed, of_host);
  }
  known_ = std::move(blocks);
}

void GpuChecks::WritesHost(uintptr_t at) {
  if (std::any_of(written_host_.begin(), written_host_.end(),
                  [&](const MemoryBlock& block) { return block.Holds(at, 1); })) {
    return;
  }
  const std::optional<MemoryBlock> block = registry_.Holding(at, 1);
  if (!block.has_value()) return;
  host_writes_.Begins(block->number);
  written_host_.push_back(*block);
}

void GpuChecks::Reads(const char* what, uintptr_t at, size_t bytes) {
  if (on_) checker_->Copies(what, reinterpret_cast<const void*>(at), bytes, false);
}

void GpuChecks::Writes(const char* what, uintptr_t at, size_t bytes) {
  if (!on_) return;
  checker_->Copies(what, reinterpret_cast<const void*>(at), bytes, true);
  const std::optional<MemoryBlock> block = registry_.Holding(at, bytes);
  if (block.has_value() && block->kind == MemoryKind::kHost) WritesHost(at);
}

void GpuChecks::SourceIs(const MemoryCopy& copy, const std::optional<SeenSource>& seen) {
  if (!on_ || !seen.has_value() || host_writes_.Of(seen->block).begun != seen->writes) return;
  const bool changed = Hash(copy.from, copy.bytes) != seen->hash;
  // Once more: a GPU may have begun to write while we looked.
  if (!changed || host_writes_.Of(seen->block).begun != seen->writes) return;
  findings_.Add(fmt::format("GPU {}: the host changed the source of a copy that was under way: {}",
                            gpu_, registry_.Describe(copy.from, copy.bytes)));
}

void GpuChecks::Ends() {
  for (const MemoryBlock& block : written_host_) host_writes_.Ends(block.number);
  written_host_.clear();
  if (!on_) return;
  for (const std::string& finding : checker_->TakeFindings()) {
    findings_.Add(fmt::format("GPU {}: {}", gpu_, finding));
  }
}

}  // namespace cellbatch::emulator
