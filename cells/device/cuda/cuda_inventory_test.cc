// What is said of a driver that has GPUs, of one that has none, and of one that fails. The driver is a table of ours.
#include "cells/device/cuda/cuda_inventory.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace cellbatch::cuda {
namespace {

constexpr Result kNoDevice = 100, kInvalidDevice = 101;

// Two GPUs of an H200's kind.
CudaApi TwoGpus() {
  CudaApi api;
  api.from = "/lib/libcuda.so.1";
  api.driver.init = [](unsigned) -> Result { return kSuccess; };
  api.driver.device_count = [](int* count) -> Result {
    *count = 2;
    return kSuccess;
  };
  api.driver.device_get = [](DeviceNumber* device, int ordinal) -> Result {
    *device = 10 + ordinal;
    return kSuccess;
  };
  api.driver.device_name = [](char* name, int length, DeviceNumber device) -> Result {
    std::snprintf(name, static_cast<size_t>(length), "GPU %d", device);
    return kSuccess;
  };
  api.driver.device_attribute = [](int* value, int attribute, DeviceNumber) -> Result {
    *value = attribute == kComputeMajor ? 9 : 0;
    return kSuccess;
  };
  api.driver.error_name = [](Result result, const char** name) -> Result {
    if (result != kNoDevice) return 1;
    *name = "CUDA_ERROR_NO_DEVICE";
    return kSuccess;
  };
  api.driver.error_text = [](Result, const char** text) -> Result {
    *text = "no CUDA-capable device is detected";
    return kSuccess;
  };
  return api;
}

TEST(CudaInventoryTest, EveryGpuIsNamedByItsOrdinal) {
  const auto gpus = FindGpus(TwoGpus());
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  ASSERT_EQ(gpus->size(), 2u);
  EXPECT_EQ((*gpus)[1].compute_major, 9);
  EXPECT_EQ((*gpus)[1].compute_minor, 0);
  EXPECT_EQ(DescribeGpus(*gpus), "cuda:0 (GPU 10), cuda:1 (GPU 11)");
  EXPECT_EQ(DescribeGpus({}), "");
}

TEST(CudaInventoryTest, ADriverWithoutAGpuIsNotFoundInItsOwnWords) {
  CudaApi api = TwoGpus();
  api.driver.init = [](unsigned) -> Result { return kNoDevice; };
  EXPECT_EQ(FindGpus(api).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(FindGpus(api).status().message(),
            "cuda: /lib/libcuda.so.1 has no GPU: CUDA_ERROR_NO_DEVICE (no CUDA-capable device is "
            "detected)");
  api.driver.init = TwoGpus().driver.init;
  api.driver.device_count = [](int* count) -> Result {
    *count = 0;
    return kSuccess;
  };
  EXPECT_EQ(FindGpus(api).status().message(), "cuda: /lib/libcuda.so.1 has no GPU");
}

TEST(CudaInventoryTest, ACallThatFailsIsNamedWithItsGpu) {
  CudaApi api = TwoGpus();
  api.driver.device_get = [](DeviceNumber*, int ordinal) -> Result {
    return ordinal == 1 ? kInvalidDevice : kSuccess;
  };
  const auto gpus = FindGpus(api);
  EXPECT_EQ(gpus.status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(gpus.status().message(), "cuda:1: cuDeviceGet: error 101");
}

}  // namespace
}  // namespace cellbatch::cuda
