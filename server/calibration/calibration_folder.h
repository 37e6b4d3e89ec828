// --calibration-cache: T(b) from one start to the next, a file for each cell type and sort of device.
//
//   <folder>/<fingerprint>.textproto      of what T(b) depends on (scheduler/warm/calibration_shelf.h), and of this program
//
// A file that cannot be used is told in the log, with its name and what is wrong, and is as if it were not there: its type is
// measured, and the file replaced. Files are written beside their place and moved there, so several servers may share a
// folder, and who reads one has all of it; of two that measured the same the last one stays; what a server that was killed
// left of one goes when the folder is opened an hour later. Nothing in it is needed: it may be emptied at any time. What a
// program of another build kept is not looked at, and stays until it is.
//
// The control thread's.
#ifndef CELLBATCH_SERVER_CALIBRATION_CALIBRATION_FOLDER_H_
#define CELLBATCH_SERVER_CALIBRATION_CALIBRATION_FOLDER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/warm/calibration_shelf.h"

namespace cellbatch {

// This program, as far as another build of it may take other times: its file's size and when it was written. Empty: the
// system does not say.
std::string ProgramStamp();

class CalibrationFolder final : public CalibrationShelf {
 public:
  // Makes the folder where it is not there. FAILED_PRECONDITION: it cannot be made, or nothing can be written there.
  static absl::StatusOr<std::unique_ptr<CalibrationFolder>> Open(const std::string& folder,
                                                                 std::string program);

  std::vector<CalibrationPoint> Find(const CalibrationKey& key) override;
  void Keep(const CalibrationKey& key, absl::Span<const CalibrationPoint> points) override;

  std::string FingerprintOf(const CalibrationKey& key) const;
  std::string PathOf(const CalibrationKey& key) const;

 private:
  CalibrationFolder(std::string folder, std::string program)
      : folder_(std::move(folder)), program_(std::move(program)) {}

  const std::string folder_, program_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_CALIBRATION_CALIBRATION_FOLDER_H_
