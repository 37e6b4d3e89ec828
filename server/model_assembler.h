// Puts a Model together out of a parsed config, definitions and weights: the loader's workshop.
// One thread; used once.
#ifndef CELLBATCH_SERVER_MODEL_ASSEMBLER_H_
#define CELLBATCH_SERVER_MODEL_ASSEMBLER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/model.h"
#include "cells/unfold/chain_unfolder.h"
#include "cells/weights/weight_store.h"
#include "proto/model.pb.h"
#include "server/cell_codec.h"
#include "server/model_loader.h"

namespace cellbatch {

// The text of a definition by name: the model folder's, else the shipped one.
using FindCellText = std::function<absl::StatusOr<CellText>(const std::string& name)>;

class ModelAssembler {
 public:
  // `places`: "config.textproto:12" of each cell type. All are borrowed until Assemble returns.
  ModelAssembler(const disk::ModelDescription& config, std::vector<std::string> places,
                 FindCellText find_cell, WeightStore& weights, const LoaderLimits& limits);

  // Fills types, tables, signature and unfolder. What is wrong goes to problems(), all of it that
  // can be told; then the model is good for nothing.
  void Assemble(Model& model);
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  // Where a type stands: which tables its inputs read.
  struct Role {
    const char* what;            // "layers", "head", "embedding"
    std::vector<TableId> below;  // forward first; empty: the request
  };

  void Problem(std::string text) { problems_.push_back(std::move(text)); }
  void CheckSettings();
  void IndexTypes();
  CellTypeId AddType(const std::string& name, const Role& role, Model& model);
  absl::StatusOr<CellText> TextOf(const disk::CellTypeConfig& config) const;
  absl::StatusOr<std::vector<KnownShape>> KnownShapes(const disk::CellTypeConfig& config,
                                                      const CellText& text, const Role& role,
                                                      const Model& model) const;
  absl::Status FillWeights(const disk::CellTypeConfig& config, const CellText& text,
                           CellType& type);
  absl::Status FillTables(const Role& role, CellType& type, Model& model);
  absl::Status MakeType(const disk::CellTypeConfig& config, const Role& role, CellType& type,
                        Model& model);
  void AssembleChain(Model& model);
  bool MakeChainTypes(const disk::ChainUnfolder& chain, ChainSpec& spec, Model& model);
  void CheckRest(const Model& model);
  void FinishChain(ChainSpec spec, Model& model);
  int64_t LookupRows(const Model& model) const;

  const disk::ModelDescription& config_;
  const std::vector<std::string> places_;
  const FindCellText find_cell_;
  WeightStore& weights_;
  const LoaderLimits& limits_;
  std::map<std::string, int> by_name_;  // index of the cell type in the config
  std::map<std::string, CellTypeId> made_;
  TableId request_;  // the request's rows
  std::vector<std::string> problems_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_MODEL_ASSEMBLER_H_
