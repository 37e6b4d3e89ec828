"""What a test in Python ran and what it had to skip, where Bazel and tests/run look for it.

gtest writes a test.xml with a case for everything it ran or skipped; a Python test that only prints and exits with 0
looks to Bazel as if it had run. With a Report it says both, and tests/run names each skip at its end, with its reason:

    report = skips.Report()
    report.skipped("against PyTorch", "no PyTorch can be had: ...")
    report.ran("against ONNX Runtime")

run_unittests() is unittest.main() with a Report. The exit status remains the verdict. Where Bazel runs the program several
times at once (shard_count), each runs its share of the tests.
"""

import os
import sys
import unittest
from xml.etree import ElementTree


class Unavailable(Exception):
    """Why software that a test compares with cannot be had here."""


class Report:
    """The file is written anew with every case, so that a test that dies has said what it skipped before."""

    def __init__(self):
        self._suites = ElementTree.Element("testsuites")
        self._suite = ElementTree.SubElement(self._suites, "testsuite", name=os.path.basename(sys.argv[0]))

    def ran(self, name):
        self._add(name)
        self._write()

    def skipped(self, name, reason):
        reason = " ".join(str(reason).split())
        print("SKIPPED: %s: %s" % (name, reason), file=sys.stderr, flush=True)
        ElementTree.SubElement(self._add(name), "skipped", message=reason)
        self._write()

    def _add(self, name):
        group, _, case = name.rpartition(".")
        return ElementTree.SubElement(self._suite, "testcase", classname=group or self._suite.get("name"), name=case)

    def _write(self):
        path = os.environ.get("XML_OUTPUT_FILE")
        if path:  # absent where a test is run by hand
            ElementTree.ElementTree(self._suites).write(path, encoding="utf-8", xml_declaration=True)


def _tests_of(suite):
    for test in suite:
        yield from _tests_of(test) if isinstance(test, unittest.TestSuite) else (test,)


class _Share(unittest.TestLoader):
    """Every so many-th test of a program: those of one shard, all where there is but one."""

    def loadTestsFromModule(self, module, *args, **kwargs):
        tests = list(_tests_of(super().loadTestsFromModule(module, *args, **kwargs)))
        status = os.environ.get("TEST_SHARD_STATUS_FILE")
        if status:  # so Bazel knows that shards differ
            with open(status, "a", encoding="utf-8"):
                pass
        shards, shard = (int(os.environ.get("TEST_" + name) or default) for name, default in (("TOTAL_SHARDS", 1), ("SHARD_INDEX", 0)))
        return self.suiteClass(tests[shard::shards])


def run_unittests():
    """Runs the tests of the calling program and exits."""
    report = Report()

    def name_of(test):
        return test.id().replace("__main__.", "", 1)

    class Result(unittest.TextTestResult):
        def addSuccess(self, test):
            super().addSuccess(test)
            report.ran(name_of(test))

        def addFailure(self, test, err):
            super().addFailure(test, err)
            report.ran(name_of(test))

        def addError(self, test, err):
            super().addError(test, err)
            report.ran(name_of(test))

        def addSkip(self, test, reason):
            super().addSkip(test, reason)
            report.skipped(name_of(test), reason)

    unittest.main(testRunner=unittest.TextTestRunner(verbosity=2, resultclass=Result), testLoader=_Share())
