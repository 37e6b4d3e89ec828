#include "server/convert/precision_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "cells/device/open_devices.h"
#include "cells/unfold/unfolder.h"
#include "cells/weights/safetensors.h"
#include "scheduler/clock.h"
#include "scheduler/scheduler.h"
#include "server/repository/model_loader.h"

namespace cellbatch {
namespace {

constexpr int kSequences = 64, kMostSteps = 32;
constexpr uint64_t kMostInputBytes = uint64_t{1} << 30;

// One sequence as a request brings it: its words (int32 in a float's bytes) or numbers, `width` a step.
struct Sequence {
  std::vector<float> values;
  int64_t steps = 0;
};

// The model's only input that must be there.
absl::StatusOr<const TensorSpec*> InputOf(const Model& model) {
  const TensorSpec* found = nullptr;
  for (const TensorSpec& input : model.signature.inputs) {
    if (input.name == "TOKENS" || input.name == "X") found = &input;
  }
  if (found != nullptr) return found;
  return absl::UnimplementedError(
      "what a precision costs is measured of models that read X or TOKENS");
}

bool OfWords(const TensorSpec& input) { return input.type == WireType::kInt32; }
int64_t WidthOf(const TensorSpec& input) { return OfWords(input) ? 1 : input.dims.back(); }

float AsWord(int64_t word) { return std::bit_cast<float>(static_cast<int32_t>(word)); }

std::vector<Sequence> MadeUp(const TensorSpec& input, const Signature& signature) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  const int64_t most = std::min<int64_t>(kMostSteps, signature.max_sequence_length);
  std::vector<Sequence> sequences;
  for (int i = 0; i < kSequences; ++i) {
    Sequence s;
    s.steps = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most));
    for (int64_t n = 0; n < s.steps * WidthOf(input); ++n) {
      const auto words = static_cast<uint64_t>(std::max<int64_t>(1, signature.vocabulary_size));
      s.values.push_back(OfWords(input) ? AsWord(static_cast<int64_t>(random() % words))
                                        : normal(random));
    }
    sequences.push_back(std::move(s));
  }
  return sequences;
}

// Makes words of a given sequence's numbers; tells what is wrong with them, if anything is.
template <class Number>
std::string TakeWords(const std::vector<Number>& numbers, int64_t vocabulary,
                      std::vector<float>& words) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto number = static_cast<double>(numbers[i]);
    if (!(number >= 0 && number < static_cast<double>(vocabulary)) ||
        number != std::floor(number)) {
      return fmt::format("holds {}, words are numbered 0 to {}", numbers[i], vocabulary - 1);
    }
    words[i] = AsWord(static_cast<int64_t>(number));
  }
  return "";
}

// Of what is computed from a NaN nothing can be said to differ.
std::string CheckVectors(const std::vector<float>& numbers) {
  const auto bad = std::find_if(numbers.begin(), numbers.end(),
                                [](float number) { return !std::isfinite(number); });
  if (bad == numbers.end()) return "";
  return fmt::format("holds {} at element {}", *bad, bad - numbers.begin());
}

