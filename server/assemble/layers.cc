#include "server/assemble/layers.h"

namespace cellbatch {

TypeRole Over(const std::string& what, const std::vector<TableId>& below) {
  TypeRole role{.what = what, .inputs = {}, .others = InputSource::Of(below[0])};
  if (below.size() == 2) role.inputs.emplace_back("backward", InputSource::Of(below[1]));
  return role;
}

std::vector<TableId> MakeLayers(Assembly& a, const std::string& what, const InputSource& request,
                                const std::string& embedding,
                                const google::protobuf::RepeatedPtrField<disk::ChainLayer>& layers,
                                ChainSpec& spec) {
  const std::string name = what + ": layers";
  TypeRole role{.what = what + ": embedding", .inputs = {}, .others = request};
  if (!embedding.empty()) {
    spec.embedding = a.types.Add(embedding, role);
    if (!spec.embedding.valid()) return {};
    role = Over(name, {a.model.type(spec.embedding).out});
  }
  role.what = name;
  if (layers.empty()) a.Problem(name + ": there are none");
  std::vector<TableId> below;
  for (const disk::ChainLayer& layer : layers) {
    if (!below.empty()) role = Over(name, below);
    const bool backward = !layer.backward().empty();
    const bool forward = !layer.forward().empty() || !backward;
    ChainLayerSpec made;
    if (forward) made.forward = a.types.Add(layer.forward(), role);
    if (backward) made.backward = a.types.Add(layer.backward(), role);
    if (made.forward.valid() != forward || made.backward.valid() != backward) return {};
    below.clear();
    if (forward) below.push_back(a.model.type(made.forward).out);
    if (backward) below.push_back(a.model.type(made.backward).out);
    spec.layers.push_back(made);
  }
  return below;
}

}  // namespace cellbatch
