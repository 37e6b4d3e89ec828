"""Modules exported by torch.onnx, and what PyTorch answers to them in double precision.

    python3 tests/golden/torch_export.py --folder tests/golden/onnx --out tests/golden/onnx/exported.json
    python3 tests/golden/torch_export.py --folder DIR --out DIR/cases.json --random 12 --seed 5

Each module is exported by the exporter its case names: "script" (torch.onnx.export as it was until PyTorch 2.5) or
"dynamo". Cases of an exporter that is not there are left out, aloud. Weights and inputs are torch_cases.py's.
"""

import argparse
import json
import os
import random
import sys
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import torch_cases  # noqa: E402  (found beside this file)


def make_case(exporter, style, *arguments, batch_first=False, dynamic=True, softmax=False, **named):
    """`style`: what the module returns. "end": the state (or head) at the end; "steps": the same at every step; "all":
    what the recurrent module itself returns; "last": the top layer's last step, through the head if there is one."""
    case = torch_cases.make_case(*arguments, **named)
    case.update(exporter=exporter, style=style, batch_first=batch_first, dynamic=dynamic, softmax=softmax)
    return case


def committed_cases():
    return [
        make_case("script", "end", "script_lstm_2_both_tokens_softmax", "LSTM", 101, 5, 7, layers=2, both=True, vocab=11,
                  classes=3, batch_first=True, softmax=True),
        make_case("script", "all", "script_gru_2", "GRU", 102, 5, 7, layers=2),
        make_case("script", "steps", "script_rnn_relu_both_steps", "RNN", 103, 4, 6, both=True, classes=2,
                  batch_first=True, nonlinearity="relu"),
        make_case("script", "all", "script_lstm_3_both_fixed", "LSTM", 104, 3, 5, layers=3, both=True, dynamic=False),
        make_case("script", "last", "script_rnn_tanh_last", "RNN", 105, 6, 4, layers=2, classes=3, batch_first=True,
                  nonlinearity="tanh"),
        make_case("dynamo", "end", "dynamo_lstm_2_tokens_softmax", "LSTM", 106, 5, 7, layers=2, vocab=11, classes=3,
                  softmax=True),
        make_case("dynamo", "all", "dynamo_gru_2", "GRU", 107, 5, 7, layers=2),
        make_case("dynamo", "steps", "dynamo_gru_3_both_steps", "GRU", 108, 4, 6, layers=3, both=True, classes=2),
        make_case("dynamo", "last", "dynamo_lstm_last", "LSTM", 109, 6, 4, classes=3, batch_first=True),
    ]


def random_cases(count, seed):
    draw = random.Random(seed)
    cases = []
    for i in range(count):
        module = draw.choice(("LSTM", "GRU", "RNN"))
        exporter = "dynamo" if module != "RNN" and draw.random() < 0.25 else "script"  # dynamo unrolls nn.RNN
        style = draw.choice(("end", "steps", "all", "last"))
        classes = draw.choice((0, draw.randint(1, 20))) if style != "all" else 0
        # Of h_n in both directions torch.export (2.9) believes another shape than it has.
        both = style != "last" and (exporter, style) != ("dynamo", "end") and draw.random() < 0.5
        cases.append(make_case(
            exporter, style, "exported_%d_%d" % (seed, i), module, seed * 1000 + i, draw.randint(1, 40),
            draw.randint(1, 60), layers=draw.randint(1, 3), both=both, bias=draw.random() < 0.8,
            vocab=draw.choice((0, draw.randint(2, 100))), classes=classes, batch_first=draw.random() < 0.5,
            dynamic=exporter == "dynamo" or draw.random() < 0.7, softmax=classes > 0 and draw.random() < 0.4,
            nonlinearity=draw.choice(("tanh", "relu")) if module == "RNN" else ""))
    return cases


def module_of(case, modules):
    import torch
    embedding, rnn, head = modules

    class Exported(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.rnn, self.head = embedding, rnn, head

        def forward(self, x):
            hidden, final = self.rnn(x if embedding is None else self.embedding(x))
            h = final[0] if case["module"] == "LSTM" else final
            if case["style"] == "all":
                return hidden, final
            if case["style"] == "end":
                y = torch.cat((h[-2], h[-1]), dim=1) if case["bidirectional"] else h[-1]
            elif case["style"] == "last":
                y = hidden[:, -1] if case["batch_first"] else hidden[-1]
            else:
                y = hidden
            y = y if head is None else self.head(y)
            return torch.softmax(y, dim=-1) if case["softmax"] else y

    rnn.batch_first = case["batch_first"]
    return Exported().eval()


def export(case, module, file):
    import torch
    steps, batch = 7, 3
    shape = (batch, steps) if case["batch_first"] else (steps, batch)
    x = torch.zeros(shape, dtype=torch.int64) if case["vocabulary"] else torch.zeros((*shape, case["input"]))
    time = 1 if case["batch_first"] else 0
    if case["exporter"] == "script":
        options = {"dynamo": False} if "dynamo" in torch.onnx.export.__code__.co_varnames else {}
        axes = {"x": {time: "T", 1 - time: "B"}} if case["dynamic"] else None
        torch.onnx.export(module, (x,), file, input_names=["x"], dynamic_axes=axes, **options)
    else:
        # torch.export fixes the number of steps, whatever it is told; we serve any.
        shapes = {"x": {1 - time: torch.export.Dim("B", min=2, max=1000)}}
        torch.onnx.export(module, (x,), file, dynamo=True, dynamic_shapes=shapes, external_data=False, verbose=False)


def answers(case, modules, length):
    """torch_cases.run, but with what the exported module does at its end."""
    import torch
    embedding, rnn, head = modules
    rnn.batch_first = False
    answer = torch_cases.run(case, (embedding, rnn, None), length)
    x = torch_cases.input_of(case, embedding, length)
    hidden, _ = rnn(x.unsqueeze(1))
    if case["style"] == "steps" and head is not None:
        y = head(hidden)
    elif head is not None:
        y = head(torch.tensor(answer["OUTPUT"], dtype=torch.float64))
    else:
        return answer
    y = torch.softmax(y, dim=-1) if case["softmax"] else y
    answer["OUTPUT"] = [float("%.10g" % v) for v in y.reshape(-1).tolist()]
    return answer


def main():
    import torch
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True, help="of the .onnx files; the cases beside them")
    parser.add_argument("--out", required=True)
    parser.add_argument("--random", type=int, default=0, help="this many cases from --seed, instead of the committed ones")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    warnings.filterwarnings("ignore")
    has_dynamo = "dynamo" in torch.onnx.export.__code__.co_varnames
    cases = []
    for case in random_cases(options.random, options.seed) if options.random else committed_cases():
        if case["exporter"] == "dynamo" and not has_dynamo:
            print("left out: %s, PyTorch %s has no exporter \"dynamo\"" % (case["name"], torch.__version__))
            continue
        with torch.no_grad():
            modules = torch_cases.modules_of(case)
            case["runs"] = [answers(case, modules, length) for length in torch_cases.LENGTHS]
            floats = tuple(m if m is None else m.float() for m in modules)
            case["onnx"] = case["name"] + ".onnx"
            export(case, module_of(case, floats), os.path.join(options.folder, case["onnx"]))
        case["tensors"] = []
        cases.append(case)
    torch_cases.write_cases(options.out, "tests/golden/torch_export.py", cases)
    print("%s: %d modules, PyTorch %s" % (options.out, len(cases), torch.__version__))


if __name__ == "__main__":
    main()
