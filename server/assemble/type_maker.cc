#include "server/assemble/type_maker.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "server/assemble/request_numbers.h"
#include "server/cells/cell_sizes.h"
#include "server/names/nearest_name.h"

namespace cellbatch {
namespace {

constexpr char kConfig[] = "config.textproto";
constexpr int64_t kMaxBatch = 1 << 16;

absl::Status Wrong(std::string text) { return absl::InvalidArgumentError(std::move(text)); }

int64_t OrOne(int64_t value) { return value == 0 ? 1 : value; }

// What `role` says of an input; none: nothing.
std::optional<InputSource> SourceOf(const TypeRole& role, std::string_view input) {
  for (const auto& [name, source] : role.inputs) {
    if (name == input) return source;
  }
  return role.others;
}

// Whether two definitions say the same; what a flop or a place is follows from that.
bool Same(const CellDefinition& a, const CellDefinition& b) {
  const auto op = [](const Op& x, const Op& y) {
    return std::tie(x.kind, x.args, x.attr, x.shape, x.type) ==
           std::tie(y.kind, y.args, y.attr, y.shape, y.type);
  };
  const auto input = [](const Input& x, const Input& y) {
    return std::tie(x.name, x.reads, x.arity) == std::tie(y.name, y.reads, y.arity);
  };
  const auto parameter = [](const Parameter& x, const Parameter& y) {
    return std::tie(x.name, x.shape, x.type) == std::tie(y.name, y.shape, y.type);
  };
  const auto output = [](const Output& x, const Output& y) {
    return std::tie(x.column, x.value) == std::tie(y.column, y.value);
  };
  return a.name() == b.name() && a.carry() == b.carry() && a.op_names() == b.op_names() &&
         std::ranges::equal(a.ops(), b.ops(), op) &&
         std::ranges::equal(a.inputs(), b.inputs(), input) &&
         std::ranges::equal(a.parameters(), b.parameters(), parameter) &&
         std::ranges::equal(a.outputs(), b.outputs(), output);
}

}  // namespace

TypeMaker::TypeMaker(const disk::ModelDescription& config, const ConfigPlaces& places,
                     FindCellText find_cell, WeightStore* weights, Model& model,
                     std::vector<std::string>& problems)
    : config_(config),
      places_(places),
      find_cell_(std::move(find_cell)),
      weights_(weights),
      model_(model),
      problems_(problems) {
  Index();
}

void TypeMaker::Index() {
  for (int i = 0; i < config_.cell_types_size(); ++i) {
    const disk::CellTypeConfig& type = config_.cell_types(i);
    const std::string& place = places_.cell_types[static_cast<size_t>(i)];
    if (type.name().empty()) Problem(fmt::format("{}: a cell type without a name", place));
    if (!by_name_.emplace(type.name(), i).second) {
      Problem(fmt::format("{}: two cell types are named \"{}\"", place, type.name()));
    }
    CheckLimits(type, place);
  }
}

void TypeMaker::CheckLimits(const disk::CellTypeConfig& type, const std::string& place) {
  const bool sane = type.min_batch() >= 0 && type.max_batch() >= 0 &&
                    type.max_batch() <= kMaxBatch &&
                    (type.max_batch() == 0 || OrOne(type.min_batch()) <= type.max_batch()) &&
                    type.min_batch() <= kMaxBatch;
  if (sane) return;
  Problem(
      fmt::format("{}: cell type \"{}\": min_batch {} and max_batch {}: allowed are 0 (as "
                  "measured) to {}, in this order",
                  place, type.name(), type.min_batch(), type.max_batch(), kMaxBatch));
}

void TypeMaker::NoteAll(int index, const absl::Status& wrong) {
  const std::string_view text(wrong.message().data(), wrong.message().size());
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    Problem(fmt::format("{}: cell type \"{}\": {}", places_.cell_types[static_cast<size_t>(index)],
                        config_.cell_types(index).name(), text.substr(begin, end - begin)));
    begin = end + 1;
  }
}

std::string TypeMaker::UnfolderPlace() const {
  const auto* field =
      disk::ModelDescription::descriptor()->FindFieldByNumber(config_.unfolder_case());
  return field == nullptr ? kConfig : places_.Of(field->name());
}

