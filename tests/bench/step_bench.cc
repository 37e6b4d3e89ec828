// One step of an LSTM cell, gather and gates included: the bare kernel and the compiled cell through the device, against
// the best libraries found on this machine.
//
//   step [--h=256,512,1024] [--b=1,2,4,...] [--rounds=7] [--slice-ms=60] [--quick] [--kernels=NAME]
//        [--peers=FILE,FILE] [--json=FILE]
//
//   step --cells[=NAME,...] [--definition=FILE,...] [--h=256,512] [--b=1,4,6,16,64] ...    any cell: step_cells.h
//
// One core. A step reads x and h of b random rows, multiplies [b x 2h] by [2h x 4h], runs the gates and stores h and c
// in b other rows. A peer does the same with its library's product and our gates, or with oneDNN's own LSTM; a
// contender whose hidden states are not ours is told, and no peer. Contenders take turns in rounds; a round's figure is
// the median step of its slice of CPU time (of the whole process: some libraries compute on a thread of their own),
// first 40 % dropped. vs_best is the best peer's time over the kernel's, round by round; of_peak compares with
// multiply-adds in registers and of_fed with those of a tile in L1, both probed before and after the round
// (round_ceilings.h), of_stream with the best of many readers of as many bytes as the weights have, probed in it;
// device_vs_kernel is the kernel's time over the device's. In less than fp32, vs_best is against the best library's fp32,
// and vs_best_bf16 against the best library's own bf16.
//
// Two passes, each in a process of its own: the best kernels of this machine, and AVX2's, against libraries that are
// told to use no more (figures "step.avx2..."; where AVX2 is the best, the figures of the one pass have both names).
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "cells/device/cpu/cpu_features.h"
#include "cells/device/cpu/process_limits.h"
#include "cells/kernels/cpu/kernel_table.h"
#include "cells/kernels/cpu/tuning.h"
#include "tests/bench/cpu_slices.h"
#include "tests/bench/findings.h"
#include "tests/bench/peers.h"
#include "tests/bench/probes.h"
#include "tests/bench/report.h"
#include "tests/bench/round_ceilings.h"
#include "tests/bench/step_cells.h"
#include "tests/bench/step_contenders.h"

namespace cellbatch {
namespace {

using kernels::CpuKernels;

constexpr uint64_t kSeed = 1;
constexpr double kMostApart = 1e-4;        // of hidden states, after a few steps
constexpr double kMostApartRounded = 0.1;  // of those in less than fp32

struct Options {
  std::vector<int> h, b;  // empty: the defaults of what is measured
  int rounds = 7;
  int slice_ms = 60;
  std::string kernels, json;
  std::vector<std::string> peers;
  bool of_cells = false;  // and not against libraries
  std::vector<std::string> cells, definitions;
};

// One pass: which kernels, what libraries may use, and what the figures are called.
struct Pass {
  const CpuKernels* kernels;
  bool limits_libraries;              // to the instructions that these kernels have
  std::vector<std::string> prefixes;  // "step.", "step.avx2."
};

// The first steps' hidden states of a contender; empty: it cannot.
std::vector<float> FirstSteps(Contender& contender, int b) {
  if (!contender.Start(b, kSeed)) return {};
  contender.Step();
  contender.Step();
  return contender.StepAndShow();
}

double Apart(const std::vector<float>& one, const std::vector<float>& other) {
  double worst = one.size() == other.size() ? 0.0 : HUGE_VAL;
  for (size_t i = 0; i < std::min(one.size(), other.size()); ++i) {
    worst = std::max(worst, std::abs(double{one[i]} - other[i]));
  }
  return std::isnan(worst) ? HUGE_VAL : worst;
}

class Bench {
 public:
  Bench(const Options& options, const Pass& pass, int cpu, Findings& to)
      : options_(options),
        pass_(pass),
        cpu_(cpu),
        to_(to),
        tuning_(kernels::MeasureTuning(*pass.kernels)),
        peers_(FindPeers(options.peers)),
        ceilings_(pass.kernels->name) {
    int number = 0;  // what tables call them
    const auto told = [&](const auto& peer) {
      ++number;
      Fact("[" + std::to_string(number) + "]", peer->name());
    };
    std::for_each(peers_.products.begin(), peers_.products.end(), told);
    std::for_each(peers_.lstms.begin(), peers_.lstms.end(), told);
    std::for_each(peers_.bf16_products.begin(), peers_.bf16_products.end(), told);
    std::for_each(peers_.bf16_lstms.begin(), peers_.bf16_lstms.end(), told);
    if (number == 0) Fact("peers", "NONE FOUND: NO vs_best");
    for (size_t i = 0; i < peers_.missing.size(); ++i) {
      Fact("CANNOT BE USED " + std::to_string(i + 1), peers_.missing[i]);
    }
    Fact("ways of streaming weights, by rows", kernels::Describe(tuning_));
    const CpuFeatures machine = DetectCpuFeatures();
    StreamFact("L2", machine.l2_bytes);
    StreamFact("L3", machine.l3_bytes);
    if (!pass.kernels->bf16_in_tiles) return;
    Fact("bf16 in tile registers", Number(ProbeTilePeak() * 1e-9, 0) + " GF/s");
  }

