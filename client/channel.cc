#include "client/channel.h"

#include <grpcpp/support/client_interceptor.h>

#include <utility>
#include <vector>

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

}  // namespace

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
