#include "tests/bench/round_ceilings.h"

#include <algorithm>
#include <utility>

#include "tests/bench/probes.h"

namespace cellbatch {
namespace {

constexpr int kRuns = 3;  // of a probe: some 1 ms each

std::string InGigaflops(std::vector<double> rates) {
  for (double& rate : rates) rate *= 1e-9;
  return Number(QuartilesOf(rates), 1) + " GF/s";
}

}  // namespace

RoundCeilings::RoundCeilings(std::string instruction_set)
    : instruction_set_(std::move(instruction_set)) {}

void RoundCeilings::Begin() {
  peaks_.push_back(ProbeFmaPeak(instruction_set_, kRuns));
  feds_.push_back(ProbeFedPeak(instruction_set_, kRuns));
}

void RoundCeilings::End() {
  peaks_.back() = std::max(peaks_.back(), ProbeFmaPeak(instruction_set_, kRuns));
  feds_.back() = std::max(feds_.back(), ProbeFedPeak(instruction_set_, kRuns));
}

std::string RoundCeilings::Peaks() const { return InGigaflops(peaks_); }
std::string RoundCeilings::Feds() const { return InGigaflops(feds_); }

}  // namespace cellbatch
