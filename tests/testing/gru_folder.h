// A model folder for tests of those who load, replace and unload models: a GRU of vectors, as cellbatch-convert writes it.
#ifndef CELLBATCH_TESTS_TESTING_GRU_FOLDER_H_
#define CELLBATCH_TESTS_TESTING_GRU_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cells/weights/safetensors.h"
#include "gtest/gtest.h"
#include "server/convert/import_torch.h"

namespace cellbatch {

// <root>/<name>/<version>, new or written over. The same weights every time.
inline void WriteGruFolder(const std::string& root, const std::string& name, int64_t version = 1) {
  const std::vector<float> w(3 * 4 * 4, 0.5f);
  const std::string from = root + "-gru.safetensors";
  ASSERT_TRUE(
      WriteSafetensors(from, {{"weight_ih_l0", {12, 4}, w}, {"weight_hh_l0", {12, 4}, w}}).ok());
  const auto made = ImportTorch({.from = from,
                                 .repository = root,
                                 .name = name,
                                 .version = version,
                                 .overwrite = true,
                                 .hints = {}});
  ASSERT_TRUE(made.ok()) << made.status();
}

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_TESTING_GRU_FOLDER_H_
