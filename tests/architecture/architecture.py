"""Checks that the tree is the house that was drawn: rooms, arrows, doors, sizes, words (CONTRIBUTING.md has the list).

    python3 tests/architecture/architecture.py [CHECKOUT]

Prints one line per violation, PATH:LINE: RULE: what it says and what it may say, and exits 1 if there is any. Without
an argument it checks the checkout that this file belongs to, also when Bazel runs it through a link to it.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import fault_table  # noqa: E402  (found beside this file)
import links  # noqa: E402
import rules  # noqa: E402

_SOURCES = (".h", ".cc", ".cu", ".cuh", ".proto", ".textproto", ".py", ".bzl", ".sh", ".md", ".yaml", ".txt")
_NAMES = ("BUILD", "WORKSPACE", "run", "lint", "demo", "container", "install_packages", ".bazelrc", "Containerfile")


def _is_foreign(folder):
    name = os.path.basename(folder)
    return (name in (".git", ".cache", "__pycache__") or name.startswith("bazel-")
            or os.path.exists(os.path.join(folder, "pyvenv.cfg")))


def read_tree(root):
    """-> {path: text} of every source under `root`; not Bazel's links, caches and Python environments."""
    files = {}
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(name for name in subfolders if not _is_foreign(os.path.join(folder, name)))
        for name in sorted(names):
            path = os.path.join(folder, name)
            if (name.endswith(_SOURCES) or name in _NAMES) and not os.path.islink(path):
                with open(path, encoding="utf-8", errors="replace") as source:
                    files[os.path.relpath(path, root)] = source.read()
    return files


def check(files, exists=lambda path: False):
    """-> the violations of a tree given as {path: text}, in reading order. exists(path): whether it has such a file or folder
    that is no text."""
    found = []
    for path, text in files.items():
        for rule in rules.FILE_RULES:
            found.extend(rule(path, text))
    found.extend(rules.build_rules(files))
    found.extend(rules.one_definition(files))
    found.extend(rules.Violation(fault_table.TABLE, line, "fault table", text)
                 for line, text in fault_table.problems(files))
    found.extend(rules.Violation(path, line, "link", text) for path, line, text in links.problems(files, exists))
    return sorted(found, key=lambda violation: (violation.path, violation.line))


def main():
    here = os.path.dirname(os.path.realpath(__file__))
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(here))
    files = read_tree(root)
    if "WORKSPACE" not in files:
        print("%s is no checkout: it has no WORKSPACE" % root)
        return 2
    violations = check(files, exists=lambda path: os.path.exists(os.path.join(root, path)))
    for violation in violations:
        print("%s:%d: %s: %s" % violation)
    print("architecture: %d files, %d violations" % (len(files), len(violations)))
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
