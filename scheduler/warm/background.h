// Work of a control thread that computes for seconds (packing weights) beside threads that answer in milliseconds.
#ifndef CELLBATCH_SCHEDULER_WARM_BACKGROUND_H_
#define CELLBATCH_SCHEDULER_WARM_BACKGROUND_H_

#include "absl/functional/function_ref.h"

namespace cellbatch {

// Runs `work` on a thread of its own, with a tenth of the weight of others where cores are short (nice 10, and as
// a batch job: it does not preempt), and returns when it is done. Where the system refuses that, it runs as any
// other. A thread of its own, because a process without privileges cannot take its niceness back; where no
// thread can be made (a limit that others have used up), `work` runs on the caller's.
void RunInBackground(absl::FunctionRef<void()> work);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_WARM_BACKGROUND_H_
