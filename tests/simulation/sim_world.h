// The model that simulated requests are made of: a cell type of every sort the scheduler treats
// differently. What the cells compute does not matter (rows hold fingerprints); what they read does.
#ifndef CELLBATCH_TESTS_SIMULATION_SIM_WORLD_H_
#define CELLBATCH_TESTS_SIMULATION_SIM_WORLD_H_

#include <cstdint>
#include <memory>

#include "cells/model.h"

namespace cellbatch::sim {

//                                tokens {token[2]} --> state {h, c} --> logits {y}
//                                                       ^    |  ^
//                                                       |    v  |
//                                              edges {f}    words {h, word}
inline constexpr TableId kTokens{0}, kState{1}, kWords{2}, kLogits{3}, kEdges{4};
inline constexpr ColumnId kH{0}, kC{1}, kWord{1}, kY{0};

inline constexpr CellTypeId kChain{0};    // x: tokens, prev: state (carry)           -> state
inline constexpr CellTypeId kStack{1};    // x: state, prev: state (carry)            -> state
inline constexpr CellTypeId kLeaf{2};     // x: tokens                                -> state
inline constexpr CellTypeId kPair{3};     // left, right: state                       -> state
inline constexpr CellTypeId kTriple{4};   // left, right, up: state                   -> state
inline constexpr CellTypeId kBridge{5};   // x: state                                 -> words
inline constexpr CellTypeId kDecoder{6};  // prev: words (carry)                      -> words
inline constexpr CellTypeId kProject{7};  // x: words                                 -> state
inline constexpr CellTypeId kEdge{8};     // child: state, token: tokens              -> edges
inline constexpr CellTypeId kGather{9};   // token: tokens, edges: any number of them -> state
inline constexpr CellTypeId kMerge{10};   // token: tokens, states: any number        -> state
inline constexpr CellTypeId kHead{11};    // x: state                                 -> logits
inline constexpr int kNumTypes = 12;

inline constexpr InputId kIn0{0}, kIn1{1}, kIn2{2};
inline constexpr int kTokenWords = 2;  // int32 of one token row: whose it is and which
inline constexpr int kLogitWidth = 3;
inline constexpr int32_t kNumWords = 16;

struct Limits {
  int32_t min_batch = 1;
  int32_t max_batch = 8;
};

// Whose tasks go first: a later stage's (what a server wants), an earlier one's (under load the later ones then
// live by the guard alone), or the types' by their ids.
enum class Priorities : uint8_t { kLaterFirst, kEarlierFirst, kEqual };

// Of requests' priorities.
struct RequestLevels {
  int32_t levels = 1, default_level = 1;
};

// Every type with these limits; with `measured`, every second one's largest batch is left to the calibration.
std::shared_ptr<const Model> MakeModel(ModelId id, Limits limits,
                                       Priorities priorities = Priorities::kLaterFirst,
                                       double weight = 1, bool measured = false,
                                       RequestLevels levels = {}, UnfoldOptions unfold = {},
                                       DeviceKinds devices = {});
// The stage of a request's program that plans give such nodes: words, then what translates, then heads.
int32_t PhaseOf(CellTypeId type);
inline constexpr int32_t kNumPhases = 3;

}  // namespace cellbatch::sim

#endif  // CELLBATCH_TESTS_SIMULATION_SIM_WORLD_H_
