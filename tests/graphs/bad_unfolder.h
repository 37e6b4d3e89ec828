// A user's unfolder that does wrong what its request asks for: TOKENS[0] says what. Written against the
// bare functions of the header, because its wrapper would not let some of it happen.
#ifndef CELLBATCH_TESTS_GRAPHS_BAD_UNFOLDER_H_
#define CELLBATCH_TESTS_GRAPHS_BAD_UNFOLDER_H_

#include <cstdint>

namespace cellbatch {

inline constexpr int32_t kGood = 0;

struct BadRequest {
  int32_t mode;
  const char* text;
  bool its_own_fault = true;  // the library's
};

inline constexpr BadRequest kBadRequests[] = {
    {1,
     "add_nodes: subgraph 1 of type \"layer0\": link 0: layer0.before reads subgraph 1; the 1 "
     "before "
     "it can be read"},
    {2, "layer0.before reads subgraph 7"},
    {3, "add_nodes: type 9, there are 4"},
    {4, "layer0.before reads rows of"},
    {5, "threw out of unfold"},
    {6, "threw what is no std::exception"},
    {7, "the request makes 1001 cells or more, the model takes 1000", false},
    {8, "link 0: input 5, the type has 2"},
    {9, "layer0.token reads nodes 3, 1 further each of 1, of subgraph 0, which has 1"},
    {10, "layer0.before has 2 links or more, 1 may be"},
    {11, "0 nodes, the least is 1"},
    {12, "unfold: answered 1"},
    {13, "unfold: added no nodes"},
    {14, "\"OUTPUT\" was asked for and not added"},
    {15, "add_output: \"NOTHING\" was not declared"},
    {16, "add_output: \"OUTPUT\": dimension 0 is 9, declared is 8"},
    {17, "return_rows: output 3, 1 were added"},
    {18, "return_rows: column 4 of subgraph 1, its type leaves 2"},
    {19, "return_rows: 2 nodes from 0 of subgraph 1, which has 1"},
    {20, "1 times 8 elements of column \"h\" from 1, 0 further each, do not fit \"OUTPUT\" of 8"},
    {21, "return_rows: subgraph 0: there are 2, and rows of the request are not returned"},
    {22, "add_input: input 1 of type \"layer0\" is none that the request brings"},
    {23, "add_input: 0 rows for layer0.token"},
    {24, "add_input: 1 rows for layer0.token at null"},
    {25, "I do not like this request", false},
    {26, "unfold: I broke"},
    {27, "the request makes 2000000000 cells or more", false},
    {28, "add_nodes: subgraph 1 of type \"layer0\": 3 links at null"},
    {29, "add_nodes: type 9, there are 4"},  // and goes on as if nothing were
    {30, "layer0.token: value 0 is -5, the vocabulary ends at 49", false},
    {31, "the request makes 16001 links or more, the model takes 16000", false},
};

inline constexpr char kBadUnfolder[] = R"cc(
#include <cellbatch_unfolder.h>
#include <cstring>
#include <stdexcept>

  static void* Create(const CellbatchHost* host, CellbatchModel* model, const char* config) {
    static int self;
    const int64_t any[] = {-1}, eight[] = {8}, zero[] = {0};
    if (std::strcmp(config, "throws") == 0) throw std::runtime_error("out of create");
    if (std::strcmp(config, "silent") == 0) return &self;
    if (std::strcmp(config, "dims") == 0)
      host->declare_output(model, "A", CELLBATCH_FP32, 1, zero, 1);
    if (std::strcmp(config, "type") == 0) host->declare_output(model, "A", 7, 1, any, 1);
    if (std::strcmp(config, "twice") == 0) {
      host->declare_output(model, "A", CELLBATCH_FP32, 1, any, 1);
      host->declare_output(model, "A", CELLBATCH_FP32, 1, any, 1);
    }
    if (std::strcmp(config, "many") == 0) {
      char name[] = "AAA";
      for (int i = 0; i < 1000; ++i) {
        name[0] = 'A' + i % 10, name[1] = 'A' + i / 10 % 10, name[2] = 'A' + i / 100;
        host->declare_output(model, name, CELLBATCH_FP32, 1, any, 1);
      }
    }
    host->declare_input(model, "TOKENS", CELLBATCH_INT32, 1, any, 0);
    host->declare_output(model, "OUTPUT", CELLBATCH_FP32, 1, eight, 1);
    return &self;
  }