absl::StatusOr<Sequence> ReadSequence(const std::string& file, const SafetensorsFile& opened,
                                      const SafetensorsEntry& tensor, const TensorSpec& input,
                                      const Signature& signature) {
  const auto wrong = [&](const std::string& what) {
    return absl::InvalidArgumentError(fmt::format("{}: tensor \"{}\" {}", file, tensor.name, what));
  };
  const bool words = OfWords(input);
  const bool fits = words ? tensor.shape.size() == 1
                          : tensor.shape.size() == 2 && tensor.shape[1] == WidthOf(input);
  if (!fits) {
    return wrong(fmt::format("is {}, a sequence is {}", ShapeText(tensor.shape),
                             words ? "[T]" : fmt::format("[T, {}]", WidthOf(input))));
  }
  const int64_t longest = signature.max_sequence_length;
  if (tensor.shape[0] < 1 || tensor.shape[0] > longest) {
    return wrong(fmt::format("has {} steps, a sequence has 1 to {}", tensor.shape[0], longest));
  }
  Sequence s{std::vector<float>(static_cast<size_t>(tensor.num_elements())), tensor.shape[0]};
  std::string bad;
  if (words && !tensor.is_float()) {
    std::vector<int64_t> numbers(s.values.size());
    absl::Status read = opened.ReadIntegers(tensor, absl::MakeSpan(numbers));
    if (!read.ok()) return read;
    bad = TakeWords(numbers, signature.vocabulary_size, s.values);
  } else {
    absl::Status read = opened.ReadTensor(tensor, absl::MakeSpan(s.values));
    if (!read.ok()) return read;
    bad = words ? TakeWords(std::vector<float>(s.values), signature.vocabulary_size, s.values)
                : CheckVectors(s.values);
  }
  if (!bad.empty()) return wrong(bad);
  return s;
}

absl::StatusOr<std::vector<Sequence>> Given(const std::string& file, const TensorSpec& input,
                                            const Signature& signature) {
  auto opened = SafetensorsFile::Open(file, kMostInputBytes);
  if (!opened.ok()) return opened.status();
  std::vector<Sequence> sequences;
  for (const SafetensorsEntry& tensor : opened->header().tensors) {
    absl::StatusOr<Sequence> s = ReadSequence(file, *opened, tensor, input, signature);
    if (!s.ok()) return s.status();
    sequences.push_back(*std::move(s));
  }
  if (sequences.empty()) return absl::InvalidArgumentError(file + ": no tensor, no sequence");
  return sequences;
}

// A sequence's OUTPUT, and how many elements of it are a row.
struct Answer {
  std::vector<float> values;
  size_t width = 1;
};

absl::StatusOr<std::unique_ptr<Request>> RequestOf(const std::shared_ptr<const Model>& model,
                                                   const TensorSpec& spec, const Sequence& s,
                                                   int max_tasks_in_flight) {
  InputTensor tensor{spec.name, spec.type, {s.steps}, {}};
  if (!OfWords(spec)) tensor.dims.push_back(WidthOf(spec));
  tensor.bytes = {reinterpret_cast<const std::byte*>(s.values.data()),
                  s.values.size() * sizeof(float)};
  RequestInput input;
  input.tensors.push_back(tensor);
  auto request = std::make_unique<Request>();
  if (absl::Status u = model->unfolder->Unfold(input, request->graph); !u.ok()) return u;
  if (absl::Status u = request->graph.Seal(*model, max_tasks_in_flight); !u.ok()) return u;
  request->model = model;
  return request;
}

// One after the other: nothing here is in a hurry.
absl::StatusOr<std::vector<Answer>> Answers(Scheduler& scheduler,
                                            const std::shared_ptr<const Model>& model,
                                            const TensorSpec& spec,
                                            const std::vector<Sequence>& sequences) {
  if (absl::Status s = scheduler.AddModel(model, nullptr); !s.ok()) return s;
  std::vector<Answer> answers;
  for (const Sequence& sequence : sequences) {
    auto request = RequestOf(model, spec, sequence, scheduler.max_tasks_in_flight());
    if (!request.ok()) return request.status();
    if (!scheduler.Submit(*request).has_value()) {
      return absl::InternalError("a sequence was not taken");
    }
    std::unique_ptr<Request> done;
    while (scheduler.Take(OutboxId(0), {&done, 1}) == 0) {
      const bool managed = scheduler.StepManager();
      if (!scheduler.StepWorker(0) && !managed && !scheduler.DeviceHealth().ok()) {
        return scheduler.DeviceHealth();
      }
    }
    if (!done->status.ok()) return done->status;
    const ReturnedTensor& output = done->graph.tensors()[0];
    Answer answer;
    answer.width = output.dims.empty() ? 1 : static_cast<size_t>(output.dims.back());
    const auto* const values = reinterpret_cast<const float*>(output.bytes.data());
    answer.values.assign(values, values + output.bytes.size() / sizeof(float));
    answers.push_back(std::move(answer));
  }
  return answers;
}

