// What the words of a module's name say that it is, by the words that people use. For torch_ends.cc. Pure; any thread.
#ifndef CELLBATCH_CELLS_WEIGHTS_TORCH_WORDS_H_
#define CELLBATCH_CELLS_WEIGHTS_TORCH_WORDS_H_

#include <cstdint>
#include <string>

namespace cellbatch {

// How much a name says of one thing. kMay: other things are called so, too.
enum class Saying : uint8_t { kNo, kMay, kYes };

Saying SaysEmbedding(const std::string& name);
// kMay: a linear layer, on whichever side of the stack.
Saying SaysHead(const std::string& name);
// Attention, gates, positions: whatever shape its matrix has.
bool SaysAside(const std::string& name);
// A linear layer before the stack ("in_proj").
bool SaysBefore(const std::string& name);

// -1: `name` lies before `module` in a list that holds both ("net.0.weight", "net.1.rnn"), 1: behind it, 0: no list does.
int OrderInList(const std::string& name, const std::string& module);
// Without the parts that `module`'s name begins with, too: of the model they are in, not of them.
std::string OwnName(const std::string& name, const std::string& module);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_WEIGHTS_TORCH_WORDS_H_
