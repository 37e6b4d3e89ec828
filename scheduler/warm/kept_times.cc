#include "scheduler/warm/kept_times.h"

#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace cellbatch {
namespace {

std::string TextOf(const Shape& shape) { return absl::StrCat(shape.rows, "x", shape.cols); }

std::string TextOf(const std::vector<Column>& columns) {
  std::string text;
  for (const Column& c : columns) absl::StrAppend(&text, " ", Name(c.type), c.width);
  return text;
}

std::string TextOf(const Place& place) {
  return absl::StrCat(static_cast<int>(place.kind), ".", place.index, ".", place.column, ".",
                      place.offset);
}

// Structure and sizes. Names mean nothing to who computes, and neither do the values of weights.
std::string DefinitionText(const CellDefinition& cell) {
  std::string text;
  for (const Op& op : cell.ops()) {
    absl::StrAppend(&text, "op ", static_cast<int>(op.kind), " ", TextOf(op.shape), " ",
                    Name(op.type));
    for (const ValueId arg : op.args) absl::StrAppend(&text, " ", arg.value());
    // Of a constant they are its value.
    for (const int32_t attr : op.attr) absl::StrAppend(&text, " ", attr);
    text += "\n";
  }
  for (const Parameter& p : cell.parameters()) {
    absl::StrAppend(&text, "parameter ", TextOf(p.shape), " ", Name(p.type), "\n");
  }
  for (const Output& output : cell.outputs()) {
    absl::StrAppend(&text, "output ", output.value.value(), "\n");
  }
  absl::StrAppend(&text, "carry ", cell.carry() ? cell.carry()->value() : -1, "\n");
  return text;
}

// Which rows it reads and leaves, with what else lies in them.
std::string RowsText(const Model& model, const CellType& type) {
  std::string text;
  const absl::Span<const Input> inputs = type.definition->inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    absl::StrAppend(&text, "input ", inputs[i].arity == Arity::kSum ? "sum" : "one", " of",
                    TextOf(inputs[i].reads), " in", TextOf(model.table(type.in[i]).columns),
                    type.in[i] == type.out ? ", its own table\n" : "\n");
  }
  absl::StrAppend(&text, "leaves", TextOf(model.table(type.out).columns), "\n");
  return text;
}

std::string HoistedText(const CellType& type) {
  std::string text;
  for (const HoistedSum& sum : type.hoisted) {
    absl::StrAppend(&text, "hoisted ", sum.units, " at ", TextOf(sum.at));
    for (const HoistedTerm& term : sum.terms) {
      absl::StrAppend(&text, " ", term.depth, " of ", TextOf(term.source));
    }
    text += "\n";
  }
  return text;
}

// How the device computes it: kernels, tables made at load (which depend on the budget that all models share).
std::string AccountText(const ModelAccount& account, CellTypeId type) {
  std::string text = absl::StrCat("kernels ", account.kernels, "\n");
  const auto t = static_cast<size_t>(type.value());
  if (t >= account.types.size()) return text;
  const CellAccount& cell = account.types[t];
  for (const std::string& step : cell.steps) absl::StrAppend(&text, "step ", step, "\n");
  for (const PreparedPart& part : cell.prepared) {
    absl::StrAppend(&text, "prepared ", part.what, ", ", part.bytes, " bytes\n");
  }
  absl::StrAppend(&text, "weights ", cell.weight_bytes, " bytes\n");
  return text;
}

}  // namespace

CalibrationKey KeyOf(const DeviceInfo& device, const Model& model, CellTypeId id,
                     const ModelAccount& account, int32_t limit) {
  const CellType& type = model.type(id);
  return {.device = device.kind,
          .type = type.name,
          .depends_on = absl::StrCat("format ", kCalibrationFormat, "\ndevice ", device.kind,
                                     "\nlimit ", limit, type.max_batch > 0 ? " configured" : "",
                                     "\nprecision ", Name(type.precision), "\n",
                                     RowsText(model, type), DefinitionText(*type.definition),
                                     HoistedText(type), AccountText(account, id))};
}

void KeptTimes::FindKeys(const DeviceSet& devices, const Calibration& calibration) {
  if (shelf_ == nullptr) return;
  memories_.resize(static_cast<size_t>(calibration.num_memories()));
  for (size_t m = 0; m < memories_.size(); ++m) {
    OfMemory& memory = memories_[m];
    memory.measurer = calibration.measurer(static_cast<int>(m));
    if (memory.measurer < 0) continue;
    const DeviceInfo& device = devices.devices[static_cast<size_t>(memory.measurer)]->info();
    if (device.kind.empty()) continue;
    const absl::StatusOr<ModelAccount> account = device.memory->Account(model_);
    if (!account.ok()) continue;  // it was loaded, so this is not to be expected: nothing is kept
    for (const CellType& type : model_.types) {
      memory.keys.push_back(
          KeyOf(device, model_, type.id, *account, calibration.sizes(type.id).back()));
    }
  }
}

void KeptTimes::Tell(Calibration& calibration) const {
  for (size_t m = 0; m < memories_.size(); ++m) {
    for (size_t t = 0; t < memories_[m].keys.size(); ++t) {
      calibration.Know(static_cast<int>(m), CellTypeId(static_cast<int64_t>(t)),
                       shelf_->Find(memories_[m].keys[t]));
    }
  }
}

void KeptTimes::Keep(const Calibration& calibration) const {
  if (shelf_ == nullptr) return;
  for (const CellTypeCalibration& c : calibration.Results()) {
    const OfMemory& memory = memories_[static_cast<size_t>(c.memory)];
    // The one whose keys these are failed meanwhile: another measured, which may be of another sort.
    if (memory.keys.empty() || memory.measurer != calibration.measurer(c.memory)) continue;
    if (c.kept || c.points.empty()) continue;
    shelf_->Keep(memory.keys[static_cast<size_t>(c.type.value())],
                 calibration.LeastKnown(c.memory, c.type));
  }
}

}  // namespace cellbatch
