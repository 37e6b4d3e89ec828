// Claims about how many connections the files of a process allow.
#include "server/http/descriptors.h"

#include <sys/resource.h>

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

// While it lives this process may open so many files.
class FilesAtMost {
 public:
  explicit FilesAtMost(rlim_t most) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit fewer = {.rlim_cur = most, .rlim_max = before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &fewer), 0);
  }
  ~FilesAtMost() { setrlimit(RLIMIT_NOFILE, &before_); }
  FilesAtMost(const FilesAtMost&) = delete;
  FilesAtMost& operator=(const FilesAtMost&) = delete;

 private:
  rlimit before_ = {};
};

TEST(DescriptorsTest, APortsConnectionsTakeAQuarterOfTheFilesAtMost) {
  const FilesAtMost files(480);
  EXPECT_EQ(MostHttpConnections(4096, /*relayed=*/false), 120);
  EXPECT_EQ(MostHttpConnections(4096, /*relayed=*/true), 40);
  EXPECT_EQ(MostGrpcConnections(4096, /*relayed=*/false), 60);
  EXPECT_EQ(MostGrpcConnections(4096, /*relayed=*/true), 30);
  EXPECT_EQ(MostHttpConnections(40, /*relayed=*/true), 40);
  EXPECT_EQ(MostGrpcConnections(17, /*relayed=*/true), 17) << "no more than are asked for";
  EXPECT_EQ(FewerConnections("grpc-address", 60, 4096),
            "--grpc-address: 60 connections at most, not 4096: the process may open 480 files");
}

TEST(DescriptorsTest, SomeConnectionsThereAlwaysAre) {
  const FilesAtMost files(40);
  EXPECT_EQ(MostHttpConnections(4096, /*relayed=*/false), 16);
  EXPECT_EQ(MostGrpcConnections(4096, /*relayed=*/true), 16);
}

}  // namespace
}  // namespace cellbatch
