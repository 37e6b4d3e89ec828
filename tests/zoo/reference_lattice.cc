#include "tests/zoo/reference_lattice.h"

#include <functional>

#include "tests/zoo/reference_chain.h"

namespace cellbatch::zoo {
namespace {

// The states 0 .. n. `character` and `word` compute an arc: (id, state it starts from) -> what it brings.
template <typename State, typename Arc>
std::vector<State> States(const Lattice& lattice, State start, Arc character, Arc word) {
  std::vector<State> states = {std::move(start)};
  for (size_t p = 1; p <= lattice.characters.size(); ++p) {
    State sum = character(lattice.characters[p - 1], states[p - 1]);
    for (const auto& [begin, end, id] : lattice.words) {
      if (static_cast<size_t>(end) == p) sum = sum + word(id, states[static_cast<size_t>(begin)]);
    }
    states.push_back(std::move(sum));
  }
  return states;
}

Vec Output(const WeightSet& weights, const Vec& h) {
  return weights.M("output.W") * h + weights.V("output.b");
}

}  // namespace

std::vector<Vec> LatticeLstmReference(const WeightSet& weights, const Lattice& lattice) {
  using Arc = std::function<LstmState(int32_t, const LstmState&)>;
  const LstmEquations character(weights, "character"), word(weights, "word");
  const Mat characters = weights.M("character.table"), words = weights.M("word.table");
  const Arc by_character = [&](int32_t id, const LstmState& before) {
    return character.Step(Row(characters, id), before);
  };
  const Arc by_word = [&](int32_t id, const LstmState& before) {
    return word.Step(Row(words, id), before);
  };
  const LstmState start = {weights.V("start.h0"), weights.V("start.c0")};
  const auto states = States(lattice, start, by_character, by_word);
  std::vector<Vec> y;
  for (size_t p = 1; p < states.size(); ++p) y.push_back(Output(weights, states[p].h));
  return y;
}

std::vector<Vec> LatticeGruReference(const WeightSet& weights, const Lattice& lattice) {
  using Arc = std::function<Vec(int32_t, const Vec&)>;
  const GruEquations character(weights, "character"), word(weights, "word");
  const Mat characters = weights.M("character.table"), words = weights.M("word.table");
  const Arc by_character = [&](int32_t id, const Vec& before) {
    return character.Step(Row(characters, id), before);
  };
  const Arc by_word = [&](int32_t id, const Vec& before) {
    return word.Step(Row(words, id), before);
  };
  const auto states = States(lattice, weights.V("start.h0"), by_character, by_word);
  std::vector<Vec> y;
  for (size_t p = 1; p < states.size(); ++p) y.push_back(Output(weights, states[p]));
  return y;
}

}  // namespace cellbatch::zoo
