// Which model folders of a repository changed (--model-control poll): looks at names, sizes, times and file numbers, reads
// nothing but which versions a model's config.textproto asks for (version_policy).
//
//   looks      1        2          3           4          5
//   folder     as was   half here  whole       whole      whole
//   is told    -        -          -           changed    -          a folder that looks as it did at the look before
//
// So what is being written is left alone until it has been still from one look to the next; what is complete before that
// is told of one look later. A folder that is gone is told of at the second look without it, as one that is replaced by
// renaming is not there for a moment. Of a model's versions those are looked at that would be served (all, while that
// cannot be said). A policy.textproto has its own way (PolicyWatch), and who may read a file is nothing that a served model
// is loaded again for; but a load may have failed by either, so one that failed is told of again when they change, too.
//
// One thread.
#ifndef CELLBATCH_SERVER_CONTROL_FOLDER_WATCH_H_
#define CELLBATCH_SERVER_CONTROL_FOLDER_WATCH_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace cellbatch {

// Of a model: files and folders that are looked at, and folders inside each other. What is beyond is not.
inline constexpr int kMostWatchedEntries = 10'000, kMostWatchedDepth = 8;

// How the folder of a model looks: equal where nothing has changed.
struct FolderLook {
  std::string files;  // a line each, and one for a folder that cannot be read; empty: there is none
  std::string beside;  // who may read them, and policies
  bool seen = true;    // false: there was no file left to look with; it may look like anything
  bool operator==(const FolderLook&) const = default;
};

struct FolderNews {
  std::string name;
  bool gone = false;  // else: it is there, and not what it was
};

class FolderWatch {
 public:
  explicit FolderWatch(std::string root) : root_(std::move(root)) {}

  // All are known as they are now: who they are. An error: the root cannot be read, and none is known.
  absl::StatusOr<std::vector<std::string>> Begin();
  // What changed since it was last told of, by name. An error: the root cannot be read; nothing is known to be gone.
  absl::StatusOr<std::vector<FolderNews>> Look();
  // What was told of that model is to be told again at the next look.
  void TellAgain(const std::string& name);
  // What was told of that model could not be loaded as it is.
  void Failed(const std::string& name);

 private:
  struct Seen {
    FolderLook last;  // how it looked at the last look
    FolderLook told;  // and when it was last told of
    bool failed = false, missed = false;
  };
  const std::string root_;
  std::map<std::string, Seen> seen_;
};

FolderLook LookOf(const std::string& model_folder);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_CONTROL_FOLDER_WATCH_H_
