// A user's unfolder that does wrong while its graph grows, as TOKENS[0] says. Written against the bare functions of the
// header, because its wrapper would not let some of it happen.
#ifndef CELLBATCH_TESTS_GRAPHS_BAD_GROWTH_H_
#define CELLBATCH_TESTS_GRAPHS_BAD_GROWTH_H_

#include <cstdint>

#include "tests/graphs/bad_unfolder.h"

namespace cellbatch {

inline constexpr int32_t kEndless = 99;  // never closes, and brings more than it said

// In its first piece.
inline constexpr BadRequest kBadUnfolds[] = {
    {1, "grow: 0 pieces, the least is 1"},
    {2, "grow: 11 pieces may follow, the model takes 10 (max_pieces)", false},
    {3, "grow: called a second time"},
    {4, "grow_nodes: called before grow"},
    {5, "grow_nodes: type 9, there are 2"},
    {6, "grow_nodes: 2 more cells of type \"layer\" keep 3 rows"},
    {7, "grow_nodes: the request makes 1002 cells or more, the model takes 1000", false},
    {8, "grow: there may be other pieces, and grow_nodes said of no cells that they have any"},
    {9, "grow_input: input 1 of type \"layer\" is none that the request brings"},
    {10, "keep_rows: subgraph 0 is none of nodes that this piece added, which begin at 0"},
    {11, "add_unsent: dimension 0 is 0"},
    {12, "add_unsent: a tensor of type 7 and 1 dimensions"},
    {13, "remember: null"},
    {14, "remember: called a second time"},
    {15, "add_unsent: called more than 64 times"},
    {16, "close: called before grow"},
    {17, "add_unsent: \"\" is larger than 268435456 bytes", false},
};

// In its second.
inline constexpr BadRequest kBadExtends[] = {
    {51, "extend: answered 7"},
    {52, "extend: threw out of extend"},
    {53, "extend: I broke"},
    {54, "add_nodes: 4 cells, of those that grow_nodes said 3 are left"},
    {55,
     "layer.before reads node 0 of subgraph 1, an earlier piece's chain of 3, which kept its last "
     "one (keep_rows)"},
    {56, "return_rows: subgraph 1 is of an earlier piece, this one's begin at 2"},
    {57, "keep_rows: subgraph 1 is none of nodes that this piece added, which begin at 2"},
    {58, "add_output: called during extend; it belongs into unfold"},
    {59, "grow: called during extend; it belongs into unfold"},
    {60, "grow_nodes: called during extend; it belongs into unfold"},
    {61, "remember: called during extend; it belongs into unfold"},
    {62, "add_unsent: called during extend; it belongs into unfold"},
    {63, "I do not like what came out", false},
};

inline constexpr char kBadGrowth[] = R"cc(
#include <cellbatch_unfolder.h>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>

  static int nowhere, *forgotten;  // where the test counts, if it says so
  static void Forget(void* memory) {
    delete static_cast<int32_t*>(memory);
    ++*forgotten;
  }

  static void* Create(const CellbatchHost* host, CellbatchModel* model, const char* config) {
    forgotten = reinterpret_cast<int*>(std::strtoull(config, nullptr, 10));
    if (forgotten == nullptr) forgotten = &nowhere;
    const int64_t any[] = {-1}, eight[] = {8};
    host->declare_input(model, "TOKENS", CELLBATCH_INT32, 1, any, 0);
    host->declare_output(model, "OUTPUT", CELLBATCH_FP32, 1, eight, 1);
    return &forgotten;
  }