  bool Run() {
    for (int h : options_.h) RunWidth(h);
    Fact("multiply-adds of one core, by round (quartiles)",
         ceilings_.Peaks() + " in registers, " + ceilings_.Feds() + " of a tile in L1");
    const double idle = IdleCores();
    Fact("CPU burnt while nothing was asked for",
         Number(100 * idle, 1) + " %" + (idle > 0.02 ? " OF A CORE: DISTRUST" : ""));
    return agree_;
  }

 private:
  struct Times {  // microseconds, by round
    Contender* contender;
    std::vector<double> us;
  };

  void Fact(const std::string& name, const std::string& value) {
    to_.Fact(std::string(pass_.kernels->name) + ": " + name, value);
  }
  void Figure(const std::string& name, double value, const std::string& unit,
              const Quartiles* quartiles = nullptr) {
    for (const std::string& prefix : pass_.prefixes) {
      to_.Figure(prefix + name, value, unit, quartiles);
    }
  }

  // What one core reads of a cache, half of which its memory fills.
  void StreamFact(const std::string& cache, int64_t bytes) {
    if (bytes <= 0) return;
    StreamProbe probe(bytes / 2, pass_.kernels->name);
    double pass = HUGE_VAL;
    MedianOfSlice([&] { pass = std::min(pass, probe.Pass()); }, options_.slice_ms);
    Fact("stream from " + cache,
         Number(static_cast<double>(probe.bytes()) / pass * 1e-9, 1) + " GB/s: " + probe.best());
  }

  // The kernel in less than fp32: measured in the same rounds, against the best library's fp32, and against libraries that
  // compute in as little.
  struct Rounded {
    std::string suffix;  // of figures
    std::unique_ptr<Contender> contender;
    std::vector<std::unique_ptr<Contender>> peers;
    std::vector<Contender*> able;  // of the peers, for the b that is measured
  };

  void CheckRounded(Contender& kernel, std::vector<Rounded>& rounded, int b) {
    const std::vector<float> expected = FirstSteps(kernel, b);
    const auto agrees = [&](Contender& contender, const std::string& name) {
      const double apart = Apart(expected, FirstSteps(contender, b));
      if (apart > 0.0 && apart <= kMostApartRounded) return true;
      to_.Text("WRONG: " + name + " is " + Number(apart, 6) +
               " from fp32 at b = " + std::to_string(b) + "\n");
      agree_ = false;
      return false;
    };
    for (Rounded& r : rounded) {
      agrees(*r.contender, r.suffix);
      r.able.clear();
      for (const auto& peer : r.peers) {
        if (FirstSteps(*peer, b).empty()) {
          to_.Text("CANNOT: " + peer->name() + " at b = " + std::to_string(b) + "\n");
        } else if (agrees(*peer, peer->name())) {
          r.able.push_back(peer.get());
        }
      }
    }
  }

