// Sequences that come in pieces (live streams): each piece begins from what the one before it left (cells/unfold/chain_states.h),
// and the bits of its answer are those of the sequence as a whole, however it was cut, whoever else is there, and whatever is
// done to the model when it is loaded.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "cells/unfold/unfolder.h"
#include "cells/weights/safetensors.h"
#include "scheduler/policy/make_rules.h"
#include "server/repository/model_loader.h"
#include "tests/golden/served.h"
#include "tests/testing/projected_cell.h"

namespace cellbatch {
namespace {

constexpr int64_t kWidth = 6, kUnits = 5, kVocabulary = 30;
constexpr size_t kStreams = 12;

struct Case {
  std::string name, cell;
  int64_t gates;
  std::vector<std::string> state;  // columns that steps carry
  bool tokens = false;
  std::string more = "";
  int layers = 2;
};

std::vector<Case> Cases() {
  const std::vector<std::string> hc = {"H", "C"};
  std::vector<Case> cases = {
      {"lstm", "lstm", 4, hc},
      {"gru", "gru", 3, {"H"}},
      {"lstmp", "lstmp", 4, hc},
      {"slstm", "slstm", 4, {"H", "C", "N", "M"}},
      {"lstm_of_tokens", "lstm", 4, hc, true},
      {"hoisted", "lstm", 4, hc, false, "hoist: ON"},
      {"projected", "projected", 1, {"M"}},
      {"deferred", "projected", 1, {"M"}, false, "defer: ON", 1},
      {"deferred_and_hoisted", "projected", 1, {"M"}, false, "defer: ON hoist: ON", 1},
      {"operators", "lstm", 4, hc, false, "granularity: OPERATOR"},
      {"level_rows", "gru", 3, {"H"}, false, "unfold { level_rows: ON }"},
  };
  for (const char* precision : {"FP32_SPLIT", "BF16", "W8"}) {
    cases.push_back(
        {precision, "lstm", 4, hc, false, fmt::format("precision: PRECISION_{}", precision)});
  }
  return cases;
}

using Floats = std::vector<float>;

// What is known of one of the sequences.
struct Stream {
  Floats x;  // or tokens' bits
  int64_t steps = 0, done = 0;
  std::map<std::string, Floats> left;  // by name of the tensor: ALL_HIDDEN so far, FINAL_..
};

class StreamsTest : public testing::TestWithParam<Case> {
 protected:
  StreamsTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ + "/1");
    std::ofstream(folder_ + "/projected.textproto") << kProjectedCell;
    const Case& c = GetParam();
    const int64_t left = c.cell == "lstmp" ? 3 : kUnits;
    for (int layer = 0; layer < c.layers; ++layer) {
      const std::string name = fmt::format("l{}", layer);
      const int64_t d = layer == 0 ? kWidth : left;
      AddTensor(name + ".W", c.gates * kUnits, d);
      AddTensor(name + ".U", c.gates * kUnits, c.cell == "projected" ? kUnits : left);
      std::string parameters = Parameter(name, "W") + Parameter(name, "U");
      if (c.cell == "lstmp") AddTensor(name + ".W_hr", left, kUnits);
      if (c.cell == "lstmp") parameters += Parameter(name, "W_hr");
      if (c.cell == "projected") AddTensor(name + ".P", 5, kUnits);
      if (c.cell == "projected") parameters += Parameter(name, "P");
      const bool embeds = layer == 0 && c.tokens;
      if (embeds) parameters += "parameters { name: \"embed/table\" tensors: \"embedding\" } ";
      types_ +=
          fmt::format("cell_types {{ name: \"{}\" cell: \"{}\" {} {} }}\n", name, c.cell,
                      embeds ? "reads { input: \"x\" through: \"embed\" }"
                             : (layer == 1 ? "reads { input: \"x\" through: \"below\" }" : ""),
                      parameters);
    }
    AddTensor("embedding", kVocabulary, kWidth);
    for (Stream& s : streams_) {
      s.steps = 1 + static_cast<int64_t>(random_() % 20);
      for (int64_t n = 0; n < s.steps * width(); ++n) {
        const auto word = static_cast<int32_t>(random_() % kVocabulary);
        s.x.push_back(GetParam().tokens ? std::bit_cast<float>(word) : Number());
      }
    }
  }

