"""What PyTorch answers, in double precision, to recurrent modules with stated weights: the golden file's maker.

    python3 tests/golden/torch_cases.py --out tests/golden/golden.json          the committed cases
    python3 tests/golden/torch_cases.py --random 20 --seed 5 --out FILE         others, drawn from a seed

Weights and inputs are not stored: both sides make them from the case's seed and the tensor's name (Numbers below),
as multiples of a power of two that fp32 holds exactly. Needs a Python with torch; the library is used only to
compute answers, in double, one sequence at a time.
"""

import argparse
import json
import random

MASK = (1 << 64) - 1
LENGTHS = (1, 2, 7, 24, 100, 330)
LONGEST_WITH_ALL_HIDDEN = 7  # keeps the file small


class Numbers:
    """A stream of whole numbers below 2^64 for one name: splitmix64 from the FNV-1a hash of "seed/name"."""

    def __init__(self, seed, name):
        self.state = 14695981039346656037
        for byte in ("%d/%s" % (seed, name)).encode():
            self.state = ((self.state ^ byte) * 1099511628211) & MASK

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def weights(self, count, shift):
        """`count` numbers in [-1, 1) * 2^-shift with 24 bits each."""
        scale = 2.0 ** (-23 - shift)
        return [((self.next() >> 40) - (1 << 23)) * scale for _ in range(count)]

    def tokens(self, count, vocabulary):
        return [self.next() % vocabulary for _ in range(count)]


def make_case(name, module, seed, input_size, hidden, layers=1, both=False, bias=True, vocab=0, classes=0, rnn="rnn.",
              nonlinearity="", projection=0, cells=False):
    """-> a case: its tensors as [name, shape, shift], and what cellbatch-convert has to be told."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[module]
    shift = 0
    while 4 ** (shift + 1) <= hidden:  # 2^-shift is about 1/sqrt(hidden)
        shift += 1
    tensors = []
    if vocab:
        tensors.append(["word_embedding.weight", [vocab, input_size], 0])
    width = input_size
    left = projection or hidden
    for layer in range(layers):
        for end in ("", "_reverse")[:2 if both else 1]:
            named = rnn + ("%d.%%s" % layer if cells else "%%s_l%d%s" % (layer, end))
            tensors.append([named % "weight_ih", [gates * hidden, width], shift])
            tensors.append([named % "weight_hh", [gates * hidden, left], shift])
            if bias:
                tensors.append([named % "bias_ih", [gates * hidden], shift])
                tensors.append([named % "bias_hh", [gates * hidden], shift])
            if projection:
                tensors.append([named % "weight_hr", [projection, hidden], shift])
        width = left * (2 if both else 1)
    if classes:
        tensors.append(["head.weight", [classes, width], shift])
        if bias:
            tensors.append(["head.bias", [classes], shift])
    return {"name": name, "module": module, "nonlinearity": nonlinearity, "seed": seed, "input": input_size,
            "hidden": hidden, "layers": layers, "bidirectional": both, "bias": bias, "vocabulary": vocab,
            "classes": classes, "rnn": rnn, "projection": projection, "cells": cells, "tensors": tensors}


def committed_cases():
    return [
        make_case("lstm", "LSTM", 1, 13, 17),
        make_case("lstm_2_layers", "LSTM", 2, 7, 11, layers=2, classes=3),
        make_case("lstm_3_layers_both", "LSTM", 3, 5, 9, layers=3, both=True, rnn="encoder.rnn."),
        make_case("lstm_tokens_both_head", "LSTM", 4, 19, 23, both=True, vocab=97, classes=5),
        make_case("lstm_bare_names_no_bias", "LSTM", 5, 3, 5, bias=False, rnn=""),
        make_case("lstm_67", "LSTM", 6, 43, 67, vocab=31),
        make_case("gru", "GRU", 7, 13, 17),
        make_case("gru_2_layers_both_head", "GRU", 8, 7, 11, layers=2, both=True, classes=2),
        make_case("gru_3_layers_tokens", "GRU", 9, 6, 10, layers=3, vocab=41),
        make_case("gru_no_bias_tokens_head", "GRU", 10, 21, 15, bias=False, vocab=53, classes=7),
        make_case("gru_71", "GRU", 11, 37, 71, rnn="a.b.c."),
        make_case("rnn_tanh", "RNN", 12, 13, 17, nonlinearity="tanh"),
        make_case("rnn_relu", "RNN", 13, 9, 14, nonlinearity="relu"),
        make_case("rnn_tanh_3_layers_both_tokens_head", "RNN", 14, 8, 6, layers=3, both=True, vocab=29, classes=4,
                  nonlinearity="tanh"),
        make_case("rnn_relu_2_layers_no_bias", "RNN", 15, 4, 5, layers=2, bias=False, nonlinearity="relu"),
        make_case("lstmp", "LSTM", 16, 13, 17, projection=5),
        make_case("lstmp_3_layers_both_tokens_head", "LSTM", 17, 6, 12, layers=3, both=True, vocab=37, classes=4,
                  projection=7),
        make_case("lstmp_2_layers_no_bias", "LSTM", 18, 9, 11, layers=2, bias=False, projection=10),
        make_case("lstm_cells", "LSTM", 19, 7, 10, layers=2, vocab=23, rnn="net.cells.", cells=True),
        make_case("gru_cells", "GRU", 20, 5, 9, layers=3, classes=3, rnn="cells.", cells=True),
        make_case("rnn_cells_relu", "RNN", 21, 8, 6, layers=2, rnn="cells.", cells=True, nonlinearity="relu"),
    ]


def random_cases(count, seed):
    draw = random.Random(seed)
    cases = []
    for i in range(count):
        module = draw.choice(("LSTM", "GRU", "RNN"))
        hidden = draw.randint(2, 90)
        kind = draw.random()
        cells = kind < 0.2
        width = draw.randint(1, 70)
        width += cells and width == hidden  # of cells that are all alike it is asked whether they lie on each other
        cases.append(make_case(
            "random_%d_%d" % (seed, i), module, seed * 1000 + i, width, hidden,
            layers=draw.randint(1, 3), both=not cells and draw.random() < 0.5, bias=draw.random() < 0.8,
            vocab=draw.choice((0, draw.randint(1, 200))), classes=draw.choice((0, draw.randint(1, 20))),
            rnn="cells." if cells else draw.choice(("", "rnn.", "encoder.lstm.")),
            nonlinearity=draw.choice(("tanh", "relu")) if module == "RNN" else "",
            projection=draw.randint(1, hidden - 1) if module == "LSTM" and kind > 0.5 else 0, cells=cells))
    return cases


def tensor_of(case, name):
    import torch
    for tensor, shape, shift in case["tensors"]:
        if tensor == name:
            count = 1
            for dimension in shape:
                count *= dimension
            return torch.tensor(Numbers(case["seed"], name).weights(count, shift), dtype=torch.float64).reshape(shape)
    return None


def stack_of_cells(case):
    """nn.LSTMCell, nn.GRUCell or nn.RNNCell, one a layer, stepped by hand as their users do."""
    import torch

    class Stack(torch.nn.ModuleList):
        def forward(self, x):
            states = [None] * len(self)
            tops = []
            for step in x:
                for layer, cell in enumerate(self):
                    states[layer] = cell(step, states[layer])
                    step = states[layer][0] if case["module"] == "LSTM" else states[layer]
                tops.append(step)
            if case["module"] != "LSTM":
                return torch.stack(tops), torch.stack(states)
            return torch.stack(tops), (torch.stack([s[0] for s in states]), torch.stack([s[1] for s in states]))

    options = {"bias": case["bias"]}
    if case["module"] == "RNN":
        options["nonlinearity"] = case["nonlinearity"]
    make = getattr(torch.nn, case["module"] + "Cell")
    return Stack([make(case["hidden"] if layer else case["input"], case["hidden"], **options)
                  for layer in range(case["layers"])])


def modules_of(case):
    """-> the modules, in double, with the case's weights: embedding (or None), recurrent, head (or None)."""
    import torch
    options = {"num_layers": case["layers"], "bidirectional": case["bidirectional"], "bias": case["bias"]}
    if case["module"] == "RNN":
        options["nonlinearity"] = case["nonlinearity"]
    if case["projection"]:
        options["proj_size"] = case["projection"]
    if case["cells"]:
        rnn = stack_of_cells(case).double()
    else:
        rnn = getattr(torch.nn, case["module"])(case["input"], case["hidden"], **options).double()
    rnn.load_state_dict({name: tensor_of(case, case["rnn"] + name) for name in rnn.state_dict()})
    embedding = head = None
    if case["vocabulary"]:
        embedding = torch.nn.Embedding(case["vocabulary"], case["input"]).double()
        embedding.load_state_dict({"weight": tensor_of(case, "word_embedding.weight")})
    if case["classes"]:
        width = (case["projection"] or case["hidden"]) * (2 if case["bidirectional"] else 1)
        head = torch.nn.Linear(width, case["classes"], bias=case["bias"]).double()
        head.load_state_dict({name: tensor_of(case, "head." + name) for name in head.state_dict()})
    return embedding, rnn, head


