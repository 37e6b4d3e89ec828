// Labels for the words of sentences, from a model that reads WORDS_TEXT and answers LABELS (server/requests/README.md).
#ifndef CELLBATCH_CLIENT_TAG_H_
#define CELLBATCH_CLIENT_TAG_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/sentence.h"

namespace cellbatch {

inline constexpr int kMostTagsInFlight = 64;  // sentences on their way at once

// One request a sentence, none of which may be empty; the server batches them. The first error ends it. Blocks.
absl::StatusOr<std::vector<TaggedSentence>> Tag(Client& client, const std::string& model,
                                                const std::string& version,
                                                std::vector<std::vector<std::string>> sentences,
                                                CallOptions options);

}  // namespace cellbatch

#endif  // CELLBATCH_CLIENT_TAG_H_