  static std::string Parameter(const std::string& type, const std::string& name) {
    return fmt::format("parameters {{ name: \"{1}\" tensors: \"{0}.{1}\" }} ", type, name);
  }
  float Number() { return std::uniform_real_distribution<float>(-0.7f, 0.7f)(random_); }
  void AddTensor(const std::string& name, int64_t rows, int64_t columns) {
    Floats values(static_cast<size_t>(rows * columns));
    for (float& v : values) v = Number();
    tensors_[name] = {{rows, columns}, std::move(values)};
  }
  int64_t width() const { return GetParam().tokens ? 1 : kWidth; }

  void Load() {
    std::ofstream(folder_ + "/config.textproto")
        << types_ << "chain { input: " << (GetParam().tokens ? "TOKENS" : "VECTORS")
        << " layers { forward: \"l0\" }"
        << (GetParam().layers == 2 ? " layers { forward: \"l1\" } }\n" : " }\n") << GetParam().more;
    std::vector<SafetensorsSource> sources;
    for (const auto& [name, tensor] : tensors_) {
      sources.push_back({name, tensor.first, tensor.second});
    }
    ASSERT_EQ(WriteSafetensors(folder_ + "/1/weights.safetensors", sources), absl::OkStatus());
    auto version = LoadVersion(folder_, "streams", 1, ModelId(1), {});
    ASSERT_TRUE(version.ok()) << version.status();
    model_ = version->model;
    auto served = golden::Served::Start(2);
    ASSERT_TRUE(served.ok()) << served.status();
    served_ = *std::move(served);
    auto rules = MakeRules(version->policy, version->join, model_->types.size());
    ASSERT_TRUE(rules.ok()) << rules.status();
    ASSERT_EQ(served_->scheduler().AddModel(model_, *std::move(rules)), absl::OkStatus());
  }

  // The next `steps` of some streams, end to end where there are several; `states`: they begin from what they have.
  CellGraph Next(absl::Span<Stream* const> streams, absl::Span<const int64_t> steps, bool states) {
    const bool many = streams.size() > 1;
    const auto count = static_cast<int64_t>(streams.size());
    std::vector<int32_t> lengths(steps.begin(), steps.end());
    Floats& x = kept_.emplace_back();
    for (size_t s = 0; s < streams.size(); ++s) {
      const auto at = streams[s]->x.begin() + streams[s]->done * width();
      x.insert(x.end(), at, at + steps[s] * width());
    }
    RequestInput input;
    const auto rows = static_cast<int64_t>(x.size()) / width();
    const auto add = [&](std::string_view name, WireType type, TensorDims dims,
                         const auto& values) {
      input.tensors.push_back(
          {name, type, std::move(dims),
           absl::MakeSpan(reinterpret_cast<const std::byte*>(values.data()), values.size() * 4)});
    };
    if (GetParam().tokens) {
      add("TOKENS", WireType::kInt32, {rows}, x);
    } else {
      add("X", WireType::kFp32, {rows, kWidth}, x);
    }
    if (many) add("LENGTHS", WireType::kInt32, {count}, lengths);
    std::vector<std::string> initials, outputs = {"ALL_HIDDEN"};
    for (const std::string& part : GetParam().state) {
      initials.push_back("INITIAL_" + part);
      outputs.push_back("FINAL_" + part);
    }
    for (size_t p = 0; states && p < initials.size(); ++p) {
      Floats& values = kept_.emplace_back();
      for (const Stream* s : streams) {
        const Floats& left = s->left.at(outputs[p + 1]);
        values.insert(values.end(), left.begin(), left.end());
      }
      TensorDims dims = {GetParam().layers, 0};
      dims[1] = static_cast<int64_t>(values.size()) / count / dims[0];
      if (many) dims.insert(dims.begin(), count);
      add(initials[p], WireType::kFp32, dims, values);
    }
    input.outputs.assign(outputs.begin(), outputs.end());
    CellGraph graph;
    EXPECT_EQ(model_->unfolder->Unfold(input, graph), absl::OkStatus());
    EXPECT_EQ(graph.Seal(*model_, 2), absl::OkStatus());
    return graph;
  }

  // Puts an answer's parts where they belong.
  static void Take(const Request& request, absl::Span<Stream* const> streams,
                   absl::Span<const int64_t> steps) {
    EXPECT_EQ(request.status, absl::OkStatus());
    int64_t all = 0;
    for (const int64_t n : steps) all += n;
    for (const ReturnedTensor& t : request.graph.tensors()) {
      const auto* at = reinterpret_cast<const float*>(t.bytes.data());
      const auto elements = static_cast<int64_t>(t.bytes.size() / sizeof(float));
      for (size_t s = 0; s < streams.size(); ++s) {
        Floats& left = streams[s]->left[t.name];
        const bool hidden = t.name == "ALL_HIDDEN";
        const int64_t mine =
            hidden ? elements / all * steps[s] : elements / static_cast<int64_t>(streams.size());
        if (!hidden) left.clear();
        left.insert(left.end(), at, at + mine);
        at += mine;
      }
    }
    for (size_t s = 0; s < streams.size(); ++s) streams[s]->done += steps[s];
  }

