"""Recurrent ONNX graphs written by hand, and what ONNX Runtime answers to them.

    python3 tests/golden/onnx_cases.py --folder tests/golden/onnx --out tests/golden/onnx/written.json
    python3 tests/golden/onnx_cases.py --folder DIR --out DIR/cases.json --random 30 --seed 5
    python3 tests/golden/onnx_cases.py --check DIR/cases.json

What exporters do not write: both kinds of GRU, backward chains alone, states that are zeros or absent, lengths as an
operand, old opsets, products in either form. --check asks ONNX Runtime about files of torch_export.py, and says how far
it is from their answers. Needs a Python with onnx, onnxruntime and numpy. Weights and inputs are torch_cases.py's Numbers;
ONNX Runtime computes in fp32.
"""

import argparse
import json
import os
import random
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from torch_cases import LENGTHS, LONGEST_WITH_ALL_HIDDEN, Numbers  # noqa: E402  (found beside this file)

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


class Graph:
    """Nodes and initializers in the making."""

    def __init__(self, case):
        self.case = case
        self.nodes, self.initializers = [], []
        self.shift = 0
        while 4 ** (self.shift + 1) <= case["hidden"]:
            self.shift += 1

    def weights(self, name, shape):
        count = int(np.prod(shape))
        numbers = Numbers(self.case["seed"], name).weights(count, self.shift)
        self.initializers.append(numpy_helper.from_array(np.array(numbers, np.float32).reshape(shape), name))
        return name

    def whole(self, name, values):
        self.initializers.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def add(self, op, inputs, outputs=1, **attributes):
        names = ["%s_%d_%d" % (op, len(self.nodes), i) for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, name="%s_%d" % (op, len(self.nodes)), **attributes))
        return names[0] if outputs == 1 else names

    def shaped(self, op, x, axes):
        """Squeeze or Unsqueeze, whose axes moved in opset 13."""
        if self.case["opset"] < 13:
            return self.add(op, [x], axes=axes)
        return self.add(op, [x, self.whole("axes_%d" % len(self.nodes), axes)])


def recurrent(graph, x, layer, width):
    case = graph.case
    module, hidden, both = case["module"], case["hidden"], case["direction"] == "bidirectional"
    rows, directions = GATES[module] * hidden, 2 if both else 1
    inputs = [x, graph.weights("W%d" % layer, [directions, rows, width]),
              graph.weights("R%d" % layer, [directions, rows, hidden]),
              graph.weights("B%d" % layer, [directions, 2 * rows]) if case["bias"] else "",
              "lengths" if case["lengths"] else ""]
    if case["zeros"]:
        zeros = numpy_helper.from_array(np.zeros([directions, 1, hidden], np.float32), "zeros%d" % layer)
        graph.initializers.append(zeros)
        inputs += ["zeros%d" % layer] * (2 if module == "LSTM" else 1)
    attributes = {"hidden_size": hidden, "direction": case["direction"]}
    if module == "GRU":
        attributes["linear_before_reset"] = case["after"]
    if module == "RNN" and case["nonlinearity"]:
        attributes["activations"] = [case["nonlinearity"].capitalize()] * directions
    return graph.add(module, inputs, 3 if module == "LSTM" else 2, **attributes)


def head(graph, x, width):
    case = graph.case
    if case["product"] == "Gemm":
        y = graph.add("Gemm", [x, graph.weights("fc", [case["classes"], width]), graph.weights("fc_b", [case["classes"]])],
                      transB=1)
    else:
        y = graph.add("MatMul", [x, graph.weights("fc", [width, case["classes"]])])
        y = graph.add("Add", [graph.weights("fc_b", [case["classes"]]), y])
    return graph.add("Softmax", [y], axis=1) if case["softmax"] else y


