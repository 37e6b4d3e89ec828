"""Reads what Bazel reported of one test run and prints what a reader wants last.

    python3 run_summary.py EVENTS_JSON BAZEL_STATUS

A line for every skipped case with its reason (Bazel hides the output of what passed), then what failed or was not
built, then one line "N passed, N failed", and ", N skipped" if any was. Passed and failed are test targets; skipped are
the cases named above. A target all of whose cases were skipped has not passed. Exits 0 only if Bazel did and nothing
failed. A target that was asked for and did not run, because it or its dependency did not build, counts as failed; so
does one whose report cannot be read, for nobody knows what it skipped, and one that an interrupted run left: what was
done before that is counted all the same.
"""

import json
import sys
import urllib.parse
import xml.etree.ElementTree

NOTHING_TO_TEST = 4  # Bazel's exit status where the patterns hold no test


def read_events(path):
    """-> (status by test target, test.xml paths by test target, why each target that did not build failed)."""
    tests, reports, broken = {}, {}, {}
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                event = json.loads(line)
            except json.JSONDecodeError:  # of a Bazel that was killed while it wrote
                broken["what Bazel reports"] = "CUT OFF at line %d" % number
                break
            identity = event.get("id", {})
            # An aborted test has no payload of its own, either.
            if "testSummary" in identity:
                label = identity["testSummary"]["label"]
                aborted = event.get("aborted", {}).get("reason", "NO_STATUS")
                tests[label] = event.get("testSummary", {}).get("overallStatus", aborted)
            elif "testResult" in identity:
                label = identity["testResult"]["label"]
                for output in event.get("testResult", {}).get("testActionOutput", []):
                    if output["name"] == "test.xml" and output.get("uri", "").startswith("file://"):
                        reports.setdefault(label, []).append(
                            urllib.parse.unquote(output["uri"][len("file://"):]))
            elif "targetCompleted" in identity:
                # An aborted completion has no payload of its own.
                if not event.get("completed", {}).get("success", False):
                    broken[identity["targetCompleted"]["label"]] = "NOT BUILT"
            elif "pattern" in identity and "aborted" in event:
                broken[" ".join(identity["pattern"].get("pattern", ["?"]))] = "NOT BUILT"
    return tests, reports, broken


def read_report(path):
    """-> (how many cases a test.xml has, a text with its reason for each that was skipped). OSError, ParseError."""
    cases, skipped = 0, []
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        cases += 1
        skip = case.find("skipped")
        if skip is not None:
            reason = " ".join((skip.get("message") or skip.text or "no reason given").split())
            skipped.append("%s.%s: %s" % (case.get("classname", "?"), case.get("name", "?"), reason))
    return cases, skipped


def read_reports(paths):
    """-> (skipped cases, whether all were, whether a report cannot be read), of one target."""
    cases, skipped = 0, []
    for path in paths:
        try:
            more_cases, more_skipped = read_report(path)
        except (OSError, xml.etree.ElementTree.ParseError):
            return skipped, False, True
        cases += more_cases
        skipped += more_skipped
    return skipped, 0 < cases == len(skipped), False


def main(events_path, bazel_status):
    tests, reports, broken = read_events(events_path)
    failed = {label: status for label, status in tests.items() if status not in ("PASSED", "FLAKY")}
    for label, status in broken.items():
        failed.setdefault(label, status)
    num_skipped, not_run = 0, set()
    for label in sorted(reports):
        skipped, all_skipped, unreadable = read_reports(reports[label])
        for case in skipped:
            print("skipped  %s  %s" % (label, case))
        num_skipped += len(skipped)
        if all_skipped:
            not_run.add(label)
        if unreadable:
            failed.setdefault(label, "NO REPORT")
    for label in sorted(failed):
        print("failed   %s  %s" % (label, failed[label]))
    num_passed = len(tests.keys() - failed.keys() - not_run)
    if bazel_status == NOTHING_TO_TEST:
        print("no test matches")
    elif bazel_status != 0 and not failed:
        print("failed   bazel itself, with status %d" % bazel_status)
        failed["bazel"] = "FAILED"
    verdict = "%d passed, %d failed" % (num_passed, len(failed))
    print(verdict + (", %d skipped" % num_skipped if num_skipped else ""))
    return 1 if failed or bazel_status != 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
