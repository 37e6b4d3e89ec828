#include "cells/unfold/library_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace cellbatch {
namespace {

constexpr int64_t kElement = 4;   // bytes
constexpr size_t kMaxText = 800;  // bytes of a library's text that are passed on

size_t Index(int64_t i) { return static_cast<size_t>(i); }

// Whether first, first + stride, .. (count of them) lie in [0, length).
bool InRange(int64_t first, int64_t stride, int64_t count, int64_t length) {
  const int64_t last = first + stride * (count - 1);
  return std::min(first, last) >= 0 && std::max(first, last) < length;
}

}  // namespace

std::string TextOf(const char* text) {
  if (text == nullptr) return "(no text)";
  return std::string(text, strnlen(text, kMaxText));
}

LibraryBuilder::LibraryBuilder(const LibraryModel& model, const RequestInput& input,
                               CellGraph& graph, LibraryRequest& so_far, bool extends)
    : model_(model),
      input_(input),
      graph_(graph),
      so_far_(so_far),
      extends_(extends),
      first_(static_cast<int32_t>(so_far.made.size())) {
  tensors_.reserve(input.tensors.size());
  for (const InputTensor& t : input.tensors) {
    tensors_.push_back({.type = t.type == WireType::kFp32 ? CELLBATCH_FP32 : CELLBATCH_INT32,
                        .rank = static_cast<int32_t>(t.dims.size()),
                        .dims = t.dims.data(),
                        .data = t.bytes.data(),
                        .bytes = static_cast<int64_t>(t.bytes.size())});
  }
}

int32_t LibraryBuilder::Fail(std::string_view function, std::string_view what) {
  if (!failed()) {
    status_ = absl::InternalError(
        fmt::format("unfolder library {}: {}: {}", model_.name, function, what));
  }
  return CELLBATCH_FAILED;
}

int32_t LibraryBuilder::TooMuch(std::string_view function, std::string_view what) {
  if (!failed()) {
    status_ = absl::InvalidArgumentError(
        fmt::format("unfolder library {}: {}: {}", model_.name, function, what));
  }
  return CELLBATCH_FAILED;
}

void LibraryBuilder::Reject(const char* why) {
  if (!failed()) status_ = absl::InvalidArgumentError(TextOf(why));
}

const CellbatchTensor* LibraryBuilder::FindTensor(const char* name) const {
  if (name == nullptr) return nullptr;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (input_.tensors[i].name == name) return &tensors_[i];
  }
  return nullptr;
}

const NodeType* LibraryBuilder::TypeAt(std::string_view function, int32_t type) {
  if (failed()) return nullptr;
  if (type >= 0 && Index(type) < model_.types.size()) return &model_.types[Index(type)];
  Fail(function, fmt::format("type {}, there are {}", type, model_.types.size()));
  return nullptr;
}

const Port* LibraryBuilder::BroughtPort(std::string_view function, const NodeType& type,
                                        int32_t input) {
  const bool there = input >= 0 && Index(input) < type.ports.size();
  if (there && type.ports[Index(input)].brought) return &type.ports[Index(input)];
  Fail(function,
       fmt::format("input {} of type \"{}\" is none that the request brings", input, type.name));
  return nullptr;
}

// Rows inside the request are read where they are; others are kept. Null: too many bytes.
const std::byte* LibraryBuilder::RowsOf(const void* data, int64_t bytes) {
  const auto from = reinterpret_cast<uintptr_t>(data);
  for (const InputTensor& t : input_.tensors) {
    const auto begin = reinterpret_cast<uintptr_t>(t.bytes.data());
    if (from < begin || from % kElement != 0) continue;
    const uint64_t at = from - begin;
    if (at <= t.bytes.size() && static_cast<uint64_t>(bytes) <= t.bytes.size() - at) {
      return t.bytes.data() + at;
    }
  }
  so_far_.kept_bytes += bytes;
  if (so_far_.kept_bytes > model_.limits.max_kept_bytes) {
    TooMuch("add_input", fmt::format("{} bytes of rows that do not lie in the request, the limit "
                                     "is {}",
                                     so_far_.kept_bytes, model_.limits.max_kept_bytes));
    return nullptr;
  }
  std::byte* kept = graph_.Keep(bytes);
  std::memcpy(kept, data, Index(bytes));
  return kept;
}

