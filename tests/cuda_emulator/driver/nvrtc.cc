// The emulated libnvrtc.so.13. Options are not looked at; headers come inside of sources.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>

#include "cells/device/cuda/cuda_api.h"
#include "tests/cuda_emulator/driver/cubin_text.h"
#include "tests/cuda_emulator/driver/handle_table.h"
#include "tests/cuda_emulator/kernel_object.h"

namespace cellbatch::emulator {
namespace {

using cuda::NvrtcApi;
using cuda::Program;
using cuda::Result;

// nvrtcResult
constexpr Result kInvalidInput = 3, kInvalidProgram = 4, kCompilation = 6, kInternal = 11;

struct SourceProgram {
  std::string source, cubin, log;
};

HandleTable<SourceProgram>& Programs() {
  static auto* const programs = new HandleTable<SourceProgram>();
  return *programs;
}

// With its NUL.
Result SizeOf(Program handle, std::string SourceProgram::*text, size_t* bytes) {
  const auto program = Programs().Find(handle);
  if (program == nullptr) return kInvalidProgram;
  if (bytes == nullptr) return kInvalidInput;
  *bytes = (*program.*text).size() + 1;
  return cuda::kSuccess;
}

Result CopyOf(Program handle, std::string SourceProgram::*text, char* to) {
  const auto program = Programs().Find(handle);
  if (program == nullptr) return kInvalidProgram;
  if (to == nullptr) return kInvalidInput;
  std::memcpy(to, (*program.*text).c_str(), (*program.*text).size() + 1);
  return cuda::kSuccess;
}

}  // namespace

extern "C" {

Result nvrtcVersion(int* major, int* minor) {
  if (major == nullptr || minor == nullptr) return kInvalidInput;
  *major = 13;
  *minor = 0;
  return cuda::kSuccess;
}

Result nvrtcCreateProgram(Program* program, const char* source, const char*, int num_headers,
                          const char* const*, const char* const*) {
  if (program == nullptr || source == nullptr || num_headers != 0) return kInvalidInput;
  auto made = std::make_shared<SourceProgram>();
  made->source = source;
  *program = Programs().Add<Program>(std::move(made));
  return cuda::kSuccess;
}

Result nvrtcCompileProgram(Program handle, int num_options, const char* const* options) {
  const auto program = Programs().Find(handle);
  if (program == nullptr) return kInvalidProgram;
  if (num_options < 0 || (num_options > 0 && options == nullptr)) return kInvalidInput;
  // As the driver will, unless a test tells it otherwise.
  const char* const checks = std::getenv("CELLBATCH_EMULATOR_CHECKS");
  const bool unwatched = checks != nullptr && std::strcmp(checks, "0") == 0;
  const auto object = KernelObject::Compile(program->source, CubinCacheFolder(),
                                            unwatched ? Watched::kNo : Watched::kYes);
  if (object.ok()) {
    program->cubin = kCubinMagic + program->source;
    return cuda::kSuccess;
  }
  program->log = std::string(object.status().message());
  return object.status().code() == absl::StatusCode::kInvalidArgument ? kCompilation : kInternal;
}

Result nvrtcGetCUBINSize(Program program, size_t* bytes) {
  return SizeOf(program, &SourceProgram::cubin, bytes);
}

Result nvrtcGetCUBIN(Program program, char* cubin) {
  return CopyOf(program, &SourceProgram::cubin, cubin);
}

Result nvrtcGetProgramLogSize(Program program, size_t* bytes) {
  return SizeOf(program, &SourceProgram::log, bytes);
}

Result nvrtcGetProgramLog(Program program, char* log) {
  return CopyOf(program, &SourceProgram::log, log);
}

Result nvrtcDestroyProgram(Program* program) {
  if (program == nullptr || !Programs().Remove(*program)) return kInvalidProgram;
  *program = nullptr;
  return cuda::kSuccess;
}

}  // extern "C"

static_assert(std::is_same_v<decltype(&nvrtcVersion), decltype(NvrtcApi::version)>);
static_assert(std::is_same_v<decltype(&nvrtcCreateProgram), decltype(NvrtcApi::create)>);
static_assert(std::is_same_v<decltype(&nvrtcCompileProgram), decltype(NvrtcApi::compile)>);
static_assert(std::is_same_v<decltype(&nvrtcGetCUBINSize), decltype(NvrtcApi::cubin_size)>);
static_assert(std::is_same_v<decltype(&nvrtcGetCUBIN), decltype(NvrtcApi::cubin)>);
static_assert(std::is_same_v<decltype(&nvrtcGetProgramLogSize), decltype(NvrtcApi::log_size)>);
static_assert(std::is_same_v<decltype(&nvrtcGetProgramLog), decltype(NvrtcApi::log)>);
static_assert(std::is_same_v<decltype(&nvrtcDestroyProgram), decltype(NvrtcApi::destroy)>);

}  // namespace cellbatch::emulator
