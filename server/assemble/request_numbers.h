// Which numbers of a request cells look up, and in tables of how many rows: what a vocabulary is held to. A number is
// followed through the columns in which types pass it on. One that is cut out of a wider column (SLICE), joined to another or
// turned cannot be held, as a vocabulary is that of a column.
//
// Made after the last type, on the loader's thread; borrows the model. Costs a look at each operator, a few times.
#ifndef CELLBATCH_SERVER_ASSEMBLE_REQUEST_NUMBERS_H_
#define CELLBATCH_SERVER_ASSEMBLE_REQUEST_NUMBERS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cells/model.h"

namespace cellbatch {

class RequestNumbers {
 public:
  // request: the tables whose rows requests bring.
  RequestNumbers(const Model& model, std::set<TableId> request);

  // Rows of the smallest table in which a number of `request` is looked up as it came; 0: in none.
  int64_t LookupRows(TableId request) const;

  struct Unheld {
    std::string type;  // the cell type that looks it up
    std::string text;
  };
  // Lookups of numbers that a request brings, but not as they are looked up.
  std::vector<Unheld> UnheldLookups() const;

 private:
  // Tables of the request whose numbers a value or a column holds; true: as they came.
  using Numbers = std::map<TableId, bool>;

  static bool Merge(const Numbers& from, bool as_they_came, Numbers& to);
  Numbers Read(const CellType& type, const Op& input) const;
  std::vector<Numbers> In(const CellType& type) const;  // by ValueId
  void Follow();

  const Model& model_;
  const std::set<TableId> request_;
  std::map<std::pair<TableId, std::string>, Numbers>
      passed_;  // by table and column that types leave
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_ASSEMBLE_REQUEST_NUMBERS_H_
