// Numbers and lines as the status page shows them. Pure.
#ifndef CELLBATCH_SERVER_HTTP_STATUS_PAGE_TEXT_H_
#define CELLBATCH_SERVER_HTTP_STATUS_PAGE_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cellbatch {

// Three significant digits, of bytes up to four, and a unit that fits; "–" for no time.
std::string TimeText(int64_t ns);
std::string CountText(double n);
std::string BytesText(int64_t bytes);
std::string UptimeText(int64_t seconds);
// At most that many bytes, cut between characters of UTF-8, with "…" behind.
std::string ShortText(std::string_view text, size_t most_bytes);

// A fact for a <dl>: name and value are HTML already.
std::string FactHtml(std::string_view name, std::string_view value, std::string_view beside = "");

enum class LineUnit : uint8_t { kCount, kMilliseconds, kShare };

// A fact with its history: the last point, the highest, and a line of them all as inline SVG, from zero to the highest, over the
// whole width once there are kFewest; where there are none, a gap. `points`: oldest first, a second each; at most kDrawn are
// drawn, of several the mean or, of milliseconds, the highest. At most 2 KiB. `name`: a text of ours;
// `beside` it: HTML already.
inline constexpr int kFewest = 60;
inline constexpr int kDrawn = 120;
std::string LineHtml(std::string_view name, LineUnit unit, const std::vector<float>& points,
                     std::string_view beside = "");

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_STATUS_PAGE_TEXT_H_
