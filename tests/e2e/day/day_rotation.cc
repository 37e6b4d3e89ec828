#include "tests/e2e/day/day_rotation.h"

#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "client/token_entry.h"
#include "fmt/format.h"

namespace cellbatch {

namespace {

constexpr int kPermissionDenied = 7, kUnauthenticated = 16;
constexpr const char* kReady = "GET /v2/health/ready";

std::string CertificateName(int round) { return fmt::format("of round {}", round); }
std::string TokenOf(const char* role, int round) { return fmt::format("{}-t0ken-{}", role, round); }

// Of an entry of the file.
std::string Hashes(const std::vector<std::string>& tokens) {
  std::string hashes;
  for (const std::string& token : tokens)
    hashes += fmt::format(" sha256: \"{}\"", HashInHex(token));
  return hashes;
}

}  // namespace

DayRotation::DayRotation(std::string folder, DayKeys& keys, DayBook& book)
    : folder_(std::move(folder)),
      keys_(keys),
      book_(book),
      own_(root_.Issue({.common_name = "an honest client"})) {
  std::filesystem::create_directories(folder_);
  Show(0);
  WriteTokens({TokenOf("client", 0)}, {TokenOf("operator", 0)});
  keys_.Replace(DayRole::kClient, TokenOf("client", 0));
  keys_.Replace(DayRole::kOperator, TokenOf("operator", 0));
}

std::vector<std::string> DayRotation::Flags() const {
  return {"--tls-certificate=" + File("tls.crt"), "--tls-key=" + File("tls.key"),
          "--tls-client-ca=" + File("ca.crt"), "--tokens=" + File("tokens.textproto"),
          "--reload-poll=20ms"};
}

DayWay DayRotation::WayTo(const ServerProcess& server) const {
  return {.grpc = server.grpc(), .http = server.http(), .root = root_.certificate(), .own = own_};
}

// In every other round guests may come, too. Roots first, then the certificate, whose key is still another's for a moment.
void DayRotation::Show(int round) {
  const IssuedCertificate issued = root_.Issue({.common_name = CertificateName(round)});
  ReplaceFile(File("ca.crt"),
              root_.certificate() + (round % 2 == 1 ? guests_.certificate() : std::string()));
  ReplaceFile(File("tls.crt"), issued.certificate);
  ReplaceFile(File("tls.key"), issued.key);
}

void DayRotation::WriteTokens(const std::vector<std::string>& clients,
                              const std::vector<std::string>& operators) const {
  ReplaceFile(File("tokens.textproto"),
              fmt::format("token {{ name: \"client\"{} }}\n"
                          "token {{ name: \"operator\"{} may_control: true }}\n",
                          Hashes(clients), Hashes(operators)));
}

void DayRotation::Round(int round, const ServerProcess& server) {
  ReplaceCertificates(round, server);
  ReplaceTokens(round, server);
}

void DayRotation::ReplaceCertificates(int round, const ServerProcess& server) {
  const DayWay way = WayTo(server);
  DayHttpCaller stays(way, /*calls_each=*/0);
  Expect(stays.Call(kReady, "", "").status == 200, "a connection that is to stay");
  if (round % 3 == 0) {
    const std::string refused = R"(cellbatch_tls_certificates_total{outcome="refused"})";
    const double before = Metric(server, refused);
    ReplaceFile(File("tls.key"), "broken");
    WaitFor("a broken key is refused", [&] { return Metric(server, refused) > before; });
    Expect(way.Http()->ServerName() == CertificateName(round - 1),
           "a broken key changed something");
  }
  Show(round);
  const std::string name = CertificateName(round);
  WaitFor("the certificate " + name + " is shown",
          [&] { return way.Http()->ServerName() == name; });
  for (const std::string& port : {way.grpc, way.http}) {
    const TlsClient comes(
        port, {.root = way.root, .own = own_, .protocol = port == way.grpc ? "h2" : "http/1.1"});
    Expect(comes.shaken() && comes.ServerName() == name, "the old certificate is shown again");
  }
  DayWay guest_way = way;
  guest_way.own = guests_.Issue({.common_name = "a guest"});
  DayHttpCaller guest(guest_way, /*calls_each=*/0);
  const bool let_in = guest.Call(kReady, "", "").status == 200;
  Expect(let_in == (round % 2 == 1),
         let_in ? "a guest of no root is let in" : "a guest is refused");
  Expect(stays.Call(kReady, "", "").status == 200, "a connection ended with its certificate");
  Expect(stays.ServerName() == CertificateName(round - 1), "no connection stayed");
}

void DayRotation::ReplaceTokens(int round, const ServerProcess& server) {
  const DayWay way = WayTo(server);
  const std::string client = TokenOf("client", round), chief = TokenOf("operator", round);
  const std::string old_client = TokenOf("client", round - 1);
  const std::string old_chief = TokenOf("operator", round - 1);
  WriteTokens({old_client, client}, {old_chief, chief});
  WaitFor("the new tokens are known", [&] { return Knows(way, client) && Knows(way, chief); });
  Expect(Knows(way, old_client) && Knows(way, old_chief), "an old token is unknown too soon");
  for (const auto& [role, token] :
       {std::pair(DayRole::kClient, client), std::pair(DayRole::kOperator, chief)}) {
    const DayKeys::Token old = keys_.Replace(role, token);
    WaitFor("the last call by an old token", [&] { return old.use_count() == 1; });
  }
  if (round % 3 == 1) {
    const std::string refused = R"(cellbatch_token_files_total{outcome="refused"})";
    const double before = Metric(server, refused);
    ReplaceFile(File("tokens.textproto"), "token { name: ");
    WaitFor("a broken file is refused", [&] { return Metric(server, refused) > before; });
    Expect(Knows(way, old_client) && Knows(way, client), "a broken file changed something");
  }
  WriteTokens({client}, {chief});
  WaitFor("the old tokens are retired",
          [&] { return !Knows(way, old_client) && !Knows(way, old_chief); });
  ExpectRetired(way, old_client);
  ExpectRetired(way, old_chief);
  Expect(DayGrpcCaller(way, 0).Change(0, true, client).code == kPermissionDenied,
         "a client's token changes what is served");
}

// By every way of calling.
void DayRotation::ExpectRetired(const DayWay& way, const std::string& token) {
  DayGrpcCaller grpc(way, 0);
  DayHttpCaller http(way, 0);
  for (DayCaller* const caller : std::initializer_list<DayCaller*>{&grpc, &http}) {
    for (const DayReply& reply :
         {caller->Ask(0, 0, 0, token), caller->Change(0, false, token), caller->Ask(0, 0, 0, "")}) {
      Expect(reply.code == kUnauthenticated,
             fmt::format("retired, but: code {} {}", reply.code, reply.text));
      ++unauthenticated_;
    }
  }
  unauthenticated_requests_ += 2;
}

bool DayRotation::Knows(const DayWay& way, const std::string& token) {
  const DayPage page = DayHttpCaller(way, 0).Call("GET /v2", "", token);
  Expect(page.status == 200 || page.status == 401, fmt::format("GET /v2: {}", page.status));
  if (page.status == 401) ++unauthenticated_;
  return page.status == 200;
}

void DayRotation::Expect(bool holds, const std::string& what) {
  if (!holds) book_.Fail(what);
}

void DayRotation::WaitFor(const std::string& what, const std::function<bool()>& holds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!book_.failed() && !holds()) {
    if (std::chrono::steady_clock::now() > until) return book_.Fail("not in a minute: " + what);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace cellbatch