absl::StatusOr<CellText> TypeMaker::TextOf(const disk::CellTypeConfig& config) const {
  if (!config.has_inline_definition() && config.cell().empty()) {
    return Wrong("names no cell: cell: \"lstm\", say, or inline_definition { .. }");
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

absl::StatusOr<std::vector<KnownShape>> TypeMaker::KnownShapes(const disk::CellTypeConfig& config,
                                                               const CellText& text,
                                                               const TypeRole& role) {
  std::vector<KnownShape> known;
  std::vector<std::string> wrong;
  std::set<std::string> named;
  for (const disk::ParameterSource& source : config.parameters()) {
    if (!named.insert(source.name()).second) {
      wrong.push_back(fmt::format("parameter \"{}\" is there twice", source.name()));
      continue;
    }
    if (weights_ == nullptr) continue;
    const std::vector<std::string> tensors(source.tensors().begin(), source.tensors().end());
    absl::StatusOr<std::vector<int64_t>> shape = weights_->ShapeOf(tensors, source.transposed());
    if (shape.ok()) {
      known.push_back({source.name(), *std::move(shape),
                       fmt::format("tensor \"{}\"", fmt::join(tensors, "\" + \""))});
    } else {
      wrong.push_back(fmt::format("parameter \"{}\": {}{}", source.name(),
                                  std::string(shape.status().message()), MissingTensor(source)));
    }
  }
  for (const disk::CellParameter& p : text.message.parameters()) {
    if (p.optional() || named.contains(p.name())) continue;
    wrong.push_back(
        fmt::format("parameter \"{}\" of cell \"{}\" has no tensor; parameters {{ name: "
                    "\"{}\" tensors: \"..\" }} names it",
                    p.name(), text.message.name(), p.name()));
  }
  const std::vector<std::string> there = SizesOf(text);
  for (const auto& [size, value] : config.sizes()) {
    if (std::find(there.begin(), there.end(), size) != there.end()) continue;
    wrong.push_back(fmt::format("sizes: cell \"{}\" has no size \"{}\"{}", text.message.name(),
                                size, MeantOrThere(size, there)));
  }
  const Sizes sizes(config.sizes().begin(), config.sizes().end());
  if (absl::Status s = CheckShapes(text, sizes, known); !s.ok()) {
    wrong.emplace_back(s.message());
  }
  if (absl::Status s = CheckBelow(text, role); !s.ok()) wrong.emplace_back(s.message());
  if (!wrong.empty()) return Wrong(fmt::format("{}", fmt::join(wrong, "\n")));
  AddKnownWidths(text, role, known);
  return known;
}

std::string TypeMaker::MissingTensor(const disk::ParameterSource& source) const {
  std::vector<std::string> names;
  for (const SafetensorsEntry& entry : weights_->file().header().tensors) {
    names.push_back(entry.name);
  }
  for (const std::string& tensor : source.tensors()) {
    if (weights_->file().Find(tensor) == nullptr) return MeantOrThere(tensor, names);
  }
  return "";
}

// Types that leave the same columns share a table: the one made last is the nearest below.
std::string TypeMaker::LeftBy(TableId table) const {
  std::string name;
  for (const CellType& type : model_.types) {
    if (type.out == table) name = type.name;
  }
  return fmt::format("what cell type \"{}\" leaves", name);
}

std::vector<TypeMaker::ReadBelow> TypeMaker::ReadsBelow(const CellText& text,
                                                        const TypeRole& role) const {
  std::vector<ReadBelow> reads;
  for (const disk::CellInput& in : text.message.inputs()) {
    std::optional<InputSource> source = SourceOf(role, in.name());
    if (!source || source->kind != InputSource::Kind::kTable || in.name() == text.message.carry()) {
      continue;
    }
    reads.push_back({&in, *std::move(source)});
  }
  return reads;
}

absl::Status TypeMaker::CheckBelow(const CellText& text, const TypeRole& role) const {
  for (const auto& [in, source] : ReadsBelow(text, role)) {
    const TableSpec& table = model_.table(source.table);
    for (const disk::CellColumn& c : in->columns()) {
      const ElementType type = c.type() == disk::INT32 ? ElementType::kInt32 : ElementType::kFp32;
      const ColumnId found = table.Find(c.name());
      if (found.valid() && table.columns[static_cast<size_t>(found.value())].type == type) continue;
      // "below" and "pair" take an h and leave an x.
      const bool both = std::any_of(role.inputs.begin(), role.inputs.end(),
                                    [](const auto& named) { return named.first == "backward"; });
      const bool helps = in->columns_size() == 1 && c.name() == "x" && table.Find("h").valid();
      return Wrong(fmt::format(
          "input \"{}\" reads column \"{}\" {}, {} is {}{}{}", in->name(), c.name(), Name(type),
          LeftBy(source.table), ColumnsText(table.columns),
          helps
              ? fmt::format("; reads {{ input: \"{}\" through: \"{}\" }} puts a cell in front that "
                            "reads h and leaves x",
                            in->name(), both ? "pair" : "below")
              : "",
          source.remedy));
    }
  }
  return absl::OkStatus();
}

// What lies below is made: its widths are known.
void TypeMaker::AddKnownWidths(const CellText& text, const TypeRole& role,
                               std::vector<KnownShape>& known) const {
  for (const auto& [in, source] : ReadsBelow(text, role)) {
    const TableSpec& table = model_.table(source.table);
    for (const disk::CellColumn& c : in->columns()) {
      const ColumnId column = table.Find(c.name());
      if (!column.valid() || c.dims_size() != 1) continue;
      known.push_back({in->name() + "." + c.name(),
                       {table.columns[static_cast<size_t>(column.value())].width},
                       LeftBy(source.table),
                       source.remedy});
    }
  }
}

absl::Status TypeMaker::FillWeights(const disk::CellTypeConfig& config, const CellText& text,
                                    CellType& type) {
  for (const Parameter& p : type.definition->parameters()) {
    const auto source = std::find_if(config.parameters().begin(), config.parameters().end(),
                                     [&](const auto& s) { return s.name() == p.name; });
    if (source == config.parameters().end()) {
      type.weights.push_back(ZeroWeight(p.shape));
      continue;
    }
    const std::vector<std::string> tensors(source->tensors().begin(), source->tensors().end());
    absl::StatusOr<Weight> weight = weights_->Get(tensors, source->transposed());
    if (!weight.ok()) {
      return Wrong(fmt::format("parameter \"{}\" of cell \"{}\": {}", p.name, text.message.name(),
                               std::string(weight.status().message())));
    }
    type.weights.push_back(*std::move(weight));
  }
  return absl::OkStatus();
}

absl::StatusOr<TableId> TypeMaker::Resolve(const TypeRole& role, const InputSource& source,
                                           const Input& input, const CellType& type) {
  if (source.kind == InputSource::Kind::kTable) return source.table;
  if (source.kind == InputSource::Kind::kOwn) return type.out;
  // The request's rows are what the first cell that reads them says.
  if (input.reads.empty() || input.reads[0].type != source.type) {
    const bool ids = source.type == ElementType::kInt32;
    return Wrong(fmt::format(
        "reads {} by input \"{}\", the request's {} is {}, and {} is given it{}",
        input.reads.empty() ? "nothing" : Name(input.reads[0].type), input.name, source.name,
        Name(source.type), role.what,
        ids ? fmt::format("; reads {{ input: \"{}\" through: \"embed\" }} looks it up", input.name)
            : "; what is looked up comes as TOKENS"));
  }
  const auto found = request_.find(source.name);
  if (found != request_.end()) return found->second;
  model_.tables.push_back({source.name, input.reads});
  const TableId table(static_cast<int64_t>(model_.tables.size()) - 1);
  request_.emplace(source.name, table);
  return table;
}

TableId TypeMaker::TableLeft(std::string name, absl::Span<const Column> columns) {
  const std::set<TableId> request = RequestTables();
  for (size_t i = 0; i < model_.tables.size(); ++i) {
    const TableId table(static_cast<int64_t>(i));
    if (request.contains(table)) continue;
    if (absl::MakeConstSpan(model_.tables[i].columns) == columns) return table;
  }
  model_.tables.push_back({std::move(name), {columns.begin(), columns.end()}});
  return TableId(static_cast<int64_t>(model_.tables.size()) - 1);
}

absl::Status TypeMaker::FillTables(const TypeRole& role, CellType& type) {
  const CellDefinition& cell = *type.definition;
  // Tables of the request first, so that their numbers do not depend on what a cell leaves.
  for (size_t i = 0; i < cell.inputs().size(); ++i) {
    const std::optional<InputSource> source = SourceOf(role, cell.inputs()[i].name);
    if (cell.carry() == InputId(static_cast<int64_t>(i))) continue;
    if (!source) {
      return Wrong(fmt::format("has an input \"{}\", which {} does not feed", cell.inputs()[i].name,
                               role.what));
    }
    if (source->kind != InputSource::Kind::kRequest) continue;
    const absl::StatusOr<TableId> table = Resolve(role, *source, cell.inputs()[i], type);
    if (!table.ok()) return table.status();
  }
  type.out = TableLeft(fmt::format("{} of \"{}\"", cell.name(), type.name), cell.columns());
  for (size_t i = 0; i < cell.inputs().size(); ++i) {
    const bool carry = cell.carry() == InputId(static_cast<int64_t>(i));
    const InputSource source = carry ? InputSource::Own() : *SourceOf(role, cell.inputs()[i].name);
    const absl::StatusOr<TableId> table = Resolve(role, source, cell.inputs()[i], type);
    if (!table.ok()) return table.status();
    type.in.push_back(*table);
  }
  return absl::OkStatus();
}

std::shared_ptr<const CellDefinition> TypeMaker::Shared(CellDefinition cell) const {
  for (const CellType& type : model_.types) {
    if (Same(*type.definition, cell)) return type.definition;
  }
  return std::make_shared<const CellDefinition>(std::move(cell));
}

absl::Status TypeMaker::Make(const disk::CellTypeConfig& config, const TypeRole& role,
                             CellType& type) {
  absl::StatusOr<CellText> text = TextOf(config);
  if (text.ok() && role.labels) text = AddArgMax(*std::move(text), "y", "label");
  if (!text.ok()) return text.status();
  const auto known = KnownShapes(config, *text, role);
  if (!known.ok()) return known.status();
  absl::StatusOr<CellDefinition> cell =
      BuildCell(*text, Sizes(config.sizes().begin(), config.sizes().end()), *known);
  if (!cell.ok()) return cell.status();
  type.name = config.name();
  type.definition = Shared(*std::move(cell));
  type.min_batch = static_cast<int32_t>(OrOne(config.min_batch()));
  type.max_batch = config.max_batch();
  type.priority = config.priority();
  if (absl::Status s = FillWeights(config, *text, type); !s.ok()) return s;
  return FillTables(role, type);
}

CellTypeId TypeMaker::Add(const std::string& name, const TypeRole& role) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) {
    Problem(fmt::format("{}: {} names cell type \"{}\", which is not there{}", UnfolderPlace(),
                        role.what, name, MeantOrThere(name, TypeNames())));
    return CellTypeId();
  }
  if (made_.contains(name)) {
    Problem(
        fmt::format("{}: {}: cell type \"{}\" is used twice; each place takes a type of its own, "
                    "which may name the same tensors",
                    UnfolderPlace(), role.what, name));
    return CellTypeId();
  }
  made_[name] = CellTypeId();
  CellType type;
  type.id = CellTypeId(static_cast<int64_t>(model_.types.size()));
  const absl::Status s = Make(config_.cell_types(found->second), role, type);
  if (!s.ok()) {
    NoteAll(found->second, s);
    return CellTypeId();
  }
  model_.types.push_back(std::move(type));
  return made_[name] = model_.types.back().id;
}