def input_of(case, embedding, length):
    import torch
    if embedding is not None:
        return embedding(torch.tensor(Numbers(case["seed"], "TOKENS/%d" % length).tokens(length, case["vocabulary"])))
    numbers = Numbers(case["seed"], "X/%d" % length).weights(length * case["input"], 0)
    return torch.tensor(numbers, dtype=torch.float64).reshape(length, case["input"])


def run(case, modules, length):
    embedding, rnn, head = modules
    x = input_of(case, embedding, length)
    hidden, final = rnn(x.unsqueeze(1))  # [T, 1, D]: a batch of one
    h, c = final if case["module"] == "LSTM" else (final, None)
    top = h[-(2 if case["bidirectional"] else 1):].reshape(-1)
    answer = {"length": length, "OUTPUT": top if head is None else head(top), "FINAL_H": h.reshape(-1)}
    if c is not None:
        answer["FINAL_C"] = c.reshape(-1)
    if length <= LONGEST_WITH_ALL_HIDDEN:
        answer["ALL_HIDDEN"] = hidden.reshape(-1)
    return {key: value if key == "length" else [float("%.10g" % v) for v in value.tolist()]
            for key, value in answer.items()}


def write_cases(path, made_by, cases):
    import torch
    with open(path, "w", encoding="utf-8") as out:
        out.write('{"made_by": %s,\n"cases": [\n' % json.dumps("%s, PyTorch %s, double precision" % (made_by, torch.__version__)))
        out.write(",\n".join(json.dumps(case, separators=(",", ":")) for case in cases))
        out.write("\n]}\n")


def main():
    import torch
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--random", type=int, default=0, help="this many cases from --seed, instead of the committed ones")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    cases = random_cases(options.random, options.seed) if options.random else committed_cases()
    lengths = sorted({*LENGTHS, *(random.Random(options.seed).sample(range(1, 331), 3) if options.random else ())})
    with torch.no_grad():
        for case in cases:
            modules = modules_of(case)
            case["runs"] = [run(case, modules, length) for length in lengths]
    write_cases(options.out, "tests/golden/torch_cases.py", cases)
    print("%s: %d modules, %d sequences each, PyTorch %s" % (options.out, len(cases), len(lengths), torch.__version__))


if __name__ == "__main__":
    main()