// Numbers that cells look up lie in the vocabulary, or become what the model says. Null: they do not.
const std::byte* LibraryBuilder::Known(const Port& port, const std::byte* rows, int64_t elements) {
  if (!port.ids() || port.known.size == 0) return rows;
  const InputTensor ids = {
      port.name, WireType::kInt32, {elements}, {rows, Index(elements * kElement)}};
  const absl::StatusOr<const std::byte*> known = KnownIds(ids, "value", port.known, graph_);
  if (known.ok()) return *known;
  TooMuch("add_input", std::string(known.status().message()));
  return nullptr;
}

int32_t LibraryBuilder::AddInput(int32_t type_number, int32_t input, int32_t rows,
                                 const void* data) {
  const NodeType* type = TypeAt("add_input", type_number);
  if (type == nullptr) return CELLBATCH_FAILED;
  const Port* const found = BroughtPort("add_input", *type, input);
  if (found == nullptr) return CELLBATCH_FAILED;
  const Port& port = *found;
  if (rows < 1 || data == nullptr) {
    return Fail("add_input", fmt::format("{} rows for {} at {}", rows, port.name,
                                         data == nullptr ? "null" : "their address"));
  }
  const int64_t elements = int64_t{rows} * port.width;
  const std::byte* kept = RowsOf(data, elements * kElement);
  if (kept != nullptr) kept = Known(port, kept, elements);
  if (kept == nullptr) return CELLBATCH_FAILED;
  so_far_.made.push_back({-1, port.table, rows});
  return graph_.AddInput(port.table, rows, kept).value();
}

std::string LibraryBuilder::CheckLink(const NodeType& type, int32_t length,
                                      const CellbatchLink& link) const {
  if (link.input < 0 || Index(link.input) >= type.ports.size()) {
    return fmt::format("input {}, the type has {}", link.input, type.ports.size());
  }
  const Port& port = type.ports[Index(link.input)];
  if (link.from == CELLBATCH_ZEROS) return "";
  if (link.from < 0 || Index(link.from) >= so_far_.made.size()) {
    return fmt::format("{} reads subgraph {}; the {} before it can be read", port.name, link.from,
                       so_far_.made.size());
  }
  const Made& from = so_far_.made[Index(link.from)];
  if (from.table != port.table) {
    return fmt::format("{} reads rows of \"{}\", subgraph {} leaves rows of \"{}\"", port.name,
                       model_.tables[Index(port.table.value())], link.from,
                       model_.tables[Index(from.table.value())]);
  }
  const int64_t reads = port.carry ? 1 : length;
  if (link.stride < -1 || link.stride > 1 ||
      !InRange(link.first, link.stride, reads, from.length)) {
    return fmt::format("{} reads nodes {}, {} further each of {}, of subgraph {}, which has {}",
                       port.name, link.first, link.stride, reads, link.from, from.length);
  }
  const bool last_alone = link.first == from.length - 1 && (reads == 1 || link.stride == 0);
  if (link.from < first_ && !last_alone &&
      graph_.subgraphs()[Index(link.from)].ring < from.length) {
    return fmt::format(
        "{} reads node {} of subgraph {}, an earlier piece's chain of {}, which kept "
        "its last one (keep_rows)",
        port.name, link.first, link.from, from.length);
  }
  return "";
}

// How many links each input has: links_ holds those of one call.
bool LibraryBuilder::CheckCounts(const NodeType& type) {
  std::array<int32_t, kMaxInputs> count = {};
  for (const Link& link : links_) {
    const Port& port = type.ports[Index(link.input.value())];
    const int32_t most = port.sums ? kMaxSumLinks : 1;
    if (++count[Index(link.input.value())] <= most) continue;
    Fail("add_nodes", fmt::format("subgraph {}: {} has {} links or more, {} may be",
                                  so_far_.made.size(), port.name, most + 1, most));
    return false;
  }
  return true;
}

bool LibraryBuilder::CountNodes(int32_t length, int32_t num_links) {
  const LibraryLimits& limits = model_.limits;
  so_far_.links += num_links;
  if (extends_ && length > so_far_.more_nodes) {
    Fail("add_nodes", fmt::format("{} cells, of those that grow_nodes said {} are left", length,
                                  so_far_.more_nodes));
  } else if (extends_) {
    so_far_.more_nodes -= length;
  } else {
    so_far_.nodes += length;
  }
  if (so_far_.nodes > limits.max_nodes) {
    TooMuch("add_nodes", fmt::format("the request makes {} cells or more, the model takes {}",
                                     so_far_.nodes, limits.max_nodes));
  }
  if (so_far_.links > limits.max_nodes * limits.max_links_per_node) {
    TooMuch("add_nodes", fmt::format("the request makes {} links or more, the model takes {}",
                                     so_far_.links, limits.max_nodes * limits.max_links_per_node));
  }
  return !failed();
}

