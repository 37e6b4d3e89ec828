"""Writes a source with a planted bug: mutate.py MUTANT SOURCE OUTPUT; or what must notice it: mutate.py --expected MUTANT OUTPUT.

A mutant is a text: '#' lines say what bug it is, 'expect:' lines how the simulation words what it must see first (any
of them); then, for each source it changes, the path and exchanges

    expect: words of a violation, or of a check that fails
    room/file.cc
    <<<<
    exact lines of the source, there exactly once
    ====
    what stands there instead
    >>>>

A mutant whose lines are not there any more is an error: it must follow the source. One that expects nothing has no
exchanges, and leaves every source as it is: the control."""

import json
import re
import sys

NOTHING = "nothing"


class MutantError(Exception):
    pass


def parse(text):
    """{path: [(before, after)]} of a mutant's text."""
    sources = {}
    path = None
    body = "".join(line for line in text.splitlines(True) if not line.startswith("# "))
    for name, before, after in re.findall(r"^([\w/]+\.cc)$|^<<<<\n(.*?)^====\n(.*?)^>>>>$", body, re.S | re.M):
        if name:
            path = sources.setdefault(name, [])
        elif path is None:
            raise MutantError("an exchange before any path")
        else:
            path.append((before, after))
    return sources


def expected(text):
    """The texts after 'expect:', in the lines before the first path."""
    found = []
    for line in text.splitlines():
        if line.startswith("expect: "):
            found.append(line[len("expect: "):].strip())
        elif not line.startswith("#"):
            break
    if not found or not all(found):
        raise MutantError("does not say what must notice it: 'expect: ...' below its first lines")
    is_control = NOTHING in found
    if is_control and (len(found) > 1 or parse(text)):
        raise MutantError("expects nothing, and something else")
    return found


def mutate(mutant, source_path, source):
    """The source as the mutant wants it."""
    if expected(mutant) == [NOTHING]:
        return source
    exchanges = next((e for path, e in parse(mutant).items() if source_path.endswith(path)), None)
    if not exchanges:
        raise MutantError("has no exchange for %s" % source_path)
    for before, after in exchanges:
        times = source.count(before)
        if times != 1:
            raise MutantError("%s has these lines %d times; they must be there once:\n%s" % (source_path, times, before))
        source = source.replace(before, after)
    return source


def expected_source(mutant):
    """C++ that tells the test."""
    texts = [] if expected(mutant) == [NOTHING] else expected(mutant)
    return """#include "tests/simulation/planted_bug.h"

namespace cellbatch::sim {

std::vector<std::string_view> WhatMustNotice() { return {%s}; }

}  // namespace cellbatch::sim
""" % ", ".join(json.dumps(text) for text in texts)


def main(arguments):
    output_path = arguments[-1]
    mutant_path = arguments[-2] if arguments[0] == "--expected" else arguments[0]
    with open(mutant_path) as mutant_file:
        mutant = mutant_file.read()
    try:
        if arguments[0] == "--expected":
            result = expected_source(mutant)
        else:
            with open(arguments[1]) as source:
                result = mutate(mutant, arguments[1], source.read())
    except MutantError as error:
        sys.exit("%s: %s" % (mutant_path, error))
    with open(output_path, "w") as output:
        output.write(result)


if __name__ == "__main__":
    main(sys.argv[1:])
