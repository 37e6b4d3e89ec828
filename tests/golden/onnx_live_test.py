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
import skips  # noqa: E402
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


def export(seed, folder):
    """-> a file of exported modules with PyTorch's answers, the exporter's exit status. debian_torch.Unavailable."""
    cases = os.path.join(folder, "exported.json")
    script = os.path.join(HERE, "torch_export.py")
    made = debian_torch.run([script, "--folder", folder, "--out", cases, "--random", str(MODULES), "--seed", str(seed)])
    return cases, made.returncode


def find_onnx_runtime(report):
    try:
        return venv_cache.python_with(PACKAGES)
    except skips.Unavailable as reason:
        report.skipped("OnnxRuntime.written_graphs", reason)
        report.skipped("OnnxRuntime.exported_modules", reason)
        return None


def check_exported(python, torch_check, seed, folder, report):
    try:
        cases, failed = export(seed, folder)
    except debian_torch.Unavailable as reason:
        report.skipped("PyTorch.exported_modules", reason)
        if python is not None:
            report.skipped("OnnxRuntime.exported_modules", "there are none: %s" % reason)
        return 0
    report.ran("PyTorch.exported_modules")
    failed = failed or subprocess.run([torch_check, cases, folder], check=False).returncode
    if failed or python is None:
        return failed
    report.ran("OnnxRuntime.exported_modules")
    return subprocess.run([python, os.path.join(HERE, "onnx_cases.py"), "--check", cases], check=False).returncode


def main():
    torch_check = os.path.abspath(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else SEED
    print("seed %d" % seed, flush=True)
    report = skips.Report()
    python = find_onnx_runtime(report)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        if python is not None:
            report.ran("OnnxRuntime.written_graphs")
            failed = check_written(python, torch_check, seed, folder)
        return failed or check_exported(python, torch_check, seed, folder, report)


if __name__ == "__main__":
    sys.exit(main())
