"""Random LSTM, GRU and RNN modules against the PyTorch that is here, or Debian's, or skipped aloud.

    torch_live_test.py TORCH_CHECK [SEED]

TORCH_CHECK is the binary beside this file. Another seed draws other modules.
"""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import debian_torch  # noqa: E402  (found beside this file)

CASES = 24
SEED = 2026


def main():
    torch_check = os.path.abspath(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else SEED
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_cases.py")
    with tempfile.TemporaryDirectory() as folder:
        cases = os.path.join(folder, "cases.json")
        made = debian_torch.run([script, "--random", str(CASES), "--seed", str(seed), "--out", cases])
        if made is None:
            return 0  # said why on stderr
        print("seed %d" % seed, flush=True)
        if made.returncode != 0:
            return made.returncode
        return subprocess.run([torch_check, cases, folder], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
