#include "client/channel.h"

#include <fmt/format.h>
#include <grpcpp/support/client_interceptor.h>

#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "proto/grpc_service.grpc.pb.h"

namespace cellbatch {
namespace {

using grpc::experimental::ClientInterceptorFactoryInterface;
using grpc::experimental::ClientRpcInfo;
using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;

// gRPC's own call credentials are refused without TLS, where a token may be asked for, too.
class TokenOfCall final : public Interceptor {
 public:
  explicit TokenOfCall(const std::string& value) : value_(value) {}
  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->insert({"authorization", value_});
    }
    methods->Proceed();
  }

 private:
  const std::string& value_;
};

class TokenOfChannel final : public ClientInterceptorFactoryInterface {
 public:
  explicit TokenOfChannel(const std::string& token) : value_("Bearer " + token) {}
  Interceptor* CreateClientInterceptor(ClientRpcInfo*) override { return new TokenOfCall(value_); }

 private:
  const std::string value_;
};

// Of "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: .. Connection refused" what starts with the address.
std::string WithoutPreface(const std::string& text) {
  constexpr std::string_view kPreface = "last error: ";
  const size_t at = text.find(kPreface);
  if (at == std::string::npos) return text;
  const size_t code = text.find(": ", at + kPreface.size());
  return code == std::string::npos ? text : text.substr(code + 2);
}

// Why the last attempt to connect failed; empty: it did not. A call that does not wait for a connection ends with that.
std::string WhyNotConnected(const std::shared_ptr<grpc::Channel>& channel) {
  constexpr std::chrono::seconds kAttempt(1);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAttempt);
  inference::ServerLiveResponse answer;
  const grpc::Status status = inference::GRPCInferenceService::NewStub(channel)->ServerLive(
      &context, inference::ServerLiveRequest(), &answer);
  return status.error_code() == grpc::StatusCode::UNAVAILABLE
             ? WithoutPreface(status.error_message())
             : "";
}

// gRPC takes a port of 65536 and more for what is left of it in 16 bits: another one.
bool IsPortBeyondAll(const std::string& url) {
  constexpr int kMostPort = 65535;
  const size_t digits = url.find_last_not_of("0123456789") + 1;
  int port = 0;
  return digits > 0 && digits < url.size() && url[digits - 1] == ':' &&
         (!absl::SimpleAtoi(url.substr(digits), &port) || port > kMostPort);
}

}  // namespace

absl::Status WaitUntilConnected(const std::shared_ptr<grpc::Channel>& channel,
                                const std::string& url, std::chrono::milliseconds timeout) {
  if (IsPortBeyondAll(url)) {
    return absl::InvalidArgumentError(fmt::format("{}: a port is at most 65535", url));
  }
  if (channel->WaitForConnected(std::chrono::system_clock::now() + timeout)) {
    return absl::OkStatus();
  }
  const std::string why = WhyNotConnected(channel);
  return absl::UnavailableError(fmt::format("no server answers at {} within {} ms{}{}", url,
                                            timeout.count(), why.empty() ? "" : ": ", why));
}

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& url, const Security& security,
                                           const grpc::ChannelArguments& arguments) {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = security.roots;
  options.pem_cert_chain = security.certificate;
  options.pem_private_key = security.key;
  const auto credentials =
      security.tls ? grpc::SslCredentials(options) : grpc::InsecureChannelCredentials();
  if (security.token.empty()) return grpc::CreateCustomChannel(url, credentials, arguments);
  std::vector<std::unique_ptr<ClientInterceptorFactoryInterface>> tokens;
  tokens.push_back(std::make_unique<TokenOfChannel>(security.token));
  return grpc::experimental::CreateCustomChannelWithInterceptors(url, credentials, arguments,
                                                                 std::move(tokens));
}

}  // namespace cellbatch
