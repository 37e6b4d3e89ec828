#include "tests/testing/lattice_model.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "cells/check.h"
#include "cells/weights/safetensors.h"
#include "fmt/format.h"
#include "tests/testing/builders.h"

namespace cellbatch::testing {
namespace {

InputTensor Tensor(std::string_view name, const std::vector<int32_t>& values, TensorDims dims) {
  return {name,
          WireType::kInt32,
          std::move(dims),
          {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(int32_t)}};
}

CellDefinition MergeCell(int32_t h) {
  CellBuilder b("merge_lstm");
  const ValueId sum_h = b.Read("arcs", "h", h, ElementType::kFp32, Arity::kSum);
  const ValueId sum_c = b.Read("arcs", "c", h, ElementType::kFp32, Arity::kSum);
  b.Leave("h", sum_h);
  b.Leave("c", sum_c);
  return b.Build();
}

CellDefinition InitialCell(int32_t h) {
  CellBuilder b("start_lstm");
  const ValueId h0 = b.Vector("h0", h), c0 = b.Vector("c0", h);
  b.Leave("h", h0);
  b.Leave("c", c0);
  return b.Build();
}

// An arc whose cell makes no chains, though the character's may.
CellDefinition ArcCell(int32_t v, int32_t e, int32_t h, bool chains) {
  CellDefinition cell = TokenLstmCell(v, e, h);
  if (chains) return cell;
  auto made = CellDefinition::Create("arc_lstm", {cell.ops().begin(), cell.ops().end()},
                                     {cell.inputs().begin(), cell.inputs().end()},
                                     {cell.parameters().begin(), cell.parameters().end()},
                                     {cell.outputs().begin(), cell.outputs().end()}, std::nullopt);
  Check(made.ok(), made.status().ToString());
  return *std::move(made);
}

double Sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

const Weight& WeightOf(const CellType& type, std::string_view name) {
  const absl::Span<const Parameter> parameters = type.definition->parameters();
  const auto found = std::find_if(parameters.begin(), parameters.end(),
                                  [&](const Parameter& p) { return p.name == name; });
  return type.weights[static_cast<size_t>(found - parameters.begin())];
}

// y += W x, W [rows, x.size()].
void AddProduct(const Weight& w, const std::vector<double>& x, std::vector<double>& y) {
  for (size_t r = 0; r < y.size(); ++r) {
    for (size_t k = 0; k < x.size(); ++k) y[r] += double{w.data[r * x.size() + k]} * x[k];
  }
}

}  // namespace

RequestInput LatticeRequest::Input(std::vector<std::string_view> outputs) const {
  RequestInput input;
  input.tensors.push_back(Tensor("CHARS", chars, {static_cast<int64_t>(chars.size())}));
  if (!words.empty()) {
    input.tensors.push_back(Tensor("WORDS", words, {static_cast<int64_t>(words.size() / 3), 3}));
  }
  if (!lengths.empty()) {
    input.tensors.push_back(Tensor("LENGTHS", lengths, {static_cast<int64_t>(lengths.size())}));
  }
  input.outputs = std::move(outputs);
  return input;
}

LatticeRequest RandomLattice(std::mt19937_64& random, int most) {
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  LatticeRequest request;
  const int n = pick(1, most);
  for (int i = 0; i < n; ++i) request.chars.push_back(pick(0, 19));
  std::vector<std::array<int32_t, 3>> words;
  for (int i = pick(0, n); i > 0; --i) {
    const int start = pick(0, n - 1);
    words.push_back({start, std::min(n, start + pick(1, pick(0, 5) == 0 ? 12 : 3)), pick(0, 29)});
  }
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  std::shuffle(words.begin(), words.end(), random);
  for (const auto& word : words) {
    request.words.insert(request.words.end(), word.begin(), word.end());
  }
  return request;
}

std::vector<LatticeRequest> ReadLattices(const std::string& file, int32_t characters,
                                         int32_t words) {
  const char* folder = std::getenv("CELLBATCH_DATA");
  std::ifstream lines(std::string(folder == nullptr ? "../shared/data" : folder) + "/" + file);
  std::vector<LatticeRequest> lattices;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    LatticeRequest& lattice = lattices.emplace_back();
    for (const int32_t id : json["char_ids"]) lattice.chars.push_back(id % characters);
    for (size_t i = 0; i < json["words"].size(); ++i) {
      lattice.words.push_back(json["words"][i][0].get<int32_t>());
      lattice.words.push_back(json["words"][i][1].get<int32_t>());
      lattice.words.push_back(json["word_ids"][i].get<int32_t>() % words);
    }
  }
  return lattices;
}

