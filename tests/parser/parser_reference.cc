#include "tests/parser/parser_reference.h"

#include <algorithm>
#include <string>

#include "cells/check.h"
#include "tests/zoo/reference_math.h"

namespace cellbatch::parser {
namespace {

using namespace zoo;  // NOLINT: Vec, Mat and what is written with them

// A parameter of the model's type number `type`.
Mat Parameter(const Model& model, size_t type, const std::string& name) {
  const CellType& t = model.types[type];
  for (size_t i = 0; i < t.definition->parameters().size(); ++i) {
    if (t.definition->parameters()[i].name != name) continue;
    const Weight& w = t.weights[i];
    Mat m{static_cast<size_t>(w.shape.rows), static_cast<size_t>(w.shape.cols), {}};
    m.values.assign(w.data.get(), w.data.get() + m.rows * m.columns);
    return m;
  }
  CheckFailed("no such parameter", std::source_location::current());
}

struct State {
  Vec h, c;
};

struct Lstm {
  Lstm(const Model& model, size_t type)
      : w(Parameter(model, type, "W")),
        u(Parameter(model, type, "U")),
        b(zoo::Row(Parameter(model, type, "b_in"), 0) +
          zoo::Row(Parameter(model, type, "b_rec"), 0)) {}
  State Start() const { return {Zeros(u.columns), Zeros(u.columns)}; }
  State operator()(const Vec& x, const State& before) const {
    const Vec gates = w * x + u * before.h + b;
    const Vec i = Sigmoid(Gate(gates, 0, 4)), f = Sigmoid(Gate(gates, 1, 4));
    const Vec g = Tanh(Gate(gates, 2, 4)), o = Sigmoid(Gate(gates, 3, 4));
    const Vec c = f * before.c + i * g;
    return {o * Tanh(c), c};
  }
  Mat w, u;
  Vec b;
};

struct OnStack {
  int32_t word;
  Vec x;
  State state;
};

}  // namespace

// Types in the order that MakeParser adds them.
Parsed Reference(const Model& model, const std::vector<int32_t>& words) {
  const Mat embedding = Parameter(model, 0, "E");
  const Lstm buffer_lstm(model, 1), stack_lstm(model, 2), action_lstm(model, 3);
  const Mat action_embedding = Parameter(model, 3, "E");
  const Mat compose = Parameter(model, 4, "W"), of_action = Parameter(model, 4, "A");
  const Mat p = Parameter(model, 5, "P"), s = Parameter(model, 5, "S");
  const Vec p_bias = zoo::Row(Parameter(model, 5, "p"), 0),
            s_bias = zoo::Row(Parameter(model, 5, "s"), 0);

  const size_t n = words.size();
  std::vector<State> buffer(n + 1, buffer_lstm.Start());  // before word i is shifted
  for (size_t i = n; i-- > 0;)
    buffer[i] = buffer_lstm(zoo::Row(embedding, words[i]), buffer[i + 1]);

  Parsed parsed;
  parsed.heads.assign(n, -1);
  std::vector<OnStack> stack;
  State history = action_lstm.Start();
  size_t next = 0;
  while (next < n || stack.size() > 1) {
    const bool shift = next < n, reduce = stack.size() >= 2;
    Vec scores = Zeros(3);
    int32_t action = shift ? 0 : 1;
    if (reduce && shift) {
      const Vec all = Concat(Concat(stack.back().state.h, buffer[next].h), history.h);
      scores = s * Tanh(p * all + p_bias) + s_bias;
      action = static_cast<int32_t>(ArgMax(scores));
    } else if (reduce) {
      const Vec all = Concat(Concat(stack.back().state.h, buffer[next].h), history.h);
      scores = s * Tanh(p * all + p_bias) + s_bias;
      action = scores[2] > scores[1] ? 2 : 1;
    }
    for (int32_t other = shift ? 0 : 1; reduce && other < 3; ++other) {
      if (other == action) continue;
      const double margin =
          scores[static_cast<size_t>(action)] - scores[static_cast<size_t>(other)];
      parsed.least_margin = std::min(parsed.least_margin, margin);
    }
    parsed.actions.push_back(action);
    parsed.scores.insert(parsed.scores.end(), scores.begin(), scores.end());
    OnStack pushed;
    if (action == 0) {
      pushed.word = static_cast<int32_t>(next);
      pushed.x = zoo::Row(embedding, words[next++]);
    } else {
      const OnStack upper = stack.back(), lower = stack[stack.size() - 2];
      stack.resize(stack.size() - 2);
      const OnStack& head = action == 1 ? upper : lower;
      const OnStack& dependent = action == 1 ? lower : upper;
      pushed.word = head.word;
      pushed.x = Tanh(compose * Concat(head.x, dependent.x) + zoo::Row(of_action, action));
      parsed.heads[static_cast<size_t>(dependent.word)] = head.word;
    }
    pushed.state = stack_lstm(pushed.x, stack.empty() ? stack_lstm.Start() : stack.back().state);
    stack.push_back(pushed);
    history = action_lstm(zoo::Row(action_embedding, action), history);
  }
  parsed.output = stack.back().state.h;
  return parsed;
}

}  // namespace cellbatch::parser
