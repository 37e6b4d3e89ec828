// One step of an LSTM cell, gather and gates included, against the best matrix product library found on this machine.
//
//   step [--h=256,512,1024] [--b=1,2,4,...] [--rounds=7] [--slice-ms=60] [--quick] [--kernels=avx512|avx2|portable]
//        [--peers=FILE,FILE] [--json=FILE]
//
// One core. A step reads x and h of b random rows, multiplies [b x 2h] by [2h x 4h], runs the gates and stores h and c
// in b other rows. A peer does the same with its library's product and our gates, rows gathered into a matrix first.
// Contenders take turns in rounds; a round's figure is the median step of its slice of CPU time, first 40 % dropped.
// vs_best is the best peer's time over ours, round by round; of_peak compares with multiply-adds in registers, and
// of_stream with reading as many bytes as the weights have: both probed in the same run.
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "cells/device/cpu/cpu_features.h"
#include "cells/kernels/cpu/kernel_table.h"
#include "tests/bench/peers.h"
#include "tests/bench/probes.h"
#include "tests/bench/report.h"

namespace cellbatch {
namespace {

using kernels::CpuKernels;
using kernels::PackedMemory;
using kernels::PackedProduct;
using kernels::ProductArgs;
using kernels::ProductScratch;
using kernels::ProductSpec;
using kernels::RowColumn;
using kernels::RowSource;

struct Options {
  std::vector<int> h = {256, 512, 1024};
  std::vector<int> b = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
  int rounds = 7;
  int slice_ms = 60;
  std::string kernels, json;
  std::vector<std::string> peers;
};

// c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c'); columns c, c', h'.
TailProgram Gates() {
  using K = TailOpKind;
  return {{{K::kAccumulator, -1, -1, 0},
           {K::kSigmoid, 0},
           {K::kAccumulator, -1, -1, 1},
           {K::kSigmoid, 2},
           {K::kAccumulator, -1, -1, 2},
           {K::kTanh, 4},
           {K::kAccumulator, -1, -1, 3},
           {K::kSigmoid, 6},
           {K::kColumn, -1, -1, 0},
           {K::kMul, 3, 8},
           {K::kMul, 1, 5},
           {K::kAdd, 9, 10},
           {K::kTanh, 11},
           {K::kMul, 7, 12},
           {K::kStore, 11, -1, 1},
           {K::kStore, 13, -1, 2}},
          3,
          0};
}

// Tables of rows and the lists of one batch: x, then h and c of this step and of the next, all scattered.
class Rows {
 public:
  Rows(int h, int b, std::mt19937_64& random)
      : h_(h), b_(b), stride_(kernels::PaddedStride(h)), slots_(2 * b + 16) {
    for (PackedMemory* table : {&x_, &hidden_, &cell_}) {
      *table = PackedMemory(stride_ * slots_);
      std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
      std::generate_n(table->data(), table->size(), [&] { return uniform(random); });
    }
    std::vector<int32_t> all(slots_);
    std::iota(all.begin(), all.end(), 0);
    std::shuffle(all.begin(), all.end(), random);
    now_.assign(all.begin(), all.begin() + b);
    next_.assign(all.begin() + b, all.begin() + 2 * b);
    std::shuffle(all.begin(), all.end(), random);
    input_.assign(all.begin(), all.begin() + b);
  }

  int b() const { return b_; }
  int h() const { return h_; }
  RowSource x() const { return {x_.data(), stride_, input_.data()}; }
  RowSource hidden() const { return {hidden_.data(), stride_, now_.data()}; }
  RowColumn cell() { return {cell_.data(), stride_, now_.data()}; }
  RowColumn next_cell() { return {cell_.data(), stride_, next_.data()}; }
  RowColumn next_hidden() { return {hidden_.data(), stride_, next_.data()}; }
  void Advance() { std::swap(now_, next_); }
  const float* Hidden(int r) const { return hidden_.data() + stride_ * now_[r]; }

