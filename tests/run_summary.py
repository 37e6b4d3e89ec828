"""Reads what Bazel reported of one test run and prints what a reader wants last.

    python3 run_summary.py EVENTS_JSON BAZEL_STATUS

Skipped tests with their reasons (Bazel hides the output of what passed), then what failed or was not built, then
one line "N passed, N failed". Exits 0 only if Bazel did and nothing failed. A target that was asked for and did not
run, because it or its dependency did not build, counts as failed.
"""

import json
import sys
import urllib.parse
import xml.etree.ElementTree

NOTHING_TO_TEST = 4  # Bazel's exit status where the patterns hold no test


def read_events(path):
    """-> (status by test target, test.xml paths by test target, targets that did not build)."""
    tests, reports, broken = {}, {}, []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            event = json.loads(line)
            identity = event.get("id", {})
            if "testSummary" in identity:
                label = identity["testSummary"]["label"]
                tests[label] = event["testSummary"].get("overallStatus", "NO_STATUS")
            elif "testResult" in identity:
                label = identity["testResult"]["label"]
                for output in event["testResult"].get("testActionOutput", []):
                    if output["name"] == "test.xml" and output.get("uri", "").startswith("file://"):
                        reports.setdefault(label, []).append(
                            urllib.parse.unquote(output["uri"][len("file://"):]))
            elif "targetCompleted" in identity:
                # An aborted completion has no payload of its own.
                if not event.get("completed", {}).get("success", False):
                    broken.append(identity["targetCompleted"]["label"])
            elif "pattern" in identity and "aborted" in event:
                broken.append(" ".join(identity["pattern"].get("pattern", ["?"])))
    return tests, reports, broken


def skipped_in(report):
    """The skipped cases of one test.xml, as texts with their reasons."""
    try:
        root = xml.etree.ElementTree.parse(report).getroot()
    except (OSError, xml.etree.ElementTree.ParseError):
        return []
    found = []
    for case in root.iter("testcase"):
        skip = case.find("skipped")
        if skip is not None:
            reason = " ".join((skip.get("message") or skip.text or "no reason given").split())
            found.append("%s.%s: %s" % (case.get("classname", "?"), case.get("name", "?"), reason))
    return found


def main(events_path, bazel_status):
    tests, reports, broken = read_events(events_path)
    for label in sorted(reports):
        for report in reports[label]:
            for case in skipped_in(report):
                print("skipped  %s  %s" % (label, case))
    failed = {label: status for label, status in tests.items() if status not in ("PASSED", "FLAKY")}
    for label in broken:
        failed.setdefault(label, "NOT BUILT")
    for label in sorted(failed):
        print("failed   %s  %s" % (label, failed[label]))
    num_passed = len(tests.keys() - failed.keys())
    if bazel_status == NOTHING_TO_TEST:
        print("no test matches")
    elif bazel_status != 0 and not failed:
        print("failed   bazel itself, with status %d" % bazel_status)
        failed["bazel"] = "FAILED"
    print("%d passed, %d failed" % (num_passed, len(failed)))
    return 1 if failed or bazel_status != 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
