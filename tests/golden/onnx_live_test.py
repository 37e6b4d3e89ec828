"""Random ONNX graphs against the ONNX Runtime, and exported modules against the PyTorch, that can be had; or skipped aloud.

    onnx_live_test.py TORCH_CHECK [SEED]

TORCH_CHECK is the binary beside this file. Another seed draws other graphs. ONNX Runtime comes from the package index,
PyTorch is the one that is here, or Debian's; its exporter is then the one of PyTorch 1.13, and what PyTorch 2.9's two
exporters write is in tests/golden/onnx.
"""

import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import debian_torch  # noqa: E402  (found beside this file)
import venv_cache  # noqa: E402

GRAPHS, MODULES = 30, 16
SEED = 2026
PACKAGES = ["numpy", "onnx", "onnxruntime"]


def check_written(python, torch_check, seed, folder):
    cases = os.path.join(folder, "written.json")
    script = os.path.join(HERE, "onnx_cases.py")
    made = subprocess.run([python, script, "--folder", folder, "--out", cases, "--random", str(GRAPHS), "--seed",
                           str(seed)], check=False)
    return made.returncode or subprocess.run([torch_check, cases, folder], check=False).returncode


def check_exported(python, torch_check, seed, folder):
    cases = os.path.join(folder, "exported.json")
    script = os.path.join(HERE, "torch_export.py")
    made = debian_torch.run([script, "--folder", folder, "--out", cases, "--random", str(MODULES), "--seed", str(seed)])
    if made is None:
        return 0  # said why on stderr
    if made.returncode != 0:
        return made.returncode
    failed = subprocess.run([torch_check, cases, folder], check=False).returncode
    if python is None:
        return failed
    return failed or subprocess.run([python, os.path.join(HERE, "onnx_cases.py"), "--check", cases],
                                    check=False).returncode


def main():
    torch_check = os.path.abspath(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else SEED
    print("seed %d" % seed, flush=True)
    python = venv_cache.python_with(PACKAGES)  # None: said why on stderr
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        if python is not None:
            failed = check_written(python, torch_check, seed, folder)
        return failed or check_exported(python, torch_check, seed, folder)


if __name__ == "__main__":
    sys.exit(main())
