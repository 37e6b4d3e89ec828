// Writes the model folder of an imported model, and loads it once: what was made must load.
//
//   <repository>/<name>/config.textproto
//   <repository>/<name>/<version>/weights.safetensors
//
// Plain functions; any thread; seconds and memory for the weights.
#ifndef CELLBATCH_SERVER_CONVERT_WRITE_MODEL_H_
#define CELLBATCH_SERVER_CONVERT_WRITE_MODEL_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/convert/import_options.h"

namespace cellbatch {

// INVALID_ARGUMENT: a name, version or other option that cannot be. Importers ask before they read anything.
absl::Status CheckImportOptions(const ImportOptions& options);

// Where an importer's tensors come from.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual std::vector<int64_t> ShapeOf(const std::string& tensor) const = 0;
  virtual absl::Status Read(const std::string& tensor, absl::Span<float> out) const = 0;
};

// Writes the folder. INVALID_ARGUMENT: a weight that is not finite. ALREADY_EXISTS: that version is there.
absl::StatusOr<Imported> WriteModel(const StackModel& model, const TensorSource& tensors,
                                    const ImportOptions& options);

// What was made, in a few lines for a person.
std::string Summary(const Imported& imported, const ImportOptions& options);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_CONVERT_WRITE_MODEL_H_
