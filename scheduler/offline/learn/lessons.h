// What is learned from and proved on: graphs with their facts and bounds.
//
// Requests are dealt out in their order into sets of different sizes, for a table that only knows one size knows nothing
// of the others: 8, 32 and 64 to learn from, as many others for the proof; of few requests, the same in smaller parts.
#ifndef CELLBATCH_SCHEDULER_OFFLINE_LEARN_LESSONS_H_
#define CELLBATCH_SCHEDULER_OFFLINE_LEARN_LESSONS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/offline/graph_facts.h"
#include "scheduler/offline/typed_graph.h"

namespace cellbatch {

// A graph to learn from, or to be proved on. Borrowed.
struct Lesson {
  const GraphFacts* facts;
  int32_t bound;
};

// Owns what lessons borrow.
class LessonBook {
 public:
  void Add(TypedGraph graph);
  absl::Span<const Lesson> lessons() const { return lessons_; }
  int64_t nodes() const { return nodes_; }

 private:
  struct Page {
    explicit Page(TypedGraph of) : graph(std::move(of)), facts(graph) {}
    TypedGraph graph;
    GraphFacts facts;
  };
  std::vector<std::unique_ptr<Page>> pages_;
  std::vector<Lesson> lessons_;
  int64_t nodes_ = 0;
};

struct LessonBooks {
  LessonBook learn, prove;
  size_t requests = 0;  // in each
};

inline constexpr size_t kMostLearnedFrom = 104;  // requests; as many again are for the proof

// REQUIRES: two requests, of the same types. Those beyond 2 kMostLearnedFrom are left out.
LessonBooks DealOut(absl::Span<const TypedGraph> requests);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_OFFLINE_LEARN_LESSONS_H_
