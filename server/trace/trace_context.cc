#include "server/trace/trace_context.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>

namespace cellbatch {

namespace {

constexpr size_t kLength = 55;  // of version 00; what later ones may add comes behind a dash

// -1: no digit, or of upper case.
int Digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

template <size_t kBytes>
bool Read(std::string_view text, std::array<uint8_t, kBytes>& bytes) {
  for (size_t i = 0; i < kBytes; ++i) {
    const int high = Digit(text[2 * i]), low = Digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return true;
}

template <size_t kBytes>
bool IsZero(const std::array<uint8_t, kBytes>& bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

template <size_t kBytes>
std::string Write(const std::array<uint8_t, kBytes>& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

// A counter from a random place, its bits mixed (SplitMix64): never twice the same number in 2^64.
uint64_t NextNumber() {
  static std::atomic<uint64_t> next = [] {
    std::random_device device;
    return uint64_t{device()} << 32 | device();
  }();
  while (true) {
    uint64_t x = next.fetch_add(0x9e3779b97f4a7c15u, std::memory_order_relaxed);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    if (x != 0) return x;
  }
}

}  // namespace

std::optional<TraceContext> ParseTraceparent(std::string_view text) {
  std::array<uint8_t, 1> version, flags;
  TraceContext context;
  if (text.size() < kLength || text[2] != '-' || text[35] != '-' || text[52] != '-') {
    return std::nullopt;
  }
  const bool digits = Read(text, version) && Read(text.substr(3), context.trace) &&
                      Read(text.substr(36), context.span) && Read(text.substr(53), flags);
  if (!digits || version[0] == 0xff || IsZero(context.trace) || IsZero(context.span)) {
    return std::nullopt;
  }
  const bool longer = text.size() > kLength;
  if (longer && (version[0] == 0 || text[kLength] != '-')) return std::nullopt;
  context.sampled = (flags[0] & 1) != 0;
  return context;
}

std::string Digits(const TraceId& id) { return Write(id); }
std::string Digits(const SpanId& id) { return Write(id); }

TraceId NewTraceId() {
  const uint64_t halves[] = {NextNumber(), NextNumber()};
  TraceId id;
  std::memcpy(id.data(), halves, sizeof(halves));
  return id;
}

SpanId NewSpanId() {
  const uint64_t number = NextNumber();
  SpanId id;
  std::memcpy(id.data(), &number, sizeof(number));
  return id;
}

}  // namespace cellbatch
