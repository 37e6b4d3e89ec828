// Which bytes are text: UTF-8 as RFC 3629 has it, with no overlong forms, no surrogates and nothing beyond U+10FFFF. Pure
// functions; any thread.
#ifndef CELLBATCH_CELLS_UNFOLD_UTF8_H_
#define CELLBATCH_CELLS_UNFOLD_UTF8_H_

#include <cstddef>
#include <string_view>

namespace cellbatch {

// The bytes of the character at the start of `text`, which is not empty; 0: there is none.
size_t CharacterBytes(std::string_view text);

bool IsUtf8(std::string_view text);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_UNFOLD_UTF8_H_