  // To their ends in pieces; those of one turn are in flight together, in one message or each in its own.
  std::vector<Stream> InPieces(const std::vector<Stream>& from, bool together) {
    std::vector<Stream> streams = from;
    for (bool states = false;; states = true) {
      std::vector<Stream*> live;
      std::vector<int64_t> steps;
      for (Stream& s : streams) {
        if (s.done == s.steps) continue;
        live.push_back(&s);
        steps.push_back(1 + static_cast<int64_t>(random_() % 6));
        steps.back() = std::min(steps.back(), s.steps - s.done);
      }
      if (live.empty()) return streams;
      std::vector<CellGraph> graphs;
      const size_t each = together ? live.size() : 1;
      for (size_t s = 0; s < live.size(); s += each) {
        graphs.push_back(Next(absl::MakeSpan(live).subspan(s, each),
                              absl::MakeSpan(steps).subspan(s, each), states));
      }
      const auto answers = served_->Answer(model_, std::move(graphs));
      for (size_t a = 0; a < answers.size(); ++a) {
        Take(*answers[a], absl::MakeSpan(live).subspan(a * each, each),
             absl::MakeSpan(steps).subspan(a * each, each));
      }
    }
  }
  // Each at once.
  std::vector<Stream> Whole(const std::vector<Stream>& from, bool states) {
    std::vector<Stream> streams = from;
    std::vector<CellGraph> graphs;
    for (Stream& s : streams) {
      Stream* const stream = &s;
      graphs.push_back(Next({&stream, 1}, {&s.steps, 1}, states));
    }
    const auto answers = served_->Answer(model_, std::move(graphs));
    for (size_t a = 0; a < answers.size(); ++a) {
      Stream* const stream = &streams[a];
      Take(*answers[a], {&stream, 1}, {&streams[a].steps, 1});
    }
    return streams;
  }

  const std::string folder_ = testing::TempDir() + "/streams";
  std::mt19937 random_{11};
  std::string types_;
  std::map<std::string, std::pair<std::vector<int64_t>, Floats>> tensors_;
  std::vector<Stream> streams_{kStreams};
  std::deque<Floats> kept_;  // what requests in flight read
  std::shared_ptr<const Model> model_;
  std::unique_ptr<golden::Served> served_;
};

// As they were said to be, bit for bit.
void ExpectSame(const std::vector<Stream>& a, const std::vector<Stream>& b) {
  for (size_t s = 0; s < a.size(); ++s) {
    ASSERT_EQ(a[s].left.size(), b[s].left.size());
    for (const auto& [name, values] : a[s].left) {
      const Floats& other = b[s].left.at(name);
      ASSERT_EQ(values.size(), other.size()) << name;
      EXPECT_EQ(std::memcmp(values.data(), other.data(), values.size() * sizeof(float)), 0)
          << name << " of stream " << s << " of " << a[s].steps << " steps";
    }
  }
}

TEST_P(StreamsTest, ASequenceInPiecesHasTheBitsOfTheWhole) {
  Load();
  if (HasFatalFailure()) return;
  const std::vector<Stream> whole = Whole(streams_, false);
  ExpectSame(whole, InPieces(streams_, false));
  ExpectSame(whole, InPieces(streams_, true));
}

// A first step from zeros that are brought reads what one from zeros that are not spares itself.
TEST_P(StreamsTest, ZerosThatAreBroughtAreTheZerosOfThoseThatBringNone) {
  Load();
  if (HasFatalFailure()) return;
  const std::vector<Stream> whole = Whole(streams_, false);
  std::vector<Stream> zeros = streams_;
  for (size_t s = 0; s < zeros.size(); ++s) {
    for (const auto& [name, values] : whole[s].left) {
      if (name != "ALL_HIDDEN") zeros[s].left[name].assign(values.size(), 0.0f);
    }
  }
  ExpectSame(whole, Whole(zeros, true));
}

INSTANTIATE_TEST_SUITE_P(Models, StreamsTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cellbatch
