// What the makers of the zoo's workloads share: pieces of config.textproto, of weights and of answers.
#ifndef CELLBATCH_TESTS_ZOO_WORKLOAD_PARTS_H_
#define CELLBATCH_TESTS_ZOO_WORKLOAD_PARTS_H_

#include <string>
#include <utility>
#include <vector>

#include "loadgen/corpus/tensors.h"
#include "tests/zoo/data.h"
#include "tests/zoo/workload.h"

namespace cellbatch::zoo {

// Items as tensors: the load generator makes its requests of the same.
using corpus::CharacterTensors;
using corpus::IntsTensor;
using corpus::LatticeTensors;
using corpus::TreeTensors;
using corpus::WordIds;

// A cell type of config.textproto. `reads`: input, definition in front of it. A parameter "P" is filled
// by tensor NAME.P, "P=T" by tensor T.
std::string CellType(const std::string& name, const std::string& cell,
                     const std::vector<std::pair<std::string, std::string>>& reads,
                     const std::vector<std::string>& parameters, const std::string& more = "");

// CELL.W, .U and .b of so many gates.
void AddRecurrent(WeightSet& weights, const std::string& cell, int64_t gates, int64_t input,
                  int64_t hidden);
// CELL.W and .b.
void AddLinear(WeightSet& weights, const std::string& cell, int64_t input, int64_t classes);
// The cell type "output": linear, over the h of whatever it stands above.
std::string OutputType();

std::vector<Vec> Rows(const Mat& table, const std::vector<int32_t>& ids);
Vec Joined(const std::vector<Vec>& rows);  // end to end

// All of a file (count 0), or some of it, small to large.
template <typename Item, typename Size>
std::vector<Item> Some(const std::vector<Item>& items, size_t count, Size size) {
  return count == 0 ? items : Spread(items, count, size);
}

Workload Lstm(const Sizes& sizes, size_t items);
Workload BilstmTagger(const Sizes& sizes, size_t items, bool spell_rare_words);
Workload Translate(const Sizes& sizes, size_t items);
Workload TreeLstm(const Sizes& sizes, size_t items, int internal_types);
Workload TreeGru(const Sizes& sizes, size_t items);
Workload MvRnn(const Sizes& sizes, size_t items);
Workload ChildSum(const Sizes& sizes, size_t items);
Workload ChildSumByArity(const Sizes& sizes, size_t items);
Workload LatticeLstm(const Sizes& sizes, size_t items);
Workload LatticeGru(const Sizes& sizes, size_t items);

}  // namespace cellbatch::zoo

#endif  // CELLBATCH_TESTS_ZOO_WORKLOAD_PARTS_H_
