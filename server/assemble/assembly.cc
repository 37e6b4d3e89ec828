#include "server/assemble/assembly.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/names/nearest_name.h"
#include "server/repository/model_files.h"

namespace cellbatch {

bool Assembly::Finish(bool all_made) {
  if (!all_made) {
    types.CheckRest();
    return false;
  }
  types.CheckUnused();
  return types.CheckLookups();
}

std::optional<int64_t> Assembly::VocabularySize(TableId table) {
  const int64_t rows = types.LookupRows(table);
  const int64_t size = config.vocabulary().size();
  if (size >= 0 && size <= rows) return size == 0 ? rows : size;
  Problem("vocabulary",
          fmt::format("vocabulary size is {}, the embedding has {} rows", size, rows));
  return std::nullopt;
}

std::optional<IdRange> Assembly::KnownIds(const disk::Vocabulary& vocabulary, TableId table,
                                          const std::string& what) {
  const int64_t rows = types.LookupRows(table);
  IdRange known{.size = vocabulary.size() == 0 ? rows : vocabulary.size(), .unknown = {}};
  if (known.size < 0 || known.size > rows) {
    Problem(fmt::format("vocabulary of {}: size is {}, the embedding has {} rows", what, known.size,
                        rows));
    return std::nullopt;
  }
  if (vocabulary.out_of_vocabulary() != disk::UNKNOWN_WORD) return known;
  if (vocabulary.unknown_id() < 0 || vocabulary.unknown_id() >= known.size) {
    Problem(fmt::format("vocabulary of {}: unknown_id is {}, the vocabulary ends at {}", what,
                        vocabulary.unknown_id(), known.size - 1));
    return std::nullopt;
  }
  known.unknown = static_cast<int32_t>(vocabulary.unknown_id());
  return known;
}

void Assembly::ApplyVocabulary(int64_t size) {
  const disk::Vocabulary& vocabulary = config.vocabulary();
  model.signature.vocabulary_size = size;
  if (vocabulary.out_of_vocabulary() != disk::UNKNOWN_WORD) return;
  model.signature.out_of_vocabulary = OutOfVocabulary::kUnknown;
  model.signature.unknown_token = static_cast<int32_t>(vocabulary.unknown_id());
  if (vocabulary.unknown_id() < 0 || vocabulary.unknown_id() >= size) {
    Problem("vocabulary", fmt::format("unknown_id is {}, the vocabulary ends at {}",
                                      vocabulary.unknown_id(), size - 1));
  }
}

std::shared_ptr<const Vocabulary> Assembly::ReadNames(const char* file, int64_t most) {
  const std::string place = fmt::format("{}/{}", model.version, file);
  absl::StatusOr<std::string> text = ReadModelFile(model_folder, place, limits.max_names_bytes);
  if (absl::IsNotFound(text.status())) return nullptr;
  if (!text.ok()) {
    types.Problem(std::string(text.status().message()));
    return nullptr;
  }
  auto names = Vocabulary::Create(*std::move(text));
  if (!names.ok()) {
    types.Problem(fmt::format("{}: {}", place, std::string(names.status().message())));
    return nullptr;
  }
  if ((*names)->size() <= most) return *std::move(names);
  types.Problem(fmt::format("{}: {} entries, the model has {}", place, (*names)->size(), most));
  return nullptr;
}

void Assembly::ListOutputs() {
  std::vector<TensorSpec>& outputs = model.signature.outputs;
  for (const std::string& name : config.optional_outputs()) {
    const auto output = std::find_if(outputs.begin(), outputs.end(),
                                     [&](const TensorSpec& t) { return t.name == name; });
    if (output != outputs.end()) {
      output->listed = true;
    } else {
      std::vector<std::string> names;
      for (const TensorSpec& t : outputs) names.push_back(t.name);
      Problem("optional_outputs", fmt::format("optional_outputs: the model has no output \"{}\"{}",
                                              name, MeantOrThere(name, names)));
    }
  }
}

}  // namespace cellbatch
