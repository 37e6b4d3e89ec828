#include "scheduler/task_facts.h"

#include <cstddef>

namespace cellbatch {

TaskFacts::TaskFacts(int batch_limit) {
  const size_t n = static_cast<size_t>(batch_limit);
  started.reserve(n);
  for (std::vector<ReadyEntry>* entries : {&entered, &ended, &awaiting}) entries->reserve(n);
  gave_way.reserve(n);
  stepped.reserve(n);
}

void TaskFacts::Clear() {
  started.clear();
  entered.clear();
  ended.clear();
  awaiting.clear();
  gave_way.clear();
  stepped.clear();
  partly = {};
}

}  // namespace cellbatch