  static int32_t Unfold(const void*, const CellbatchHost* host, CellbatchBuilder* b) {
    const int32_t mode = *static_cast<const int32_t*>(host->find_tensor(b, "TOKENS")->data);
    const int32_t tokens[] = {1, 2, 3}, layer = 0, x = 0;
    const int64_t eight[] = {8}, none[] = {0}, huge[] = {int64_t{1} << 40};
    if (mode == 4) host->grow_nodes(b, layer, 1, 1);
    if (mode == 16) host->close(b);
    if (mode == 1) host->grow(b, 0);
    host->grow(b, mode == 2 ? 11 : 10);
    if (mode == 3) host->grow(b, 1);
    if (mode == 5) host->grow_nodes(b, 9, 1, 1);
    if (mode == 6) host->grow_nodes(b, layer, 2, 3);
    if (mode == 7) host->grow_nodes(b, layer, 996, 2);
    if (mode != 8) host->grow_nodes(b, layer, 3, 3);
    if (mode == 9) host->grow_input(b, layer, 1, 1);
    host->grow_input(b, layer, x, 1);
    if (mode == 11) host->add_unsent(b, CELLBATCH_FP32, 1, none);
    if (mode == 12) host->add_unsent(b, 7, 1, eight);
    if (mode == 17) host->add_unsent(b, CELLBATCH_FP32, 1, huge);
    for (int i = 0; mode == 15 && i < 70; ++i) host->add_unsent(b, CELLBATCH_FP32, 1, eight);
    if (mode == 13) host->remember(b, nullptr, Forget);
    host->remember(b, new int32_t(mode), Forget);
    if (mode == 14) host->remember(b, new int32_t(mode), Forget);
    const int32_t words = host->add_input(b, layer, x, 3, tokens);
    const CellbatchLink link = {x, words, 0, 1};
    const int32_t chain = host->add_nodes(b, layer, 3, &link, 1);
    if (mode == 10) host->keep_rows(b, words);
    const int32_t output = host->add_output(b, "OUTPUT", 1, eight);
    host->return_rows(b, chain, 0, 2, 1, output, 0, 0);
    return host->output_data(b, output) == nullptr ? 0 : 1;
  }

  // One cell after the first piece's last one, as long as there may be any.
  static int32_t Extend(const void*, const CellbatchHost* host, CellbatchBuilder* b) {
    const int32_t mode = *static_cast<const int32_t*>(host->remembered(b));
    const int32_t token = 5, layer = 0, x = 0, before = 1, chain = 1, output = 0;
    const int64_t eight[] = {8};
    if (host->output_data(b, output) == nullptr || host->output_data(b, 1) != nullptr) return 9;
    if (mode == 51) return 7;
    if (mode == 52) throw std::runtime_error("out of extend");
    if (mode == 53) host->fail(b, "I broke");
    if (mode == 56) host->return_rows(b, chain, 0, 2, 1, output, 0, 0);
    if (mode == 57) host->keep_rows(b, chain);
    if (mode == 58) host->add_output(b, "OUTPUT", 1, eight);
    if (mode == 59) host->grow(b, 1);
    if (mode == 60) host->grow_nodes(b, layer, 1, 1);
    if (mode == 61) host->remember(b, new int32_t(0), Forget);
    if (mode == 62) host->add_unsent(b, CELLBATCH_FP32, 1, eight);
    if (mode == 63) host->reject(b, "I do not like what came out");
    const int32_t word = host->add_input(b, layer, x, 1, &token);
    const CellbatchLink links[] = {{x, word, 0, 0}, {before, chain, mode == 55 ? 0 : 2, 0}};
    const int32_t node = host->add_nodes(b, layer, mode == 54 ? 4 : 1, links, 2);
    if (mode != 99) host->close(b);
    return host->return_rows(b, node, 0, 0, 1, output, 0, 0);
  }

  static void Destroy(void*) {}

  const CellbatchUnfolder* cellbatch_unfolder() {
    static const CellbatchUnfolder kTable = {
        TABLE_SIZE, CELLBATCH_UNFOLDER_VERSION, Create, Unfold, Destroy, Extend};
    return &kTable;
  }
)cc";

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_GRAPHS_BAD_GROWTH_H_
