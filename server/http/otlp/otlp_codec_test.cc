#include "server/http/otlp/otlp_codec.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/otlp.pb.h"

namespace cellbatch {
namespace {

Span Named(const std::string& name) {
  Span span;
  span.name = name;
  span.attributes.emplace_back("cellbatch.model", name);
  span.attributes.emplace_back("cellbatch.cell." + name + ".cells", int64_t{1});
  span.error = "unknown model " + name;
  return span;
}

// A collector takes a message as a whole or not at all: a model that a client asked for by bytes that are no text once
// cost 511 spans of others.
TEST(OtlpCodecTest, TextsThatAreNoUtf8AreEscapedSoThatOthersSpansCanBeReadToo) {
  const std::vector<Span> spans = {Named("tagger"), Named("\xff\xfe"), Named("caf\xc3\xa9")};
  otlp::ExportTraceServiceRequest request;
  ASSERT_TRUE(request.ParseFromString(EncodeOtlp(spans, {{"host.name", "a\x80"}})));
  const otlp::ResourceSpans& sent = request.resource_spans(0);
  EXPECT_EQ(sent.resource().attributes(0).value().string_value(), "a\\200");
  ASSERT_EQ(sent.scope_spans(0).spans_size(), 3);
  const char* const kShown[] = {"tagger", "\\377\\376", "caf\xc3\xa9"};
  for (int i = 0; i < 3; ++i) {
    const otlp::Span& span = sent.scope_spans(0).spans(i);
    EXPECT_EQ(span.name(), kShown[i]);
    EXPECT_EQ(span.attributes(0).value().string_value(), kShown[i]);
    EXPECT_EQ(span.attributes(1).key(), std::string("cellbatch.cell.") + kShown[i] + ".cells");
    EXPECT_EQ(span.status().message(), std::string("unknown model ") + kShown[i]);
  }
}

}  // namespace
}  // namespace cellbatch
