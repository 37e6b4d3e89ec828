#include "cells/unfold/library_unfolder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <exception>
#include <utility>

#include "cells/unfold/library_builder.h"

// What the library holds: one model version while it is made, one request while it is unfolded.
struct CellbatchModel {
  cellbatch::LibraryModel& model;
  std::string problem;  // the first; empty: none

  int32_t Refuse(std::string what) {
    if (problem.empty()) problem = std::move(what);
    return CELLBATCH_FAILED;
  }
};
struct CellbatchBuilder : cellbatch::LibraryBuilder {
  using LibraryBuilder::LibraryBuilder;
};

namespace cellbatch {
namespace {

constexpr size_t kMaxDeclared = 64;  // inputs, and outputs, of one model
constexpr size_t kMaxName = 64;
constexpr int32_t kMaxRank = 8;

size_t Index(int64_t i) { return static_cast<size_t>(i); }

const NodeType* TypeAt(const CellbatchModel* m, int32_t type) {
  return type >= 0 && Index(type) < m->model.types.size() ? &m->model.types[Index(type)] : nullptr;
}

int32_t TypeCount(const CellbatchModel* m) { return static_cast<int32_t>(m->model.types.size()); }

int32_t FindType(const CellbatchModel* m, const char* name) {
  for (int32_t t = 0; t < TypeCount(m); ++t) {
    if (m->model.types[Index(t)].name == TextOf(name)) return t;
  }
  return CELLBATCH_NONE;
}

int32_t FindInput(const CellbatchModel* m, int32_t type, const char* name) {
  const NodeType* found = TypeAt(m, type);
  if (found == nullptr) return CELLBATCH_NONE;
  const std::string port = fmt::format("{}.{}", found->name, TextOf(name));
  for (size_t i = 0; i < found->ports.size(); ++i) {
    if (found->ports[i].name == port) return static_cast<int32_t>(i);
  }
  return CELLBATCH_NONE;
}

int32_t FindColumn(const CellbatchModel* m, int32_t type, const char* name) {
  if (TypeAt(m, type) == nullptr) return CELLBATCH_NONE;
  const std::vector<Column>& columns = m->model.columns[Index(type)];
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == TextOf(name)) return static_cast<int32_t>(i);
  }
  return CELLBATCH_NONE;
}

int32_t ColumnWidth(const CellbatchModel* m, int32_t type, int32_t column) {
  if (TypeAt(m, type) == nullptr) return CELLBATCH_NONE;
  const std::vector<Column>& columns = m->model.columns[Index(type)];
  return column >= 0 && Index(column) < columns.size() ? columns[Index(column)].width
                                                       : CELLBATCH_NONE;
}

// A tensor that the library declares. Empty name: it was refused.
TensorSpec Declared(CellbatchModel* m, const std::vector<TensorSpec>& others, const char* name,
                    int32_t type, int32_t rank, const int64_t* dims) {
  TensorSpec spec;
  const std::string text = TextOf(name);
  const bool letters = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-';
  });
  const bool again = std::any_of(others.begin(), others.end(),
                                 [&](const TensorSpec& other) { return other.name == text; });
  if (name == nullptr || text.empty() || text.size() > kMaxName || !letters || again) {
    m->Refuse(fmt::format("declares a tensor \"{}\"{}", text, again ? " a second time" : ""));
    return spec;
  }
  if (others.size() >= kMaxDeclared) {
    m->Refuse(fmt::format("declares more than {} tensors", kMaxDeclared));
    return spec;
  }
  if ((type != CELLBATCH_INT32 && type != CELLBATCH_FP32) || rank < 1 || rank > kMaxRank ||
      dims == nullptr) {
    m->Refuse(fmt::format("declares tensor \"{}\" of type {} and {} dimensions", text, type, rank));
    return spec;
  }
  for (int32_t d = 0; d < rank; ++d) {
    if (dims[d] == -1 || dims[d] >= 1) continue;
    m->Refuse(fmt::format("declares tensor \"{}\" with dimension {} of {}", text, d, dims[d]));
    return spec;
  }
  spec.name = text;
  spec.type = type == CELLBATCH_FP32 ? WireType::kFp32 : WireType::kInt32;
  spec.dims.assign(dims, dims + rank);
  return spec;
}

int32_t DeclareInput(CellbatchModel* m, const char* name, int32_t type, int32_t rank,
                     const int64_t* dims, int32_t optional) {
  std::vector<TensorSpec>& inputs = m->model.signature.inputs;
  TensorSpec spec = Declared(m, inputs, name, type, rank, dims);
  if (spec.name.empty()) return CELLBATCH_FAILED;
  spec.optional = optional != 0;
  inputs.push_back(std::move(spec));
  return 0;
}

