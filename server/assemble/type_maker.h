// Makes the cell types of one model: definitions, sizes, weights and tables, in the order in which an unfolder's
// assembler (assembly.h) names them. Every problem is noted, as far as it can be told.
//
// Sizes follow from what is below: an assembler adds a type after those whose rows it reads. One thread; used once.
#ifndef CELLBATCH_SERVER_ASSEMBLE_TYPE_MAKER_H_
#define CELLBATCH_SERVER_ASSEMBLE_TYPE_MAKER_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/model.h"
#include "cells/weights/weight_store.h"
#include "proto/model.pb.h"
#include "server/assemble/config_places.h"
#include "server/cells/cell_codec.h"

namespace cellbatch {

// The text of a definition by name: the model folder's, else the shipped one.
using FindCellText = std::function<absl::StatusOr<CellText>(const std::string& name)>;

// Whose rows an input reads.
struct InputSource {
  enum class Kind : uint8_t {
    kTable,    // of a type that was made before
    kOwn,      // of the type itself, or of others that leave the same columns (a tree's children)
    kRequest,  // of the request: the table called `name`, which is made at its first reader
  };
  Kind kind = Kind::kOwn;
  TableId table = {};
  const char* name = "";
  ElementType type = ElementType::kInt32;
  std::string remedy = {};  // ends the text of an error about what an input finds there

  static InputSource Of(TableId table) { return {.kind = Kind::kTable, .table = table}; }
  static InputSource Own() { return {}; }
  static InputSource Request(const char* name, ElementType type) {
    return {.kind = Kind::kRequest, .table = {}, .name = name, .type = type, .remedy = {}};
  }
};

// Where a type stands. A carry reads the type's own rows; it need not be named.
struct TypeRole {
  std::string what;                                         // for error texts: "chain: layers"
  std::vector<std::pair<std::string, InputSource>> inputs;  // by name
  std::optional<InputSource> others;                        // inputs not named; none: refused
  bool labels = false;  // adds the INT32 column "label": where the column "y" is largest
};

class TypeMaker {
 public:
  // `weights` may be null where the file cannot be read: then types can only be checked (CheckRest). All are borrowed.
  TypeMaker(const disk::ModelDescription& config, const ConfigPlaces& places,
            FindCellText find_cell, WeightStore* weights, Model& model,
            std::vector<std::string>& problems);

  // Makes the type `name` of the config and appends it to the model. Invalid: a problem was noted.
  CellTypeId Add(const std::string& name, const TypeRole& role);

  // The definition of a type of the config, with what is put in front of it, before it is made.
  absl::StatusOr<CellText> TextOf(const std::string& type) const;

  // The request's table of that name, once a type reads it; else invalid.
  TableId RequestTable(std::string_view name) const;
  // Rows of the smallest table in which a number of `request` is looked up; 0: in none. After the last Add.
  int64_t LookupRows(TableId request) const;

  // After the last Add: types that no unfolder uses are a problem, too.
  void CheckUnused();
  // Likewise: false where a number of the request is looked up that no vocabulary is held to (request_numbers.h).
  bool CheckLookups();
  // Instead, where one could not be made: what can be told of those above it.
  void CheckRest();

  const Model& model() const { return model_; }
  // "config.textproto:31", the line of the unfolder.
  std::string UnfolderPlace() const;
  void Problem(std::string text) { problems_.push_back(std::move(text)); }

 private:
  void Index();
  // A line of `wrong` is a problem of the type each.
  void NoteAll(int index, const absl::Status& wrong);
  void CheckLimits(const disk::CellTypeConfig& type, const std::string& place);
  absl::StatusOr<CellText> TextOf(const disk::CellTypeConfig& config) const;
  absl::StatusOr<std::vector<KnownShape>> KnownShapes(const disk::CellTypeConfig& config,
                                                      const CellText& text, const TypeRole& role);
  void AddKnownWidths(const CellText& text, const TypeRole& role,
                      std::vector<KnownShape>& known) const;
  // Inputs that find what another type leaves; a chain's carry is not among them.
  struct ReadBelow {
    const disk::CellInput* input;
    InputSource source;
  };
  std::vector<ReadBelow> ReadsBelow(const CellText& text, const TypeRole& role) const;
  // Whether what inputs find below has their columns.
  absl::Status CheckBelow(const CellText& text, const TypeRole& role) const;
  // "what cell type "leaf" leaves"
  std::string LeftBy(TableId table) const;
  std::string MissingTensor(const disk::ParameterSource& source) const;
  std::vector<std::string> TypeNames() const;
  absl::Status FillWeights(const disk::CellTypeConfig& config, const CellText& text,
                           CellType& type);
  absl::StatusOr<TableId> Resolve(const TypeRole& role, const InputSource& source,
                                  const Input& input, const CellType& type);
  // Shared by types that leave the same columns. None of the request's: what a cell leaves is none of its numbers.
  TableId TableLeft(std::string name, absl::Span<const Column> columns);
  std::set<TableId> RequestTables() const;
  absl::Status FillTables(const TypeRole& role, CellType& type);
  absl::Status Make(const disk::CellTypeConfig& config, const TypeRole& role, CellType& type);
  // An equal one's that was made before: it is lowered and planned once for all its types (device/load_model.h).
  std::shared_ptr<const CellDefinition> Shared(CellDefinition cell) const;

  const disk::ModelDescription& config_;
  const ConfigPlaces& places_;
  const FindCellText find_cell_;
  WeightStore* const weights_;
  Model& model_;
  std::vector<std::string>& problems_;
  std::map<std::string, int> by_name_;  // index of the cell type in the config
  std::map<std::string, CellTypeId> made_;
  std::map<std::string, TableId, std::less<>> request_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_ASSEMBLE_TYPE_MAKER_H_
