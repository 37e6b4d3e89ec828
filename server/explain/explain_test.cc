#include <gtest/gtest.h>
#include <pthread.h>

#include <string>

#include "cells/device/cpu/cpu_device.h"
#include "cells/device/load_model.h"
#include "cells/kernels/cuda/cuda_limits.h"
#include "server/explain/explain_model.h"
#include "server/explain/explain_page.h"
#include "tests/testing/builders.h"
#include "tests/testing/fake_scheduler.h"
#include "tests/testing/test_model.h"

namespace cellbatch {
namespace {

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Of what the machine at hand computes with.
DeviceSet OneCpu(int64_t fold_budget) {
  absl::StatusOr<DeviceSet> devices =
      CpuDevices({std::vector<int>{0}}, {.fold_budget_bytes = fold_budget});
  EXPECT_TRUE(devices.ok()) << devices.status();
  return *std::move(devices);
}

std::vector<CellTypeCalibration> Measured(const Model& model) {
  return {{.memory = 0,
           .type = model.types[0].id,
           .max_batch = 48,
           .points = {{1, 2'500}, {16, 16'000}}}};
}

ExplainedModel Explained(const Model& model, const DeviceSet& devices) {
  absl::StatusOr<ExplainedModel> explained =
      ExplainModel(model, *devices.memories[0], Measured(model));
  EXPECT_TRUE(explained.ok()) << explained.status();
  return *std::move(explained);
}

// Says nothing of a model.
class SilentMemory final : public Memory {
 public:
  explicit SilentMemory(DeviceKind kind) : kind_(kind) {}
  DeviceKind kind() const override { return kind_; }
  absl::StatusOr<std::unique_ptr<LoadedModel>> Load(const Model&, const RowBudget&) override {
    return absl::UnimplementedError("it computes nothing");
  }

