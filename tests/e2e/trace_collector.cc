#include "tests/e2e/trace_collector.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>

namespace cellbatch {

std::string DigitsOf(const std::string& id) {
  std::string digits;
  for (const char byte : id) {
    char two[3];
    std::snprintf(two, sizeof(two), "%02x", static_cast<unsigned char>(byte));
    digits += two;
  }
  return digits;
}

const otlp::AnyValue* AttributeOf(const otlp::Span& span, const std::string& name) {
  for (const otlp::KeyValue& attribute : span.attributes()) {
    if (attribute.key() == name) return &attribute.value();
  }
  return nullptr;
}

TraceCollector::TraceCollector() : listening_(socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (bind(listening_, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      listen(listening_, 16) != 0 ||
      getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::perror("the collector cannot listen");
    std::abort();
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Serve(); });
}

TraceCollector::~TraceCollector() {
  shutdown(listening_, SHUT_RDWR);
  thread_.join();
  close(listening_);
}

void TraceCollector::Serve() {
  while (true) {
    const int socket = accept(listening_, nullptr, nullptr);
    if (socket < 0) return;
    ServeOne(socket);
    close(socket);
  }
}

// One request a connection: the next one finds that we have hung up, and comes over another.
void TraceCollector::ServeOne(int socket) {
  std::string bytes;
  char buffer[1 << 16];
  size_t whole = std::string::npos;
  while (bytes.size() < whole) {
    const ssize_t got = recv(socket, buffer, sizeof(buffer), 0);
    if (got <= 0) return;
    bytes.append(buffer, static_cast<size_t>(got));
    const size_t head = bytes.find("\r\n\r\n");
    const size_t length = bytes.find("Content-Length: ");
    if (head == bytes.npos || length > head) continue;
    whole = head + 4 + std::stoul(bytes.substr(length + 16));
  }
  const size_t body = bytes.find("\r\n\r\n") + 4;
  otlp::ExportTraceServiceRequest request;
  const int status = status_;
  const std::string reply =
      "HTTP/1.1 " + std::to_string(status) + " x\r\nContent-Length: 0\r\n\r\n";
  const std::unique_lock lock(mutex_);
  ++requests_;
  if (status == 200 && request.ParseFromString(bytes.substr(body))) {
    head_ = bytes.substr(0, body);
    for (const otlp::ResourceSpans& of_one : request.resource_spans()) {
      resource_ = of_one.resource();
      for (const otlp::ScopeSpans& scope : of_one.scope_spans()) {
        spans_.insert(spans_.end(), scope.spans().begin(), scope.spans().end());
      }
    }
  }
  changed_.notify_all();
  send(socket, reply.data(), reply.size(), MSG_NOSIGNAL);
}

std::vector<otlp::Span> TraceCollector::WaitForSpans(size_t count, const std::string& trace) {
  std::unique_lock lock(mutex_);
  std::vector<otlp::Span> found;
  changed_.wait(lock, [&] {
    found.clear();
    std::copy_if(spans_.begin(), spans_.end(), std::back_inserter(found), [&](const auto& span) {
      return trace.empty() || DigitsOf(span.trace_id()) == trace;
    });
    return found.size() >= count;
  });
  return found;
}

void TraceCollector::WaitForRequests(int count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return requests_ >= count; });
}

std::string TraceCollector::head() const {
  const std::lock_guard lock(mutex_);
  return head_;
}

otlp::Resource TraceCollector::resource() const {
  const std::lock_guard lock(mutex_);
  return resource_;
}

}  // namespace cellbatch
