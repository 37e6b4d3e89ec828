// Users' unfolders as users make them: headers installed into a folder of their own by
// deploy/install_headers, code compiled there by the system's compiler, outside of this tree and of Bazel.
#ifndef CELLBATCH_TESTS_GRAPHS_OUTSIDE_H_
#define CELLBATCH_TESTS_GRAPHS_OUTSIDE_H_

#include <string>
#include <vector>

namespace cellbatch {

// A new folder of the test's with include/cellbatch_unfolder.h. Ends the test program where that fails.
std::string InstallHeaders();

// Compiles `source` (C where the file's name ends in .c) to the shared library `library`.
void CompileLibrary(const std::string& prefix, const std::string& file, const std::string& source,
                    const std::string& library);

// The example of deploy/examples/unfolder, copied away and built by its own script, as a model folder:
// its config and random weights.
struct DilatedModel {
  static constexpr int kVocabulary = 50, kWidth = 6, kHidden = 8, kClasses = 3;

  explicit DilatedModel(const std::string& prefix, const std::string& folder);

  // In double, straight from the definition: step t of layer l continues from step t - d[l].
  struct Answers {
    std::vector<double> y, h;  // the head's; the top layer's, end to end
  };
  Answers Reference(const std::vector<int>& tokens) const;

 private:
  struct Tensor {
    std::string name;
    std::vector<long> dims;
    std::vector<float> values;
  };
  const Tensor& Find(const std::string& name) const;
  std::vector<Tensor> tensors_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_GRAPHS_OUTSIDE_H_
