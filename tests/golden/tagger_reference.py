"""What PyTorch says of some sentences, in double, by the weights of the tagger that is shipped: made tagger.json.

    python3 tests/golden/debian_torch.py tests/golden/tagger_reference.py --out tests/golden/tagger.json

The network is the one that deploy/models/train_tagger trained; its weights and lists are read from deploy/models/tagger.
"""

import argparse
import importlib.machinery
import importlib.util
import json
import os
import struct

import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

SENTENCES = [
    "Angela Merkel visited Paris .",
    "Paris",
    "Zyxwvut",
    "the of and in",
    "Qwertzuiop Asdfghjkl Yxcvbnm",
    "Smørrebrød tastes better in København than in 東京 .",
    "In 1869 Dmitri Mendeleev , a chemist at Saint Petersburg State University , published the periodic table .",
    "The " + "Grindelwald-Interlaken " * 3 + "railway , built by Krupp and Siemens-Schuckert , climbs to the Jungfraujoch .",
    "He joined Manchester United F.C. in 1998 , and the United Nations ' Food and Agriculture Organization later .",
    " ".join("word%d and the Republic of Zanzibar%d" % (i, i) for i in range(12)),
]


def load_trainer():
    path = os.path.join(ROOT, "deploy", "models", "train_tagger")
    loader = importlib.machinery.SourceFileLoader("train_tagger", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("train_tagger", loader))
    loader.exec_module(module)
    return module


def read_tensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        values = struct.unpack("<%df" % ((end - begin) // 4), data[begin:end])
        tensors[name] = torch.tensor(values, dtype=torch.float64).reshape(entry["shape"])
    return tensors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    trainer = load_trainer()
    folder = os.path.join(ROOT, "deploy", "models", "tagger", "1")
    tensors = read_tensors(os.path.join(folder, "weights.safetensors"))
    names = {}
    for list_name in ("vocabulary", "chars", "labels"):
        with open(os.path.join(folder, list_name + ".txt"), encoding="utf-8") as file:
            names[list_name] = trainer.Names(file.read().split("\n")[:-1])
    shape = argparse.Namespace(
        embedding=tensors["embedding.weight"].shape[1], character_embedding=tensors["characters.weight"].shape[1],
        hidden=tensors["lstm.weight_hh_l0"].shape[1], mlp=tensors["hidden.bias"].shape[0], layers=1, dropout=0.0)
    model = trainer.Tagger(shape, *(len(names[n].names) for n in ("vocabulary", "chars", "labels"))).double().eval()
    model.load_state_dict(tensors)
    reader = trainer.Reader(names["vocabulary"], names["chars"])
    answers = []
    for sentence in SENTENCES:
        words = sentence.split()
        with torch.no_grad():
            scores = model([reader(words)])
        answers.append({"words": words, "labels": [names["labels"].names[i] for i in scores.argmax(1).tolist()],
                        "scores": [value for row in scores.tolist() for value in row]})
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump(answers, file, ensure_ascii=False)
        file.write("\n")
    print("%d sentences: %s" % (len(answers), options.out))


if __name__ == "__main__":
    main()
