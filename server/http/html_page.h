// What the pages for people share: the head with its style, light or dark as the browser asks, and the way text that came
// from files gets into them. Pure.
#ifndef CELLBATCH_SERVER_HTTP_HTML_PAGE_H_
#define CELLBATCH_SERVER_HTTP_HTML_PAGE_H_

#include <string>
#include <string_view>

namespace cellbatch {

// Up to and with <main id="page">.
std::string PageHead(std::string_view title);

// As text or as an attribute in double quotes: no tag, entity or quote is left.
std::string Escaped(std::string_view text);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_HTML_PAGE_H_
