// What the loader says where something is missing. That the table works is for the devices' own tests to show.
#include "cells/device/cuda/cuda_api.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace cellbatch::cuda {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr char kOneFunction[] = "cells/device/cuda/libone_function.so";  // cuInit, and no other

class CudaApiTest : public ::testing::Test {
 protected:
  CudaApiTest() : folder_(fs::path(::testing::TempDir()) / "cuda_api_test") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~CudaApiTest() override { fs::remove_all(folder_); }

  std::string Error() const {
    const auto api = LoadCudaApi(folder_);
    EXPECT_EQ(api.status().code(), absl::StatusCode::kNotFound);
    return std::string(api.status().message());
  }

  const fs::path folder_;
};

TEST_F(CudaApiTest, ALibraryThatIsNowhereIsNamedWithWhereItWasLookedFor) {
  const auto api = LoadCudaApi(folder_);
  if (api.ok()) {  // this machine has CUDA: what the folder has not is taken from there
    EXPECT_THAT((*api)->from, HasSubstr("libcuda.so.1"));
    return;
  }
  EXPECT_THAT(Error(), HasSubstr(" is not there (looked for in " + folder_.string() +
                                 " and where the system finds libraries)"));
}

TEST_F(CudaApiTest, AFileThatIsNoLibraryIsNamed) {
  std::ofstream(folder_ / "libcuda.so.1") << "not a library";
  EXPECT_THAT(Error(), HasSubstr((folder_ / "libcuda.so.1").string()));
}

TEST_F(CudaApiTest, AFunctionThatADriverHasNotIsNamed) {
  fs::copy_file(kOneFunction, folder_ / "libcuda.so.1");
  fs::copy_file(kOneFunction, folder_ / "libnvrtc.so.12");
  EXPECT_EQ(Error(), "cuda: " + (folder_ / "libcuda.so.1").string() +
                         " has no cuDriverGetVersion: it is older than this build needs");
}

// NVRTC asks for it by its name alone, when it compiles.
TEST_F(CudaApiTest, WhatNvrtcOpensLaterIsOpenedFromTheSameFolder) {
  const fs::path builtins = folder_ / "libnvrtc-builtins.so.13.0";
  for (const char* name : {"libcuda.so.1", "libnvrtc.so.13", "libnvrtc-builtins.so.13.0"}) {
    fs::copy_file(kOneFunction, folder_ / name);
  }
  EXPECT_EQ(dlopen(builtins.c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr);
  EXPECT_FALSE(LoadCudaApi(folder_).ok());
  EXPECT_NE(dlopen(builtins.c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr);
}

}  // namespace
}  // namespace cellbatch::cuda
