#include "client/tag.h"

#include <fmt/format.h>

#include <mutex>
#include <semaphore>
#include <utility>

namespace cellbatch {
namespace {

absl::StatusOr<std::vector<std::string>> LabelsOf(const InferResult& result, size_t words) {
  const Tensor* tensor = result.Find("LABELS");
  if (tensor == nullptr) return absl::InternalError("the answer has no LABELS");
  auto labels = tensor->AsTexts();
  if (labels.ok() && labels->size() != words) {
    return absl::InternalError(fmt::format("{} labels for {} words", labels->size(), words));
  }
  return labels;
}

}  // namespace

absl::StatusOr<std::vector<TaggedSentence>> Tag(Client& client, const std::string& model,
                                                const std::string& version,
                                                std::vector<std::vector<std::string>> sentences,
                                                CallOptions options) {
  std::vector<TaggedSentence> tagged(sentences.size());
  std::mutex mutex;  // of `first_error`
  absl::Status first_error;
  std::counting_semaphore<kMostTagsInFlight> room(kMostTagsInFlight);
  for (size_t i = 0; i < sentences.size(); ++i) {
    room.acquire();
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (!first_error.ok()) {
        room.release();
        break;
      }
    }
    TaggedSentence& to = tagged[i];
    to.words = std::move(sentences[i]);
    const InferInput input{
        .model = model,
        .version = version,
        .inputs = {TextTensor("WORDS_TEXT", {static_cast<int64_t>(to.words.size())}, to.words)},
        .outputs = {"LABELS"}};
    client.InferAsync(input, options, [&](absl::StatusOr<InferResult> result) {
      auto labels = result.ok() ? LabelsOf(*result, to.words.size()) : result.status();
      if (labels.ok()) {
        to.labels = *std::move(labels);
      } else {
        const std::lock_guard<std::mutex> lock(mutex);
        if (first_error.ok()) first_error = labels.status();
      }
      room.release();
    });
  }
  for (int i = 0; i < kMostTagsInFlight; ++i) room.acquire();  // all are back
  if (!first_error.ok()) return first_error;
  return tagged;
}

}  // namespace cellbatch