int32_t LibraryBuilder::AddNodes(int32_t type_number, int32_t length, const CellbatchLink* links,
                                 int32_t num_links) {
  const NodeType* type = TypeAt("add_nodes", type_number);
  if (type == nullptr) return CELLBATCH_FAILED;
  const auto wrong = [&](const std::string& what) {
    return Fail("add_nodes", fmt::format("subgraph {} of type \"{}\": {}", so_far_.made.size(),
                                         type->name, what));
  };
  if (length < 1) return wrong(fmt::format("{} nodes, the least is 1", length));
  if (type->sums && length > 1) {
    return wrong(fmt::format("{} nodes; a type with an input that sums has 1", length));
  }
  if (num_links < 0 || (num_links > 0 && links == nullptr)) {
    return wrong(
        fmt::format("{} links at {}", num_links, links == nullptr ? "null" : "their address"));
  }
  if (!CountNodes(length, num_links)) return CELLBATCH_FAILED;
  links_.clear();
  for (int32_t i = 0; i < num_links; ++i) {
    const CellbatchLink& link = links[i];
    if (const std::string what = CheckLink(*type, length, link); !what.empty()) {
      return wrong(fmt::format("link {}: {}", i, what));
    }
    links_.push_back({link.from == CELLBATCH_ZEROS ? kZeroSource : SubgraphId(link.from),
                      InputId(link.input), link.first, link.stride});
  }
  if (!CheckCounts(*type)) return CELLBATCH_FAILED;
  so_far_.made.push_back({type_number, type->out, length});
  graph_.SetPhase(type->phase);
  return graph_.Add(type->id, length, links_).value();
}

int32_t LibraryBuilder::AddTensor(std::string_view function, const std::string& name, WireType type,
                                  int32_t rank, const int64_t* dims) {
  int64_t elements = 1;
  for (int32_t d = 0; d < rank; ++d) {
    if (__builtin_mul_overflow(elements, dims[d], &elements) ||
        elements > model_.limits.max_answer_bytes / kElement) {
      return TooMuch(function, fmt::format("\"{}\" is larger than {} bytes", name,
                                           model_.limits.max_answer_bytes));
    }
  }
  so_far_.answer_bytes += elements * kElement;
  if (so_far_.answer_bytes > model_.limits.max_answer_bytes) {
    return TooMuch(function, fmt::format("the answer is larger than {} bytes",
                                         model_.limits.max_answer_bytes));
  }
  const int32_t tensor = graph_.AddTensor(name, type, {dims, dims + rank});
  so_far_.outputs.push_back({name, type, elements, tensor});
  return static_cast<int32_t>(so_far_.outputs.size()) - 1;
}

int32_t LibraryBuilder::AddOutput(const char* name, int32_t rank, const int64_t* dims) {
  if (!InUnfold("add_output")) return CELLBATCH_FAILED;
  const std::string text = TextOf(name);
  const std::vector<TensorSpec>& declared = model_.signature.outputs;
  const auto spec = std::find_if(declared.begin(), declared.end(),
                                 [&](const TensorSpec& t) { return t.name == text; });
  if (spec == declared.end()) {
    return Fail("add_output", fmt::format("\"{}\" was not declared", text));
  }
  const bool asked =
      input_.outputs.empty()
          ? spec == declared.begin()
          : std::find(input_.outputs.begin(), input_.outputs.end(), text) != input_.outputs.end();
  if (!asked) return CELLBATCH_NOT_ASKED;
  for (const Output& output : so_far_.outputs) {
    if (output.name == text) return Fail("add_output", fmt::format("\"{}\" a second time", text));
  }
  if (dims == nullptr || rank != static_cast<int32_t>(spec->dims.size())) {
    return Fail("add_output", fmt::format("\"{}\" has {} dimensions, {} are declared", text, rank,
                                          spec->dims.size()));
  }
  for (size_t d = 0; d < spec->dims.size(); ++d) {
    const bool fits = spec->dims[d] < 0 ? dims[d] >= 1 : dims[d] == spec->dims[d];
    if (!fits) {
      return Fail("add_output", fmt::format("\"{}\": dimension {} is {}, declared is {}", text, d,
                                            dims[d], spec->dims[d]));
    }
  }
  return AddTensor("add_output", text, spec->type, rank, dims);
}

