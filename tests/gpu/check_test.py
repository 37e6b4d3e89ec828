"""tests/gpu/check where there is no GPU: its bundle, on the emulated driver, and without any.

    check_test.py CHECK EMULATED_DRIVER PROGRAM..

What it measures here means nothing; that every row of its table comes, marked as emulated, is what is tested. The bundle runs in
an empty environment, from another folder: nothing of the checkout is in its reach.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

SANITIZER = """#!/bin/sh
# In compute-sanitizer's place: says what it was asked, runs the program, and sums up.
tool=$2
while [ "${1#-}" != "$1" ]; do case $1 in --tool | --error-exitcode | --target-processes) shift ;; esac; shift; done
"$@"
echo "========= ERROR SUMMARY: 0 errors"
[ "$tool" != "%s" ] || exit 9
"""

# In python3's place, where there is PyTorch.
PEER = """#!/bin/sh
echo "by $1"
echo "figure peer.lstm.us = 7 us"
%s
"""


class CheckTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.bundle = os.path.join(cls.folder.name, "bundle")
        cls.made = subprocess.run([cls.check, "--bundle=" + cls.bundle, "--programs=" + " ".join(cls.programs)], text=True,
                                  capture_output=True, check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_check(self, *options, path="/usr/bin:/bin"):
        # Compiled kernels are kept for the next run; a lock there serves all.
        # A real GPU that is here after all is none for PyTorch.
        environment = {"PATH": path, "OUT": self.out, "CELLBATCH_EMULATOR_CACHE": os.path.join(self.folder.name, "kernels"),
                       "CUDA_VISIBLE_DEVICES": ""}
        return subprocess.run([os.path.join(self.bundle, "check"), *options], text=True, capture_output=True, check=False, cwd="/",
                              env=environment)

    def setUp(self):
        self.out = tempfile.mkdtemp(dir=self.folder.name)

    def result(self):
        names = [name for name in os.listdir(self.out) if name.endswith(".md")]
        self.assertEqual(len(names), 1, names)
        self.assertRegex(names[0], r"^\d{4}-\d\d-\d\d-emulated-gpu\.md$")
        with open(os.path.join(self.out, names[0]), encoding="utf-8") as file:
            return file.read()

    def path_with(self, name, text):
        """A PATH whose program `name` is the script `text`."""
        folder = tempfile.mkdtemp(dir=self.folder.name)
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)
        return folder + ":/usr/bin:/bin"

    def fake_sanitizer(self, broken):
        """A PATH with a compute-sanitizer that finds something with the tool `broken`."""
        return self.path_with("compute-sanitizer", SANITIZER % broken)

    def rows(self, text):
        found = re.findall(r"^\| (\w+) \| (\w+) \| ([\w ]+) \| \d+ \| (.*) \|$", text, re.M)
        return {(part, what): (verdict, said) for part, what, verdict, said in found}

    def test_the_bundle_is_small_and_whole(self):
        size = int(re.search(r"^Bundle: .*, (\d+) MB", self.made.stdout, re.M).group(1))
        self.assertLessEqual(size, 60)
        for program in self.programs:
            name = os.path.basename(program)
            # All but the server know themselves where their libraries are.
            environment = {"LD_LIBRARY_PATH": os.path.join(self.bundle, "lib")} if name == "cellbatch-server" else {}
            listed = subprocess.run(["ldd", os.path.join(self.bundle, "bin", name)], text=True, capture_output=True, check=True,
                                    env={"PATH": "/usr/bin:/bin", **environment}).stdout
            libraries = re.findall(r"=> (\S+)", listed)
            self.assertGreater(len(libraries), 5)
            for library in map(os.path.realpath, libraries):
                if not library.startswith(os.path.realpath(self.bundle) + "/lib/"):
                    self.assertRegex(library, r"/(lib[cm]\.so\.6|ld-linux[\w.-]*)$", "of the system's libraries, the C library alone")

    def test_without_a_driver_one_line_says_so(self):
        broken = tempfile.mkdtemp(dir=self.folder.name)
        with open(os.path.join(broken, "libcuda.so.1"), "w", encoding="utf-8") as file:
            file.write("no library")
        for options in ([], ["--own-libc"]):
            done = self.run_check("--cuda-libraries=" + broken, *options)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertRegex(done.stderr, r"\Atests/gpu/check: no GPU: cuda: .*libcuda\.so\.1.*\n\Z")
            self.assertEqual(done.stdout, "")
        self.assertEqual(os.listdir(self.out), [])

    def test_every_part_has_its_row_and_what_was_emulated_says_so(self):
        # More than the usual limit: on two busy cores emulated benchmarks have taken ten minutes.
        done = self.run_check("--quick", "--limit=1800", "--cuda-libraries=" + self.driver, path=self.fake_sanitizer("none"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        text = self.result()
        self.assertIn("# tests/gpu/check on an emulated GPU: not run on a GPU", text)
        self.assertRegex(text, r"\n\d{4}-\d\d-\d\d, \d\d:\d\d UTC, .* at \S+\. Driver none, emulated; C library [\d.]+\.\n")
        rows = self.rows(text)
        self.assertEqual(list(rows), [("conformance", "device_conformance_gpu"), ("conformance", "numbers_gpu"),
                                      ("conformance", "denormals_gpu"), ("conformance", "company_gpu"), ("conformance", "zoo_gpu"),
                                      ("sanitizer", "memcheck"), ("sanitizer", "memcheck_rounded"),
                                      ("sanitizer", "racecheck"), ("sanitizer", "racecheck_rounded"),
                                      ("sanitizer", "synccheck"), ("sanitizer", "synccheck_rounded"),
                                      ("bench", "gpu_bench"), ("peer", "cudnn_peer")])
        verdict, said = rows.pop(("peer", "cudnn_peer"))
        self.assertEqual(verdict, "not run")
        self.assertNotEqual(said, "")
        for (part, what), (verdict, said) in rows.items():
            self.assertEqual(verdict, "passed", what)
            if part != "bench":
                self.assertRegex(said, r"^\d+ tests? passed", what)
        self.assertRegex(rows["bench", "gpu_bench"][1], r"^\d+ figures$")
        self.assertIn("ERROR SUMMARY: 0 errors", rows["sanitizer", "memcheck"][1])
        figures = re.findall(r"^figure (\S+) = \S+ \S+$", text, re.M)
        self.assertEqual([f for f in figures if f.startswith("gpu.signal.")],
                         ["gpu.signal.%s.us" % by for by in ("end_kernel", "signal_kernel", "stream_write")])
        for cell in ("lstm", "gru", "treelstm_internal"):
            for batch in (1, 3):
                for numbers in ("fp32", "fp32_3xtf32", "tf32"):
                    self.assertIn("gpu.step.%s_h16_b%d_%s.of_bound" % (cell, batch, numbers), figures)
        for devices in ("", "_2queues"):
            self.assertIn("gpu.saturation.lstm_h16_fp32%s.requests_per_s" % devices, figures)

    def test_what_fails_is_named_and_fails_the_command(self):
        done = self.run_check("--quick", "--parts=sanitizer", "--tools=synccheck,racecheck", "--cuda-libraries=" + self.driver,
                              path=self.fake_sanitizer("racecheck"))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        verdicts = {what: verdict for (_, what), (verdict, _) in self.rows(self.result()).items()}
        self.assertEqual(verdicts, {"synccheck": "passed", "synccheck_rounded": "passed",
                                    "racecheck": "FAILED", "racecheck_rounded": "FAILED"})

    def test_the_sanitizer_is_shown_bf16_and_tf32(self):
        """By tests that are there: --quick runs another one."""
        with open(self.check, encoding="utf-8") as file:
            (tests,) = re.findall(r"^rounded_filter='(.*)'$", file.read(), re.M)
        environment = {"PATH": "/usr/bin:/bin", "CELLBATCH_CUDA_LIBRARIES": self.driver}
        listed = subprocess.run([os.path.join(self.bundle, "bin/numbers_gpu"), "--gtest_list_tests", "--gtest_filter=" + tests], text=True,
                                capture_output=True, check=True, env=environment).stdout
        self.assertEqual(sorted(re.findall(r"^  (In\w+)ARequestHasTheSameBitsAloneAndAmongOthers/cuda\b", listed, re.M)),
                         ["InBf16", "InTf32"], listed)

    def peer(self, end, *options):
        """What the table says, and all of it, where cudnn_peer.py prints a figure and ends so."""
        self.setUp()
        done = self.run_check("--parts=peer", "--cuda-libraries=" + self.driver, *options, path=self.path_with("python3", PEER % end))
        text = self.result()
        (name, (verdict, said)), = self.rows(text).items()
        self.assertEqual(name, ("peer", "cudnn_peer"))
        self.assertEqual(done.returncode, 1 if verdict == "FAILED" else 0, done.stdout + done.stderr)
        return verdict, said, text

    def test_the_peers_figures_are_in_the_table(self):
        verdict, said, text = self.peer("exit 0")
        self.assertEqual((verdict, said), ("passed", "1 figures"))
        self.assertIn("```\nfigure peer.lstm.us = 7 us\n```\n", text)
        self.assertEqual(self.peer("echo 'no PyTorch here'; exit 3")[:2], ("not run", "no PyTorch here"))
        self.assertEqual(self.peer("echo 'wrong numbers'; exit 1")[:2], ("FAILED", "1 figures; exit code 1: wrong numbers"))

    def test_who_takes_longer_than_the_limit_is_stopped(self):
        verdict, said, _ = self.peer("exec sleep 300", "--limit=1")
        self.assertEqual(verdict, "FAILED")
        self.assertRegex(said, "^not done after 1 s; ")

    def test_wrong_use(self):
        for options in (["--part=bench"], ["--parts=all"], ["--tools=leakcheck"], ["--limit=soon"], ["--limit=0"],
                        ["--bundle=/nowhere"]):
            self.assertEqual(self.run_check(*options).returncode, 2, options)


if __name__ == "__main__":
    CheckTest.check, CheckTest.driver, *CheckTest.programs = [os.path.abspath(a) for a in sys.argv[1:]]
    CheckTest.driver = os.path.dirname(CheckTest.driver)
    del sys.argv[1:]
    unittest.main(verbosity=2)