 private:
  int h_, b_;
  int64_t stride_, slots_;
  PackedMemory x_, hidden_, cell_;
  std::vector<int32_t> now_, next_, input_;
};

// Weights as PyTorch has them, [4h][h] twice, made from a seed.
struct Weights {
  Weights(int h, std::mt19937_64& random) : h(h) {
    const float scale = 1.0f / std::sqrt(static_cast<float>(h));
    std::uniform_real_distribution<float> uniform(-scale, scale);
    for (std::vector<float>* w : {&input, &recurrent}) {
      w->resize(size_t{4} * h * h);
      std::generate(w->begin(), w->end(), [&] { return uniform(random); });
    }
  }
  // [2h][4h], columns in the order of accumulator rows, so that the gates can run on a library's result.
  PackedMemory ForLibraries() const {
    PackedMemory all(int64_t{8} * h * h);
    for (int g = 0; g < 4; ++g) {
      for (int u = 0; u < h; ++u) {
        const int64_t column = (u / 16 * 4 + g) * 16 + u % 16, row = int64_t{g} * h + u;
        for (int k = 0; k < h; ++k) {
          all.data()[int64_t{k} * 4 * h + column] = input[row * h + k];
          all.data()[int64_t{h + k} * 4 * h + column] = recurrent[row * h + k];
        }
      }
    }
    return all;
  }
  ProductSpec Spec(bool with_terms) const {
    ProductSpec spec;
    spec.units = h;
    spec.groups = 4;
    spec.tail = Gates();
    if (!with_terms) return spec;
    for (const std::vector<float>* w : {&input, &recurrent}) {
      kernels::SegmentSpec segment{h, {}};
      for (int g = 0; g < 4; ++g) segment.weights[g] = {w->data() + int64_t{g} * h * h, h, 1};
      spec.segments.push_back(segment);
    }
    return spec;
  }

  int h;
  std::vector<float> input, recurrent;
};

using Step = std::function<void(Rows&)>;
struct Contender {
  std::string name;
  Step step;
};

Step OurStep(const CpuKernels& kernels, const PackedProduct& product, ProductScratch& scratch) {
  return [&](Rows& rows) {
    const RowSource inputs[] = {rows.x(), rows.hidden()};
    const RowColumn columns[] = {rows.cell(), rows.next_cell(), rows.next_hidden()};
    kernels.run_product(product, {rows.b(), inputs, nullptr, columns}, 0, product.num_panels(),
                        &scratch);
    rows.Advance();
  };
}

// Gather, the library's product, our gates on its result.
struct PeerStep {
  PeerStep(const CpuKernels& k, ProductPeer& p, const PackedProduct& g, ProductScratch& s, int b,
           int h)
      : kernels(k), peer(p), gates(g), scratch(s), x(int64_t{b} * 2 * h), y(int64_t{b} * 4 * h) {}

  void operator()(Rows& rows) {
    const int h = rows.h();
    kernels.copy_rows(rows.x(), h, rows.b(), {x.data(), 2 * h});
    kernels.copy_rows(rows.hidden(), h, rows.b(), {x.data() + h, 2 * h});
    peer.Multiply(x.data(), y.data());
    const RowSource sums{y.data(), int64_t{4} * h};
    const RowColumn columns[] = {rows.cell(), rows.next_cell(), rows.next_hidden()};
    kernels.run_product(gates, {rows.b(), nullptr, &sums, columns}, 0, gates.num_panels(),
                        &scratch);
    rows.Advance();
  }

