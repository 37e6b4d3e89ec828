// Each thing that was seen to hurt a server which anybody may connect to, as large as it was then: for the benchmark
// `strangers`. (attacks.h has many of them in small, to be made side by side.)
#ifndef CELLBATCH_TESTS_FAULT_ATTACKS_STRANGERS_H_
#define CELLBATCH_TESTS_FAULT_ATTACKS_STRANGERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/tcp_connection.h"

namespace cellbatch {

struct StrangerTarget {
  std::string grpc, http;  // addresses: the server's, or a proxy's
  std::string from;        // the stranger's own address, where it makes its connections itself
};

// What came of it, in a few words, and what is held on to: the stranger leaves when that goes.
struct StrangerLeft {
  std::string heard;
  std::shared_ptr<void> holds;
};

struct StrangerAttack {
  const char* name;
  const char* what;
  std::vector<std::string> flags;  // of the server, beside the usual ones
  uint64_t files;                  // that the server may open; 0: as many as any
  // Returns when all is sent and, where answers are awaited, they have come. On a thread of its own.
  StrangerLeft (*make)(const StrangerTarget&);
};
const std::vector<StrangerAttack>& StrangerAttacks();

// Their parts. Both send on until all is sent or the peer hangs up, and return how many were sent by then.
uint32_t OpenMany(const TcpConnection& peer, uint32_t streams);
uint32_t OpenAndResetMany(const TcpConnection& peer, uint32_t calls);

// Adds what they ask for to a repository.
void AddStrangersModel(const std::string& repository);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_FAULT_ATTACKS_STRANGERS_H_