int32_t DeclareOutput(CellbatchModel* m, const char* name, int32_t type, int32_t rank,
                      const int64_t* dims, int32_t listed) {
  std::vector<TensorSpec>& outputs = m->model.signature.outputs;
  TensorSpec spec = Declared(m, outputs, name, type, rank, dims);
  if (spec.name.empty()) return CELLBATCH_FAILED;
  spec.on_request = !outputs.empty();
  spec.listed = outputs.empty() || listed != 0;
  outputs.push_back(std::move(spec));
  return 0;
}

constexpr CellbatchHost kHost = {
    .size = sizeof(CellbatchHost),
    .version = CELLBATCH_UNFOLDER_VERSION,
    .type_count = TypeCount,
    .find_type = FindType,
    .find_input = FindInput,
    .find_column = FindColumn,
    .column_width = ColumnWidth,
    .declare_input = DeclareInput,
    .declare_output = DeclareOutput,
    .refuse = [](CellbatchModel* m, const char* why) { m->Refuse(TextOf(why)); },
    .find_tensor = [](CellbatchBuilder* b, const char* name) { return b->FindTensor(name); },
    .add_input = [](CellbatchBuilder* b, int32_t type, int32_t input, int32_t rows,
                    const void* data) { return b->AddInput(type, input, rows, data); },
    .add_nodes = [](CellbatchBuilder* b, int32_t type, int32_t length, const CellbatchLink* links,
                    int32_t count) { return b->AddNodes(type, length, links, count); },
    .add_output = [](CellbatchBuilder* b, const char* name, int32_t rank,
                     const int64_t* dims) { return b->AddOutput(name, rank, dims); },
    .return_rows =
        [](CellbatchBuilder* b, int32_t subgraph, int32_t column, int32_t first, int32_t count,
           int32_t output, int64_t offset, int64_t stride) {
          return b->ReturnRows(subgraph, column, first, count, output, offset, stride);
        },
    .reject = [](CellbatchBuilder* b, const char* why) { b->Reject(why); },
    .fail = [](CellbatchBuilder* b, const char* why) { b->Broke(TextOf(why)); },
    .grow = [](CellbatchBuilder* b, int32_t pieces) { return b->Grow(pieces); },
    .grow_nodes = [](CellbatchBuilder* b, int32_t type, int32_t nodes,
                     int32_t rows) { return b->GrowNodes(type, nodes, rows); },
    .grow_input = [](CellbatchBuilder* b, int32_t type, int32_t input,
                     int32_t rows) { return b->GrowInput(type, input, rows); },
    .keep_rows = [](CellbatchBuilder* b, int32_t subgraph) { return b->KeepRows(subgraph); },
    .add_unsent = [](CellbatchBuilder* b, int32_t type, int32_t rank,
                     const int64_t* dims) { return b->AddUnsent(type, rank, dims); },
    .output_data = [](CellbatchBuilder* b, int32_t output) { return b->OutputData(output); },
    .remember = [](CellbatchBuilder* b, void* memory,
                   void (*forget)(void*)) { return b->Remember(memory, forget); },
    .remembered = [](CellbatchBuilder* b) { return b->Remembered(); },
    .close = [](CellbatchBuilder* b) { return b->Close(); },
};

// Tables of before graphs could grow end here.
constexpr size_t kFirstSize = offsetof(CellbatchUnfolder, extend);

// What a request whose graph grows has become. The code that forgets the library's memory stays as long.
class LibraryProgress final : public Progress {
 public:
  LibraryProgress(std::shared_ptr<void> library, LibraryRequest so_far)
      : library_(std::move(library)), so_far_(std::move(so_far)) {}
  LibraryRequest& so_far() { return so_far_; }

 private:
  const std::shared_ptr<void> library_;
  LibraryRequest so_far_;
};

Growth GrowthOf(LibraryRequest so_far, std::shared_ptr<void> library) {
  Growth growth;
  growth.pieces = so_far.pieces;
  growth.nodes = so_far.more_nodes;
  growth.rows.assign(so_far.more_rows.begin(), so_far.more_rows.end());
  growth.progress = std::make_unique<LibraryProgress>(std::move(library), std::move(so_far));
  return growth;
}

// The one place where exceptions are expected: a library in C++ without the header's wrapper.
template <typename Code, typename Broken>
void Called(Code code, Broken broken) {
  try {
    code();
  } catch (const std::exception& e) {
    broken(fmt::format("threw {}", TextOf(e.what())));
  } catch (...) {
    broken(std::string("threw what is no std::exception"));
  }
}

