// The suite of a fault test whose tests each have a server of their own, with flags of their own: of "words" and "slow".
#ifndef CELLBATCH_TESTS_FAULT_OWN_SERVER_TEST_H_
#define CELLBATCH_TESTS_FAULT_OWN_SERVER_TEST_H_

#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fault/metrics_page.h"
#include "tests/fault/served_models.h"

namespace cellbatch {

class OwnServerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    repository_ = new std::string(NewRepository());
    AddModel(*repository_, kWords);
    AddModel(*repository_, kSlow);
  }
  static void TearDownTestSuite() { delete repository_; }
  // ASSERT_NO_FATAL_FAILURE, if more is to follow.
  void Serve(std::vector<std::string> flags) {
    flags.emplace_back("--devices=cpu:0");
    server_ = ServerProcess::Serving(*repository_, std::move(flags));
    ASSERT_NE(server_, nullptr);
    caller_ = std::make_unique<GrpcCaller>(server_->grpc(), credentials_);
  }
  // SIGTERM ends the server with 0.
  void End() {
    caller_.reset();  // the server waits a while for connections to go
    server_->Signal(SIGTERM);
    EXPECT_EQ(server_->Wait(), 0) << server_->Log();
  }

  static inline std::string* repository_ = nullptr;
  std::shared_ptr<grpc::ChannelCredentials> credentials_ =
      grpc::InsecureChannelCredentials();  // of caller_
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<GrpcCaller> caller_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_FAULT_OWN_SERVER_TEST_H_
