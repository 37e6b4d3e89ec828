// Measured costs on disk.
#include <fmt/format.h>
#include <google/protobuf/text_format.h>

#include <cmath>
#include <utility>

#include "proto/task_costs.pb.h"
#include "server/learn/measured_costs.h"
#include "server/repository/text_file.h"

namespace cellbatch {
namespace {

constexpr int64_t kMostBytes = int64_t{4} << 20;
constexpr double kMostTimes = 1000;
constexpr int64_t kMostNs = int64_t{60} * 1'000'000'000;

absl::Status Wrong(const std::string& name, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", name, what));
}

}  // namespace

std::string CostsText(const MeasuredCosts& costs, const Model& model) {
  disk::TaskCosts file;
  file.set_origin(costs.origin);
  file.set_task_overhead_ns(costs.task_overhead_ns);
  file.set_wake_ns(costs.wake_ns);
  file.set_answer_ns(costs.answer_ns);
  std::string text = "# What tasks of a model take on a device (proto/task_costs.proto).\n", head;
  google::protobuf::TextFormat::PrintToString(file, &head);
  text += head;
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  for (size_t t = 0; t < model.types.size(); ++t) {
    disk::TypeCosts type;
    type.set_name(model.types[t].name);
    type.set_max_batch(costs.alone.types()[t].max_batch);
    type.set_peak_batch(costs.alone.types()[t].peak_batch);
    type.set_served(costs.served[t]);
    for (const CalibrationPoint& point : costs.alone.types()[t].points) {
      disk::TaskCostPoint& to = *type.add_points();
      to.set_batch(point.batch);
      to.set_ns(point.task_ns);
    }
    std::string line;
    printer.PrintToString(type, &line);
    text += fmt::format("types {{ {}}}\n", line);
  }
  return text;
}

absl::StatusOr<MeasuredCosts> ParseCosts(std::string_view text, const std::string& name,
                                         const Model& model) {
  disk::TaskCosts file;
  google::protobuf::TextFormat::ParseInfoTree places;
  if (absl::Status s = ParseTextFormat(text, name, file, &places); !s.ok()) return s;
  MeasuredCosts costs;
  costs.origin = file.origin();
  costs.task_overhead_ns = file.task_overhead_ns();
  costs.wake_ns = file.wake_ns();
  costs.answer_ns = file.answer_ns();
  for (const int64_t ns : {costs.task_overhead_ns, costs.wake_ns, costs.answer_ns}) {
    if (ns < 0 || ns > kMostNs) {
      return Wrong(name, fmt::format("an overhead of {} ns, allowed are 0 to {}", ns, kMostNs));
    }
  }
  if (file.types_size() != static_cast<int>(model.types.size())) {
    return Wrong(name, fmt::format("costs of {} cell types, the model has {}", file.types_size(),
                                   model.types.size()));
  }
  std::vector<TypeCosts> types;
  for (int t = 0; t < file.types_size(); ++t) {
    const disk::TypeCosts& type = file.types(t);
    const std::string& own = model.types[static_cast<size_t>(t)].name;
    if (type.name() != own) {
      return Wrong(
          name, fmt::format("cell type {} is \"{}\", the model's is \"{}\"", t, type.name(), own));
    }
    const double served = type.served() == 0 ? 1 : type.served();
    if (!std::isfinite(served) || served < 1 / kMostTimes || served > kMostTimes) {
      return Wrong(name, fmt::format("\"{}\" takes {} times as long when it is served, allowed "
                                     "are {} to {}",
                                     own, served, 1 / kMostTimes, kMostTimes));
    }
    costs.served.push_back(served);
    TypeCosts& to = types.emplace_back();
    to.max_batch = type.max_batch();
    to.peak_batch = type.peak_batch();
    for (const disk::TaskCostPoint& point : type.points()) {
      if (point.ns() > kMostNs) {
        return Wrong(name, fmt::format("\"{}\": a task of {} ns, allowed are 1 to {}", own,
                                       point.ns(), kMostNs));
      }
      to.points.push_back({point.batch(), point.ns()});
    }
  }
  absl::StatusOr<TaskCosts> alone = TaskCosts::Of(std::move(types));
  if (!alone.ok()) return Wrong(name, std::string(alone.status().message()));
  costs.alone = *std::move(alone);
  return costs;
}

absl::StatusOr<MeasuredCosts> ReadCosts(const std::string& file, const Model& model) {
  const absl::StatusOr<std::string> text = ReadTextFile(file, kMostBytes);
  if (!text.ok()) return text.status();
  return ParseCosts(*text, file, model);
}

}  // namespace cellbatch