def write(case, path):
    """Steps lie along the first dimension, the batch along the second. -> the graph's outputs, as we call them."""
    graph = Graph(case)
    directions = 2 if case["direction"] == "bidirectional" else 1
    tokens = case["vocabulary"] > 0
    x = graph.add("Gather", [graph.weights("embedding", [case["vocabulary"], case["input"]]), "x"]) if tokens else "x"
    width, y, finals = case["input"], x, []
    for layer in range(case["layers"]):
        made = recurrent(graph, y, layer, width)
        width = case["hidden"] * directions
        if directions == 2:
            y = graph.add("Transpose", [made[0]], perm=[0, 2, 1, 3])
            y = graph.add("Reshape", [y, graph.whole("shape%d" % layer, [0, 0, -1])])
        else:
            y = graph.shaped("Squeeze", made[0], [1])
        finals.append(made[1:])
    outputs = {y: "ALL_HIDDEN"}
    if case["classes"]:
        ends = graph.add("Transpose", [finals[-1][0]], perm=[1, 0, 2])
        ends = graph.add("Reshape", [ends, graph.whole("ends", [0, -1])])
        outputs[head(graph, ends, width)] = "OUTPUT"
    all_h = graph.add("Concat", [f[0] for f in finals], axis=0)
    outputs[all_h] = "FINAL_H" if case["classes"] or case["layers"] > 1 else "OUTPUT"
    if case["module"] == "LSTM":
        outputs[graph.add("Concat", [f[1] for f in finals], axis=0)] = "FINAL_C"
    shape = ["T", "B"] if tokens else ["T", "B", case["input"]]
    inputs = [helper.make_tensor_value_info("x", TensorProto.INT64 if tokens else TensorProto.FLOAT, shape)]
    if case["lengths"]:
        inputs.append(helper.make_tensor_value_info("lengths", TensorProto.INT32, ["B"]))
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["B", "C"] if kind == "OUTPUT" and case["classes"]
                                           else ["%s_%d" % (name, i) for i in range(3)])
             for name, kind in outputs.items()]
    made = helper.make_model(helper.make_graph(graph.nodes, case["name"], inputs, infos, graph.initializers),
                             opset_imports=[helper.make_opsetid("", case["opset"])], ir_version=8)
    onnx.checker.check_model(made)
    onnx.save(made, path)
    return outputs


