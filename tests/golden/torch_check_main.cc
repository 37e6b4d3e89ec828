// Compares the cases of a file made by torch_cases.py with ours; prints a line a case and exits 1
// if any is out of bounds. For comparisons with the PyTorch that is here (torch_live_test.py).
#include <fmt/format.h>

#include <cstdio>

#include "tests/golden/compare.h"

int main(int argc, char** argv) {
  using cellbatch::ModelId;
  namespace golden = cellbatch::golden;
  if (argc != 3) {
    fmt::print(stderr, "usage: torch_check CASES.json FOLDER\n");
    return 2;
  }
  const auto cases = golden::ReadTorchCases(argv[1]);
  const auto served = golden::Served::Start(1);
  if (!cases.ok() || !served.ok()) {
    fmt::print(stderr, "{}{}\n", cases.status().ToString(), served.status().ToString());
    return 1;
  }
  int32_t id = 0;
  int wrong = 0;
  for (const golden::TorchCase& c : *cases) {
    const auto agreement = golden::Compare(c, argv[2], ModelId(id++), **served);
    if (!agreement.ok()) {
      fmt::print("{:<16} {}\n", c.name, agreement.status().ToString());
      ++wrong;
      continue;
    }
    const bool good = agreement->served <= 1 && agreement->interpreted <= 1;
    fmt::print("{:<16} {} answers: interpreter {:.4f}, served {:.4f} of the bound ({}){}\n", c.name,
               agreement->answers, agreement->interpreted, agreement->served, agreement->worst,
               good ? "" : "  OUT OF BOUNDS");
    wrong += good ? 0 : 1;
  }
  fmt::print("{} modules, {} out of bounds\n", cases->size(), wrong);
  return wrong == 0 && !cases->empty() ? 0 : 1;
}
