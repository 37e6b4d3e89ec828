// Stacked layers over a request's rows: what chains and encoders have in common.
#ifndef CELLBATCH_SERVER_ASSEMBLE_LAYERS_H_
#define CELLBATCH_SERVER_ASSEMBLE_LAYERS_H_

#include <string>
#include <vector>

#include "cells/unfold/chain_unfolder.h"
#include "server/assemble/assembly.h"

namespace cellbatch {

// What a cell reads from the layer below: one direction, or forward and backward.
TypeRole Over(const std::string& what, const std::vector<TableId>& below);

// Adds an embedding (its name may be empty) and layers over `request`, bottom to top, because a layer's sizes may
// follow from the one below; fills spec.embedding and spec.layers. `what`: "chain". Answers the tables of the top
// layer, forward first; none: one is broken, and noted.
std::vector<TableId> MakeLayers(Assembly& assembly, const std::string& what,
                                const InputSource& request, const std::string& embedding,
                                const google::protobuf::RepeatedPtrField<disk::ChainLayer>& layers,
                                ChainSpec& spec);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_ASSEMBLE_LAYERS_H_