 private:
  const DeviceKind kind_;
};

TEST(ExplainModelTest, TheProgramIsThatOfTheDeviceThatTheModelLivesOn) {
  testing::CellBuilder b("largest");
  const ValueId sums = b.MatMul(b.Read("x", "x", 8), b.Matrix("W", 4, 8));
  b.Leave("label", b.Op1(OpKind::kArgMax, sums));
  const std::shared_ptr<Model> model = testing::OneCellModel(b.Build());
  model->devices = {.cpu = false, .gpu = true};
  SilentMemory cpu(DeviceKind::kCpu), gpu(DeviceKind::kGpu);
  const std::vector<const Memory*> memories = {&cpu, &gpu};
  ASSERT_EQ(&HomeOf(*model, memories), &gpu);
  const auto programs = LowerCells(*model, kCudaLimits);
  ASSERT_TRUE(programs.ok()) << programs.status();
  const auto of = [&](const Memory& memory) { return ToText(*ExplainModel(*model, memory, {})); };
  ASSERT_EQ(programs->front().steps.size(), 2u) << "a product, then its largest";
  const std::string program = Describe(programs->front());
  EXPECT_NE(of(cpu), of(gpu));
  EXPECT_TRUE(Has(of(gpu), "\n      1  ")) << of(gpu) << program;
  EXPECT_FALSE(Has(of(cpu), "\n      1  ")) << of(cpu);
}

TEST(ExplainModelTest, EachCellTypeIsSaidFromItsEquationsToItsTimes) {
  const std::shared_ptr<Model> model = TinyModel();
  const std::string text = ToText(Explained(*model, OneCpu(1 << 20)));
  for (const char* part :
       {"model \"tiny\" version 1: 1 cell type, kernels ", "cell type \"",
        "{token INT32[1]} of table token\n", ", the node before\n",
        "    leaves  {h FP32[2], c FP32[2]} in table ", "sigmoid(", "  0  index table0",
        "   tokens read, clamped\n", "starts from a folded row; kernel of its own: gated cell",
        "|before.h|E[]\n", "naive layout ", "planned layout ", "fused program ", "folded table: \"",
        "100 rows: ", "T(b), us      us a node\n", "    16        16.00          1.000\n",
        "a task has at most b_max = 48 nodes\n"}) {
    EXPECT_TRUE(Has(text, part)) << part << "\n" << text;
  }
}

TEST(ExplainModelTest, WhatMayWaitIsSaid) {
  testing::ModelBuilder builder;
  const CellTypeId chain = builder.Add(testing::ElmanCell(3, 4), 1);
  builder.Connect(builder.Add(testing::LinearCell(4, 2, "h"), 2), "x", chain);
  const std::shared_ptr<Model> model = builder.Build();
  const ExplainedModel explained = Explained(*model, OneCpu(/*fold_budget=*/0));
  ASSERT_EQ(explained.types.size(), 2u);
  const char* const may = "nothing recurrent reads it: with `defer: ON` it waits for others\n";
  EXPECT_FALSE(Has(explained.types[0].parts[0].text, may));
  EXPECT_TRUE(Has(explained.types[1].parts[0].text, may));
}

TEST(ExplainModelTest, WhatIsNotPreparedOrMeasuredIsNotClaimed) {
  const std::shared_ptr<Model> model = TinyModel();
  const DeviceSet devices = OneCpu(/*fold_budget=*/0);
  const std::string text = ToText(Explained(*model, devices));
  EXPECT_FALSE(Has(text, "folded"));
  EXPECT_TRUE(Has(text, "  Prepared at load\n    nothing\n"));
  const absl::StatusOr<ExplainedModel> unmeasured = ExplainModel(*model, *devices.memories[0], {});
  ASSERT_TRUE(unmeasured.ok());
  EXPECT_FALSE(Has(ToText(*unmeasured), "T(b)"));
}

// Bytes of what is prepared are those that a load takes.
TEST(ExplainModelTest, TheAccountIsThatOfTheLoad) {
  const std::shared_ptr<Model> model = TinyModel();
  for (const int64_t budget : {int64_t{0}, int64_t{1} << 20}) {
    const DeviceSet devices = OneCpu(budget);
    const auto account = devices.memories[0]->Account(*model);
    ASSERT_TRUE(account.ok());
    RowBudget rows;
    rows.rows.assign(model->tables.size(), 16);
    const auto loaded = devices.memories[0]->Load(*model, rows);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(account->types[0].weight_bytes, (*loaded)->weight_bytes());
    EXPECT_EQ(account->types[0].prepared.empty(), budget == 0);
    EXPECT_EQ(account->types[0].steps.size(), 2u);
  }
}

TEST(ExplainModelTest, WhatIsComputedOfParametersAloneIsNamedWithItsBytes) {
  testing::CellBuilder b("decay");
  const ValueId decay = b.Op1(OpKind::kExp, b.Vector("log_decay", 8));
  b.Leave("y", b.Mul(b.Read("x", "x", 8), b.Mul(decay, b.Vector("gain", 8))));
  const std::shared_ptr<Model> model = testing::OneCellModel(b.Build());
  const DeviceSet devices = OneCpu(/*fold_budget=*/0);
  const std::string text = ToText(Explained(*model, devices));
  EXPECT_TRUE(Has(text, "once: product 0x8 tail 5 -> out0\n")) << text;
  EXPECT_TRUE(Has(text, "computed of \"log_decay\", \"gain\" alone: 8 values: 32 bytes\n")) << text;
  const auto loaded = devices.memories[0]->Load(*model, {{16, 16}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->weight_bytes(), 32);
}

// A cell's text may come from anywhere, and names in it are anything.
TEST(ExplainPageTest, NothingThatAFileSaysIsAnElementOfThePage) {
  const std::string evil = "<script>alert(\"1\")</script>&";
  testing::CellBuilder b(evil);
  const ValueId x = b.Read(evil + "in", evil + "column", 4);
  b.Leave(evil + "out", b.Tanh(b.MatMul(x, b.Matrix(evil + "W", 4, 4))));
  std::shared_ptr<Model> model = testing::OneCellModel(b.Build());
  model->name = evil;
  const std::string html = ToHtml(Explained(*model, OneCpu(0)));
  EXPECT_FALSE(Has(html, "<script"));
  EXPECT_FALSE(Has(html, "\"1\""));
  EXPECT_TRUE(Has(html, "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;W"));
}

TEST(ExplainModelTest, ALongPartAndManyTypesAreCutAndSaySo) {
  constexpr int kGates = 60;
  testing::CellBuilder b("long");
  const ValueId x = b.Read("x", "x", 64);
  ValueId sum = x;
  for (int i = 0; i < kGates; ++i) {
    const std::string name = std::string(2000, 'n') + std::to_string(i);
    sum = b.Tanh(b.Add(sum, b.MatMul(x, b.Matrix(name, 64, 64))));
  }
  b.Leave("h", sum);
  const std::shared_ptr<Model> one = testing::OneCellModel(b.Build());
  Model many = *one;
  for (int i = 1; i < 40; ++i) {
    many.types.push_back(many.types[0]);
    many.types.back().id = CellTypeId(i);
  }
  const absl::StatusOr<ExplainedModel> explained =
      ExplainModel(many, SilentMemory(DeviceKind::kCpu), {});
  ASSERT_TRUE(explained.ok());
  EXPECT_GT(explained->left_out, 0);
  for (const ExplainedPart& part : explained->types[0].parts) {
    EXPECT_LT(part.text.size(), kMostPartBytes + 100);
  }
  const std::string text = ToText(*explained);
  EXPECT_LT(text.size(), 2 * kMostExplainedBytes);
  EXPECT_TRUE(Has(text, " bytes more\n"));
  EXPECT_TRUE(Has(text, " more cell types are left out\n"));
}

TEST(ExplainPageTest, APageIsMadeOnceForAVersionAndNeverForAModelThatIsNotServed) {
  FakeScheduler scheduler;
  const DeviceSet devices = OneCpu(0);
  std::shared_ptr<const Model> served = TinyModel();
  scheduler.calibration = Measured(*served);
  const ExplainPage page(
      scheduler, MemoriesIn(devices),
      [&](std::string_view name, std::string_view) -> absl::StatusOr<std::shared_ptr<const Model>> {
        if (name != "tiny") return absl::NotFoundError("there is no model <b>");
        return served;
      });
  EXPECT_EQ(page.Answer("other").status, 404);
  EXPECT_EQ(page.Answer("other").content_type, "text/plain; charset=utf-8");
  const HttpReply first = page.Answer("tiny");
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.content_type, "text/html; charset=utf-8");
  EXPECT_TRUE(Has(first.body, "version 1"));
  EXPECT_TRUE(Has(first.body, "b_max = 48"));
  scheduler.calibration.clear();  // whoever asked again would not find it
  EXPECT_EQ(page.Answer("tiny").body, first.body);
  served = TinyModel("tiny", /*version=*/2, /*id=*/1);
  EXPECT_TRUE(Has(page.Answer("tiny").body, "version 2"));
}

// Of a cell as deep as the limit on operators allows, asked for by a thread with as little stack as those of an HTTP
// library.
TEST(ExplainPageTest, APageOfAVeryDeepCellIsMadeForAThreadWithASmallStack) {
  testing::CellBuilder b("deep");
  ValueId value = b.Read("x", "x", 4);
  for (int i = 0; i < 500; ++i) value = b.Tanh(value);
  b.Leave("h", value);
  const std::shared_ptr<const Model> model = testing::OneCellModel(b.Build());
  FakeScheduler scheduler;
  const DeviceSet devices = OneCpu(0);
  const ExplainPage page(
      scheduler, MemoriesIn(devices),
      [&](std::string_view, std::string_view) -> absl::StatusOr<std::shared_ptr<const Model>> {
        return model;
      });
  struct Visit {
    const ExplainPage& page;
    HttpReply reply;
  } visit{page, {}};
  pthread_attr_t little;
  ASSERT_EQ(pthread_attr_init(&little), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&little, 100 << 10), 0);
  pthread_t visitor;
  const auto look = [](void* at) -> void* {
    auto& visit = *static_cast<Visit*>(at);
    visit.reply = visit.page.Answer("deep");
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&visitor, &little, look, &visit), 0);
  ASSERT_EQ(pthread_join(visitor, nullptr), 0);
  pthread_attr_destroy(&little);
  EXPECT_EQ(visit.reply.status, 200) << visit.reply.body;
  EXPECT_TRUE(Has(visit.reply.body, "tanh(tanh("));
}

}  // namespace
}  // namespace cellbatch
