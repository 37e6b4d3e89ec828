#include "server/learn/learn_serving.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "scheduler/offline/learn/lessons.h"
#include "scheduler/offline/learn/serving_curve.h"
#include "scheduler/offline/learn/serving_trainer.h"
#include "scheduler/offline/learn/trainer.h"
#include "server/learn/learn_folder.h"
#include "server/learn/learn_requests.h"
#include "server/learn/measured_costs.h"
#include "server/policy/policy_codec.h"

namespace cellbatch {
namespace {

constexpr double kMicro = 1e-3;  // of ns

absl::StatusOr<MeasuredCosts> Costs(const LearnServingOptions& options, const LearnFolder& folder,
                                    const LearnRequests& requests) {
  absl::StatusOr<MeasuredCosts> costs =
      options.costs.empty() ? MeasureCosts(options.devices, folder.model, requests.make,
                                           static_cast<int32_t>(requests.graphs.size()))
                            : ReadCosts(options.costs, *folder.model);
  if (!costs.ok() || options.write_costs.empty()) return costs;
  if (absl::Status s = WriteWhole(options.write_costs, CostsText(*costs, *folder.model)); !s.ok()) {
    return s;
  }
  return costs;
}

// What the other learner finds, to begin with and to be compared with.
std::vector<NamedPolicy> OfFewestBatches(const LearnRequests& requests, uint64_t seed) {
  const LessonBooks books = DealOut(requests.graphs);
  TrainingOptions options;
  options.seed = seed;
  const TrainingResult training = TrainOrder(books.learn.lessons(), books.prove.lessons(), options);
  if (!training.table_is_best) return {};
  return {{"fsm of fewest batches", SpecOf(training.published)}};
}

std::string LineOf(const ServingCandidate& c) {
  const size_t states = c.spec.rules.size();
  if (c.proofs_ns.empty()) {
    return fmt::format("{:<44} {:>9.0f} us where the best is chosen, {} tables tried, {} states",
                       c.name, c.choice_ns * kMicro, c.trials, states);
  }
  return fmt::format("{:<44} {:>9.0f} us, mean {:.0f}, p99 {:.0f}, proved", c.name,
                     c.objective_ns * kMicro, c.mean_ns * kMicro, c.p99_ns * kMicro);
}

std::string WorldIn(const MeasuredCosts& costs) {
  double times = 0;
  for (const double t : costs.served) times += t / static_cast<double>(costs.served.size());
  return fmt::format(
      "one device; tasks {:.2f} times as long as alone, and {:.1f} us of the scheduler's each; "
      "{:.0f} us to wake it",
      times, static_cast<double>(costs.task_overhead_ns) * kMicro,
      static_cast<double>(costs.wake_ns) * kMicro);
}

void Describe(const ServingTrainingResult& training, const LearnServingOptions& options,
              const LearnRequests& requests, const MeasuredCosts& costs,
              disk::PolicyOrigin& origin) {
  const ServingCandidate& published = training.published;
  origin.set_requests(requests.source);
  origin.set_num_requests(static_cast<int64_t>(requests.graphs.size() / 2));
  origin.set_seed(options.order.seed);
  origin.set_episodes(published.trials);
  origin.set_held_out_requests("the other half of them, at other times");
  disk::ServingOrigin& serving = *origin.mutable_serving();
  serving.set_tail_weight(options.tail_weight);
  serving.set_load(options.load);
  serving.set_requests_per_s(training.requests_per_s);
  serving.set_costs(costs.origin);
  serving.set_world(WorldIn(costs));
  serving.set_held_out_objective_us(published.objective_ns * kMicro);
  serving.set_held_out_mean_us(published.mean_ns * kMicro);
  serving.set_held_out_p99_us(published.p99_ns * kMicro);
  for (size_t i = 0; i < training.others; ++i) {
    const ServingCandidate& other = training.candidates[i];
    (*serving.mutable_others_objective_us())[other.name] = other.objective_ns * kMicro;
  }
  serving.set_gain_us(training.gain_ns * kMicro);
  serving.set_gain_error_us(training.gain_error_ns * kMicro);
}

std::string Summary(const ServingTrainingResult& training, const LearnServingOptions& options,
                    const MeasuredCosts& costs, const std::string& file) {
  const ServingCandidate& published = training.published;
  const double gain = training.gain_ns / (published.objective_ns + training.gain_ns);
  const std::string what =
      training.table_is_best
          ? fmt::format("{}, {} states: {:.1f} % less than the best of the others", published.name,
                        published.spec.rules.size(), 100 * gain)
          : fmt::format("{}: no table was as good in the proof", published.name);
  std::string others;
  for (size_t i = 0; i < training.others; ++i) {
    const ServingCandidate& other = training.candidates[i];
    others += fmt::format(", {} {:.0f}", other.name, other.objective_ns * kMicro);
  }
  return fmt::format(
      "objective     {:.2f} mean + {:.2f} p99 at {:.0f} % load: {:.1f} of {:.1f} requests/s\n"
      "world         {}; {}\n"
      "proved        {:.0f} us, mean {:.0f}, p99 {:.0f}{}\n"
      "gain          {:.1f} us, standard error {:.1f}\n"
      "published     {}\n"
      "written       {}\n",
      1 - options.tail_weight, options.tail_weight, 100 * options.load, training.requests_per_s,
      training.capacity_per_s, costs.origin, WorldIn(costs), published.objective_ns * kMicro,
      published.mean_ns * kMicro, published.p99_ns * kMicro, others, training.gain_ns * kMicro,
      training.gain_error_ns * kMicro, what, file);
}

absl::Status CheckOptions(const LearnServingOptions& options) {
  if (!(options.load > 0 && options.load < 1)) {
    return absl::InvalidArgumentError(fmt::format(
        "--load is {:.0f}%, allowed is more than 0% and less than 100%", 100 * options.load));
  }
  if (!(options.tail_weight >= 0 && options.tail_weight <= 1)) {
    return absl::InvalidArgumentError(
        fmt::format("--tail-weight is {}, allowed are 0 to 1", options.tail_weight));
  }
  if (!options.order.drawing.empty()) {
    return absl::InvalidArgumentError("--drawing is of orders learned for the fewest batches");
  }
  return absl::OkStatus();
}

absl::StatusOr<ServingTrainingResult> Train(const LearnServingOptions& options,
                                            const LearnFolder& folder,
                                            const LearnRequests& requests,
                                            const MeasuredCosts& costs) {
  ServedModel served;
  served.model = folder.model;
  served.costs = costs.InWorld();
  served.make = requests.make;
  served.shapes = static_cast<int32_t>(requests.graphs.size());
  served.world.wake_ns = costs.wake_ns;
  ServingTrainingOptions training;
  training.load = options.load;
  training.tail_weight = options.tail_weight;
  training.seed = options.order.seed;
  training.most_nodes = options.most_nodes;
  if (options.order.say) {
    training.progress = [&](const ServingCandidate& c) { options.order.say(LineOf(c)); };
  }
  return TrainServing(served, OfFewestBatches(requests, options.order.seed), training);
}

}  // namespace

absl::StatusOr<LearnedOrder> LearnServing(const LearnServingOptions& options) {
  if (absl::Status s = CheckOptions(options); !s.ok()) return s;
  const absl::StatusOr<LearnFolder> folder = OpenLearnFolder(options.order);
  if (!folder.ok()) return folder.status();
  const Model& model = *folder->model;
  const absl::StatusOr<LearnRequests> requests = ReadLearnRequests(
      options.order.requests, model, LearnOutputs(options.order, model), options.order.seed);
  if (!requests.ok()) return requests.status();
  const absl::StatusOr<MeasuredCosts> costs = Costs(options, *folder, *requests);
  if (!costs.ok()) return costs.status();
  const auto training = Train(options, *folder, *requests, *costs);
  if (!training.ok()) return training.status();
  disk::PolicyFile file = ToPolicyFile(training->published.spec, model);
  Describe(*training, options, *requests, *costs, *file.mutable_learned());
  LearnedOrder learned;
  learned.file = folder->version + "/policy.textproto";
  learned.text = PolicyText(file);
  learned.table_is_best = training->table_is_best;
  learned.summary = Summary(*training, options, *costs, learned.file);
  if (absl::Status s = CheckServes(*folder, learned); !s.ok()) return s;
  // Last, as LearnOrder.
  if (!options.order.curve.empty()) {
    const std::string curve = ServingCurveSvg(*training, options.order.model);
    if (absl::Status s = WriteWhole(options.order.curve, curve); !s.ok()) return s;
  }
  if (absl::Status s = WriteWhole(learned.file, learned.text); !s.ok()) return s;
  return learned;
}

}  // namespace cellbatch
