#include "scheduler/offline/learn/lessons.h"

#include <algorithm>
#include <utility>

#include "cells/check.h"
#include "scheduler/offline/lower_bound.h"

namespace cellbatch {
namespace {

// In the proportion of 8, 32 and 64.
LessonBook Book(absl::Span<const TypedGraph> requests) {
  LessonBook book;
  const size_t all = requests.size();
  size_t next = 0;
  for (const size_t part : {size_t{8}, size_t{40}, kMostLearnedFrom}) {
    const size_t end = all * part / kMostLearnedFrom;
    if (end == next) continue;
    TypedGraph graph(requests[0].num_types());
    for (; next < end; ++next) graph.Append(requests[next]);
    book.Add(std::move(graph));
  }
  return book;
}

}  // namespace

void LessonBook::Add(TypedGraph graph) {
  nodes_ += graph.size();
  pages_.push_back(std::make_unique<Page>(std::move(graph)));
  lessons_.push_back({&pages_.back()->facts, LowerBound(pages_.back()->graph)});
}

LessonBooks DealOut(absl::Span<const TypedGraph> requests) {
  Check(requests.size() >= 2, "one request to learn from and one for the proof are needed");
  const size_t half = std::min(requests.size() / 2, kMostLearnedFrom);
  return {Book(requests.first(half)), Book(requests.subspan(half, half)), half};
}

}  // namespace cellbatch
