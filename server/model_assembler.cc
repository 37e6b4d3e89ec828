#include "server/model_assembler.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

namespace cellbatch {
namespace {

constexpr char kConfig[] = "config.textproto";
constexpr int64_t kMaxBatch = 1 << 16;

absl::Status Wrong(std::string text) { return absl::InvalidArgumentError(std::move(text)); }

TableId TableOf(Model& model, std::string name, absl::Span<const Column> columns) {
  for (size_t i = 0; i < model.tables.size(); ++i) {
    if (absl::MakeConstSpan(model.tables[i].columns) == columns) {
      return TableId(static_cast<int64_t>(i));
    }
  }
  model.tables.push_back({std::move(name), {columns.begin(), columns.end()}});
  return TableId(static_cast<int64_t>(model.tables.size()) - 1);
}

int64_t OrOne(int64_t value) { return value == 0 ? 1 : value; }

}  // namespace

ModelAssembler::ModelAssembler(const disk::ModelDescription& config,
                               std::vector<std::string> places, FindCellText find_cell,
                               WeightStore& weights, const LoaderLimits& limits)
    : config_(config),
      places_(std::move(places)),
      find_cell_(std::move(find_cell)),
      weights_(weights),
      limits_(limits) {}

void ModelAssembler::CheckSettings() {
  if (config_.precision() == disk::PRECISION_BF16 ||
      config_.precision() == disk::PRECISION_FP32_SPLIT) {
    Problem(fmt::format("{}: precision {} is not offered yet, PRECISION_FP32 is", kConfig,
                        disk::Precision_Name(config_.precision())));
  }
  const int64_t length = config_.max_sequence_length();
  if (length < 0 || length > limits_.max_sequence_length) {
    Problem(fmt::format("{}: max_sequence_length is {}, this server's limit is {}", kConfig, length,
                        limits_.max_sequence_length));
  }
  if (!(config_.weight() >= 0 && config_.weight() <= 1e6)) {
    Problem(fmt::format("{}: weight is {}, allowed are 0 to 1e6", kConfig, config_.weight()));
  }
  if (config_.cell_types_size() > limits_.max_cell_types) {
    Problem(fmt::format("{}: {} cell types, the limit is {}", kConfig, config_.cell_types_size(),
                        limits_.max_cell_types));
  }
  if (!config_.has_chain())
    Problem(fmt::format("{}: no unfolder, such as chain {{ .. }}", kConfig));
}

void ModelAssembler::IndexTypes() {
  for (int i = 0; i < config_.cell_types_size(); ++i) {
    const disk::CellTypeConfig& type = config_.cell_types(i);
    const std::string& place = places_[static_cast<size_t>(i)];
    if (type.name().empty()) Problem(fmt::format("{}: a cell type without a name", place));
    if (!by_name_.emplace(type.name(), i).second) {
      Problem(fmt::format("{}: two cell types are named \"{}\"", place, type.name()));
    }
    const bool sane = type.min_batch() >= 0 && type.max_batch() >= 0 &&
                      type.max_batch() <= kMaxBatch &&
                      (type.max_batch() == 0 || OrOne(type.min_batch()) <= type.max_batch()) &&
                      type.min_batch() <= kMaxBatch;
    if (!sane) {
      Problem(
          fmt::format("{}: cell type \"{}\": min_batch {} and max_batch {}: allowed are 0 (as "
                      "measured) to {}, in this order",
                      place, type.name(), type.min_batch(), type.max_batch(), kMaxBatch));
    }
  }
}

absl::StatusOr<CellText> ModelAssembler::TextOf(const disk::CellTypeConfig& config) const {
  if (!config.has_inline_definition() && config.cell().empty()) {
    return Wrong("names no cell");
  }
  absl::StatusOr<CellText> text = config.has_inline_definition()
                                      ? CellText(WrapCell(config.inline_definition(), kConfig))
                                      : find_cell_(config.cell());
  for (const disk::ReadsThrough& reads : config.reads()) {
    if (!text.ok()) return text;
    const absl::StatusOr<CellText> front = find_cell_(reads.through());
    if (!front.ok()) return front.status();
    text = PutBefore(*front, *text, reads.input());
  }
  return text;
}

absl::StatusOr<std::vector<KnownShape>> ModelAssembler::KnownShapes(
    const disk::CellTypeConfig& config, const CellText& text, const Role& role,
    const Model& model) const {
  std::vector<KnownShape> known;
  std::set<std::string> named;
  for (const disk::ParameterSource& source : config.parameters()) {
    if (!named.insert(source.name()).second) {
      return Wrong(fmt::format("parameter \"{}\" is there twice", source.name()));
    }
    const std::vector<std::string> tensors(source.tensors().begin(), source.tensors().end());
    absl::StatusOr<std::vector<int64_t>> shape = weights_.ShapeOf(tensors, source.transposed());
    if (!shape.ok()) {
      return Wrong(fmt::format("parameter \"{}\": {}", source.name(),
                               std::string(shape.status().message())));
    }
    known.push_back({source.name(), *std::move(shape),
                     fmt::format("tensor \"{}\"", fmt::join(tensors, "\" + \""))});
  }
  for (const disk::CellParameter& p : text.message.parameters()) {
    if (p.optional() || named.contains(p.name())) continue;
    return Wrong(fmt::format("parameter \"{}\" of cell \"{}\" has no tensor", p.name(),
                             text.message.name()));
  }
  // What lies below is made: its widths are known.
  for (const disk::CellInput& in : text.message.inputs()) {
    if (role.below.empty() || in.name() == text.message.carry()) continue;
    const bool second = role.below.size() == 2 && in.name() == "backward";
    const TableSpec& table = model.table(role.below[second ? 1 : 0]);
    for (const disk::CellColumn& c : in.columns()) {
      const ColumnId column = table.Find(c.name());
      if (!column.valid() || c.dims_size() != 1) continue;
      known.push_back({in.name() + "." + c.name(),
                       {table.columns[static_cast<size_t>(column.value())].width},
                       "what the layer below leaves"});
    }
  }
  return known;
}

absl::Status ModelAssembler::FillWeights(const disk::CellTypeConfig& config, const CellText& text,
                                         CellType& type) {
  for (const Parameter& p : type.definition->parameters()) {
    const auto source = std::find_if(config.parameters().begin(), config.parameters().end(),
                                     [&](const auto& s) { return s.name() == p.name; });
    if (source == config.parameters().end()) {
      type.weights.push_back(ZeroWeight(p.shape));
      continue;
    }
    const std::vector<std::string> tensors(source->tensors().begin(), source->tensors().end());
    absl::StatusOr<Weight> weight = weights_.Get(tensors, source->transposed());
    if (!weight.ok()) {
      return Wrong(fmt::format("parameter \"{}\" of cell \"{}\": {}", p.name, text.message.name(),
                               std::string(weight.status().message())));
    }
    type.weights.push_back(*std::move(weight));
  }
  return absl::OkStatus();
}

absl::Status ModelAssembler::FillTables(const Role& role, CellType& type, Model& model) {
  const CellDefinition& cell = *type.definition;
  if (role.below.empty() && !request_.valid()) {
    // The request's rows are what the first cell that reads them says.
    for (size_t i = 0; i < cell.inputs().size(); ++i) {
      if (cell.carry() == InputId(static_cast<int64_t>(i))) continue;
      const bool tokens = config_.chain().input() == disk::TOKENS;
      const std::vector<Column>& reads = cell.inputs()[i].reads;
      if ((reads[0].type == ElementType::kInt32) != tokens) {
        return Wrong(fmt::format("reads {} by input \"{}\", the chain's input is {}",
                                 Name(reads[0].type), cell.inputs()[i].name,
                                 disk::ChainInput_Name(config_.chain().input())));
      }
      model.tables.push_back({tokens ? kTokensInput : kVectorsInput, reads});
      request_ = TableId(static_cast<int64_t>(model.tables.size()) - 1);
      break;
    }
    if (!request_.valid()) return Wrong("reads nothing beside what it carries");
  }
  type.out = TableOf(model, fmt::format("{} of \"{}\"", cell.name(), type.name), cell.columns());
  for (size_t i = 0; i < cell.inputs().size(); ++i) {
    TableId table = role.below.empty() ? request_ : role.below[0];
    if (role.below.size() == 2 && cell.inputs()[i].name == "backward") table = role.below[1];
    if (cell.carry() == InputId(static_cast<int64_t>(i))) table = type.out;
    type.in.push_back(table);
  }
  return absl::OkStatus();
}

absl::Status ModelAssembler::MakeType(const disk::CellTypeConfig& config, const Role& role,
                                      CellType& type, Model& model) {
  const absl::StatusOr<CellText> text = TextOf(config);
  if (!text.ok()) return text.status();
  const auto known = KnownShapes(config, *text, role, model);
  if (!known.ok()) return known.status();
  absl::StatusOr<CellDefinition> cell =
      BuildCell(*text, Sizes(config.sizes().begin(), config.sizes().end()), *known);
  if (!cell.ok()) return cell.status();
  type.name = config.name();
  type.definition = std::make_shared<CellDefinition>(*std::move(cell));
  type.min_batch = static_cast<int32_t>(OrOne(config.min_batch()));
  type.max_batch = config.max_batch();
  type.priority = config.priority();
  if (absl::Status s = FillWeights(config, *text, type); !s.ok()) return s;
  return FillTables(role, type, model);
}

CellTypeId ModelAssembler::AddType(const std::string& name, const Role& role, Model& model) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) {
    Problem(fmt::format("{}: chain: {} names cell type \"{}\", which is not there", kConfig,
                        role.what, name));
    return CellTypeId();
  }
  if (made_.contains(name)) {
    Problem(fmt::format("{}: chain: cell type \"{}\" is used twice", kConfig, name));
    return CellTypeId();
  }
  made_[name] = CellTypeId();
  CellType type;
  type.id = CellTypeId(static_cast<int64_t>(model.types.size()));
  const absl::Status s = MakeType(config_.cell_types(found->second), role, type, model);
  if (!s.ok()) {
    Problem(fmt::format("{}: cell type \"{}\": {}", places_[static_cast<size_t>(found->second)],
                        name, std::string(s.message())));
    return CellTypeId();
  }
  model.types.push_back(std::move(type));
  return made_[name] = model.types.back().id;
}