def session_of(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def input_of(case, length):
    if case["vocabulary"]:
        return np.array(Numbers(case["seed"], "TOKENS/%d" % length).tokens(length, case["vocabulary"]), np.int64)
    return np.array(Numbers(case["seed"], "X/%d" % length).weights(length * case["input"], 0),
                    np.float32).reshape(length, case["input"])


def answers(case, session, outputs, length):
    feed = {"x": input_of(case, length)[:, None]}
    if case["lengths"]:
        feed["lengths"] = np.array([length], np.int32)
    answer = {"length": length}
    for name, value in zip(outputs, session.run(list(outputs), feed)):
        if outputs[name] != "ALL_HIDDEN" or length <= LONGEST_WITH_ALL_HIDDEN:
            answer[outputs[name]] = [float("%.9g" % v) for v in value.reshape(-1)]
    return answer


def make_case(name, module, seed, input_size, hidden, layers=1, direction="forward", bias=True, vocab=0, classes=0,
              after=0, nonlinearity="", zeros=False, lengths=False, product="Gemm", softmax=False, opset=17):
    return {"name": name, "module": module, "seed": seed, "input": input_size, "hidden": hidden, "layers": layers,
            "direction": direction, "bias": bias, "vocabulary": vocab, "classes": classes, "after": after,
            "nonlinearity": nonlinearity, "zeros": zeros, "lengths": lengths, "product": product, "softmax": softmax,
            "opset": opset, "tensors": []}


def committed_cases():
    return [
        make_case("written_gru_v1", "GRU", 201, 6, 8),
        make_case("written_gru_v1_3_both_tokens", "GRU", 202, 4, 6, layers=3, direction="bidirectional", vocab=13, classes=3),
        make_case("written_gru_2", "GRU", 203, 5, 7, layers=2, after=1, lengths=True, opset=12),
        make_case("written_lstm_reverse", "LSTM", 204, 6, 8, direction="reverse", zeros=True),
        make_case("written_lstm_2_reverse_softmax", "LSTM", 205, 4, 6, layers=2, direction="reverse", classes=4,
                  product="MatMul", softmax=True, bias=False),
        make_case("written_rnn_relu_both", "RNN", 206, 5, 6, layers=2, direction="bidirectional", nonlinearity="relu",
                  opset=9),
    ]


def random_cases(count, seed):
    draw = random.Random(seed)
    cases = []
    for i in range(count):
        module = draw.choice(("LSTM", "GRU", "GRU", "RNN"))
        classes = draw.choice((0, draw.randint(1, 20)))
        cases.append(make_case(
            "written_%d_%d" % (seed, i), module, seed * 1000 + i, draw.randint(1, 40), draw.randint(1, 60),
            layers=draw.randint(1, 3), direction=draw.choice(("forward", "reverse", "bidirectional")),
            bias=draw.random() < 0.8, vocab=draw.choice((0, draw.randint(1, 100))), classes=classes,
            after=draw.randint(0, 1), nonlinearity=draw.choice(("", "tanh", "relu")) if module == "RNN" else "",
            zeros=draw.random() < 0.5, lengths=draw.random() < 0.3, product=draw.choice(("Gemm", "MatMul")),
            softmax=classes > 0 and draw.random() < 0.5, opset=draw.choice((9, 12, 13, 17))))
    return cases


def check(path):
    """ONNX Runtime on exported files: its OUTPUT against the one in the file, as a part of the bound."""
    with open(path, encoding="utf-8") as file:
        cases = json.load(file)["cases"]
    for case in cases:
        session = session_of(os.path.join(os.path.dirname(path), case["onnx"]))
        if case["style"] == "all":
            continue  # its outputs are other ones
        worst, runs = 0.0, 0
        for run in case["runs"]:
            x = input_of(case, run["length"])
            batch = 0 if case["batch_first"] else 1
            shape = session.get_inputs()[0].shape
            if isinstance(shape[1 - batch], int) and shape[1 - batch] != run["length"]:
                continue  # exported for sequences of one length
            x = np.expand_dims(x, batch)
            if isinstance(shape[batch], int):
                x = np.repeat(x, shape[batch], axis=batch)
            y = session.run(None, {session.get_inputs()[0].name: x})[0].astype(np.float64)
            if case["style"] == "steps":
                y = y[0] if case["batch_first"] else y[:, 0]
                if not case["classes"]:
                    continue
            else:
                y = y[0]
            expected = np.array(run["OUTPUT"])
            runs += 1
            worst = max(worst, np.linalg.norm(y.reshape(-1) - expected) / np.linalg.norm(expected) / 1e-5)
        if runs == 0:
            print("%-36s not asked: exported for another length, or it has no OUTPUT" % case["name"])
            continue
        print("%-36s %d runs: ONNX Runtime %.4f of the bound" % (case["name"], runs, worst))
        if worst > 1:
            return 1
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", help="of the .onnx files; the cases beside them")
    parser.add_argument("--out")
    parser.add_argument("--check", help="cases of torch_export.py")
    parser.add_argument("--random", type=int, default=0, help="this many cases from --seed, instead of the committed ones")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.check:
        return check(options.check)
    os.makedirs(options.folder, exist_ok=True)
    cases = random_cases(options.random, options.seed) if options.random else committed_cases()
    for case in cases:
        case["onnx"] = case["name"] + ".onnx"
        path = os.path.join(options.folder, case["onnx"])
        outputs = write(case, path)
        session = session_of(path)
        case["runs"] = [answers(case, session, outputs, length) for length in LENGTHS]
    made_by = "tests/golden/onnx_cases.py, ONNX Runtime %s, fp32" % onnxruntime.__version__
    with open(options.out, "w", encoding="utf-8") as out:
        out.write('{"made_by": %s,\n"cases": [\n' % json.dumps(made_by))
        out.write(",\n".join(json.dumps(case, separators=(",", ":")) for case in cases))
        out.write("\n]}\n")
    print("%s: %d graphs, ONNX Runtime %s" % (options.out, len(cases), onnxruntime.__version__))
    return 0


if __name__ == "__main__":
    sys.exit(main())
