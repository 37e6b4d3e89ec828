#include "server/convert/stack_model.h"

#include <fmt/format.h>

namespace cellbatch {
namespace {

void AddParameter(const StackParameter& parameter, disk::CellTypeConfig& type) {
  disk::ParameterSource* source = nullptr;
  for (const std::string& tensor : parameter.tensors) {
    if (tensor.empty()) continue;  // a module without biases
    if (source == nullptr) source = type.add_parameters();
    source->set_name(parameter.name);
    source->add_tensors(tensor);
  }
}

void AddReads(disk::CellTypeConfig& type, const char* through) {
  disk::ReadsThrough* reads = type.add_reads();
  reads->set_input("x");
  reads->set_through(through);
}

// How a cell reads the layer that lies below it.
const char* Below(const StackLayer& layer) { return layer.directions() == 2 ? "pair" : "below"; }

void AddChain(const StackModel& model, const StackChain& chain, size_t layer, const char* end,
              disk::CellTypeConfig& type) {
  type.set_name(fmt::format("{}_l{}{}", chain.cell, layer, end));
  type.set_cell(chain.cell);
  type.set_priority(static_cast<int32_t>(layer));
  if (layer > 0) {
    AddReads(type, Below(model.layers[layer - 1]));
  } else if (!model.embedding.empty()) {
    AddReads(type, "embed");
    AddParameter({"embed/table", {model.embedding}}, type);
  }
  for (const StackParameter& p : chain.parameters) AddParameter(p, type);
}

}  // namespace

disk::ModelDescription DescribeStack(const StackModel& model, const std::string& name) {
  disk::ModelDescription config;
  config.set_name(name);
  disk::ChainUnfolder& chain = *config.mutable_chain();
  chain.set_input(model.embedding.empty() ? disk::VECTORS : disk::TOKENS);
  for (size_t l = 0; l < model.layers.size(); ++l) {
    const StackLayer& from = model.layers[l];
    disk::ChainLayer& layer = *chain.add_layers();
    if (from.forward) {
      disk::CellTypeConfig& type = *config.add_cell_types();
      AddChain(model, *from.forward, l, from.backward ? "_forward" : "", type);
      layer.set_forward(type.name());
    }
    if (from.backward) {
      disk::CellTypeConfig& type = *config.add_cell_types();
      AddChain(model, *from.backward, l, "_backward", type);
      layer.set_backward(type.name());
    }
  }
  if (!model.head) return config;
  disk::CellTypeConfig& head = *config.add_cell_types();
  head.set_name("head");
  head.set_cell(model.head->cell);
  head.set_priority(static_cast<int32_t>(model.layers.size()));
  AddReads(head, Below(model.layers.back()));
  AddParameter({"W", {model.head->weight}}, head);
  AddParameter({"b", {model.head->bias}}, head);
  if (model.head->every_step) {
    chain.set_token_head("head");
  } else {
    chain.set_head("head");
  }
  return config;
}

}  // namespace cellbatch