absl::StatusOr<CellText> TypeMaker::TextOf(const std::string& type) const {
  const auto found = by_name_.find(type);
  if (found != by_name_.end()) return TextOf(config_.cell_types(found->second));
  return absl::NotFoundError(fmt::format("there is no cell type \"{}\"", type));
}

std::vector<std::string> TypeMaker::TypeNames() const {
  std::vector<std::string> names;
  for (const disk::CellTypeConfig& type : config_.cell_types()) names.push_back(type.name());
  return names;
}

TableId TypeMaker::RequestTable(std::string_view name) const {
  const auto found = request_.find(name);
  return found == request_.end() ? TableId() : found->second;
}

std::set<TableId> TypeMaker::RequestTables() const {
  std::set<TableId> tables;
  for (const auto& [name, table] : request_) tables.insert(table);
  return tables;
}

int64_t TypeMaker::LookupRows(TableId request) const {
  return RequestNumbers(model_, RequestTables()).LookupRows(request);
}

bool TypeMaker::CheckLookups() {
  const auto unheld = RequestNumbers(model_, RequestTables()).UnheldLookups();
  for (const auto& [type, text] : unheld) NoteAll(by_name_.at(type), Wrong(text));
  return unheld.empty();
}

void TypeMaker::CheckUnused() {
  for (const auto& [name, index] : by_name_) {
    if (made_.contains(name)) continue;
    Problem(fmt::format("{}: cell type \"{}\" is not used; nothing at {} names it",
                        places_.cell_types[static_cast<size_t>(index)], name, UnfolderPlace()));
  }
}

void TypeMaker::CheckRest() {
  for (const auto& [name, index] : by_name_) {
    if (made_.contains(name)) continue;
    const disk::CellTypeConfig& config = config_.cell_types(index);
    const absl::StatusOr<CellText> text = TextOf(config);
    const absl::Status s =
        text.ok() ? KnownShapes(config, *text, TypeRole{}).status() : text.status();
    if (!s.ok()) NoteAll(index, s);
  }
}

}  // namespace cellbatch
