#include "scheduler/offline/learn/table_search.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <random>

#include "scheduler/offline/learn/q_table.h"
#include "scheduler/offline/replay.h"

namespace cellbatch {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class TableTrials {
 public:
  TableTrials(const StateEncoding& encoding, absl::Span<const FsmTable::Rule> from,
              absl::Span<const Lesson> lessons, uint64_t seed, int64_t most_nodes)
      : lessons_(lessons.begin(), lessons.end()),
        most_nodes_(most_nodes),
        random_(seed),
        table_(encoding, lessons[0].facts->graph.num_types()) {
    for (const Lesson& lesson : lessons_) replays_.emplace_back(*lesson.facts);
    for (const FsmTable::Rule& rule : from) Note(table_.RowOf(rule.state), rule.action.value());
  }

  TableSearchResult Run() {
    best_ = Play(kNever);
    NotePoint();
    size_t vain = 0;  // trials since one was better
    while (nodes_ < most_nodes_ && best_ > static_cast<double>(lessons_.size()) + 1e-9) {
      const std::vector<Trial> trials = Trials();
      if (trials.empty()) break;
      bool better = false;
      for (const Trial& trial : trials) {
        if (nodes_ >= most_nodes_) break;
        better |= Try(trial);
      }
      vain = better ? 0 : vain + 1;
      if (vain == kVainRounds) break;
    }
    return Result();
  }

 private:
  // Rounds over all changes, of which some change nothing and are kept: two tables that are as good have other
  // neighbours.
  static constexpr size_t kVainRounds = 4;

  struct Trial {
    int32_t row, action;
  };

  void Note(int32_t row, int32_t action) {
    const auto at = static_cast<size_t>(row);
    if (at >= action_.size()) {
      action_.resize(at + 1, -1);
      visited_.resize(at + 1, 0);
    }
    if (action >= 0) action_[at] = action;
  }

  void NotePoint() { curve_.push_back({trials_, best_ / static_cast<double>(lessons_.size())}); }

  // Every change of a state that the lessons come to, in a random order.
  std::vector<Trial> Trials() {
    std::vector<Trial> trials;
    for (size_t row = 0; row < action_.size(); ++row) {
      if (visited_[row] != play_) continue;
      for (uint32_t left = table_.actions(static_cast<int32_t>(row)); left != 0; left &= left - 1) {
        const int32_t action = std::countr_zero(left);
        if (action != action_[row]) trials.push_back({static_cast<int32_t>(row), action});
      }
    }
    for (size_t i = trials.size(); i > 1; --i) std::swap(trials[i - 1], trials[random_() % i]);
    return trials;
  }

  // Whether it is better; as good, it is kept too.
  bool Try(const Trial& trial) {
    const auto row = static_cast<size_t>(trial.row);
    if (visited_[row] != play_ || action_[row] == trial.action) return false;
    const int32_t before = action_[row];
    const int64_t play_before = play_;
    action_[row] = trial.action;
    ++trials_;
    const double got = Play(best_ + 1e-9);
    if (got == kNever) {
      action_[row] = before;
      Restore(play_before);
      return false;
    }
    const bool better = got < best_ - 1e-9;
    best_ = got;
    if (better) NotePoint();
    return better;
  }

  // What a failed play visited is as if it had not been, states that it was the first to come to among them.
  void Restore(int64_t play) {
    for (size_t row = 0; row < visited_.size(); ++row) {
      if (visited_[row] != play_) continue;
      visited_[row] = row < seen_before_.size() && seen_before_[row] == play ? play : 0;
    }
    play_ = play;
  }

  // Batches in parts of the bounds, added up; kNever as soon as it is clear that they are more than `most`.
  double Play(double most) {
    seen_before_ = visited_;
    play_ = ++plays_;
    double sum = static_cast<double>(lessons_.size());  // what no table can go below
    for (size_t i = 0; i < lessons_.size(); ++i) {
      const double bound = std::max(lessons_[i].bound, 1);
      const double spare =
          (most - sum) * bound;  // batches above the bound that this lesson may take
      const int32_t over = PlayOne(replays_[i], spare);
      if (over < 0) return kNever;
      sum += over / bound;
    }
    return sum;
  }

  // Batches above the bound; -1: more than `spare`.
  int32_t PlayOne(Replay& replay, double spare) {
    int32_t over = 0;
    for (replay.Reset(); !replay.done();) {
      const Frontier frontier = replay.frontier();
      const int32_t row = table_.RowOf(frontier);
      const auto at = static_cast<size_t>(row);
      if (at >= action_.size() || action_[at] < 0) {
        Note(row, fallback_.Choose(frontier)->type.value());
      }
      visited_[at] = play_;
      const auto type = static_cast<size_t>(action_[at]);
      // A batch that does not lower the bound of the rest is one too many.
      over += frontier[type].nodes.ready_tops == frontier[type].nodes.tops ? 0 : 1;
      if (over > spare) return -1;
      nodes_ += static_cast<int64_t>(replay.Execute({CellTypeId(action_[at])}).size());
    }
    return over;
  }

  TableSearchResult Result() const {
    TableSearchResult result;
    for (size_t row = 0; row < action_.size(); ++row) {
      if (visited_[row] != play_) continue;
      result.rules.push_back({table_.key(static_cast<int32_t>(row)), CellTypeId(action_[row])});
    }
    result.curve = curve_;
    result.trials = trials_;
    result.nodes = nodes_;
    return result;
  }

  const std::vector<Lesson> lessons_;
  const int64_t most_nodes_;
  std::mt19937_64 random_;
  QTable table_;                                // for its rows; values are not used
  std::vector<int32_t> action_;                 // by row; -1: not known yet
  std::vector<int64_t> visited_, seen_before_;  // by row: the last play that came to it
  std::vector<Replay> replays_;
  const LbGreedyPolicy fallback_;
  std::vector<SearchPoint> curve_;
  double best_ = kNever;  // batches / bound, added up over the lessons
  int64_t play_ = 0, plays_ = 0, trials_ = 0, nodes_ = 0;
};

}  // namespace

TableSearchResult SearchTable(const StateEncoding& encoding, absl::Span<const FsmTable::Rule> from,
                              absl::Span<const Lesson> lessons, uint64_t seed, int64_t most_nodes) {
  return TableTrials(encoding, from, lessons, seed, most_nodes).Run();
}

}  // namespace cellbatch
