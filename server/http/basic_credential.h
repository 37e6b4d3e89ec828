// HTTP's Basic credentials (RFC 7617): a browser sends no Bearer by itself, but asks people for a name and a password, and sends
// these from then on. The password is the token; the name is read by nobody.
//
// A browser sends them unasked, too, with whatever a page of somebody else's has it send: they are for what changes nothing.
// Pure; a credential costs its own length.
#ifndef CELLBATCH_SERVER_HTTP_BASIC_CREDENTIAL_H_
#define CELLBATCH_SERVER_HTTP_BASIC_CREDENTIAL_H_

#include <string>
#include <string_view>

namespace cellbatch {

// Of WWW-Authenticate: what browsers ask for.
inline constexpr const char* kBasicChallenge =
    R"(Basic realm="cellbatch: any name, a token as password", charset="UTF-8")";

// Whether it is one of that kind, well written or not.
bool IsBasic(std::string_view authorization);

// "Bearer TOKEN" of "Basic BASE64(NAME:TOKEN)"; empty: it is not base64, has no colon, or no token behind it.
std::string BearerOfBasic(std::string_view authorization);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_BASIC_CREDENTIAL_H_
