"""The kernels of every task and of every shipped cell, compiled by CUDA's own compiler: they are CUDA C++, and nothing of them spills.

    nvcc_test.py PRINT_SOURCE NVCC      NVCC empty: there is no toolkit, and the test says so
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest


class NvccTest(unittest.TestCase):
    program = nvcc = ""

    def test_every_shipped_cell_compiles_without_spills(self):
        if not self.nvcc:
            self.skipTest("no CUDA toolkit here: the kernels were not compiled by nvcc")
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "cells.cu")
            with open(source, "w", encoding="utf-8") as out:
                subprocess.run([self.program, "64"], stdout=out, check=True)
            compiled = subprocess.run(
                [self.nvcc, "-std=c++17", "-arch=sm_90a", "-ftz=true", "-Xptxas=-v", "-cubin", "-o",
                 os.path.join(folder, "cells.cubin"), source],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            self.assertEqual(compiled.returncode, 0, compiled.stdout)
            with open(source, encoding="utf-8") as text:
                kernels = re.findall(r"__global__ void\s+(?:__launch_bounds__\(\d+\)\s+)?(\w+)\(", text.read())
        reports = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", compiled.stdout)
        self.assertGreater(len(kernels), 50)
        self.assertEqual(len(reports), len(kernels), compiled.stdout)
        self.assertEqual(set(reports), {("0", "0")}, compiled.stdout)


if __name__ == "__main__":
    NvccTest.program = os.path.abspath(sys.argv[1])
    NvccTest.nvcc = sys.argv[2] if len(sys.argv) > 2 else ""
    unittest.main(argv=sys.argv[:1])
