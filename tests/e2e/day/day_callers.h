// Who calls a server under test as honest clients do: over TLS with a certificate of their own and a token, by gRPC or HTTP,
// on a connection that stays or on ever new ones. Whatever comes is an answer to be judged, a hang-up too. One thread each.
#ifndef CELLBATCH_TESTS_E2E_DAY_DAY_CALLERS_H_
#define CELLBATCH_TESTS_E2E_DAY_DAY_CALLERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/day/day_book.h"
#include "tests/fault/grpc_caller.h"
#include "tests/testing/certificates.h"
#include "tests/testing/tls_client.h"

namespace cellbatch {

// To the server: its ports, whom to believe, and what to show.
struct DayWay {
  std::string grpc, http;
  std::string root;
  IssuedCertificate own;

  std::unique_ptr<GrpcCaller> Grpc() const;
  std::unique_ptr<TlsClient> Http() const;
};

struct DayPage {
  int status = 0;  // 0: hung up
  std::string head = {}, body = {};
};

class DayCaller {
 public:
  virtual ~DayCaller() = default;
  // `version` 0: names none.
  virtual DayReply Ask(int model, int version, int question, const std::string& token) = 0;
  // Of the repository's models: 0, or gRPC's code and why not.
  virtual DayReply Change(int model, bool load, const std::string& token) = 0;
};

// A new connection after so many calls. 0: one for all.
class DayGrpcCaller final : public DayCaller {
 public:
  DayGrpcCaller(const DayWay& way, int calls_each) : way_(way), calls_each_(calls_each) {}
  DayReply Ask(int model, int version, int question, const std::string& token) override;
  DayReply Change(int model, bool load, const std::string& token) override;
  // "READY 2", "UNAVAILABLE": what the index says; empty: nothing.
  std::string State(int model, const std::string& token);

 private:
  GrpcCaller& Caller();

  const DayWay& way_;
  const int calls_each_;
  int64_t calls_ = 0;
  std::unique_ptr<GrpcCaller> caller_;
};

class DayHttpCaller final : public DayCaller {
 public:
  DayHttpCaller(const DayWay& way, int calls_each) : way_(way), calls_each_(calls_each) {}
  DayReply Ask(int model, int version, int question, const std::string& token) override;
  DayReply Change(int model, bool load, const std::string& token) override;
  // Anything else: "GET /v2".
  DayPage Call(const std::string& request, const std::string& body, const std::string& token);
  // The certificate that its connection was shown.
  std::string ServerName();

 private:
  TlsClient& Connection();

  const DayWay& way_;
  const int calls_each_;
  int64_t calls_ = 0;
  std::unique_ptr<TlsClient> connection_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_E2E_DAY_DAY_CALLERS_H_
