// The files that the process may open: what there are, and some kept back so that a probe is answered though all
// others are taken (a connection that is accepted needs one). One thread.
#ifndef CELLBATCH_SERVER_HTTP_DESCRIPTORS_H_
#define CELLBATCH_SERVER_HTTP_DESCRIPTORS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cellbatch {

// As many as the system lets us (the soft limit becomes the hard one); answers how many that are.
int64_t RaiseDescriptorLimit();
int64_t DescriptorLimit();
// Connections that one port may have, each of so many files: together a quarter of those that the process may open.
int64_t MostConnectionsOf(int64_t descriptors_each);

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