  void RunWidth(int h) {
    const StepSetting setting(h, kSeed, *pass_.kernels, tuning_);
    std::vector<std::unique_ptr<Contender>> all;
    all.push_back(KernelContender(setting, Precision::kFp32));
    std::vector<Rounded> rounded;
    rounded.push_back({"w8", KernelContender(setting, Precision::kW8), {}, {}});
    rounded.push_back({"bf16", KernelContender(setting, Precision::kBf16), {}, {}});
    auto& bf16 = rounded.back().peers;
    for (const auto& peer : peers_.bf16_products) bf16.push_back(PeerContender(setting, *peer));
    for (const auto& peer : peers_.bf16_lstms) bf16.push_back(PeerContender(setting, *peer));
    if (setting.product_split.has_value()) {
      rounded.push_back({"split", KernelContender(setting, Precision::kFp32Split), {}, {}});
    }
    const int most = *std::max_element(options_.b.begin(), options_.b.end());
    all.push_back(DeviceContender(setting, most, cpu_));
    for (const auto& peer : peers_.products) all.push_back(PeerContender(setting, *peer));
    for (const auto& peer : peers_.lstms) all.push_back(PeerContender(setting, *peer));
    StreamProbe stream(setting.product.weight_bytes(), pass_.kernels->name);
    std::vector<std::string> head = {
        "b",         "kernel us", "GF/s",  "of peak",    "of fed",  "of stream",    "device us",
        "vs kernel", "vs best",   "w8 us", "w8 vs best", "bf16 us", "bf16 vs best", "vs bf16 best"};
    if (setting.product_split.has_value()) {
      head.insert(head.end(), {"split us", "split vs best"});
    }
    for (size_t i = 2; i < all.size(); ++i) head.push_back("[" + std::to_string(i - 1) + "] us");
    Table table(head);
    double fastest = HUGE_VAL;
    for (int b : options_.b) {
      const std::vector<Contender*> agreeing = Agreeing(all, b);
      CheckRounded(*all[0], rounded, b);
      table.Add(Measure(h, b, agreeing, rounded, all, &stream, &fastest));
    }
    const double bytes = static_cast<double>(setting.product.weight_bytes());
    Fact("stream ceiling, h = " + std::to_string(h),
         Number(bytes / fastest * 1e-3, 1) + " GB/s: " + stream.best());
    to_.Text("\nLSTM step, " + std::string(pass_.kernels->name) + ", h = " + std::to_string(h) +
             ", weights " + Number(bytes / (1 << 20), 1) + " MiB; median of rounds (quartiles)\n" +
             table.ToString() + "\n");
  }

  // The kernel, and all whose answers are its. One that cannot is left out; one that is wrong is told.
  std::vector<Contender*> Agreeing(const std::vector<std::unique_ptr<Contender>>& all, int b) {
    const std::vector<float> expected = FirstSteps(*all[0], b);
    std::vector<Contender*> agreeing = {all[0].get()};
    for (size_t i = 1; i < all.size(); ++i) {
      const std::vector<float> got = FirstSteps(*all[i], b);
      if (got.empty()) {
        to_.Text("CANNOT: " + all[i]->name() + " at b = " + std::to_string(b) + "\n");
        continue;
      }
      const double apart = Apart(expected, got);
      if (apart <= kMostApart) {
        agreeing.push_back(all[i].get());
        continue;
      }
      to_.Text("WRONG: " + all[i]->name() + " and the kernel differ by " + Number(apart, 6) +
               " at b = " + std::to_string(b) + "\n");
      agree_ = false;
    }
    return agreeing;
  }

