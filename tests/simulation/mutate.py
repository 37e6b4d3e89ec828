"""Writes a source with a planted bug: mutate.py MUTANT SOURCE OUTPUT.

A mutant is a text: '#' lines say what bug it is; then, for each source it changes, the path and exchanges

    room/file.cc
    <<<<
    exact lines of the source, there exactly once
    ====
    what stands there instead
    >>>>

A mutant whose lines are not there any more is an error: it must follow the source."""

import re
import sys


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


def mutate(mutant, source_path, source):
    """The source as the mutant wants it."""
    exchanges = next((e for path, e in parse(mutant).items() if source_path.endswith(path)), None)
    if not exchanges:
        raise MutantError("has no exchange for %s" % source_path)
    for before, after in exchanges:
        times = source.count(before)
        if times != 1:
            raise MutantError("%s has these lines %d times; they must be there once:\n%s" % (source_path, times, before))
        source = source.replace(before, after)
    return source


def main(arguments):
    mutant_path, source_path, output_path = arguments
    with open(mutant_path) as mutant, open(source_path) as source:
        try:
            mutated = mutate(mutant.read(), source_path, source.read())
        except MutantError as error:
            sys.exit("%s: %s" % (mutant_path, error))
    with open(output_path, "w") as output:
        output.write(mutated)


if __name__ == "__main__":
    main(sys.argv[1:])
