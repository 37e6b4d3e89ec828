// Every way in which a stranger may trouble a server of "words" (served_models.h), for whoever wants all of them at once: the
// benchmark `siege`. One bout is one small attack; how often one begins and how long it stays is its kind's, so that
// many together make a crowd, and nobody's CPU is needed for more than the bytes that are sent.
//
//   for (const AttackKind& kind : AttackKinds())
//     ... std::unique_ptr<AttackBout> bout = kind.begin(target, random);   what is sent is sent, what is awaited has come
//     ... bout->Trickle();                                                 now and then, while it stays: a byte more
//     ... bout.reset();                                                    it hangs up
//
// No bout judges: what the server answers, and whether it hangs up, is its own business. A thread may have many bouts; one bout is one
// thread's. Beginning one may wait for the server's answer, at most kAttackPatience.
#ifndef CELLBATCH_TESTS_FAULT_ATTACKS_ATTACKS_H_
#define CELLBATCH_TESTS_FAULT_ATTACKS_ATTACKS_H_

#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace cellbatch {

inline constexpr std::chrono::seconds kAttackPatience{20};

struct AttackTarget {
  std::string grpc, http;  // addresses
  // What the server takes at most, so that an attack can be one byte more.
  int64_t most_message_bytes = 64 << 20;
};

class AttackBout {
 public:
  explicit AttackBout(int attacks = 0) : attacks_(attacks) {}
  virtual ~AttackBout() = default;
  virtual void Trickle() {}
  // How many were made: fewer than were meant where the server let nobody in.
  int attacks() const { return attacks_; }

 protected:
  int attacks_;  // messages, calls or connections, as the kind says
};

struct AttackKind {
  const char* name;
  const char* what;   // in a few words
  double per_second;  // bouts, as the siege makes them unless it is told otherwise
  double seconds;     // that a bout stays
  std::unique_ptr<AttackBout> (*begin)(const AttackTarget&, std::mt19937_64&);
};
const std::vector<AttackKind>& AttackKinds();

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_FAULT_ATTACKS_ATTACKS_H_
