// A process that has no files left, for tests of what is said then.
#ifndef CELLBATCH_TESTS_TESTING_FEW_FILES_H_
#define CELLBATCH_TESTS_TESTING_FEW_FILES_H_

#include <sys/resource.h>
#include <unistd.h>

#include "cells/check.h"

namespace cellbatch::testing {

// While it lives, this process can open so many more files.
class FewFiles {
 public:
  explicit FewFiles(int left) {
    Check(getrlimit(RLIMIT_NOFILE, &before_) == 0, "the limit of files");
    const int next = dup(STDERR_FILENO);  // the lowest that is free
    close(next);
    Limit({.rlim_cur = static_cast<rlim_t>(next + left), .rlim_max = before_.rlim_max});
  }
  FewFiles(const FewFiles&) = delete;
  FewFiles& operator=(const FewFiles&) = delete;
  ~FewFiles() { Limit(before_); }

 private:
  static void Limit(const rlimit& to) {
    Check(setrlimit(RLIMIT_NOFILE, &to) == 0, "the limit of files is set");
  }

  rlimit before_ = {};
};

}  // namespace cellbatch::testing

#endif  // CELLBATCH_TESTS_TESTING_FEW_FILES_H_
