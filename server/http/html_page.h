// What the pages for people share: the head with its style, light or dark as the browser asks, and the way text that came
// from files gets into them. Pure.
#ifndef CELLBATCH_SERVER_HTTP_HTML_PAGE_H_
#define CELLBATCH_SERVER_HTTP_HTML_PAGE_H_

#include <string>
#include <string_view>

namespace cellbatch {

// A page that looks again by itself: by a script of this server, or, where none runs, every so many seconds.
struct PageRefresh {
  std::string_view script;  // its path; empty: the page stays as it is
  int seconds = 0;
};

// Up to and with <main id="page">.
std::string PageHead(std::string_view title, PageRefresh refresh = {});

// Content-Security-Policy of every page: nothing from elsewhere, no script but this server's files, no frame around it.
inline constexpr const char* kPagePolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// As text or as an attribute in double quotes: no tag, entity or quote is left.
std::string Escaped(std::string_view text);

// A name as one part of a path, and as an attribute in double quotes: "a b?" is a%20b%3F.
std::string PathPart(std::string_view name);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_HTML_PAGE_H_