  std::vector<std::string> Measure(int h, int b, const std::vector<Contender*>& contenders,
                                   const std::vector<Rounded>& rounded,
                                   const std::vector<std::unique_ptr<Contender>>& all,
                                   StreamProbe* stream, double* fastest) {
    std::vector<Times> times;
    for (Contender* c : contenders) times.push_back({c, {}});
    std::vector<double> vs_best, of_stream, vs_kernel, peak, fed;
    std::vector<RoundedTimes> rounded_times(rounded.size());
    for (int round = 0; round < options_.rounds; ++round) {
      ceilings_.Begin();
      double best = HUGE_VAL, device = 0.0;
      for (Times& t : times) {
        const double us = MedianOfSlice([&] { t.contender->Step(); }, options_.slice_ms);
        t.us.push_back(us);
        if (t.contender == all[1].get()) device = us;
        if (t.contender != all[0].get() && t.contender != all[1].get()) best = std::min(best, us);
      }
      for (size_t i = 0; i < rounded.size(); ++i) {
        const double us = MedianOfSlice([&] { rounded[i].contender->Step(); }, options_.slice_ms);
        rounded_times[i].us.push_back(us);
        rounded_times[i].vs_best.push_back(best / us);
        double theirs = HUGE_VAL;
        for (Contender* peer : rounded[i].able) {
          const double peer_us = MedianOfSlice([&] { peer->Step(); }, options_.slice_ms);
          rounded_times[i].peer_us[peer->name()].push_back(peer_us);
          theirs = std::min(theirs, peer_us);
        }
        rounded_times[i].vs_theirs.push_back(theirs / us);
      }
      double pass = HUGE_VAL;
      MedianOfSlice([&] { pass = std::min(pass, 1e6 * stream->Pass()); }, options_.slice_ms / 3);
      *fastest = std::min(*fastest, pass);
      const double kernel = times[0].us.back();
      of_stream.push_back(pass / kernel);
      vs_best.push_back(best / kernel);
      if (device > 0.0) vs_kernel.push_back(kernel / device);
      ceilings_.End();
      peak.push_back(ceilings_.peak());
      fed.push_back(ceilings_.fed());
    }
    std::vector<std::string> columns;
    for (size_t i = 0; i < rounded.size(); ++i) {
      AddRounded(h, b, rounded[i], rounded_times[i], columns);
    }
    return Row(h, b, times, all,
               {QuartilesOf(vs_best), QuartilesOf(of_stream), QuartilesOf(vs_kernel), peak, fed},
               columns);
  }

  struct RoundedTimes {
    std::vector<double> us, vs_best, vs_theirs;
    std::map<std::string, std::vector<double>> peer_us;
  };

  void AddRounded(int h, int b, const Rounded& rounded, const RoundedTimes& times,
                  std::vector<std::string>& columns) {
    const std::string of = "lstm_h" + std::to_string(h) + "_b" + std::to_string(b) + "_";
    const std::string name = of + rounded.suffix + ".";
    const Quartiles us = QuartilesOf(times.us), vs_best = QuartilesOf(times.vs_best);
    Figure(name + "us", us.median, "us", &us);
    const bool peer_left = std::isfinite(vs_best.median);
    if (peer_left) Figure(name + "vs_best", vs_best.median, "x", &vs_best);
    columns.insert(columns.end(), {Number(us, 0), peer_left ? Number(vs_best, 2) : "-"});
    if (rounded.peers.empty()) return;
    const Quartiles vs_theirs = QuartilesOf(times.vs_theirs);
    const bool theirs_left = std::isfinite(vs_theirs.median);
    if (theirs_left) {
      Figure(name + "vs_best_" + rounded.suffix, vs_theirs.median, "x", &vs_theirs);
    }
    columns.push_back(theirs_left ? Number(vs_theirs, 2) : "-");
    for (const auto& [peer, peer_us] : times.peer_us) {
      Fact(of + peer, Number(QuartilesOf(peer_us), 0) + " us");
    }
  }

  struct Ratios {
    Quartiles vs_best, of_stream, vs_kernel;
    std::vector<double> peak, fed;  // flops a second, by round
  };

