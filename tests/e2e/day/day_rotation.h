// Who replaces certificates and tokens while all go on calling: a round of it, as an operator would, with what has to be true
// after each step. Honest callers notice nothing (DayBook); who comes with what was retired is refused.
//
//   certificates   new certificate, new key, other roots of clients; sometimes a key that is none before
//   tokens         old and new hash --> everybody takes the new token --> new hash alone; sometimes a file that is none between
//
// One thread.
#ifndef CELLBATCH_TESTS_E2E_DAY_DAY_ROTATION_H_
#define CELLBATCH_TESTS_E2E_DAY_DAY_ROTATION_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/e2e/day/day_book.h"
#include "tests/e2e/day/day_callers.h"
#include "tests/e2e/day/day_traffic.h"
#include "tests/e2e/server_process.h"
#include "tests/testing/certificates.h"

namespace cellbatch {

class DayRotation {
 public:
  // Writes the first files into that folder, and puts the first tokens into `keys`, which with `book` outlives it.
  DayRotation(std::string folder, DayKeys& keys, DayBook& book);

  // Of the server.
  std::vector<std::string> Flags() const;
  // Of honest callers, once the server is there.
  DayWay WayTo(const ServerProcess& server) const;
  // `rounds` from 1.
  void Round(int round, const ServerProcess& server);

  // Calls that were refused for want of a token, as they had to be.
  int64_t unauthenticated() const { return unauthenticated_; }
  // Of them, those that are counted as requests, too: HTTP refuses at a request's head, gRPC when it is there.
  int64_t unauthenticated_requests() const { return unauthenticated_requests_; }

 private:
  void ReplaceCertificates(int round, const ServerProcess& server);
  void ReplaceTokens(int round, const ServerProcess& server);
  void Show(int round);
  void ExpectRetired(const DayWay& way, const std::string& token);
  void WriteTokens(const std::vector<std::string>& clients,
                   const std::vector<std::string>& operators) const;
  bool Knows(const DayWay& way, const std::string& token);
  void Expect(bool holds, const std::string& what);
  void WaitFor(const std::string& what, const std::function<bool()>& holds);
  std::string File(const char* name) const { return folder_ + "/" + name; }

  const std::string folder_;
  DayKeys& keys_;
  DayBook& book_;
  const CertificateRoot root_{"a root"}, guests_{"a root of guests"};
  const IssuedCertificate own_;
  int64_t unauthenticated_ = 0, unauthenticated_requests_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_E2E_DAY_DAY_ROTATION_H_
