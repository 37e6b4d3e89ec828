#include "server/http/otlp/otlp_codec.h"

#include "proto/otlp.pb.h"
#include "server/requests/client_text.h"

namespace cellbatch {

namespace {

constexpr uint32_t kSampled = 1;

template <typename Id>
std::string Bytes(const Id& id) {
  return {reinterpret_cast<const char*>(id.data()), id.size()};
}

struct ValueSetter {
  otlp::AnyValue& to;
  void operator()(int64_t value) const { to.set_int_value(value); }
  void operator()(double value) const { to.set_double_value(value); }
  void operator()(const std::string& value) const { to.set_string_value(AsUtf8(value)); }
};

// What clients and files named: one text that is no UTF-8, and a collector refuses the whole message, others' spans with it.
void Encode(const Span& span, otlp::Span& to) {
  to.set_trace_id(Bytes(span.trace));
  to.set_span_id(Bytes(span.id));
  if (span.parent) to.set_parent_span_id(Bytes(*span.parent));
  to.set_name(AsUtf8(span.name));
  to.set_kind(span.server ? otlp::Span::SPAN_KIND_SERVER : otlp::Span::SPAN_KIND_INTERNAL);
  to.set_start_time_unix_nano(static_cast<uint64_t>(span.start_unix_ns));
  to.set_end_time_unix_nano(static_cast<uint64_t>(span.end_unix_ns));
  to.set_flags(kSampled);
  for (const auto& [key, value] : span.attributes) {
    otlp::KeyValue& attribute = *to.add_attributes();
    attribute.set_key(AsUtf8(key));
    std::visit(ValueSetter{*attribute.mutable_value()}, value);
  }
  if (!span.error) return;
  to.mutable_status()->set_code(otlp::Status::STATUS_CODE_ERROR);
  to.mutable_status()->set_message(AsUtf8(*span.error));
}

}  // namespace

std::string EncodeOtlp(absl::Span<const Span> spans,
                       const std::vector<std::pair<std::string, std::string>>& resource) {
  otlp::ExportTraceServiceRequest request;
  otlp::ResourceSpans& of_us = *request.add_resource_spans();
  for (const auto& [key, value] : resource) {
    otlp::KeyValue& attribute = *of_us.mutable_resource()->add_attributes();
    attribute.set_key(key);
    attribute.mutable_value()->set_string_value(AsUtf8(value));
  }
  otlp::ScopeSpans& scope = *of_us.add_scope_spans();
  scope.mutable_scope()->set_name("cellbatch");
  for (const Span& span : spans) Encode(span, *scope.add_spans());
  return request.SerializeAsString();
}

}  // namespace cellbatch