LatticeModel::LatticeModel(const LatticeModelSpec& sizes) : sizes_(sizes) {
  ModelBuilder builder("lattice");
  spec_.character =
      builder.Add(ArcCell(sizes.characters, sizes.embedding, sizes.hidden, sizes.chains), 1);
  spec_.word = builder.Add(ArcCell(sizes.words, sizes.embedding, sizes.hidden, sizes.chains), 2);
  spec_.merge = builder.Add(MergeCell(sizes.hidden), 3);
  for (const CellTypeId arc : {spec_.character, spec_.word}) {
    builder.Connect(arc, "before", spec_.character);
  }
  if (sizes.initial) spec_.initial = builder.Add(InitialCell(sizes.hidden), 4);
  if (sizes.output) {
    spec_.output = builder.Add(LinearCell(sizes.hidden, 2, "h"), 5);
    builder.Connect(spec_.output, "x", spec_.character);
  }
  model_ = builder.Build();
  spec_.characters = spec_.words = FindTable(*model_, "token");
  spec_.known_characters.size = sizes.characters;
  spec_.known_words.size = sizes.words;
  spec_.max_characters = sizes.max_characters;
  spec_.max_nodes = sizes.max_nodes;
  auto unfolder = LatticeUnfolder::Create(spec_, *model_);
  Check(unfolder.ok(), unfolder.status().ToString());
  model_->signature = (*unfolder)->MakeSignature();
  model_->unfolder = *std::move(unfolder);
}

CellGraph LatticeModel::Graph(const LatticeRequest& request,
                              std::vector<std::string_view> outputs) const {
  CellGraph graph;
  absl::Status status = unfolder().Unfold(request.Input(std::move(outputs)), graph);
  if (status.ok()) status = graph.Seal(*model_, 2);
  Check(status.ok(), status.ToString());
  return graph;
}

// i, f, g, o = W E[id] + U h + b_in + b_rec; c' = f c + i g; h' = o tanh(c').
LatticeModel::State LatticeModel::Arc(CellTypeId type, int32_t id, const State& before) const {
  const CellType& cell = model_->type(type);
  const Weight &b_in = WeightOf(cell, "b_in"), &b_rec = WeightOf(cell, "b_rec");
  const auto units = static_cast<size_t>(sizes_.hidden);
  const auto width = static_cast<size_t>(sizes_.embedding);
  const float* const row = WeightOf(cell, "E").data.get() + static_cast<size_t>(id) * width;
  Vector gates(4 * units);
  for (size_t r = 0; r < gates.size(); ++r) gates[r] = double{b_in.data[r]} + b_rec.data[r];
  AddProduct(WeightOf(cell, "W"), Vector(row, row + width), gates);
  AddProduct(WeightOf(cell, "U"), before.h, gates);
  State after{Vector(units), Vector(units)};
  for (size_t u = 0; u < units; ++u) {
    const double i = Sigmoid(gates[u]), f = Sigmoid(gates[units + u]);
    const double g = std::tanh(gates[2 * units + u]), o = Sigmoid(gates[3 * units + u]);
    after.c[u] = f * before.c[u] + i * g;
    after.h[u] = o * std::tanh(after.c[u]);
  }
  return after;
}