int32_t LibraryBuilder::ReturnRows(int32_t subgraph, int32_t column, int32_t first, int32_t count,
                                   int32_t output, int64_t offset, int64_t stride) {
  if (failed()) return CELLBATCH_FAILED;
  const auto wrong = [&](const std::string& what) { return Fail("return_rows", what); };
  if (output == CELLBATCH_NOT_ASKED) return 0;
  if (output < 0 || Index(output) >= so_far_.outputs.size()) {
    return wrong(fmt::format("output {}, {} were added", output, so_far_.outputs.size()));
  }
  if (subgraph < 0 || Index(subgraph) >= so_far_.made.size() ||
      so_far_.made[Index(subgraph)].type < 0) {
    return wrong(fmt::format("subgraph {}: there are {}, and rows of the request are not returned",
                             subgraph, so_far_.made.size()));
  }
  if (subgraph < first_) {
    return wrong(fmt::format("subgraph {} is of an earlier piece, this one's begin at {}", subgraph,
                             first_));
  }
  const Made& from = so_far_.made[Index(subgraph)];
  const std::vector<Column>& columns = model_.columns[Index(from.type)];
  if (column < 0 || Index(column) >= columns.size()) {
    return wrong(fmt::format("column {} of subgraph {}, its type leaves {}", column, subgraph,
                             columns.size()));
  }
  if (count < 1 || !InRange(first, 1, count, from.length)) {
    return wrong(fmt::format("{} nodes from {} of subgraph {}, which has {}", count, first,
                             subgraph, from.length));
  }
  const Column& leaves = columns[Index(column)];
  const Output& to = so_far_.outputs[Index(output)];
  const WireType type = leaves.type == ElementType::kInt32 ? WireType::kInt32 : WireType::kFp32;
  if (type != to.type || leaves.type == ElementType::kBf16) {
    return wrong(fmt::format("column \"{}\" is {}, \"{}\" is {}", leaves.name, Name(leaves.type),
                             to.name, Name(to.type)));
  }
  const bool sane =
      std::abs(offset) <= to.elements && stride >= -to.elements && stride <= to.elements;
  if (!sane || !InRange(offset, stride, count, to.elements - leaves.width + 1)) {
    return wrong(
        fmt::format("{} times {} elements of column \"{}\" from {}, {} further each, do "
                    "not fit \"{}\" of {}",
                    count, leaves.width, leaves.name, offset, stride, to.name, to.elements));
  }
  if (++so_far_.returns > model_.limits.max_nodes * model_.limits.max_returns_per_node) {
    return TooMuch("return_rows",
                   fmt::format("{} calls or more, the model takes {}", so_far_.returns,
                               model_.limits.max_nodes * model_.limits.max_returns_per_node));
  }
  graph_.Return(SubgraphId(subgraph), ColumnId(column), {first, count},
                {to.tensor, offset * kElement, stride * kElement});
  return 0;
}

absl::Status LibraryBuilder::Finish(int32_t answered) {
  if (answered != 0) Fail(Caller(), fmt::format("answered {}", answered));
  if (extends_ || failed()) return status_;
  if (so_far_.nodes == 0) Fail("unfold", "added no nodes");
  if (so_far_.pieces > 0 && so_far_.more_nodes == 0) {
    Fail("grow", "there may be other pieces, and grow_nodes said of no cells that they have any");
  }
  if (so_far_.nodes + so_far_.more_nodes > model_.limits.max_nodes) {
    TooMuch("grow_nodes", fmt::format("the request makes {} cells or more, the model takes {}",
                                      so_far_.nodes + so_far_.more_nodes, model_.limits.max_nodes));
  }
  std::vector<std::string_view> asked = input_.outputs;
  if (asked.empty()) asked.push_back(model_.signature.outputs[0].name);
  for (const std::string_view name : asked) {
    const bool added = std::any_of(so_far_.outputs.begin(), so_far_.outputs.end(),
                                   [&](const Output& output) { return output.name == name; });
    if (!added) Fail("unfold", fmt::format("\"{}\" was asked for and not added", name));
  }
  return status_;
}

}  // namespace cellbatch