absl::Status CheckTable(const CellbatchUnfolder* table) {
  const auto wrong = [](std::string text) { return absl::InvalidArgumentError(std::move(text)); };
  if (table == nullptr) return wrong("cellbatch_unfolder() answers null");
  if (table->version != CELLBATCH_UNFOLDER_VERSION) {
    return wrong(fmt::format("its table is of version {}, this server's is {}", table->version,
                             static_cast<int>(CELLBATCH_UNFOLDER_VERSION)));
  }
  if (table->size < kFirstSize) {
    return wrong(fmt::format("its table has {} bytes, version {} has {}", table->size,
                             table->version, kFirstSize));
  }
  if (table->create == nullptr || table->unfold == nullptr || table->destroy == nullptr) {
    return wrong("its table lacks create, unfold or destroy");
  }
  return absl::OkStatus();
}

absl::StatusOr<LibraryModel> MakeModel(const LibrarySpec& spec, const Model& model) {
  LibraryModel made{.name = spec.name,
                    .types = {},
                    .columns = {},
                    .tables = {},
                    .signature = {},
                    .limits = spec.limits};
  for (const CellTypeId id : spec.types) {
    absl::StatusOr<NodeType> type = MakeNodeType(model, id);
    if (!type.ok()) return type.status();
    made.types.push_back(*std::move(type));
    const absl::Span<const Column> columns = model.type(id).definition->columns();
    made.columns.emplace_back(columns.begin(), columns.end());
  }
  for (const BroughtInput& input : spec.inputs) {
    if (absl::Status s = MarkBrought(model, input, absl::MakeSpan(made.types)); !s.ok()) return s;
  }
  const absl::StatusOr<int32_t> phases = SetPhases(spec.phases, absl::MakeSpan(made.types));
  if (!phases.ok()) return phases.status();
  made.phases = *phases;
  for (const TableSpec& table : model.tables) made.tables.push_back(table.name);
  return made;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LibraryUnfolder>> LibraryUnfolder::Create(const LibrarySpec& spec,
                                                                         const Model& model) {
  const auto wrong = [&](std::string_view what) {
    return absl::InvalidArgumentError(fmt::format("unfolder library {}: {}", spec.name, what));
  };
  if (absl::Status s = CheckTable(spec.table); !s.ok()) return wrong(std::string(s.message()));
  absl::StatusOr<LibraryModel> types = MakeModel(spec, model);
  if (!types.ok()) return wrong(std::string(types.status().message()));
  std::unique_ptr<LibraryUnfolder> made(new LibraryUnfolder);
  made->model_ = *std::move(types);
  made->library_ = spec.library;
  made->table_ = spec.table;
  if (spec.table->size >= sizeof(CellbatchUnfolder)) made->extend_ = spec.table->extend;
  made->model_.extends = made->extend_ != nullptr;
  CellbatchModel library{made->model_, {}};
  Called([&] { made->self_ = spec.table->create(&kHost, &library, spec.config.c_str()); },
         [&](std::string what) { library.Refuse(fmt::format("create {}", what)); });
  if (!library.problem.empty()) return wrong(library.problem);
  if (made->self_ == nullptr) return wrong("create answers null and does not say why");
  if (made->model_.signature.outputs.empty()) return wrong("declares no output");
  return made;
}

LibraryUnfolder::~LibraryUnfolder() {
  if (self_ != nullptr) Called([&] { table_->destroy(self_); }, [](const std::string&) {});
}

RequestDescription LibraryUnfolder::Describe() const {
  RequestDescription described;
  described.users_own = true;
  return described;
}

absl::Status LibraryUnfolder::Unfold(const RequestInput& input, CellGraph& graph) const {
  LibraryRequest so_far;
  CellbatchBuilder builder(model_, input, graph, so_far, /*extends=*/false);
  int32_t answered = 0;
  Called([&] { answered = table_->unfold(self_, &kHost, &builder); },
         [&](const std::string& what) { builder.Broke(what); });
  absl::Status status = builder.Finish(answered);
  const bool grows = status.ok() && so_far.pieces > 0 && !so_far.closed;
  if (grows) graph.Grow(GrowthOf(std::move(so_far), library_));
  return status;
}

absl::Status LibraryUnfolder::Extend(const RequestInput& input, CellGraph& graph) const {
  LibraryRequest& so_far = static_cast<LibraryProgress&>(*graph.progress()).so_far();
  CellbatchBuilder builder(model_, input, graph, so_far, /*extends=*/true);
  int32_t answered = 0;
  Called([&] { answered = extend_(self_, &kHost, &builder); },
         [&](const std::string& what) { builder.Broke(what); });
  absl::Status status = builder.Finish(answered);
  if (status.ok() && so_far.closed) graph.CloseGrowth();
  return status;
}

}  // namespace cellbatch
