#include "server/learn/learn_order.h"

#include <fmt/format.h>

#include "scheduler/offline/learn/learning_curve.h"
#include "scheduler/offline/learn/machine.h"
#include "scheduler/offline/learn/trainer.h"
#include "scheduler/offline/replay.h"
#include "server/learn/learn_folder.h"
#include "server/learn/learn_requests.h"
#include "server/policy/policy_codec.h"

namespace cellbatch {
namespace {

int64_t Sum(const std::vector<int32_t>& numbers) {
  int64_t sum = 0;
  for (const int32_t n : numbers) sum += n;
  return sum;
}

// What the file says of where it comes from.
void Describe(const TrainingResult& training, const LearnRequests& requests,
              const LessonBooks& books, const Policy& policy, uint64_t seed,
              disk::PolicyOrigin& origin) {
  origin.set_requests(requests.source);
  origin.set_num_requests(static_cast<int64_t>(books.requests));
  origin.set_nodes(books.learn.nodes());
  origin.set_seed(seed);
  origin.set_episodes(training.published.episodes);
  int64_t batches = 0, bound = 0;
  for (const Lesson& lesson : books.learn.lessons()) {
    batches += RunClosed(*lesson.facts, policy).batches;
    bound += lesson.bound;
  }
  origin.set_batches(batches);
  origin.set_bound(bound);
  origin.set_held_out_requests(fmt::format("{} others of the same", books.requests));
  origin.set_held_out_batches(Sum(training.published.batches));
  origin.set_held_out_bound(Sum(training.proof_bounds));
  for (const OrderCandidate& c : training.candidates) {
    if (!c.is_table) (*origin.mutable_others_batches())[c.name] = Sum(c.batches);
  }
}

std::string Summary(const TrainingResult& training, const disk::PolicyOrigin& origin,
                    const std::string& file) {
  std::string others;
  for (const auto& c : training.candidates) {
    if (!c.is_table) others += fmt::format(", {} {}", c.name, Sum(c.batches));
  }
  const std::string what =
      training.table_is_best
          ? fmt::format("{}, {} states", training.published.name, training.published.rules.size())
          : fmt::format("{}: no table was as good in the proof", training.published.name);
  return fmt::format(
      "learned from  {} of {}: {} batches, none makes fewer than {}\n"
      "proved on     {}: {} batches, none makes fewer than {}{}\n"
      "published     {}\n"
      "written       {}\n",
      origin.num_requests(), origin.requests(), origin.batches(), origin.bound(),
      origin.held_out_requests(), origin.held_out_batches(), origin.held_out_bound(), others, what,
      file);
}

// Pictures that were asked for.
absl::Status Draw(const LearnOrderOptions& options, const TrainingResult& training,
                  const LessonBooks& books, const Model& model) {
  if (!options.curve.empty()) {
    absl::Status s = WriteWhole(options.curve, LearningCurveSvg(training, options.model));
    if (!s.ok()) return s;
  }
  if (options.drawing.empty()) return absl::OkStatus();
  if (!training.table_is_best) {
    if (options.say) options.say(options.drawing + ": no table was published, so none is drawn");
    return absl::OkStatus();
  }
  const absl::StatusOr<FsmTable> table =
      FsmTable::Create(training.published.encoding, training.published.rules);
  if (!table.ok()) return table.status();
  std::vector<std::string> names;
  for (const CellType& type : model.types) names.push_back(type.name);
  return WriteWhole(options.drawing,
                    MachineAsDot(TraceMachine(*table, books.prove.lessons()), names));
}

}  // namespace

absl::StatusOr<LearnedOrder> LearnOrder(const LearnOrderOptions& options) {
  const absl::StatusOr<LearnFolder> folder = OpenLearnFolder(options);
  if (!folder.ok()) return folder.status();
  const Model& model = *folder->model;
  const absl::StatusOr<LearnRequests> requests =
      ReadLearnRequests(options.requests, model, LearnOutputs(options, model), options.seed);
  if (!requests.ok()) return requests.status();
  const LessonBooks books = DealOut(requests->graphs);
  TrainingOptions training_options;
  training_options.seed = options.seed;
  if (options.say) {
    training_options.progress = [&](const OrderCandidate& c) {
      options.say(fmt::format("{:<48} {:.3f} of the bound, {} states", c.name, c.over_bound,
                              c.rules.size()));
    };
  }
  const TrainingResult training =
      TrainOrder(books.learn.lessons(), books.prove.lessons(), training_options);
  const PolicySpec spec = SpecOf(training.published);
  const auto policy = MakePolicy(spec, model.types.size());
  if (!policy.ok()) return policy.status();
  disk::PolicyFile file = ToPolicyFile(spec, model);
  Describe(training, *requests, books, **policy, options.seed, *file.mutable_learned());
  LearnedOrder learned;
  learned.file = folder->version + "/policy.textproto";
  learned.text = PolicyText(file);
  learned.table_is_best = training.table_is_best;
  learned.summary = Summary(training, file.learned(), learned.file);
  if (absl::Status s = CheckServes(*folder, learned); !s.ok()) return s;
  // Last: who reads that a picture cannot be written has the policy of before.
  if (absl::Status s = Draw(options, training, books, model); !s.ok()) return s;
  if (absl::Status s = WriteWhole(learned.file, learned.text); !s.ok()) return s;
  return learned;
}

}  // namespace cellbatch
