#include "tests/e2e/day/day_models.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/e2e/server_process.h"
#include "tests/e2e/small_models.h"
#include "tests/fault/served_models.h"
#include "tests/testing/certificates.h"

namespace cellbatch {

namespace {

namespace fs = std::filesystem;

// Large enough for what stays of a version that was never let go of to be seen among a server's memory.
SmallModel WeightsOf(int model, int version) {
  return {.name = fmt::format("{}v{}", DayName(model), version),
          .hidden = 48 + 16 * (model % 3),
          .width = 8,
          .vocabulary = 50};
}

std::string TextOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// As a converted model's, without its name: a folder's is its model's.
std::string WithoutName(const std::string& config) {
  const size_t at = config.find("name: ");
  return config.substr(0, at) + config.substr(config.find('\n', at) + 1);
}

}  // namespace

std::string DayName(int model) { return fmt::format("m{:02}", model); }

const std::vector<int32_t>& DayTokens(int question) {
  static const std::vector<std::vector<int32_t>> kTokens = {
      {7}, {3, 1, 4, 1, 5}, {49, 0, 12, 8, 8, 31, 2, 44, 17, 5, 9, 23, 40}};
  return kTokens[static_cast<size_t>(question)];
}

DayModels::DayModels() : repository_(NewRepository()), all_(NewRepository()) {
  Build();
  Learn();
}

void DayModels::Build() {
  const std::string workshop = NewRepository();
  for (int model = 0; model < kDayModels; ++model) {
    const std::string whole = all_ + "/" + DayName(model);
    fs::create_directories(whole);
    for (int version = 1; version <= kDayVersions; ++version) {
      const SmallModel weights = WeightsOf(model, version);
      AddModel(workshop, weights);
      const std::string made = workshop + "/" + weights.name;
      fs::rename(made + "/1", whole + "/" + std::to_string(version));
      if (version > 1) continue;
      const std::string config = WithoutName(TextOf(made + "/config.textproto"));
      configs_[static_cast<size_t>(model)] = config;
      fs::create_directories(Folder(model));
      RestoreConfig(model);
      std::ofstream(whole + "/config.textproto") << config << "version_policy { all { } }\n";
    }
    SetVersions(model, {1});
  }
  fs::remove_all(workshop);
}

void DayModels::Learn() {
  const auto server = ServerProcess::Serving(all_, {"--devices=cpu:0", "--max-models=256"});
  ASSERT_NE(server, nullptr);
  GrpcCaller caller(server->grpc());
  for (int model = 0; model < kDayModels; ++model) {
    for (int version = 1; version <= kDayVersions; ++version) {
      for (int question = 0; question < kDayQuestions; ++question) {
        inference::ModelInferRequest request = Words(DayTokens(question), DayName(model));
        request.set_model_version(std::to_string(version));
        inference::ModelInferResponse answer;
        const grpc::Status status = caller.Infer(request, answer);
        ASSERT_TRUE(status.ok()) << status.error_message();
        const std::vector<float> values = FirstOutput(answer);
        const auto right = LstmReference(WeightsOf(model, version), DayTokens(question));
        ASSERT_EQ(values.size(), right.size());
        for (size_t i = 0; i < right.size(); ++i) ASSERT_NEAR(values[i], right[i], 1e-5);
        bits_[static_cast<size_t>(model)][static_cast<size_t>(version)]
             [static_cast<size_t>(question)] = answer.raw_output_contents(0);
      }
    }
  }
}

void DayModels::SetVersions(int model, const std::vector<int>& versions) const {
  const std::string aside = Aside(model);
  for (int version = 1; version <= kDayVersions + 1; ++version) {
    const std::string place = Folder(model) + "/" + std::to_string(version);
    if (fs::exists(place)) {
      fs::rename(place, aside);
      fs::remove_all(aside);
    }
  }
  for (const int version : versions) {
    fs::copy(fmt::format("{}/{}/{}", all_, DayName(model), version), aside);
    fs::rename(aside, Folder(model) + "/" + std::to_string(version));
  }
}

void DayModels::Damage(int model, int version, int kind) const {
  const std::string weights = "/weights.safetensors";
  const std::string served = std::to_string(version);
  const std::string whole =
      TextOf(fmt::format("{}/{}/{}{}", all_, DayName(model), version, weights));
  switch (kind) {
    case 0:  // a higher version that is none
      fs::create_directories(Aside(model));
      std::ofstream(Aside(model) + weights) << "nonsense";
      fs::rename(Aside(model), Folder(model) + "/" + std::to_string(kDayVersions + 1));
      break;
    case 1:  // a higher version that was not copied to its end
      fs::create_directories(Aside(model));
      std::ofstream(Aside(model) + weights) << whole.substr(0, whole.size() / 2);
      fs::rename(Aside(model), Folder(model) + "/" + std::to_string(kDayVersions + 1));
      break;
    case 2:  // the weights of the version that serves
      ReplaceFile(Folder(model) + "/" + served + weights, whole.substr(whole.size() / 2));
      break;
    default:
      ReplaceFile(Folder(model) + "/config.textproto", "name: { no textproto");
  }
}

void DayModels::RestoreConfig(int model) const {
  ReplaceFile(Folder(model) + "/config.textproto", configs_[static_cast<size_t>(model)]);
}

void DayModels::TakeAway(int model) const { fs::rename(Folder(model), Aside(model)); }
void DayModels::BringBack(int model) const { fs::rename(Aside(model), Folder(model)); }

}  // namespace cellbatch