// The vocabulary: rows of the smallest table that a token of the request looks up.
int64_t ModelAssembler::LookupRows(const Model& model) const {
  int64_t rows = std::numeric_limits<int64_t>::max();
  for (const CellType& type : model.types) {
    for (const Op& op : type.definition->ops()) {
      if (op.kind != OpKind::kLookup) continue;
      const Op& index = type.definition->op(op.args[1]);
      if (index.kind != OpKind::kInput || type.in[static_cast<size_t>(index.attr[0])] != request_) {
        continue;
      }
      rows = std::min<int64_t>(rows, type.definition->op(op.args[0]).shape.rows);
    }
  }
  return rows == std::numeric_limits<int64_t>::max() ? 0 : rows;
}

void ModelAssembler::FinishChain(ChainSpec spec, Model& model) {
  const disk::Vocabulary& vocabulary = config_.vocabulary();
  spec.input = request_;
  const int64_t rows = LookupRows(model);
  spec.vocabulary_size = vocabulary.size() == 0 ? rows : vocabulary.size();
  spec.max_sequence_length = config_.max_sequence_length() == 0 ? limits_.max_sequence_length
                                                                : config_.max_sequence_length();
  if (vocabulary.size() < 0 || vocabulary.size() > rows) {
    Problem(fmt::format("{}: vocabulary size is {}, the embedding has {} rows", kConfig,
                        vocabulary.size(), rows));
    return;
  }
  auto unfolder = ChainUnfolder::Create(spec, model);
  if (!unfolder.ok()) {
    Problem(fmt::format("{}: {}", kConfig, std::string(unfolder.status().message())));
    return;
  }
  model.signature = (*unfolder)->MakeSignature();
  model.unfolder = *std::move(unfolder);
  if (vocabulary.out_of_vocabulary() == disk::UNKNOWN_WORD) {
    model.signature.out_of_vocabulary = OutOfVocabulary::kUnknown;
    model.signature.unknown_token = static_cast<int32_t>(vocabulary.unknown_id());
    if (vocabulary.unknown_id() < 0 || vocabulary.unknown_id() >= spec.vocabulary_size) {
      Problem(fmt::format("{}: unknown_id is {}, the vocabulary ends at {}", kConfig,
                          vocabulary.unknown_id(), spec.vocabulary_size - 1));
    }
  }
  for (const std::string& name : config_.optional_outputs()) {
    const auto output = std::find_if(model.signature.outputs.begin(), model.signature.outputs.end(),
                                     [&](const TensorSpec& t) { return t.name == name; });
    if (output != model.signature.outputs.end()) {
      output->listed = true;
    } else {
      Problem(fmt::format("{}: optional_outputs: the model has no output \"{}\"", kConfig, name));
    }
  }
}

