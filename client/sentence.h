// Sentences as people write them, and with a label at every word. Plain functions and values.
#ifndef CELLBATCH_CLIENT_SENTENCE_H_
#define CELLBATCH_CLIENT_SENTENCE_H_

#include <string>
#include <string_view>
#include <vector>

namespace cellbatch {

// Cuts one English sentence into words as treebanks and WikiNER do: at white space, then brackets, quotes and , ; : ! ?
// off both ends, 's and n't off what they hang on, and a full stop off the last word where it holds no other
// ("Paris." is two words; "U.S." and "Mr." within a sentence are one). A text that is cut already stays as it is.
std::vector<std::string> WordsOf(std::string_view text);

struct TaggedSentence {
  std::vector<std::string> words;
  std::vector<std::string> labels;  // as many
};

// Each label below its word, in as many lines of at most `columns` characters as it takes:
//
//   Angela  Merkel  visited  Paris  .
//   I-PER   I-PER   O        I-LOC  O
std::string ToText(const TaggedSentence& sentence, size_t columns = 100);

}  // namespace cellbatch

#endif  // CELLBATCH_CLIENT_SENTENCE_H_