  static int32_t Nodes(const CellbatchHost* host, CellbatchBuilder* b, int32_t type, int32_t length,
                       CellbatchLink link, int32_t count = 1) {
    const CellbatchLink links[] = {link, link};
    return host->add_nodes(b, type, length, links, count);
  }

  static int32_t Unfold(const void*, const CellbatchHost* host, CellbatchBuilder* b) {
    const int32_t mode = *static_cast<const int32_t*>(host->find_tensor(b, "TOKENS")->data);
    const int32_t token = mode == 30 ? -5 : 1, layer = 0, x = 0, before = 1;
    const int64_t width[] = {mode == 16 ? 9 : 8};
    if (mode == 13) return 0;
    if (mode == 22) host->add_input(b, layer, before, 1, &token);
    if (mode == 23) host->add_input(b, layer, x, 0, &token);
    if (mode == 24) host->add_input(b, layer, x, 1, nullptr);
    const int32_t words = host->add_input(b, layer, x, 1, &token);
    if (mode == 1) Nodes(host, b, layer, 1, {before, 1, 0, 0});
    if (mode == 2) Nodes(host, b, layer, 1, {before, 7, 0, 0});
    if (mode == 3 || mode == 29) Nodes(host, b, 9, 1, {x, words, 0, 0});
    if (mode == 4) Nodes(host, b, layer, 1, {before, words, 0, 0});
    if (mode == 5) throw std::runtime_error("out of unfold");
    if (mode == 6) throw 6;
    if (mode == 7) {
      for (int i = 0; i < 5000; ++i) Nodes(host, b, layer, 1, {x, words, 0, 0});
    }
    if (mode == 8) Nodes(host, b, layer, 1, {5, words, 0, 0});
    if (mode == 9) Nodes(host, b, layer, 1, {x, words, 3, 1});
    if (mode == 10) Nodes(host, b, layer, 1, {before, CELLBATCH_ZEROS, 0, 0}, 2);
    if (mode == 11) Nodes(host, b, layer, 0, {x, words, 0, 0});
    if (mode == 25) host->reject(b, "I do not like this request");
    if (mode == 26) host->fail(b, "I broke");
    if (mode == 27) Nodes(host, b, layer, 2000000000, {x, words, 0, 0});
    if (mode == 28) host->add_nodes(b, layer, 1, nullptr, 3);
    if (mode == 31) {
      static CellbatchLink links[16001];
      host->add_nodes(b, layer, 1, links, 16001);
    }
    const int32_t node = Nodes(host, b, layer, 1, {x, words, 0, 0});
    if (mode == 14) return 0;
    if (mode == 15) host->add_output(b, "NOTHING", 1, width);
    const int32_t output = host->add_output(b, "OUTPUT", 1, width);
    if (mode == 17) host->return_rows(b, node, 0, 0, 1, 3, 0, 0);
    if (mode == 18) host->return_rows(b, node, 4, 0, 1, output, 0, 0);
    if (mode == 19) host->return_rows(b, node, 0, 0, 2, output, 0, 0);
    if (mode == 20) host->return_rows(b, node, 0, 0, 1, output, 1, 0);
    if (mode == 21) host->return_rows(b, words, 0, 0, 1, output, 0, 0);
    host->return_rows(b, node, 0, 0, 1, output, 0, 0);
    return mode == 12 ? 1 : 0;
  }

  static void Destroy(void*) {}

  const CellbatchUnfolder* cellbatch_unfolder() {
    static const CellbatchUnfolder kTable = {
        sizeof(CellbatchUnfolder), CELLBATCH_UNFOLDER_VERSION, Create, Unfold, Destroy, nullptr};
    return &kTable;
  }
)cc";

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_GRAPHS_BAD_UNFOLDER_H_
