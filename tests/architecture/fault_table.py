"""The table of tests/fault/README.md: which test stands for which row of the reference. A test that was renamed or taken
out, or a row that nobody speaks of any more, is a violation."""

import re

TABLE = "tests/fault/README.md"
ROWS = [kind + str(number) for kind, most in (("P", 14), ("V", 18), ("T", 12), ("S", 7), ("L", 8), ("D", 7))
        for number in range(1, most + 1)]

_ROW = re.compile(r"\| ([A-Z]\d+) \| (.*?) \| (.*?) \|$")
_TEST = re.compile(r"`(\w+)\.(\w+)`$")
_FILE = re.compile(r"`([\w/.]+)`$")


def _has(text, suite, name):
    if re.search(r"^TEST(_[FP])?\(%s,\s*%s\)" % (suite, name), text, re.MULTILINE):
        return True
    return re.search(r"^class %s\(.*?^    def %s\(" % (suite, name), text, re.MULTILINE | re.DOTALL) is not None


def problems(files):
    """Yields (line, text) for each thing wrong with the table of a tree given as {path: text}."""
    if TABLE not in files:
        return
    missing = list(ROWS)
    for number, line in enumerate(files[TABLE].splitlines(), 1):
        row = _ROW.match(line)
        if not row:
            continue
        if row[1] in missing:
            missing.remove(row[1])
        elif row[1] not in ROWS:
            yield number, "%s is no row of the reference" % row[1]
        test, file = _TEST.match(row[2]), _FILE.match(row[3])
        if test and (not file or not _has(files.get(file[1], ""), *test.groups())):
            yield number, "there is no test %s.%s in %s" % (*test.groups(), row[3])
        elif not test and row[2] != "–":
            yield number, "%s names neither a test nor, by –, none" % row[1]
    for row in missing:
        yield 1, "row %s is missing" % row
