// A dilated recurrent network (Chang et al., 2017): in layer l, step t continues from step t - d[l], and
// reads step t of the layer below. Chains with neighbours for predecessors cannot say that.
//
//   layer 1, d = 2    0 --> 2 --> 4      each step is a node of its own: whatever is ready goes together
//                       1 --> 3 --> 5
//   layer 0, d = 1    0 -> 1 -> .. -> 5  one chain
//   TOKENS [T]
//
// The model's config: library { types: layer 0, layer 1, .., the head; config: "1 2 4": the dilations }.
// OUTPUT is the head's y over the last step of the top layer; ALL_HIDDEN [T, H] that layer's h.
#include <cellbatch_unfolder.h>

#include <sstream>

namespace {

namespace cu = cellbatch_unfolder_cpp;

class Dilated {
 public:
  Dilated(cu::Model& model, const std::string& config) {
    std::istringstream text(config);
    for (int32_t dilation = 0; text >> dilation;) {
      if (dilation < 1) throw std::invalid_argument("a dilation is below 1");
      const auto type = static_cast<int32_t>(layers_.size());
      layers_.push_back(
          {dilation, model.Input(type, type == 0 ? "token" : "x"), model.Input(type, "before")});
    }
    if (layers_.empty()) throw std::invalid_argument("config: no dilations, such as \"1 2 4\"");
    head_ = static_cast<int32_t>(layers_.size());
    head_x_ = model.Input(head_, "x");
    y_ = model.Column(head_, "y");
    h_ = model.Column(head_ - 1, "h");
    width_ = model.Width(head_ - 1, h_);
    y_width_ = model.Width(head_, y_);
    model.DeclareInput("TOKENS", CELLBATCH_INT32, {-1});
    model.DeclareOutput("OUTPUT", CELLBATCH_FP32, {y_width_});
    model.DeclareOutput("ALL_HIDDEN", CELLBATCH_FP32, {-1, width_}, /*listed=*/false);
  }

  void Unfold(cu::Request& request) const {
    const CellbatchTensor& tokens = request.Get("TOKENS");
    const auto steps = static_cast<int32_t>(tokens.dims[0]);
    // Where each step's state lies.
    std::vector<Place> below, here(tokens.dims[0]);
    const int32_t words = request.AddInput(0, layers_[0].x, steps, tokens.data);
    for (int32_t t = 0; t < steps; ++t) below.push_back({words, t});
    for (size_t l = 0; l < layers_.size(); ++l) {
      AddLayer(request, static_cast<int32_t>(l), below, here);
      below = here;
    }
    const Place last = here.back();
    const int32_t head = request.AddNodes(head_, 1, {{head_x_, last.subgraph, last.node, 0}});
    request.ReturnRows(head, y_, 0, 1, request.AddOutput("OUTPUT", {y_width_}), 0, 0);
    const int32_t all = request.AddOutput("ALL_HIDDEN", {steps, width_});
    for (int32_t t = 0; t < steps; ++t) {
      request.ReturnRows(here[t].subgraph, h_, here[t].node, 1, all, int64_t{t} * width_, 0);
    }
  }

 private:
  struct Layer {
    int32_t dilation, x, before;
  };
  struct Place {
    int32_t subgraph, node;
  };

  void AddLayer(cu::Request& request, int32_t type, const std::vector<Place>& below,
                std::vector<Place>& here) const {
    const Layer& layer = layers_[type];
    const auto steps = static_cast<int32_t>(here.size());
    // Rows that lie one after the other can be read by one chain.
    const bool row = below.back().node == steps - 1;
    if (layer.dilation == 1 && row) {
      const int32_t chain = request.AddNodes(type, steps, {{layer.x, below[0].subgraph, 0, 1}});
      for (int32_t t = 0; t < steps; ++t) here[t] = {chain, t};
      return;
    }
    for (int32_t t = 0; t < steps; ++t) {
      std::vector<cu::Link> links = {{layer.x, below[t].subgraph, below[t].node, 0}};
      if (t >= layer.dilation) {
        const Place before = here[t - layer.dilation];
        links.push_back({layer.before, before.subgraph, before.node, 0});
      }
      here[t] = {request.AddNodes(type, 1, links), 0};
    }
  }

  std::vector<Layer> layers_;
  int32_t head_ = 0, head_x_ = 0, y_ = 0, h_ = 0;
  int32_t width_ = 0, y_width_ = 0;
};

}  // namespace

const CellbatchUnfolder* cellbatch_unfolder() { return cu::Table<Dilated>(); }
