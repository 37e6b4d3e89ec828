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
import skips  # noqa: E402

CASES = 24
SEED = 2026


def main():
    torch_check = os.path.abspath(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else SEED
    report = skips.Report()
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_cases.py")
    with tempfile.TemporaryDirectory() as folder:
        cases = os.path.join(folder, "cases.json")
        try:
            made = debian_torch.run([script, "--random", str(CASES), "--seed", str(seed), "--out", cases])
        except debian_torch.Unavailable as reason:
            report.skipped("PyTorch.random_modules", reason)
            return 0
        report.ran("PyTorch.random_modules")
        print("seed %d" % seed, flush=True)
        if made.returncode != 0:
            return made.returncode
        return subprocess.run([torch_check, cases, folder], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
