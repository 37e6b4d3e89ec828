// What a server computes at load for each word, of several models that share one budget: the tables worth most a byte,
// whatever the models are called.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cells/device/cpu/cpu_device.h"
#include "cells/weights/safetensors.h"
#include "scheduler/scheduler.h"
#include "server/convert/import_torch.h"
#include "server/repository/model_repository.h"

namespace cellbatch {
namespace {

namespace fs = std::filesystem;

constexpr int kWords = 50;
constexpr int64_t kTable = kWords * 4 * 16 * 4;  // rows of four groups of a block of 16 units

// A GRU of 4 units over an embedding of `width`: the wider, the more each byte of its table saves.
void MakeModel(const std::string& root, const std::string& name, int width) {
  const auto w = [](int rows, int columns) {
    return std::vector<float>(static_cast<size_t>(rows * columns), 0.5f);
  };
  const std::string from = testing::TempDir() + "/token_gru.safetensors";
  ASSERT_TRUE(WriteSafetensors(from, {{"embedding.weight", {kWords, width}, w(kWords, width)},
                                      {"weight_ih_l0", {12, width}, w(12, width)},
                                      {"weight_hh_l0", {12, 4}, w(12, 4)}})
                  .ok());
  const auto made =
      ImportTorch({.from = from, .repository = root, .name = name, .overwrite = true, .hints = {}});
  ASSERT_TRUE(made.ok()) << made.status();
}

// A scheduler on one core and the repository that loads into it.
class Served {
 public:
  explicit Served(const std::string& root)
      : scheduler_(Make()), repository_(root, {}, *scheduler_) {}

  ModelRepository& repository() { return repository_; }
  // By name of those that are served: whether its table was made.
  std::map<std::string, bool> Folded() const {
    std::map<std::string, bool> folded;
    for (const ModelState& state : repository_.Index()) {
      if (state.model == nullptr) continue;
      for (const LaneStats& lane : scheduler_->stats().Lanes()) {
        if (lane.model != state.model->id) continue;
        EXPECT_NE(lane.folded.find("multiply-adds saved a byte"), std::string::npos);
        folded[state.name] = lane.folded.find("no room") == std::string::npos;
      }
    }
    return folded;
  }

 private:
  std::unique_ptr<Scheduler> Make() const {
    SchedulerOptions options;
    options.threads = false;
    options.calibrate = false;
    options.row_budget_bytes = 1 << 20;
    auto devices =
        CpuDevices({std::vector<int>{0}}, {.fold_budget_bytes = 2 * kTable + kTable / 2});
    EXPECT_TRUE(devices.ok()) << devices.status();
    auto made = Scheduler::Create(options, *std::move(devices), clock_);
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }

  SteadyClock clock_;
  std::unique_ptr<Scheduler> scheduler_;
  ModelRepository repository_;
};

TEST(FoldBudgetTest, ModelsFoundAtTheStartShareItByWhatAByteSavesWhateverTheirNames) {
  const std::map<std::string, int> least_first = {{"a", 8}, {"b", 16}, {"c", 32}};
  const std::map<std::string, int> most_first = {{"a", 32}, {"b", 16}, {"c", 8}};
  const std::map<std::string, int> least_between = {{"a", 16}, {"b", 8}, {"c", 32}};
  for (const std::map<std::string, int>& widths : {least_first, most_first, least_between}) {
    const std::string root = testing::TempDir() + "/fold_budget";
    fs::remove_all(root);
    std::map<std::string, bool> expected;
    for (const auto& [name, width] : widths) {
      MakeModel(root, name, width);
      expected[name] = width > 8;
    }
    Served served(root);
    ASSERT_TRUE(served.repository().LoadAll().ok());
    EXPECT_EQ(served.Folded(), expected);
    served.repository().Close();
  }
}

TEST(FoldBudgetTest, AModelThatIsLoadedLaterGetsWhatIsLeftAndWhatOthersGaveBack) {
  const std::string root = testing::TempDir() + "/fold_budget";
  fs::remove_all(root);
  for (const auto& [name, width] : {std::pair("a", 8), {"b", 16}}) MakeModel(root, name, width);
  Served served(root);
  ASSERT_TRUE(served.repository().LoadAll().ok());
  MakeModel(root, "c", 32);
  ASSERT_TRUE(served.repository().Load("c").ok());
  EXPECT_EQ(served.Folded(), (std::map<std::string, bool>{{"a", true}, {"b", true}, {"c", false}}));
  ASSERT_TRUE(served.repository().Unload("a").ok());
  ASSERT_TRUE(served.repository().Load("c").ok());
  EXPECT_EQ(served.Folded(), (std::map<std::string, bool>{{"b", true}, {"c", true}}));
  served.repository().Close();
}

}  // namespace
}  // namespace cellbatch
