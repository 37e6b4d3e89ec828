#include "cells/device/cuda/prepare_values.h"

#include <fmt/format.h>

#include <utility>

#include "cells/device/cuda/cell_launch.h"
#include "cells/device/cuda/kernel_module.h"
#include "cells/device/cuda/value_store.h"
#include "cells/kernels/cuda/cell_source.h"

namespace cellbatch::cuda {
namespace {

constexpr int64_t kFloat = sizeof(float);

// One type's values: one node, which reads no input and leaves each as a column of its own.
class Preparing {
 public:
  Preparing(const LoadTools& tools, const CellType& type, const CellProgram& program)
      : tools_(tools), type_(type), program_(program) {}

  void Write(const std::string& prefix, std::string& text) {
    const auto data = [&](ParameterId p) { return Weight(p).data.get(); };
    const auto rounded = [](const cellbatch::Place&) { return false; };  // fp32, all of it
    cell_ = AddCellSource(prefix, *program_.at_load, data, rounded, tools_.Target(), text);
  }

  absl::StatusOr<PreparedValues> Run(const KernelModule& module) {
    if (absl::Status s = Place(); !s.ok()) return s;
    auto scratch = ScratchSpace::Make(tools_.gpu, {*program_.at_load}, 1);
    if (!scratch.ok()) return scratch.status();
    const auto column = [&](const cellbatch::Place& place) {
      const DeviceBuffer& buffer = columns_[static_cast<size_t>(place.index)];
      return cuda_abi::ColumnView{buffer.as<float>() + place.offset, 0, nullptr};
    };
    const auto value = [&](const CudaValue& v) { return values_.At(brought_, DataOf(v)); };
    const auto launch = MakeCellLaunch(cell_, *program_.at_load, module,
                                       {column, value, *scratch, tools_.trial->now()});
    if (!launch.ok()) return launch.status();
    auto rows = PinnedBuffer::Make(tools_.gpu, sizeof(int));  // the node's row: 0
    if (!rows.ok()) return rows.status();
    cuda_abi::TaskSlot& slot = tools_.trial->NextSlot();
    slot = {};
    slot.num_nodes = 1;
    slot.output_rows = rows->as<int>();
    if (absl::Status s = tools_.trial->Launch(*launch, 1); !s.ok()) return s;
    if (absl::Status s = tools_.trial->WaitForAll(); !s.ok()) return s;
    return Fetch();
  }

 private:
  const cellbatch::Weight& Weight(ParameterId p) const {
    return type_.weights[static_cast<size_t>(p.value())];
  }
  const float* DataOf(const CudaValue& value) const {
    return value.parameter.valid() ? Weight(value.parameter).data.get() : value.floats.data();
  }

  absl::Status Place() {
    for (const CudaStep& step : cell_.steps) {
      for (const CudaValue& value : step.values) {
        const auto floats = value.parameter.valid() ? Weight(value.parameter).shape.size()
                                                    : static_cast<int64_t>(value.floats.size());
        values_.Add(DataOf(value), floats);
      }
    }
    auto brought = values_.Bring(tools_.gpu, *tools_.trial);
    if (!brought.ok()) return brought.status();
    brought_ = *std::move(brought);
    for (const PreparedParameter& p : program_.prepared) {
      auto made = DeviceBuffer::Make(tools_.gpu, p.width * kFloat);
      if (!made.ok()) return made.status();
      columns_.push_back(*std::move(made));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<PreparedValues> Fetch() {
    PreparedValues values;
    for (size_t p = 0; p < columns_.size(); ++p) {
      std::vector<float>& to = values.emplace_back(static_cast<size_t>(program_.prepared[p].width));
      absl::Status s = tools_.trial->Fetch(to.data(), columns_[p].at(), columns_[p].bytes());
      if (!s.ok()) return s;
    }
    return values;
  }

  const LoadTools& tools_;
  const CellType& type_;
  const CellProgram& program_;
  CudaCell cell_;
  ValueStore values_;
  DeviceBuffer brought_;
  std::vector<DeviceBuffer> columns_;
};

}  // namespace

absl::StatusOr<std::vector<PreparedValues>> PrepareValues(
    const LoadTools& tools, const std::vector<CellType>& types,
    const std::vector<CellProgram>& programs) {
  std::vector<PreparedValues> prepared(types.size());
  std::vector<std::pair<size_t, Preparing>> work;
  std::string text = CellSourcePrelude();
  for (size_t t = 0; t < types.size(); ++t) {
    if (programs[t].at_load == nullptr) continue;
    work.emplace_back(t, Preparing(tools, types[t], programs[t]));
    work.back().second.Write(fmt::format("p{}", t), text);
  }
  if (work.empty()) return prepared;
  const auto module = KernelModule::Make(tools.gpu, tools.Text(std::move(text)));
  if (!module.ok()) return module.status();
  for (auto& [type, preparing] : work) {
    auto values = preparing.Run(*module);
    if (!values.ok()) return values.status();
    prepared[type] = *std::move(values);
  }
  return prepared;
}

}  // namespace cellbatch::cuda