  std::vector<std::string> Row(int h, int b, const std::vector<Times>& times,
                               const std::vector<std::unique_ptr<Contender>>& all,
                               const Ratios& ratios, const std::vector<std::string>& of_rounded) {
    const std::string name = "lstm_h" + std::to_string(h) + "_b" + std::to_string(b) + "_fp32.";
    const double flops = 2.0 * b * 8.0 * h * h;
    const auto share = [&](const std::vector<double>& us, const std::vector<double>& ceilings) {
      std::vector<double> shares;
      for (size_t i = 0; i < us.size(); ++i) shares.push_back(flops / (us[i] * 1e-6) / ceilings[i]);
      return QuartilesOf(shares);
    };
    const auto find = [&](const Contender* c) -> const std::vector<double>* {
      for (const Times& t : times) {
        if (t.contender == c) return &t.us;
      }
      return nullptr;
    };
    const Quartiles kernel = QuartilesOf(times[0].us);
    Figure(name + "us", kernel.median, "us", &kernel);
    const Quartiles of_peak = share(times[0].us, ratios.peak);
    const Quartiles of_fed = share(times[0].us, ratios.fed);
    Figure(name + "of_peak", of_peak.median, "x", &of_peak);
    Figure(name + "of_fed", of_fed.median, "x", &of_fed);
    Figure(name + "of_stream", ratios.of_stream.median, "x", &ratios.of_stream);
    std::vector<std::string> row = {std::to_string(b),
                                    Number(kernel, 0),
                                    Number(flops / kernel.median * 1e-3, 1),
                                    Number(of_peak.median, 2),
                                    Number(of_fed.median, 2),
                                    Number(ratios.of_stream.median, 2)};
    if (const auto* us = find(all[1].get())) {
      const Quartiles device = QuartilesOf(*us);
      Figure(name + "device_us", device.median, "us", &device);
      const Quartiles device_of_peak = share(*us, ratios.peak);
      Figure(name + "device_of_peak", device_of_peak.median, "x", &device_of_peak);
      Figure(name + "device_vs_kernel", ratios.vs_kernel.median, "x", &ratios.vs_kernel);
      row.insert(row.end(), {Number(device, 0), Number(ratios.vs_kernel, 2)});
    } else {
      row.insert(row.end(), {"-", "-"});
    }
    const bool peer_left = std::isfinite(ratios.vs_best.median);
    if (peer_left) Figure(name + "vs_best", ratios.vs_best.median, "x", &ratios.vs_best);
    row.push_back(peer_left ? Number(ratios.vs_best, 2) : "-");
    row.insert(row.end(), of_rounded.begin(), of_rounded.end());
    for (size_t i = 2; i < all.size(); ++i) {
      const auto* us = find(all[i].get());
      row.push_back(us != nullptr ? Number(QuartilesOf(*us).median, 0) : "-");
    }
    return row;
  }

  const Options& options_;
  const Pass& pass_;
  const int cpu_;
  Findings& to_;
  const kernels::Tuning tuning_;
  const Peers peers_;
  RoundCeilings ceilings_;
  bool agree_ = true;
};

std::vector<std::string> Split(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream stream(list);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

std::vector<int> Integers(const std::string& list) {
  std::vector<int> values;
  for (const std::string& part : Split(list)) values.push_back(std::atoi(part.c_str()));
  return values;
}

constexpr char kHelp[] =
    "step: one LSTM step against the best libraries, or of any cells against lstm's; on one core.\n"
    "  --h=256,512,1024   hidden sizes (multiples of 16)\n"
    "  --b=1,2,4,...      batch sizes, 1 to 512 by default\n"
    "  --rounds=7         rounds in which contenders take turns\n"
    "  --slice-ms=60      CPU time of a contender in a round\n"
    "  --quick            h 256 and 1024, b 1, 8 and 64, 3 short rounds\n"
    "  --kernels=NAME     one pass, with avx512_amx, avx512_bf16, avx512, avx2 or portable; "
    "default: the best "
    "here, and "
    "AVX2's\n"
    "  --peers=FILE,FILE  more libraries: a libdnnl.so.3 unpacked somewhere\n"
    "  --cells=NAME,...   shipped cells' share of the peak beside lstm's; of no name: the papers'\n"
    "  --definition=FILE,...  and that of cells written as text; every size they name is h\n"
    "                     (h 256 and 512, b 1, 4, 6, 16 and 64 by default)\n"
    "  --json=FILE        also writes figures and facts\n";

// What was not asked for.
void SetDefaults(Options* o) {
  if (!o->of_cells) {
    if (o->h.empty()) o->h = {256, 512, 1024};
    if (o->b.empty()) o->b = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
    return;
  }
  if (o->h.empty()) o->h = {256, 512};
  if (o->b.empty()) o->b = {1, 4, 6, 16, 64};
  const std::string& first = CellsOfTheZoo().front();
  if (std::find(o->cells.begin(), o->cells.end(), first) != o->cells.end()) return;
  o->cells.insert(o->cells.begin(), first);  // to be compared with
}

bool Parse(int argc, char** argv, Options* o) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    const std::string flag = argument.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    if (flag == "--h") {
      o->h = Integers(value);
    } else if (flag == "--b") {
      o->b = Integers(value);
    } else if (flag == "--rounds") {
      o->rounds = std::max(1, std::atoi(value.c_str()));
    } else if (flag == "--slice-ms") {
      o->slice_ms = std::max(3, std::atoi(value.c_str()));
    } else if (flag == "--quick") {
      o->h = {256, 1024}, o->b = {1, 8, 64}, o->rounds = 3, o->slice_ms = 30;
    } else if (flag == "--kernels") {
      o->kernels = value;
    } else if (flag == "--peers") {
      for (std::string& file : Split(value)) o->peers.push_back(std::move(file));
    } else if (flag == "--cells") {
      o->of_cells = true;
      o->cells = value.empty() ? CellsOfTheZoo() : Split(value);
    } else if (flag == "--definition") {
      o->of_cells = true;
      for (std::string& file : Split(value)) o->definitions.push_back(std::move(file));
    } else if (flag == "--json") {
      o->json = value;
    } else {
      return false;
    }
  }
  SetDefaults(o);
  const bool widths =
      std::all_of(o->h.begin(), o->h.end(), [](int h) { return h >= 16 && h % 16 == 0; });
  const bool batches = std::all_of(o->b.begin(), o->b.end(), [](int b) { return b >= 1; });
  return widths && batches;
}

// The best kernels' pass and AVX2's, or the one that was asked for. Empty: this machine cannot run those.
std::vector<Pass> Passes(const std::string& asked) {
  std::vector<Pass> passes;
  const std::vector<const CpuKernels*> tables = kernels::RunnableKernels(DetectCpuFeatures());
  const std::string best = tables.front()->name;
  for (const CpuKernels* table : tables) {
    const std::string name = table->name;
    if (asked.empty() ? name != best && name != "avx2" : name != asked) continue;
    Pass pass{table, name != best, {}};
    if (name == best) pass.prefixes.push_back("step.");
    if (name != best || name == "avx2") pass.prefixes.push_back("step." + name + ".");
    passes.push_back(pass);
  }
  return passes;
}

// Before any library looks how many cores there are. Returns the core.
int PinToOneCore() {
  const int cpu = std::max(0, sched_getcpu());
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu), &set);
  sched_setaffinity(0, sizeof(set), &set);
  return cpu;
}

