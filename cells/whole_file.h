// A file that others see as it was or as it is to be, never half of it: it is written in the same folder under a name that
// nobody else has, which then takes its place.
//
//   .partial.policy.textproto.0  ---- Publish ---->  policy.textproto
//
// Any number of threads and processes may write one path at once; who publishes last stays. A link stays a link: what it leads
// to is replaced. So is a pipe or a device: who would rather write to it looks before.
#ifndef CELLBATCH_CELLS_WHOLE_FILE_H_
#define CELLBATCH_CELLS_WHOLE_FILE_H_

#include <string>
#include <string_view>
#include <system_error>

namespace cellbatch {

// One thread. The first error stays, and nothing is done after it: Publish tells.
class WholeFile {
 public:
  // How the names begin of files that are being written, or that a process left which was killed.
  static constexpr std::string_view kPrefix = ".partial.";

  explicit WholeFile(const std::string& path);
  // Not published: what was written is gone.
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  // rw-r--r-- whatever the process's mask, which otherwise decides.
  void LetAllRead();
  void Append(std::string_view bytes);
  // On the disk, then in its place. Once; the reason why it is not there.
  std::error_code Publish();

 private:
  void CreateAside();
  void Note(bool done);

  std::string path_;   // what is replaced
  std::string aside_;  // empty: not there, or no longer
  int descriptor_ = -1;
  std::error_code error_;
};

// All of it at once.
std::error_code WriteWholeFile(const std::string& path, std::string_view text);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_WHOLE_FILE_H_