  const CpuKernels& kernels;
  ProductPeer& peer;
  const PackedProduct& gates;
  ProductScratch& scratch;
  PackedMemory x, y;
};

// Median time of one run in a slice of CPU time, first 40 % of it dropped; seconds.
double MedianOfSlice(const std::function<void()>& run, int slice_ms) {
  const int64_t start = ThreadCpuNs(), end = start + int64_t{slice_ms} * 1000000;
  const int64_t measure_from = start + (end - start) * 2 / 5;
  std::vector<double> samples;
  for (int64_t now = start; now < end || samples.size() < 2;) {
    const int64_t before = now;
    run();
    now = ThreadCpuNs();
    if (before >= measure_from || now >= end)
      samples.push_back(1e-9 * static_cast<double>(now - before));
  }
  return QuartilesOf(std::move(samples)).median;
}

// The largest difference of two contenders' hidden rows after a few steps from the same state.
double Disagreement(const Step& one, const Step& other, int h, int b, uint64_t seed) {
  std::mt19937_64 random_one(seed), random_other(seed);
  Rows rows_one(h, b, random_one), rows_other(h, b, random_other);
  for (int i = 0; i < 3; ++i) {
    one(rows_one);
    other(rows_other);
  }
  double worst = 0.0;
  for (int r = 0; r < b; ++r) {
    for (int u = 0; u < h; ++u) {
      worst = std::max(worst, std::abs(double{rows_one.Hidden(r)[u]} - rows_other.Hidden(r)[u]));
    }
  }
  return worst;
}

class Bench {
 public:
  Bench(Options options, const CpuKernels& kernels, Report& report)
      : options_(std::move(options)), kernels_(kernels), report_(report) {
    peers_ = FindPeers(options_.peers);
    for (const auto& peer : peers_) report_.Fact("peer", peer->name());
    if (peers_.empty()) report_.Fact("peer", "none found: no vs_best");
    peak_ = ProbeFmaPeak(kernels_.name);
    report_.Fact("multiply-add peak, " + std::string(kernels_.name),
                 Number(peak_ * 1e-9, 1) + " GF/s, one core");
  }

  bool Run() {
    bool agree = true;
    for (int h : options_.h) agree = RunWidth(h) && agree;
    return agree;
  }

 private:
  bool RunWidth(int h) {
    std::mt19937_64 random(kSeed);
    const Weights weights(h, random);
    const PackedProduct product(weights.Spec(true)), gates(weights.Spec(false));
    const PackedMemory library_weights = weights.ForLibraries();
    StreamProbe stream(product.weight_bytes());
    std::vector<std::string> head = {"b", "ours µs", "GF/s", "of peak", "of stream"};
    for (const auto& peer : peers_) head.push_back(peer->name() + " µs");
    head.push_back("vs best");
    Table table(head);
    bool agree = true;
    for (int b : options_.b) {
      std::vector<Contender> contenders = {{"ours", OurStep(kernels_, product, scratch_)}};
      for (const auto& peer : peers_) {
        if (!peer->Prepare(b, 2 * h, 4 * h, library_weights.data())) continue;
        auto step = std::make_shared<PeerStep>(kernels_, *peer, gates, scratch_, b, h);
        contenders.push_back({peer->name(), [step](Rows& rows) { (*step)(rows); }});
        const double apart = Disagreement(contenders[0].step, contenders.back().step, h, b, kSeed);
        if (apart <= 1e-4) continue;
        report_.Text(peer->name() + " and we differ by " + Number(apart, 6) + "\n");
        agree = false;
      }
      table.Add(Measure(h, b, contenders, &stream));
    }
    report_.Text("\nLSTM step, h = " + std::to_string(h) + ", weights " +
                 Number(static_cast<double>(product.weight_bytes()) / (1 << 20), 1) +
                 " MiB; median of rounds (quartiles)\n" + table.ToString());
    return agree;
  }

  std::vector<std::string> Measure(int h, int b, const std::vector<Contender>& contenders,
                                   StreamProbe* stream) {
    std::mt19937_64 random(kSeed);
    Rows rows(h, b, random);
    std::vector<std::vector<double>> seconds(contenders.size());
    std::vector<double> vs_best, of_stream;
    for (int round = 0; round < options_.rounds; ++round) {
      double best = HUGE_VAL;
      for (size_t i = 0; i < contenders.size(); ++i) {
        const double s = MedianOfSlice([&] { contenders[i].step(rows); }, options_.slice_ms);
        seconds[i].push_back(s);
        if (i > 0) best = std::min(best, s);
      }
      const double pass = MedianOfSlice([&] { stream->Pass(); }, options_.slice_ms / 3);
      of_stream.push_back(pass / seconds[0].back());
      vs_best.push_back(best / seconds[0].back());
    }
    return Row(h, b, contenders, seconds, vs_best, of_stream);
  }

