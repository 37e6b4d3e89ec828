// Claims about what a service manager hears.
#include "server/service_manager.h"

#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "gtest/gtest.h"
#include "tests/testing/notify_socket.h"

namespace cellbatch {
namespace {

using ::cellbatch::testing::NotifySocket;

TEST(ServiceManagerTest, HearsEachStateAsOneMessageAtAPath) {
  // Relative to there, as the folder's name is too long for a socket's.
  std::filesystem::current_path(::testing::TempDir());
  const NotifySocket manager("heard");
  EXPECT_TRUE(TellServiceManager("heard", "READY=1\nSTATUS=serving").ok());
  EXPECT_TRUE(TellServiceManager("heard", "STOPPING=1").ok());
  EXPECT_EQ(manager.Heard(), "READY=1\nSTATUS=serving");
  EXPECT_EQ(manager.Heard(), "STOPPING=1");
  EXPECT_EQ(manager.Heard(), "");
}

TEST(ServiceManagerTest, HearsAtANameThatIsNoFile) {
  const NotifySocket manager;
  EXPECT_TRUE(TellServiceManager(manager.name(), "READY=1").ok());
  EXPECT_EQ(manager.Heard(), "READY=1");
}

TEST(ServiceManagerTest, TheLongestNameIsOne) {
  std::string name = "@cellbatch-" + std::to_string(getpid());
  name.resize(sizeof(sockaddr_un::sun_path), 'x');
  const NotifySocket manager(name);
  EXPECT_TRUE(TellServiceManager(manager.name(), "READY=1").ok());
  EXPECT_EQ(manager.Heard(), "READY=1");
}

TEST(ServiceManagerTest, WhereNobodyListensItIsSaidWhereThatWas) {
  EXPECT_EQ(TellServiceManager("", "READY=1"), absl::OkStatus()) << "nobody was to hear it";
  EXPECT_EQ(TellServiceManager("no/such/socket", "READY=1"),
            absl::UnavailableError("--notify-socket=no/such/socket: No such file or directory"));
  EXPECT_EQ(TellServiceManager("@nobody-listens-here", "READY=1"),
            absl::UnavailableError("--notify-socket=@nobody-listens-here: Connection refused"));
  const std::string longer = "@" + std::string(sizeof(sockaddr_un::sun_path), 'x');
  EXPECT_EQ(TellServiceManager(longer, "READY=1"),
            absl::UnavailableError("--notify-socket=" + longer + ": File name too long"));
}

// More than its socket holds.
TEST(ServiceManagerTest, OneThatDoesNotReadIsNotWaitedFor) {
  const NotifySocket manager;
  absl::Status told;
  for (int i = 0; i < 10'000; ++i) {
    told = TellServiceManager(manager.name(), "STATUS=" + std::to_string(i));
  }
  EXPECT_TRUE(absl::IsUnavailable(told)) << told;
  EXPECT_EQ(manager.Heard(), "STATUS=0");
}

}  // namespace
}  // namespace cellbatch
