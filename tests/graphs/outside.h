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

// An example of deploy/examples, copied away and built by its own script, as a model folder: its config and random
// weights.
class OutsideModel {
 protected:
  struct Tensor {
    std::string name;
    std::vector<long> dims;
    std::vector<float> values;  // drawn here
  };

  // `example`: its folder, and the name of its code.
  OutsideModel(const std::string& prefix, const std::string& folder, const std::string& example,
               const std::string& code, std::vector<Tensor> tensors);

  const std::vector<float>& Find(const std::string& tensor) const;
  // One step of an LSTM, "NAME.weight_ih", .., in double; h and c become the new ones.
  void Step(const std::string& name, const std::vector<double>& x, std::vector<double>& h,
            std::vector<double>& c) const;
  std::vector<double> Embedded(int token) const;
  std::vector<double> Head(const std::vector<double>& x) const;

 private:
  std::vector<Tensor> tensors_;
};

// deploy/examples/unfolder.
class DilatedModel : public OutsideModel {
 public:
  static constexpr int kVocabulary = 50, kWidth = 6, kHidden = 8, kClasses = 3;

  explicit DilatedModel(const std::string& prefix, const std::string& folder);

  // In double, straight from the definition: step t of layer l continues from step t - d[l].
  struct Answers {
    std::vector<double> y, h;  // the head's; the top layer's, end to end
  };
  Answers Reference(const std::vector<int>& tokens) const;
};

// deploy/examples/growing.
class ReaderModel : public OutsideModel {
 public:
  static constexpr int kVocabulary = 50, kWidth = 6, kHidden = 8, kClasses = 3, kPiece = 4;
  static constexpr double kMargin = 0.5;

  explicit ReaderModel(const std::string& prefix, const std::string& folder);

  // In double, straight from the definition: the whole text is read, and looked at after every fourth word.
  struct Answers {
    std::vector<double> scores;
    int read = 0;
    double closest =
        1e9;  // a margin came to kMargin: nearer than arithmetic is exact, and either answer is right
  };
  Answers Reference(const std::vector<int>& tokens) const;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_GRAPHS_OUTSIDE_H_