  std::vector<std::string> Row(int h, int b, const std::vector<Contender>& contenders,
                               const std::vector<std::vector<double>>& seconds,
                               const std::vector<double>& vs_best,
                               const std::vector<double>& of_stream) {
    const auto micros = [](std::vector<double> s) {
      for (double& v : s) v *= 1e6;
      return QuartilesOf(std::move(s));
    };
    const Quartiles ours = micros(seconds[0]), stream = QuartilesOf(of_stream);
    const double flops = 2.0 * b * 8.0 * h * h / (ours.median * 1e-6);
    const std::string name = "step.lstm_h" + std::to_string(h) + "_b" + std::to_string(b) + "_fp32";
    std::vector<std::string> row = {std::to_string(b), Number(ours, 0), Number(flops * 1e-9, 1),
                                    Number(flops / peak_, 2), Number(stream.median, 2)};
    for (const auto& peer : peers_) {
      std::string cell = "-";
      for (size_t i = 1; i < contenders.size(); ++i) {
        if (contenders[i].name == peer->name()) cell = Number(micros(seconds[i]).median, 0);
      }
      row.push_back(cell);
    }
    report_.Figure(name + ".us", ours.median, "us", &ours);
    report_.Figure(name + ".of_peak", flops / peak_, "x");
    report_.Figure(name + ".of_stream", stream.median, "x", &stream);
    if (contenders.size() > 1) {
      const Quartiles best = QuartilesOf(vs_best);
      report_.Figure(name + ".vs_best", best.median, "x", &best);
      row.push_back(Number(best, 2));
    }
    return row;
  }

  static constexpr uint64_t kSeed = 1;
  const Options options_;
  const CpuKernels& kernels_;
  Report& report_;
  std::vector<std::unique_ptr<ProductPeer>> peers_;
  ProductScratch scratch_;
  double peak_ = 0.0;
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
      o->peers = Split(value);
    } else if (flag == "--json") {
      o->json = value;
    } else {
      std::fprintf(stderr,
                   "step: one LSTM step against the best library, on one core.\n"
                   "  --h=256,512,1024   hidden sizes (multiples of 16)\n"
                   "  --b=1,2,4,...      batch sizes, 1 to 512 by default\n"
                   "  --rounds=7         rounds in which contenders take turns\n"
                   "  --slice-ms=60      CPU time of a contender in a round\n"
                   "  --quick            h 256 and 1024, b 1, 8 and 64, 3 short rounds\n"
                   "  --kernels=NAME     avx512, avx2 or portable; default: the best here\n"
                   "  --peers=FILE,FILE  more libraries: a libdnnl.so.3 unpacked somewhere\n"
                   "  --json=FILE        also writes figures and facts\n");
      return false;
    }
  }
  for (int h : o->h) {
    if (h < 16 || h % 16 != 0) return false;
  }
  return std::all_of(o->b.begin(), o->b.end(), [](int b) { return b >= 1; });
}

// Before any library looks how many cores there are.
void PinToOneCore() {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(std::max(0, sched_getcpu())), &set);
  sched_setaffinity(0, sizeof(set), &set);
}

int Main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, &options)) return 2;
  Report report("step");
  PinToOneCore();
  const std::vector<const CpuKernels*> tables = kernels::RunnableKernels(DetectCpuFeatures());
  const CpuKernels* chosen = tables.front();
  for (const CpuKernels* table : tables) {
    if (table->name == options.kernels) chosen = table;
  }
  report.Fact("kernels", chosen->name);
  Bench bench(options, *chosen, report);
  const bool agree = bench.Run();
  return report.Finish(options.json) && agree ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) { return cellbatch::Main(argc, argv); }
