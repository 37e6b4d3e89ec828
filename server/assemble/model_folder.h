// A model's folder for tests of the loader: weights that are all 0.5, and as texts the cells of a small model of trees.
#ifndef CELLBATCH_SERVER_ASSEMBLE_MODEL_FOLDER_H_
#define CELLBATCH_SERVER_ASSEMBLE_MODEL_FOLDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cellbatch {

// "pair_node", of two children, and "word_leaf", of a word's vector; both leave h.
extern const char kPairCell[], kLeafCell[];

class ModelFolder {
 public:
  // Made anew among the test's own files, with both cells in it. shapes: of each tensor, by name.
  ModelFolder(const std::string& name, const std::map<std::string, std::vector<int64_t>>& shapes);

  const std::string& path() const { return path_; }
  void Write(const std::string& file, std::string_view text) const;

 private:
  const std::string path_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_ASSEMBLE_MODEL_FOLDER_H_
