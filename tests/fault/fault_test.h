// The suite of a fault test: one real server, attacked by each of its tests. After each of them the next good
// request is right, and nothing is in flight; after the last one SIGTERM ends the server with 0.
#ifndef CELLBATCH_TESTS_FAULT_FAULT_TEST_H_
#define CELLBATCH_TESTS_FAULT_FAULT_TEST_H_

#include <csignal>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fault/metrics_page.h"
#include "tests/fault/served_models.h"

namespace cellbatch {

class FaultTest : public ::testing::Test {
 protected:
  // For SetUpTestSuite. ASSERT_NO_FATAL_FAILURE, if more is to follow.
  static void Serve(const std::string& repository, const std::vector<std::string>& flags) {
    server_ = ServerProcess::Serving(repository, flags).release();
    ASSERT_NE(server_, nullptr);
    caller_ = new GrpcCaller(server_->grpc());
  }
  static void TearDownTestSuite() {
    delete caller_;
    caller_ = nullptr;
    if (server_ == nullptr) return;
    server_->Signal(SIGTERM);
    EXPECT_EQ(server_->Wait(), 0) << server_->Log();
    delete server_;
    server_ = nullptr;
  }
  void TearDown() override {
    ExpectGood(*caller_);
    WaitUntilEmpty(*server_);
  }

  static inline ServerProcess* server_ = nullptr;
  static inline GrpcCaller* caller_ = nullptr;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_FAULT_FAULT_TEST_H_