// Read by the libraries when they are loaded. (Beside portable kernels they have AVX2, too.)
void LimitLibraries(const std::string& kernels) {
  const bool has_512 = kernels.rfind("avx512", 0) == 0;
  const char* const instructions = kernels == "avx512_bf16" ? "AVX512_CORE_BF16"
                                   : has_512                ? "AVX512_CORE"
                                                            : "AVX2";
  setenv("ONEDNN_MAX_CPU_ISA", instructions, 1);
  setenv("DNNL_MAX_CPU_ISA", instructions, 1);
  setenv("OPENBLAS_CORETYPE", has_512 ? "SkylakeX" : "Haswell", 1);
}

bool RunPass(const Options& options, const Pass& pass, Findings& to) {
  if (pass.limits_libraries) LimitLibraries(pass.kernels->name);
  const std::string of = std::string(pass.kernels->name) + ": ";
  to.Fact(of + "figures",
          pass.prefixes[0] + (pass.prefixes.size() > 1 ? ", " + pass.prefixes[1] : ""));
  if (options.of_cells) {
    PinToOneCore();
    return MeasureCells({options.cells, options.definitions, options.h, options.b, options.rounds,
                         options.slice_ms},
                        *pass.kernels, kernels::MeasureTuning(*pass.kernels), pass.prefixes, to);
  }
  const std::vector<int> cpus = AllowedCpus();
  for (int h : options.h) {
    const int64_t bytes = int64_t{32} * h * h;
    const double rate = ProbeSharedStream(bytes, pass.kernels->name, cpus);
    to.Fact(of + "stream of " + std::to_string(cpus.size()) + " cores, h = " + std::to_string(h),
            Number(rate * 1e-9, 1) + " GB/s");
  }
  const int cpu = PinToOneCore();
  Bench bench(options, pass, cpu, to);
  return bench.Run();
}

int Main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, &options)) {
    std::fputs(kHelp, stderr);
    return 2;
  }
  const std::vector<Pass> passes = Passes(options.kernels);
  if (passes.empty()) {
    std::fprintf(stderr, "step: no kernels \"%s\" on this machine\n", options.kernels.c_str());
    return 2;
  }
  Report report("step");
  bool good = true;
  for (const Pass& pass : passes) {
    good = RunInChild(report, [&](Findings& to) { return RunPass(options, pass, to); }) && good;
  }
  return report.Finish(options.json) && good ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) { return cellbatch::Main(argc, argv); }
