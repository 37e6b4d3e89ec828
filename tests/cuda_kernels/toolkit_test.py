"""What is written of CUDA without CUDA, held against CUDA's own headers and compiler.

    toolkit_test.py PRINT_SOURCE COMPILE_SOURCE LIBCUDA

LIBCUDA is the emulated one: NVRTC is the toolkit's own.

The toolkit is the machine's, or comes from the package index; where neither can be had both tests are skipped, aloud.
"""

import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

import cuda_toolkit
import skips

CHECK = "cells/device/cuda/cuda_api_check.cc"


def run(command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)


class ToolkitTest(unittest.TestCase):
    def setUp(self):
        try:
            self.toolkit = cuda_toolkit.folder()
        except skips.Unavailable as reason:
            self.skipTest("not held against CUDA: %s" % reason)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def check_entry_points(self, text):
        """Compiles a text of CHECK."""
        source = os.path.join(self.folder, "check.cc")
        with open(source, "w", encoding="utf-8") as out:
            out.write(text)
        return run(["g++", "-std=c++20", "-fsyntax-only", "-I.", "-isystem", os.path.join(self.toolkit, "include"), source])

    def test_every_entry_point_has_the_type_of_cudas_headers(self):
        with open(CHECK, encoding="utf-8") as file:
            text = file.read()
        right = self.check_entry_points(text)
        self.assertEqual(right.returncode, 0, right.stdout)
        for of, other in (("::cuMemAlloc_v2)", "::cuMemFree_v2)"), ("kCaptureThreadLocal ==", "1 + kCaptureThreadLocal ==")):
            self.assertIn(of, text)
            wrong = self.check_entry_points(text.replace(of, other))
            self.assertNotEqual(wrong.returncode, 0, other)
            self.assertIn("static assertion failed", wrong.stdout)

    def check_no_kernel_spills(self, architecture, *printed):
        """Of what PRINT_SOURCE prints. How many kernels it has."""
        source = os.path.join(self.folder, "cells.cu")
        with open(source, "w", encoding="utf-8") as out:
            subprocess.run([ToolkitTest.print_source, *printed], stdout=out, check=True)
        compiled = run([os.path.join(self.toolkit, "bin/nvcc"), "-std=c++17", "-arch=" + architecture, "-ftz=true", "-Xptxas=-v",
                        "-cubin", "-o", os.path.join(self.folder, "cells.cubin"), source])
        self.assertEqual(compiled.returncode, 0, compiled.stdout)
        with open(source, encoding="utf-8") as text:
            kernels = re.findall(r"__global__ void\s+(?:__launch_bounds__\([\d, ]+\)\s+)?(\w+)\(", text.read())
        reports = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", compiled.stdout)
        self.assertEqual(len(reports), len(kernels), compiled.stdout)
        self.assertEqual(set(reports), {("0", "0")}, compiled.stdout)
        return len(kernels)

    def test_every_kernel_compiles_without_spills(self):
        self.assertGreater(self.check_no_kernel_spills("sm_90a", "64"), 50)

    def test_kernels_for_gpus_whose_blocks_have_less_shared_memory_compile_without_spills(self):
        ways = ["%s:%s" % (cell, way) for cell in ("lstm", "treelstm_internal") for way in ("bf16", "3xtf32", "tf32")]
        for architecture, kib in (("sm_80", 163), ("sm_89", 99)):
            with self.subTest(architecture):
                self.check_no_kernel_spills(architecture, "--shared=%d" % kib, "64", *ways)

    def compile_at_load(self, text, architecture):
        """By NVRTC, as a device would. None where the toolkit has none."""
        found = sorted(glob.glob(os.path.join(self.toolkit, "lib*", "libnvrtc.so.1[23]")))
        if not found:
            self.skipTest("not compiled by NVRTC: %s has none" % self.toolkit)
        for library in (ToolkitTest.libcuda, found[0]):
            os.symlink(library, os.path.join(self.folder, os.path.basename(library)))
        # NVRTC finds its own parts beside itself.
        environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(found[0]))
        return run([ToolkitTest.compile_source, self.folder, architecture], input=text, env=environment)

    def test_every_kernel_compiles_at_load(self):
        text = subprocess.run([ToolkitTest.print_source, "64"], stdout=subprocess.PIPE, text=True, check=True).stdout
        compiled = self.compile_at_load(text, "sm_90a")
        self.assertEqual(compiled.returncode, 0, compiled.stdout)
        self.assertRegex(compiled.stdout, r"\d{6,} bytes of .ELF")

    def test_what_nvrtc_refuses_is_said_in_its_words(self):
        refused = self.compile_at_load('extern "C" __global__ void t0_s0(int* a) { *a = nobody; }', "sm_90")
        self.assertEqual(refused.returncode, 1, refused.stdout)
        self.assertIn('identifier "nobody" is undefined', refused.stdout)


if __name__ == "__main__":
    ToolkitTest.print_source = os.path.abspath(sys.argv.pop(1))
    ToolkitTest.compile_source = os.path.abspath(sys.argv.pop(1))
    ToolkitTest.libcuda = os.path.abspath(sys.argv.pop(1))
    skips.run_unittests()
