// A mini-batch of a workload's requests, whole: every node, what it reads, the order in which its cells run as batches, and
// two ways to number the rows that nodes leave. Part of the benchmark `workloads`.
//
//   by request    rows in each request's own order, requests one behind the other: what the server hands out when they join
//   across cells  rows in the order in which batches run; within a batch as the next batch that reads it wants them:
//                 from the last batch to the first, nodes are sorted by (batch, input, place) of their first reader.
//                 Chains stay in place, children of one side lie side by side. O(nodes log nodes), given the batches
//
// One thread. Everything ends the process with a message when it fails.
#ifndef CELLBATCH_TESTS_BENCH_REQUEST_GRAPHS_H_
#define CELLBATCH_TESTS_BENCH_REQUEST_GRAPHS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cells/model.h"
#include "scheduler/request.h"
#include "tests/zoo/workload.h"

namespace cellbatch {

inline constexpr int32_t kZeros = -1;  // where a node reads no other one

struct RequestNode {
  CellTypeId type;
  int32_t value = 0;                        // that it leaves
  std::vector<std::vector<int32_t>> reads;  // by input: values, or kZeros
};

// A row: of a request's input, or what a node leaves.
struct RequestRow {
  TableId table;
  const std::byte* data = nullptr;  // of an input
};

struct RequestGraphs {
  zoo::Workload workload;  // what inputs point into
  std::shared_ptr<const Model> model;
  std::vector<std::unique_ptr<Request>> requests;
  std::vector<RequestNode> nodes;
  std::vector<RequestRow> values;
  std::vector<std::vector<int32_t>>
      batches;  // of nodes, each of one type, in the order they run (LB-greedy)
};

// Requests from the smallest to the largest of the workload's data, of what the papers' programs compute.
RequestGraphs UnfoldRequests(const std::string& workload, int64_t hidden, size_t requests);

struct NumberedRows {
  std::vector<std::vector<int32_t>> batches;  // the same, their nodes perhaps in another order
  std::vector<Row> row;                       // by value
  std::vector<int32_t> rows;                  // by table: one more than the largest
};

NumberedRows ByRequest(const RequestGraphs& graphs);
NumberedRows AcrossCells(const RequestGraphs& graphs);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_REQUEST_GRAPHS_H_
