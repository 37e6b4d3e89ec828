#include "server/http/http_server.h"

#include <civetweb.h>

#include <array>
#include <mutex>
#include <utility>

#include "fmt/format.h"

namespace cellbatch {

namespace {

const char* Reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 503:
      return "Service Unavailable";
    default:
      return "Error";
  }
}

void Send(mg_connection* connection, const HttpReply& reply, bool with_body) {
  const std::string head = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n"
      "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
      reply.status, Reason(reply.status), reply.content_type, reply.body.size());
  mg_write(connection, head.data(), head.size());
  if (with_body) mg_write(connection, reply.body.data(), reply.body.size());
}

int OnRequest(mg_connection* connection, void* answer) {
  const mg_request_info* info = mg_get_request_info(connection);
  const std::string_view method = info->request_method;
  if (method != "GET" && method != "HEAD") {
    Send(connection, {.status = 405, .body = "only GET and HEAD\n"}, true);
    return 405;
  }
  const std::string_view path = info->local_uri == nullptr ? "/" : info->local_uri;
  const HttpReply reply = (*static_cast<HttpAnswer*>(answer))(path);
  Send(connection, reply, method == "GET");
  return reply.status;
}

}  // namespace

struct HttpServer::Impl {
  HttpAnswer answer;
  mg_context* context = nullptr;
  ~Impl() {
    if (context != nullptr) mg_stop(context);
  }
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl, std::string address)
    : impl_(std::move(impl)), address_(std::move(address)) {}

HttpServer::~HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(std::string_view flag,
                                                              const std::string& address,
                                                              HttpAnswer answer) {
  static std::once_flag once;
  std::call_once(once, [] { mg_init_library(0); });
  auto impl = std::make_unique<Impl>();
  impl->answer = std::move(answer);
  const std::string host = address.substr(0, address.rfind(':'));
  const std::string listen =
      host == "localhost" ? "127.0.0.1" + address.substr(host.size()) : address;
  const std::array<const char*, 13> settings = {"listening_ports",
                                                listen.c_str(),
                                                "num_threads",
                                                "4",
                                                "request_timeout_ms",
                                                "10000",
                                                "enable_directory_listing",
                                                "no",
                                                "max_request_size",
                                                "8192",
                                                "tcp_nodelay",
                                                "1",
                                                nullptr};
  mg_callbacks callbacks = {};
  callbacks.log_message = [](const mg_connection*, const char*) { return 1; };  // not its own way
  impl->context = mg_start(&callbacks, nullptr, const_cast<const char**>(settings.data()));
  mg_server_port port = {};
  if (impl->context == nullptr || mg_get_server_ports(impl->context, 1, &port) != 1) {
    return absl::UnavailableError(
        fmt::format("--{} {} cannot be bound: is it in use?", flag, address));
  }
  mg_set_request_handler(impl->context, "/", OnRequest, &impl->answer);
  return std::unique_ptr<HttpServer>(
      new HttpServer(std::move(impl), fmt::format("{}:{}", host, port.port)));
}

}  // namespace cellbatch
