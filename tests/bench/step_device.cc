// The contender `device`: the LSTM cell as text would describe it, compiled and loaded by the CPU device's memory, one
// task a step.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cells/device/cpu/cpu_device.h"
#include "cells/device/signal.h"
#include "tests/bench/in_process.h"
#include "tests/bench/step_contenders.h"
#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

// The model of builders.h with our weights in place of its own.
std::shared_ptr<Model> ModelOf(const StepWeights& weights) {
  std::shared_ptr<Model> model = testing::OneCellModel(testing::LstmCell(weights.h, weights.h));
  CellType& type = model->types[0];
  for (size_t p = 0; p < type.weights.size(); ++p) {
    const std::string& name = type.definition->parameters()[p].name;
    const size_t size = static_cast<size_t>(type.weights[p].shape.size());
    std::vector<float> values(size, 0.0f);  // the biases
    if (name == "W") values = weights.input;
    if (name == "U") values = weights.recurrent;
    const std::shared_ptr<float[]> data(new float[size]);
    std::copy(values.begin(), values.end(), data.get());
    type.weights[p].data = data;
  }
  return model;
}

class OnDevice final : public Contender {
 public:
  OnDevice(const StepSetting& setting, int most, int cpu)
      : h_(setting.weights.h), model_(ModelOf(setting.weights)) {
    CpuOptions options;
    options.kernels = &setting.kernels;
    options.tuning = setting.tuning;
    const std::vector<Column>& left = model_->table(model_->types[0].out).columns;
    const auto hidden = std::find_if(left.begin(), left.end(),
                                     [](const Column& column) { return column.name == "h"; });
    hidden_column_ = ColumnId(static_cast<int32_t>(hidden - left.begin()));
    const std::vector<int> cpus = {cpu};
    devices_ = Require(CpuDevices({&cpus, 1}, options), "a device");
    RowBudget budget;
    budget.rows.assign(model_->tables.size(), 2 * most + 18);
    loaded_ = Require(devices_.memories[0]->Load(*model_, budget), "loading " + model_->name);
    sequence_ = devices_.devices[0]->Signal();
  }

  const std::string& name() const override { return name_; }

  // Rows as StepRows scatters them, one further on because row 0 is zeros.
  bool Start(int b, uint64_t seed) override {
    rows_.emplace(h_, b, seed);
    const auto shifted = [](const std::vector<int32_t>& slots) {
      std::vector<Row> moved;
      for (const int32_t slot : slots) moved.push_back(slot + 1);
      return moved;
    };
    x_ = shifted(rows_->input_slots());
    now_ = shifted(rows_->now_slots());
    next_ = shifted(rows_->next_slots());
    zeros_.assign(static_cast<size_t>(b), kZeroRow);
    started_ = false;
    task_ = {};
    task_.model = loaded_.get();
    task_.cell = model_->types[0].id;
    task_.num_nodes = b;
    task_.inputs[0].rows = x_.data();
    return true;
  }

  void Step() override {
    if (!started_) return First();
    task_.inputs[1].rows = now_.data();
    Run();
  }

  std::vector<float> StepAndShow() override {
    const size_t h = static_cast<size_t>(h_);
    std::vector<float> hidden(h * next_.size());
    std::vector<CopyOut> copies;
    for (size_t r = 0; r < next_.size(); ++r) {
      copies.push_back({reinterpret_cast<std::byte*>(&hidden[r * h]), hidden_column_, next_[r]});
    }
    task_.copies_out = copies.data();
    task_.num_copies_out = static_cast<int32_t>(copies.size());
    Step();
    task_.copies_out = nullptr;
    task_.num_copies_out = 0;
    return hidden;
  }

 private:
  // Brings x along; states are read from the row of zeros.
  void First() {
    const TableId table = model_->types[0].in[0];
    std::vector<CopyIn> copies;
    for (int r = 0; r < rows_->b(); ++r) {
      const auto row = static_cast<size_t>(r);
      copies.push_back({reinterpret_cast<const std::byte*>(rows_->X(r)), table, x_[row], 1});
    }
    task_.inputs[1].rows = zeros_.data();
    task_.copies_in = copies.data();
    task_.num_copies_in = static_cast<int32_t>(copies.size());
    Run();
    task_.copies_in = nullptr;
    task_.num_copies_in = 0;
    started_ = true;
  }

  void Run() {
    task_.sequence = ++sequence_;
    task_.output_rows = next_.data();
    BatchedTask* const task = &task_;
    Device& device = *devices_.devices[0];
    device.Enqueue({&task, 1});
    while (!SignalPassed(device.Signal(), sequence_)) device.Advance();
    std::swap(now_, next_);
  }

  const std::string name_ = "device";
  const int h_;
  std::shared_ptr<Model> model_;
  ColumnId hidden_column_;
  DeviceSet devices_;
  std::unique_ptr<LoadedModel> loaded_;
  std::optional<StepRows> rows_;
  std::vector<Row> x_, now_, next_, zeros_;
  BatchedTask task_;
  uint64_t sequence_ = 0;  // of the last task
  bool started_ = false;
};

}  // namespace

std::unique_ptr<Contender> DeviceContender(const StepSetting& setting, int most, int cpu) {
  return std::make_unique<OnDevice>(setting, most, cpu);
}

}  // namespace cellbatch