LatticeModel::Answers LatticeModel::Reference(const LatticeRequest& request) const {
  const auto units = static_cast<size_t>(sizes_.hidden);
  std::vector<State> states;
  Answers answers;
  std::vector<int32_t> lengths = request.lengths;
  if (lengths.empty()) lengths.push_back(static_cast<int32_t>(request.chars.size()));
  int32_t offset = 0;
  std::vector<std::vector<size_t>> ending(request.chars.size() + 1);  // words, by where they end
  for (size_t w = 0; w < request.words.size(); w += 3) {
    ending[static_cast<size_t>(request.words[w + 1])].push_back(w);
  }
  for (const int32_t length : lengths) {
    states.assign(1, {Vector(units), Vector(units)});
    if (sizes_.initial) {
      const CellType& type = model_->type(spec_.initial);
      const float* const h0 = WeightOf(type, "h0").data.get();
      const float* const c0 = WeightOf(type, "c0").data.get();
      states[0] = {Vector(h0, h0 + units), Vector(c0, c0 + units)};
    }
    for (int32_t p = 1; p <= length; ++p) {
      State sum = Arc(spec_.character, request.chars[static_cast<size_t>(offset + p - 1)],
                      states[static_cast<size_t>(p - 1)]);
      for (const size_t w : ending[static_cast<size_t>(offset + p)]) {
        const State arc = Arc(spec_.word, request.words[w + 2],
                              states[static_cast<size_t>(request.words[w] - offset)]);
        for (size_t u = 0; u < units; ++u) {
          sum.h[u] += arc.h[u];
          sum.c[u] += arc.c[u];
        }
      }
      answers.h.insert(answers.h.end(), sum.h.begin(), sum.h.end());
      answers.c.insert(answers.c.end(), sum.c.begin(), sum.c.end());
      if (sizes_.output) {
        const CellType& type = model_->type(spec_.output);
        const float* const bias = WeightOf(type, "b").data.get();
        Vector y(bias, bias + 2);
        AddProduct(WeightOf(type, "W"), sum.h, y);
        answers.y.insert(answers.y.end(), y.begin(), y.end());
      }
      states.push_back(std::move(sum));
    }
    offset += length;
  }
  return answers;
}

void LatticeModel::Save(const std::string& folder, const std::string& extra) const {
  std::vector<SafetensorsSource> tensors;
  for (const CellType& type : model_->types) {
    for (size_t p = 0; p < type.weights.size(); ++p) {
      const Parameter& parameter = type.definition->parameters()[p];
      const Shape shape = parameter.shape;
      std::vector<int64_t> dims = {shape.cols};
      if (!shape.is_vector()) dims.insert(dims.begin(), shape.rows);
      tensors.push_back({fmt::format("{}.{}", type.id.value(), parameter.name),
                         std::move(dims),
                         {type.weights[p].data.get(), static_cast<size_t>(shape.size())}});
    }
  }
  std::filesystem::create_directories(folder + "/1");
  const absl::Status written = WriteSafetensors(folder + "/1/weights.safetensors", tensors);
  Check(written.ok(), written.ToString());
  std::ofstream config(folder + "/config.textproto");
  const auto arc = [&](const char* name, CellTypeId id) {
    config << fmt::format(R"(cell_types {{
  name: "{0}" cell: "lstm"
  reads {{ input: "x" through: "embed" }}
  parameters {{ name: "embed/table" tensors: "{1}.E" }}
  parameters {{ name: "W" tensors: "{1}.W" }}
  parameters {{ name: "U" tensors: "{1}.U" }}
  parameters {{ name: "b" tensors: "{1}.b_in" tensors: "{1}.b_rec" }}
}}
)",
                          name, id.value());
  };
  arc("characters", spec_.character);
  arc("words", spec_.word);
  config << "cell_types { name: \"merge\" cell: \"merge_lstm\" }\n";
  std::string more;
  if (spec_.initial.valid()) {
    config << fmt::format(R"(cell_types {{
  name: "start" cell: "start_lstm"
  parameters {{ name: "h0" tensors: "{0}.h0" }}
  parameters {{ name: "c0" tensors: "{0}.c0" }}
}}
)",
                          spec_.initial.value());
    more += " initial: \"start\"";
  }
  if (spec_.output.valid()) {
    config << fmt::format(R"(cell_types {{
  name: "tag" cell: "linear"
  reads {{ input: "x" through: "below" }}
  parameters {{ name: "W" tensors: "{0}.W" }}
  parameters {{ name: "b" tensors: "{0}.b" }}
}}
)",
                          spec_.output.value());
    more += " output: \"tag\"";
  }
  config << "lattice { character: \"characters\" word: \"words\" merge: \"merge\"" << more << " }\n"
         << "max_sequence_length: " << sizes_.max_characters << "\nmax_nodes: " << sizes_.max_nodes
         << "\n"
         << extra;
}

}  // namespace cellbatch::testing
