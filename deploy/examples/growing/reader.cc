// A reader that stops when it is sure: it reads a text some words at a time, looks at the scores of the classes after
// each piece, and reads on only while the best two lie close together. How many cells a request has depends on what they
// compute, so its graph grows:
//
//   TOKENS [T]    w0 w1 w2 w3 | w4 w5 w6 w7 | w8 ..
//   layer         o--o--o--o ---> o--o--o--o ---> ..      a piece: a chain of `words` cells after the last one's state
//   head                   |             |
//                       SCORES: close     SCORES: sure --> OUTPUT, READ = 8, and nothing more is computed
//
// The model's config: library { types: layer, head; max_pieces: of the longest text; config: "4 0.5": words a piece, and
// the margin that is sure }. OUTPUT [classes] are the scores it stopped with, READ [1] how many words it had read.
#include <cellbatch_unfolder.h>

#include <algorithm>
#include <sstream>

namespace {

namespace cu = cellbatch_unfolder_cpp;

class Reader {
 public:
  Reader(cu::Model& model, const std::string& config) {
    std::istringstream text(config);
    if (!(text >> words_ >> margin_) || words_ < 1) {
      throw std::invalid_argument("config: expected are words a piece and a margin, \"4 0.5\"");
    }
    token_ = model.Input(kLayer, "token");
    before_ = model.Input(kLayer, "before");
    x_ = model.Input(kHead, "x");
    y_ = model.Column(kHead, "y");
    classes_ = model.Width(kHead, y_);
    model.DeclareInput("TOKENS", CELLBATCH_INT32, {-1});
    model.DeclareOutput("OUTPUT", CELLBATCH_FP32, {classes_});
    model.DeclareOutput("READ", CELLBATCH_INT32, {1});
  }

  void Unfold(cu::Request& request) const {
    const CellbatchTensor& tokens = request.Get("TOKENS");
    const auto total = static_cast<int32_t>(tokens.dims[0]);
    Text text;
    text.total = total;
    text.output = request.AddOutput("OUTPUT", {classes_});
    text.read_output = request.AddOutput("READ", {1});
    text.scores = request.AddUnsent(CELLBATCH_FP32, {classes_});
    text.tokens = request.AddInput(kLayer, token_, total, tokens.data);
    AddPiece(request, text);
    const int32_t left = total - text.read;
    const int32_t pieces = (left + words_ - 1) / words_ + 1;  // the last looks at the scores alone
    request.Grow(pieces);
    request.GrowNodes(kLayer, left, std::min(left, 2 * pieces));  // a chain keeps two of its rows
    request.GrowNodes(kHead, pieces, pieces);
    request.Remember(std::make_unique<Text>(text));
  }

  void Extend(cu::Request& request) const {
    Text& text = request.Remembered<Text>();
    const float* const scores = request.Data<float>(text.scores);
    if (text.read < text.total && !Sure(scores)) return AddPiece(request, text);
    if (float* const output = request.Data<float>(text.output)) {
      std::copy(scores, scores + classes_, output);
    }
    if (int32_t* const read = request.Data<int32_t>(text.read_output)) *read = text.read;
    request.Close();
  }

 private:
  enum Type { kLayer, kHead };  // as the config numbers them

  // What is remembered of a request.
  struct Text {
    int32_t total = 0, read = 0;                // words
    int32_t tokens = 0;                         // the subgraph of all of them
    int32_t chain = CELLBATCH_ZEROS, last = 0;  // where the state lies that it reads on from
    int32_t output = 0, read_output = 0, scores = 0;
  };

  void AddPiece(cu::Request& request, Text& text) const {
    const int32_t words = std::min(words_, text.total - text.read);
    const int32_t chain = request.AddNodes(
        kLayer, words, {{token_, text.tokens, text.read, 1}, {before_, text.chain, text.last, 0}});
    const int32_t head = request.AddNodes(kHead, 1, {{x_, chain, words - 1, 0}});
    request.ReturnRows(head, y_, 0, 1, text.scores, 0, 0);
    text.read += words;
    text.chain = chain;
    text.last = words - 1;
  }

  bool Sure(const float* scores) const {
    float best = scores[0], second = -1e30f;
    for (int32_t c = 1; c < classes_; ++c) {
      second = std::max(second, std::min(best, scores[c]));
      best = std::max(best, scores[c]);
    }
    return best - second >= margin_;
  }

  int32_t words_ = 0;
  float margin_ = 0;
  int32_t token_ = 0, before_ = 0, x_ = 0, y_ = 0, classes_ = 0;
};

}  // namespace

const CellbatchUnfolder* cellbatch_unfolder() { return cu::Table<Reader>(); }