void Compare(const std::vector<Answer>& floats, const std::vector<Answer>& answers,
             PrecisionCost& cost) {
  double apart = 0.0, norm = 0.0;
  for (size_t i = 0; i < floats.size(); ++i) {
    const std::vector<float>&one = floats[i].values, &other = answers[i].values;
    for (size_t n = 0; n < one.size(); ++n) {
      const double difference = double{other[n]} - one[n];
      apart += difference * difference;
      norm += double{one[n]} * one[n];
      cost.most = std::max(cost.most, std::abs(difference));
    }
    const auto width = static_cast<std::ptrdiff_t>(floats[i].width);
    for (auto a = one.begin(), b = other.begin(); a != one.end(); a += width, b += width) {
      ++cost.rows;
      const auto largest = [width](auto row) { return std::max_element(row, row + width) - row; };
      cost.other_largest += largest(a) != largest(b) ? 1 : 0;
    }
  }
  cost.of_norm = norm > 0.0 ? std::sqrt(apart / norm) : 0.0;
}

}  // namespace

absl::StatusOr<PrecisionCost> MeasurePrecisionCost(const std::string& folder,
                                                   const std::string& name, int64_t version,
                                                   const std::string& inputs) {
  auto opened = OpenDevices("cpu:0", {});
  if (!opened.ok()) return opened.status();
  LoaderLimits limits;
  limits.devices = opened->kinds();
  limits.splits_fp32 = opened->splits_fp32;
  auto model = LoadModel(folder, name, version, ModelId(0), limits);
  if (!model.ok()) return model.status();
  const auto input = InputOf(**model);
  if (!input.ok()) return input.status();
  const Signature& signature = (*model)->signature;
  auto given = inputs.empty() ? MadeUp(**input, signature) : Given(inputs, **input, signature);
  if (!given.ok()) return given.status();
  PrecisionCost cost;
  cost.computed = (*model)->precision;
  cost.sequences = inputs.empty() ? fmt::format("{} random sequences", given->size())
                                  : fmt::format("the {} sequences of {}", given->size(), inputs);
  for (const Sequence& s : *given) cost.steps += s.steps;
  if (cost.computed == Precision::kFp32) return cost;

  auto floats = std::make_shared<Model>(**model);
  floats->id = ModelId(1);
  floats->name += " in FP32";
  floats->precision = Precision::kFp32;
  for (CellType& type : floats->types) type.precision = Precision::kFp32;
  SchedulerOptions options;
  options.threads = false;
  options.calibrate = false;
  options.batch_limit = 1;
  const SteadyClock clock;
  auto scheduler = Scheduler::Create(options, std::move(opened->set), clock);
  if (!scheduler.ok()) return scheduler.status();
  const auto in_floats = Answers(**scheduler, floats, **input, *given);
  const auto answers = Answers(**scheduler, *model, **input, *given);
  (*scheduler)->Stop();
  if (!in_floats.ok()) return in_floats.status();
  if (!answers.ok()) return answers.status();
  Compare(*in_floats, *answers, cost);
  return cost;
}

std::string Describe(const PrecisionCost& cost) {
  if (cost.computed == Precision::kFp32) {
    return "error    none on this machine, whose CPU has nothing faster for it than FP32\n";
  }
  return fmt::format(
      "error    {} against FP32, {}, {} steps: {:.2g} % of OUTPUT's norm, at most {:.2g};\n"
      "         the largest of a row is another in {} of {}\n",
      Name(cost.computed), cost.sequences, cost.steps, 100.0 * cost.of_norm, cost.most,
      cost.other_largest, cost.rows);
}

}  // namespace cellbatch
