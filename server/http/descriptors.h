// The files that the process may open: what there are, and some kept back so that a probe is answered though all
// others are taken (a connection that is accepted needs one). One thread.
#ifndef CELLBATCH_SERVER_HTTP_DESCRIPTORS_H_
#define CELLBATCH_SERVER_HTTP_DESCRIPTORS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cellbatch {

// As many as the system lets us (the soft limit becomes the hard one); answers how many that are.
int64_t RaiseDescriptorLimit();
int64_t DescriptorLimit();
// Of `asked`, the connections that one port may have: their files are a quarter of those that the process may open, now.
// `relayed`: another port accepted them (server/tls), and has files of each, too.
int64_t MostHttpConnections(int64_t asked, bool relayed);
int64_t MostGrpcConnections(int64_t asked, bool relayed);
inline constexpr int64_t kFilesOfGrpc = 2;  // of a connection: gRPC's, and its listener's
// What the log says where these are fewer than a port's flags ask for.
std::string FewerConnections(std::string_view address_flag, int64_t most, int64_t asked);

class SpareDescriptors {
 public:
  explicit SpareDescriptors(size_t count) : count_(count) { Refill(); }
  ~SpareDescriptors();
  SpareDescriptors(const SpareDescriptors&) = delete;
  SpareDescriptors& operator=(const SpareDescriptors&) = delete;

  // Opens what is missing, as far as there are any. True: all are there.
  bool Refill();
  // Gives one back to the process; false: none is left.
  bool Release();

 private:
  const size_t count_;
  std::vector<int> spare_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_DESCRIPTORS_H_
