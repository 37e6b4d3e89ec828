"""What tests/run prints last, from events as Bazel writes them."""

import contextlib
import io
import json
import os
import tempfile
import unittest

import run_summary


def completed(label, success):
    event = {"id": {"targetCompleted": {"label": label}}}
    if success:
        event["completed"] = {"success": True}
    return event


def summary(label, status):
    return {"id": {"testSummary": {"label": label}}, "testSummary": {"overallStatus": status}}


def result(label, report):
    output = {"name": "test.xml", "uri": "file://" + report}
    return {"id": {"testResult": {"label": label}}, "testResult": {"testActionOutput": [output]}}


class RunSummaryTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def printed(self, events, bazel_status):
        """-> (exit status, lines printed)."""
        path = os.path.join(self.folder, "events.json")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(event) + "\n" for event in events)
        lines = io.StringIO()
        with contextlib.redirect_stdout(lines):
            status = run_summary.main(path, bazel_status)
        return status, lines.getvalue().splitlines()

    def test_what_passed_is_counted_and_nothing_else_is_said(self):
        events = [completed("//a:lib", True), completed("//a:x_test", True), summary("//a:x_test", "PASSED")]
        self.assertEqual(self.printed(events, 0), (0, ["1 passed, 0 failed"]))

    def test_a_failed_a_hanging_and_an_unbuilt_test_all_fail(self):
        events = [completed("//a:x_test", True), summary("//a:x_test", "FAILED"),
                  completed("//a:y_test", True), summary("//a:y_test", "TIMEOUT"),
                  completed("//a:z_test", False), completed("//a:w_test", True), summary("//a:w_test", "PASSED")]
        self.assertEqual(self.printed(events, 1), (1, ["failed   //a:x_test  FAILED", "failed   //a:y_test  TIMEOUT",
                                                       "failed   //a:z_test  NOT BUILT", "1 passed, 3 failed"]))

    def test_a_library_that_no_test_needs_fails_the_run_when_it_does_not_build(self):
        events = [completed("//a:lib", False), completed("//a:x_test", True), summary("//a:x_test", "PASSED")]
        self.assertEqual(self.printed(events, 1), (1, ["failed   //a:lib  NOT BUILT", "1 passed, 1 failed"]))

    def test_a_build_tool_that_breaks_without_a_word_is_a_failure(self):
        self.assertEqual(self.printed([], 37), (1, ["failed   bazel itself, with status 37", "0 passed, 1 failed"]))

    def test_what_an_interrupt_left_is_named_and_what_was_done_before_it_counts(self):
        aborted = {"aborted": {"reason": "USER_INTERRUPTED"}}
        events = [completed("//a:x_test", True), summary("//a:x_test", "PASSED"),
                  {"id": {"testResult": {"label": "//a:y_test"}}, **aborted},
                  {"id": {"testSummary": {"label": "//a:y_test"}}, **aborted},
                  {"id": {"testSummary": {"label": "//a:z_test"}}}]
        self.assertEqual(self.printed(events, 8), (1, ["failed   //a:y_test  USER_INTERRUPTED",
                                                       "failed   //a:z_test  NO_STATUS", "1 passed, 2 failed"]))

    def test_a_report_that_ends_in_the_middle_of_a_line_is_a_failure_that_counts_what_it_has(self):
        path = os.path.join(self.folder, "cut.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps(summary("//a:x_test", "PASSED")) + '\n{"id": {"testSumm')
        lines = io.StringIO()
        with contextlib.redirect_stdout(lines):
            self.assertEqual(run_summary.main(path, 0), 1)
        self.assertEqual(lines.getvalue().splitlines(),
                         ["failed   what Bazel reports  CUT OFF at line 2", "1 passed, 1 failed"])

    def report(self, name, cases):
        """A test.xml with these <testcase>s."""
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("<testsuites><testsuite>%s</testsuite></testsuites>" % cases)
        return path

    def test_a_skipped_case_is_named_with_its_reason_and_counted(self):
        report = self.report("test.xml", '<testcase name="Agrees" classname="TorchTest"><skipped message="no index&#10;'
                             'here"/></testcase><testcase name="B"/>')
        events = [completed("//a:x_test", True), result("//a:x_test", report), summary("//a:x_test", "PASSED")]
        self.assertEqual(self.printed(events, 0),
                         (0, ["skipped  //a:x_test  TorchTest.Agrees: no index here", "1 passed, 0 failed, 1 skipped"]))

    def test_a_test_that_skipped_all_it_has_did_not_pass(self):
        skips = '<testcase name="%s" classname="C"><skipped message="why"/></testcase>'
        reports = {"//a:x_test": self.report("x.xml", skips % "One" + skips % "Two"),
                   "//a:y_test": self.report("y.xml", '<testcase name="All" classname="D"/>')}
        events = []
        for label, report in reports.items():
            events += [completed(label, True), result(label, report), summary(label, "PASSED")]
        self.assertEqual(self.printed(events, 0),
                         (0, ["skipped  //a:x_test  C.One: why", "skipped  //a:x_test  C.Two: why",
                              "1 passed, 0 failed, 2 skipped"]))

    def test_what_a_failed_test_skipped_is_named_too(self):
        report = self.report("test.xml", '<testcase name="A" classname="C"><skipped/></testcase>'
                             '<testcase name="B" classname="C"><failure/></testcase>')
        events = [completed("//a:x_test", True), result("//a:x_test", report), summary("//a:x_test", "FAILED")]
        self.assertEqual(self.printed(events, 3), (1, ["skipped  //a:x_test  C.A: no reason given",
                                                       "failed   //a:x_test  FAILED",
                                                       "0 passed, 1 failed, 1 skipped"]))

    def test_an_answer_out_of_the_cache_names_its_skips_again(self):
        report = self.report("test.xml", '<testcase name="A" classname="C"><skipped message="why"/></testcase>')
        cached = result("//a:x_test", report)
        cached["testResult"]["cachedLocally"] = True
        events = [completed("//a:x_test", True), cached, summary("//a:x_test", "PASSED")]
        self.assertEqual(self.printed(events, 0), (0, ["skipped  //a:x_test  C.A: why",
                                                       "0 passed, 0 failed, 1 skipped"]))

    def test_a_report_that_cannot_be_read_is_a_failure_for_it_may_hide_a_skip(self):
        for report in (os.path.join(self.folder, "nowhere.xml"), self.report("broken.xml", "<")):
            events = [completed("//a:x_test", True), result("//a:x_test", report), summary("//a:x_test", "PASSED")]
            self.assertEqual(self.printed(events, 0), (1, ["failed   //a:x_test  NO REPORT", "0 passed, 1 failed"]))


if __name__ == "__main__":
    unittest.main()
