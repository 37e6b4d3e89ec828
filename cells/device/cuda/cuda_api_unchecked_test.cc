// Stands for cuda_api_check_test.cc where there is no toolkit (BUILD).
#include <gtest/gtest.h>

TEST(CudaApiCheckTest, EveryEntryPointHasTheTypeOfCudasHeaders) {
  GTEST_SKIP()
      << "no CUDA toolkit is here (CUDA_HOME, /usr/local/cuda, NVIDIA's wheels): the table "
         "of entry points was not compared with cuda.h and nvrtc.h";
}