void ModelAssembler::AssembleChain(Model& model) {
  const disk::ChainUnfolder& chain = config_.chain();
  if (chain.input() != disk::TOKENS && chain.input() != disk::VECTORS) {
    Problem(fmt::format("{}: chain: input is neither TOKENS nor VECTORS", kConfig));
    return;
  }
  ChainSpec spec;
  if (MakeChainTypes(chain, spec, model)) {
    for (const auto& [name, index] : by_name_) {
      if (made_.contains(name)) continue;
      Problem(fmt::format("{}: cell type \"{}\" is not used", places_[static_cast<size_t>(index)],
                          name));
    }
    FinishChain(std::move(spec), model);
  } else {
    CheckRest(model);
  }
}

// Bottom to top, because a layer's sizes may follow from the one below. False: one is broken.
bool ModelAssembler::MakeChainTypes(const disk::ChainUnfolder& chain, ChainSpec& spec,
                                    Model& model) {
  Role role{.what = "embedding", .below = {}};
  if (!chain.embedding().empty()) {
    spec.embedding = AddType(chain.embedding(), role, model);
    if (!spec.embedding.valid()) return false;
    role.below = {model.type(spec.embedding).out};
  }
  role.what = "layers";
  for (const disk::ChainLayer& layer : chain.layers()) {
    const bool both = !layer.backward().empty();
    ChainLayerSpec made{AddType(layer.forward(), role, model), {}};
    if (both) made.backward = AddType(layer.backward(), role, model);
    if (!made.forward.valid() || made.backward.valid() != both) return false;
    role.below = {model.type(made.forward).out};
    if (both) role.below.push_back(model.type(made.backward).out);
    spec.layers.push_back(made);
  }
  role.what = "head";
  if (chain.head().empty()) return true;
  spec.head = AddType(chain.head(), role, model);
  return spec.head.valid();
}

// What can be told of types that stand above a broken one: their texts and tensors.
void ModelAssembler::CheckRest(const Model& model) {
  for (const auto& [name, index] : by_name_) {
    if (made_.contains(name)) continue;
    const disk::CellTypeConfig& config = config_.cell_types(index);
    const absl::StatusOr<CellText> text = TextOf(config);
    const absl::Status s =
        text.ok() ? KnownShapes(config, *text, Role{.what = "", .below = {}}, model).status()
                  : text.status();
    if (s.ok()) continue;
    Problem(fmt::format("{}: cell type \"{}\": {}", places_[static_cast<size_t>(index)], name,
                        std::string(s.message())));
  }
}

void ModelAssembler::Assemble(Model& model) {
  CheckSettings();
  IndexTypes();
  if (config_.weight() > 0) model.weight = config_.weight();
  if (config_.has_chain()) AssembleChain(model);
  if (!problems_.empty()) return;
  if (absl::Status s = model.Validate(); !s.ok()) Problem(std::string(s.message()));
}

}  // namespace cellbatch
