// The .safetensors file format, read with suspicion and written for ourselves.
//
//   [ 8 bytes: n, little-endian ][ n bytes of JSON ][ data ............................... ]
//                                  "w": {"dtype":"F32","shape":[4,3],"data_offsets":[0,48]}
//
// A file is somebody else's: nothing in it is believed before it is checked. Sizes are bounded
// before anything is allocated; every type, shape and offset must agree with the others; the
// tensors must cover the data exactly once, without gaps, overlaps or names said twice. Files are
// read into memory we own, never mapped, so a file that changes while it is served changes nothing.
//
// Plain functions and values; any thread. Parsing costs O(header), reading O(bytes asked for).
#ifndef CELLBATCH_CELLS_WEIGHTS_SAFETENSORS_H_
#define CELLBATCH_CELLS_WEIGHTS_SAFETENSORS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace cellbatch {

inline constexpr uint64_t kMaxSafetensorsHeader = 16u << 20;  // bytes of JSON
inline constexpr size_t kMaxSafetensorsTensors = 1u << 16;
inline constexpr size_t kMaxSafetensorsRank = 8;
inline constexpr size_t kMaxSafetensorsName = 1024;  // bytes of one tensor's name

// One tensor as the header describes it.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;           // one of the format's words: F64 F32 F16 BF16 I64 ... BOOL
  std::vector<int64_t> shape;  // row-major; empty: a scalar
  uint64_t begin = 0;          // bytes, counted from the start of the data
  uint64_t end = 0;
  int64_t num_elements() const;
  bool is_float() const;  // F64, F32, F16 or BF16: what ReadTensor can turn into fp32
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  // by position in the file
  std::vector<std::pair<std::string, std::string>> metadata;
  uint64_t data_begin = 0;  // where the data starts in the file
};

// `prefix` is the first 8 + n bytes of a file of `file_size` bytes (more does no harm).
// INVALID_ARGUMENT says what is wrong, with the tensor's name and both values where two disagree.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view prefix,
                                                         uint64_t file_size);

// "[4, 3]"
std::string ShapeText(absl::Span<const int64_t> shape);

// An open file: its header, checked, and its tensors on demand. Move-only; owns a descriptor.
class SafetensorsFile {
 public:
  // NOT_FOUND, INVALID_ARGUMENT (not such a file, or too large), INTERNAL (cannot read). Texts
  // start with the path.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path, uint64_t max_bytes);
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&& other) noexcept;
  ~SafetensorsFile();

  const SafetensorsHeader& header() const { return header_; }
  const SafetensorsEntry* Find(std::string_view name) const;
  // Reads the tensor as fp32 into `out`, of num_elements() elements. F64 is rounded to nearest;
  // what fp32 cannot hold becomes infinite. Fails for types that are no floats.
  absl::Status ReadTensor(const SafetensorsEntry& entry, absl::Span<float> out) const;
  // The same of integers. Fails for types that are none, and for U64.
  absl::Status ReadIntegers(const SafetensorsEntry& entry, absl::Span<int64_t> out) const;

 private:
  SafetensorsFile() = default;

  std::string path_;
  int descriptor_ = -1;
  SafetensorsHeader header_;
  std::vector<uint32_t> by_name_;  // indices into header_.tensors, sorted by name
};

// What is written: fp32 values, borrowed.
struct SafetensorsSource {
  std::string name;
  std::vector<int64_t> shape;
  absl::Span<const float> values;
};

// Writes F32 tensors in the order given, header padded so that data is 8-byte aligned, as a whole file (cells/whole_file.h).
absl::Status WriteSafetensors(const std::string& path, absl::Span<const SafetensorsSource> tensors,
                              absl::Span<const std::pair<std::string, std::string>> metadata = {});

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_WEIGHTS_SAFETENSORS_H_
