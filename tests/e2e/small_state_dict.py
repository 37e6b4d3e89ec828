"""Weights of a small recurrent network as PyTorch names them, from a seed, and as a .safetensors file. Python alone."""

import array
import json
import random
import struct

GATES = {"lstm": 4, "gru": 3}


def draw(cell, seed, vocabulary=50, width=6, hidden=10):
    """name -> (shape, row-major values), all exactly representable in fp32."""
    rng = random.Random(seed)
    shapes = {
        "embedding.weight": (vocabulary, width),
        "rnn.weight_ih_l0": (GATES[cell] * hidden, width),
        "rnn.weight_hh_l0": (GATES[cell] * hidden, hidden),
        "rnn.bias_ih_l0": (GATES[cell] * hidden,),
        "rnn.bias_hh_l0": (GATES[cell] * hidden,),
    }
    weights = {}
    for name, shape in shapes.items():
        size = shape[0] * (shape[1] if len(shape) > 1 else 1)
        weights[name] = (shape, [rng.randint(-4096, 4096) / 8192 for _ in range(size)])
    return weights


def save(path, weights):
    header, data = {}, b""
    for name, (shape, values) in weights.items():
        begin = len(data)
        data += array.array("f", values).tobytes()
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
