#include "tests/bench/in_process.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/ascii.h"
#include "cells/device/cpu/cpu_device.h"
#include "cells/device/open_devices.h"
#include "tests/bench/chain_task.h"
#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

constexpr int32_t kMaxLength = 330;  // Europarl's longest, as BatchMaker reports it

std::string DataFolder() {
  const char* named = std::getenv("CELLBATCH_DATA");
  return named != nullptr && *named != '\0' ? named : "../shared/data";
}

size_t Index(int64_t i) { return static_cast<size_t>(i); }

}  // namespace

void Require(const absl::Status& status, const std::string& doing) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", doing.c_str(), status.ToString().c_str());
  std::exit(1);
}

DeviceSet MakeDevices(const std::string& spec) {
  OpenOptions options;
  static const CpuOptions kMeasured = [] {
    CpuOptions measured;
    MeasureCpu(measured);
    return measured;
  }();
  options.cpu = kMeasured;
  return Require(OpenDevices(spec, options), "devices").set;
}

double Lengths::mean() const {
  double sum = 0;
  for (int32_t v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

Lengths Lengths::Europarl() {
  Lengths result;
  std::ifstream file(DataFolder() + "/europarl_like_lengths.txt");
  int32_t german = 0, english = 0;
  while (file >> german >> english) {
    if (english > 0) result.values.push_back(std::min(english, kMaxLength));
  }
  result.source = "europarl_like_lengths.txt, English column";
  if (!result.values.empty()) return result;
  result.source = "synthetic, after Europarl's statistics (the data folder is not here)";
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> draw(std::log(20.0), 0.65);
  for (int i = 0; i < 4000; ++i) {
    result.values.push_back(std::clamp(static_cast<int32_t>(draw(random)), 1, kMaxLength));
  }
  return result;
}

LengthStream::LengthStream(const Lengths& lengths, uint64_t seed)
    : values_(lengths.values), random_(seed) {
  std::shuffle(values_.begin(), values_.end(), random_);
}

int32_t LengthStream::Next() {
  if (at_ == values_.size()) {
    std::shuffle(values_.begin(), values_.end(), random_);
    at_ = 0;
  }
  return values_[at_++];
}

std::string ChainModelSpec::name() const {
  return cell + "_h" + std::to_string(hidden) + "_" + absl::AsciiStrToLower(Name(precision)) +
         (tokens ? "_tokens" : "");
}

Precision PrecisionNamed(const std::string& name) {
  for (const Precision precision : {Precision::kFp32, Precision::kFp32Split, Precision::kTf32,
                                    Precision::kBf16, Precision::kW8}) {
    if (name == Name(precision)) return precision;
  }
  return Require(absl::StatusOr<Precision>(absl::InvalidArgumentError(name + " is none")),
                 "--precision");
}

std::shared_ptr<const Model> MakeChainModel(const ChainModelSpec& spec, int32_t model_id) {
  const int32_t h = spec.hidden;
  if (spec.tokens && spec.cell != "lstm") {
    Require(absl::InvalidArgumentError("tokens go with lstm, not " + spec.cell), "model");
  }
  CellDefinition cell = spec.tokens          ? testing::TokenLstmCell(spec.vocabulary, h, h)
                        : spec.cell == "gru" ? testing::GruCell(h, h)
                                             : testing::LstmCell(h, h);
  std::shared_ptr<Model> model = testing::OneCellModel(std::move(cell));
  model->id = ModelId(model_id);
  model->name = spec.name();
  model->precision = spec.precision;
  for (CellType& type : model->types) type.precision = spec.precision;
  return model;
}

ChainRequests::ChainRequests(std::shared_ptr<const Model> model, int32_t max_length, uint64_t seed)
    : model_(std::move(model)), max_length_(max_length), random_(seed) {
  const CellType& type = model_->types[0];
  const Column& column = model_->table(type.in[0]).columns[0];
  row_floats_ = column.width;
  // Twice the longest, so that requests start at many places of it.
  pool_ = testing::RandomFloats(int64_t{2} * max_length * row_floats_, seed);
  if (column.type != ElementType::kInt32) return;
  const int32_t vocabulary = type.weights[0].shape.rows;
  for (float& f : pool_) {
    const int32_t token = static_cast<int32_t>(random_() % static_cast<uint64_t>(vocabulary));
    static_assert(sizeof f == sizeof token);
    std::copy_n(reinterpret_cast<const std::byte*>(&token), sizeof token,
                reinterpret_cast<std::byte*>(&f));
  }
}

std::unique_ptr<Request> ChainRequests::Make(int32_t length, int max_tasks_in_flight) {
  auto request = std::make_unique<Request>();
  request->model = model_;
  CellGraph& graph = request->graph;
  const CellType& type = model_->types[0];
  const int64_t first = static_cast<int64_t>(random_() % Index(2 * max_length_ - length + 1));
  graph.Reserve({1, 1, 1, 1, 1});
  const SubgraphId input = graph.AddInput(
      type.in[0], length, reinterpret_cast<const std::byte*>(pool_.data() + first * row_floats_));
  const Link link{input, InputId(0), 0, 1};
  const SubgraphId chain = graph.Add(type.id, length, {&link, 1});
  const int32_t width = type.definition->columns()[0].width;
  const int32_t tensor = graph.AddTensor("OUTPUT", WireType::kFp32, {width});
  graph.Return(chain, ColumnId(0), {length - 1, 1}, {tensor, 0, 0});
  Require(graph.Seal(*model_, max_tasks_in_flight), "sealing a chain");
  return request;
}

namespace {

// The medians of one device. `sequence` goes on from call to call.
void TimeDevice(Device& device, const Model& model, const LoadedModel& loaded,
                const std::vector<int32_t>& batches, int repeats, int32_t rows, uint64_t seed,
                std::vector<double>& seconds) {
  uint64_t sequence = 0;
  for (int32_t batch : batches) {
    ChainTask task(model, loaded, batch, rows, seed);
    std::vector<double> times;
    for (int i = 0; i <= repeats; ++i) {
      const double took = task.Run(device, ++sequence);
      if (i > 0) times.push_back(took);  // the first one warms
    }
    std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
    seconds.push_back(times[Index(repeats / 2)]);
  }
}

}  // namespace

std::vector<TaskTime> MeasureTaskTimes(const std::string& device_spec, const Model& model,
                                       const std::vector<int32_t>& batches, int repeats) {
  DeviceSet devices = MakeDevices(device_spec);
  const int32_t rows = 3 * *std::max_element(batches.begin(), batches.end()) + 1;
  const RowBudget budget{std::vector<int32_t>(model.tables.size(), rows)};
  std::vector<std::unique_ptr<LoadedModel>> loaded;
  std::vector<const LoadedModel*> of_device;
  for (const auto& memory : devices.memories) {
    loaded.push_back(Require(memory->Load(model, budget), "loading " + model.name));
  }
  std::vector<std::vector<double>> seconds(devices.devices.size());
  std::vector<std::thread> threads;
  for (size_t d = 0; d < devices.devices.size(); ++d) {
    size_t memory = 0;
    while (devices.memories[memory].get() != devices.devices[d]->info().memory) ++memory;
    threads.emplace_back([&, d, memory] {
      TimeDevice(*devices.devices[d], model, *loaded[memory], batches, repeats, rows, d + 1,
                 seconds[d]);
    });
  }
  for (std::thread& t : threads) t.join();
  std::vector<TaskTime> result;
  for (size_t i = 0; i < batches.size(); ++i) {
    double sum = 0;
    for (const auto& s : seconds) sum += s[i];
    result.push_back({batches[i], sum / static_cast<double>(seconds.size())});
  }
  return result;
}

}  // namespace cellbatch
