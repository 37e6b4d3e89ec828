"""The rules of the house, each a function from files to violations. Which room may see which is the table below."""

import ast
import collections
import os
import re

import build_files
import cpp_text

Violation = collections.namedtuple("Violation", "path line rule text")

# Room -> the rooms it may see besides itself:
#
#     memplan <--- cells <--- scheduler <--- server ---> proto <--- client <--- loadgen
#                  ^                          |          ^                      |
#                  +--------------------------+          +----------------------+
ARROWS = {
    "memplan": (),
    "cells": ("memplan",),
    "scheduler": ("cells",),
    "proto": (),
    "server": ("scheduler", "cells", "proto"),
    "client": ("proto",),
    "loadgen": ("client", "proto"),
    "tests": ("memplan", "cells", "scheduler", "proto", "server", "client", "loadgen", "deploy"),
    "deploy": (),
}

# What stands behind a door -> the folders that may open it. (Code that gRPC generates lives in proto.)
Door = collections.namedtuple("Door", "name header label folders")
DOORS = (
    Door("CUDA", re.compile(r"(cuda|cublas|cudnn|cusparse|curand|nvrtc|nvToolsExt|nvtx|nvml|cooperative_groups"
                            r"|cub/|thrust/|cutlass/|cute/|mma\.h|cuda/)[\w./+]*$|mma\.h$"),
         re.compile(r"//deploy/bazel:cu(da|blas|dnn)"), ("cells/device/cuda/", "cells/kernels/cuda/")),
    Door("gRPC", re.compile(r"(grpc|grpcpp|grpc\+\+)/|.*\.grpc\.pb\.h$"),
         re.compile(r"//deploy/bazel:grpc"), ("proto/", "server/", "client/", "tests/")),
    Door("protobuf", re.compile(r"google/protobuf/|.*\.pb\.h$"),
         re.compile(r"//deploy/bazel:protobuf"), ("server/", "client/", "proto/", "loadgen/", "tests/")),
    Door("a heap in pinned memory", re.compile(r"boost/interprocess/"), re.compile(r"//deploy/bazel:boost_interprocess"),
         ("cells/device/cuda/",)),
    Door("lists without locks", re.compile(r"boost/lockfree/"), re.compile(r"//deploy/bazel:boost_lockfree"),
         ("cells/",)),
    Door("an assembler", re.compile(r"xbyak/"), re.compile(r"//deploy/bazel:xbyak"), ("cells/kernels/cpu/",)),
    Door("TLS", re.compile(r"openssl/"), re.compile(r"//deploy/bazel:openssl"), ("server/tls/", "server/tokens/", "client/", "tests/")),
    Door("HTTP", re.compile(r"boost/(?!interprocess/|lockfree/)"),
         re.compile(r"//deploy/bazel:boost(?!_interprocess|_lockfree)"),
         ("server/http/", "tests/")),
)

MAX_LINES, MAX_TEST_LINES, MAX_FUNCTION_LINES = 500, 800, 70
CPP = (".h", ".cc", ".cu", ".cuh")
LIBRARIES = ("absl", "benchmark", "boost", "fmt", "gmock", "google", "grpc", "grpcpp", "gtest", "nlohmann", "openssl", "spdlog")

# Spelled in two halves, so that this file does not break its own rules.
_UNFINISHED = re.compile(r"\b(" + "|".join(("TO" "DO", "FIX" "ME", "XX" "X", "HA" "CK")) + r")\b")
_DISABLED = re.compile(r"\bDISA" r"BLED_\w+")
_MACHINE = re.compile(r"(?<![\w.$}])/(wo" r"rk|fa" r"rm|ro" r"ot|ho" r"me)/[\w.]")
_REGISTRY = re.compile(r"(--(extra-)?index" r"-url|\bdeb (\[[^]]*\] )?http)")


def room_of(path):
    return path.split("/", 1)[0] if "/" in path else ""


def is_test(path):
    return room_of(path) == "tests" or re.search(r"_test\.\w+$", path) is not None


def may_see(path, room):
    own = room_of(path)
    return room == own or room in ARROWS[own] or own not in ARROWS


def arrows_in_includes(path, text):
    if not path.endswith(CPP) or room_of(path) not in ARROWS:
        return
    for line, included, quoted in cpp_text.includes(text):
        if not quoted:
            continue
        room = room_of(included)
        if room in LIBRARIES:
            continue
        if room not in ARROWS:
            yield Violation(path, line, "include", 'includes "%s", which does not start at the workspace: '
                            'write "room/file.h"' % included)
        elif not may_see(path, room) and not (is_test(path) and included.startswith("tests/testing/")):
            yield Violation(path, line, "arrow", 'includes "%s", but %s may see only: %s' %
                            (included, room_of(path), ", ".join(ARROWS[room_of(path)]) or "itself"))


def neutral_programs(path, text):
    """A program is made without knowing which device will run it."""
    if not path.endswith(CPP) or is_test(path) or not path.startswith(("cells/program/", "cells/compile/")):
        return
    for line, included, _ in cpp_text.includes(text):
        of_program = path.startswith("cells/program/") and included.startswith("cells/compile/")
        if of_program or included.startswith(("cells/kernels/", "cells/device/")):
            yield Violation(path, line, "device-neutral", "includes %s: programs, and the compiler that makes them, know "
                            "no device" % included)


def doors_in_includes(path, text):
    if not path.endswith(CPP):
        return
    for line, included, _ in cpp_text.includes(text):
        for door in DOORS:
            if door.header.match(included) and not path.startswith(door.folders):
                yield Violation(path, line, "door", "includes %s of %s, which only %s may" %
                                (included, door.name, ", ".join(door.folders)))


def file_length(path, text):
    most = MAX_TEST_LINES if is_test(path) else MAX_LINES
    num_lines = text.count("\n")
    if num_lines > most and not path.endswith((".md", "LICENSE", ".json", ".csv", "vocabulary.txt")):
        yield Violation(path, most + 1, "file length", "has %d lines, the limit is %d" % (num_lines, most))


def function_length(path, text):
    if path.endswith(CPP):
        measured = cpp_text.functions(text)
    elif path.endswith(".py"):
        measured = [cpp_text.Function(node.name, node.lineno, node.end_lineno - node.lineno + 1)
                    for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    else:
        return
    for function in measured:
        if function.num_lines > MAX_FUNCTION_LINES:
            yield Violation(path, function.line, "function length", "%s has %d lines, the limit is %d" %
                            (function.name, function.num_lines, MAX_FUNCTION_LINES))


def words(path, text):
    if path.endswith("LICENSE"):
        return
    checks = (("unfinished", _UNFINISHED, "says %s; finish it or leave it out"),
              ("disabled test", _DISABLED, "holds %s; mend it or delete it"),
              ("machine path", _MACHINE, "names %s, a path of one machine"),
              ("registry", _REGISTRY, "names a package registry (%s); the host's configuration does that"))
    for number, line in enumerate(text.split("\n"), 1):
        for rule, pattern, says in checks:
            match = pattern.search(line)
            if match:
                yield Violation(path, number, rule, says % match.group().strip())


def include_guard(path, text):
    if not path.endswith((".h", ".cuh")):
        return
    guard = "CELLBATCH_" + re.sub(r"[^A-Za-z0-9]", "_", path).upper() + "_"
    found = [directive for _, directive in cpp_text.directives(text)]
    if found[:2] != ["#ifndef " + guard, "#define " + guard] or found[-1:] != ["#endif"]:
        yield Violation(path, 1, "include guard", "is not guarded by %s from first to last directive" % guard)


def preprocessor(path, text):
    """Variants are files chosen in BUILD: a conditional may ask only what the compiler itself says of the target."""
    if not path.endswith(CPP):
        return
    cuda = path.startswith(("cells/device/cuda/", "cells/kernels/cuda/"))
    guard = "CELLBATCH_" + re.sub(r"[^A-Za-z0-9]", "_", path).upper() + "_"
    for line, directive in cpp_text.directives(text):
        asked = re.match(r"#(if|ifdef|ifndef|elif)\b(.*)", directive)
        if asked:
            for name in re.findall(r"[A-Za-z_]\w*", asked.group(2)):
                known = name.startswith("__") and (cuda or not re.search(r"CUDA|NVCC|HIP", name))
                if not known and name not in ("defined", guard):
                    yield Violation(path, line, "switch", "chooses by %s: put the variants into files and choose "
                                    "in BUILD" % name)
        defined = re.match(r"#define\s+(\w+)", directive)
        if defined and defined.group(1) != guard:
            yield Violation(path, line, "macro", "defines %s; only include guards are macros" % defined.group(1))


def environment(path, text):
    if not path.endswith(CPP) or is_test(path):
        return
    for number, line in enumerate(cpp_text.code_only(text).split("\n"), 1):
        if re.search(r"\b(secure_)?getenv\b", line):
            yield Violation(path, number, "environment", "reads an environment variable; make it a flag of main")


def folder_names(path, _text):
    for part in path.split("/"):
        stem = part.split(".")[0].lower()
        if re.fullmatch(r"(.*_)?(common|utils?|helpers?|misc)", stem):
            yield Violation(path, 1, "name", '"%s" attracts everything; name the file by its noun' % part)


def enumerator_switches(path, text):
    """In cells a new operator is a compile error wherever it is not handled, never some other operator."""
    if path.endswith(CPP) and room_of(path) == "cells" and not is_test(path):
        for line in cpp_text.switches_with_default(text):
            yield Violation(path, line, "default", "a switch over enumerators has a default: name each of them, so that "
                            "the compiler finds a new one")


_TOP_FOLDERS = ("server", "scheduler", "cells", "memplan", "proto", "client", "loadgen", "tests", "deploy", ".ci")
_TOP_FILES = ("WORKSPACE", "BUILD", "README.md", "CONTRIBUTING.md", "LICENSE", ".bazelrc", ".clang-format", ".gitignore")


def layout(path, _):
    """The top level has the rooms and some files, and nothing else."""
    top, inside, _ = path.partition("/")
    if top not in (_TOP_FOLDERS if inside else _TOP_FILES):
        yield Violation(path, 1, "layout", "%s is not of the top level" % top)


FILE_RULES = (layout, arrows_in_includes, neutral_programs, doors_in_includes, file_length, function_length, words, include_guard,
              preprocessor, environment, folder_names, enumerator_switches)


def one_definition(files):
    """A type's name means one thing in the whole tree: two meanings in one binary are undefined behaviour, silently."""
    places = collections.defaultdict(list)
    for path, text in files.items():
        if path.endswith(CPP):
            for name, line in cpp_text.types(text):
                places[name].append((path, line))
    for name, found in places.items():
        for path, line in found[1:]:
            yield Violation(path, line, "one definition", "defines %s, and so does %s" % (name, found[0][0]))


def build_rules(files):
    """Arrows and doors as BUILD files draw them, and the tags: what keeps Debian's gRPC away from the thread sanitizer, and skips out
    of Bazel's cache."""
    by_label, places = {}, {}
    for path, text in files.items():
        if os.path.basename(path) not in ("BUILD", "BUILD.bazel"):
            continue
        try:
            found = build_files.targets(text, os.path.dirname(path))
        except SyntaxError as error:
            yield Violation(path, error.lineno or 1, "build file", "cannot be read: %s" % error.msg)
            continue
        for target in found:
            by_label[target.label] = target
            places[target.label] = path
    for label, target in by_label.items():
        yield from _target_rules(target, places[label], by_label)
        yield from _skips(target, places[label], by_label, files)


def _target_rules(target, path, by_label):
    is_a_test = target.rule.endswith("_test")
    if room_of(path) not in ARROWS:
        return
    for dep in target.deps:
        room = room_of(dep[2:].replace(":", "/", 1))
        if dep.startswith("//deploy/bazel:"):
            for door in DOORS:
                if door.label.match(dep) and not path.startswith(door.folders) and room_of(path) != "deploy":
                    yield Violation(path, target.line, "door", "%s depends on %s, which only %s may" %
                                    (target.label, dep, ", ".join(door.folders)))
        elif room in ARROWS and not may_see(path, room) and room_of(path) != "deploy":
            if not (is_a_test and dep.startswith("//tests/testing")):
                yield Violation(path, target.line, "arrow", "%s depends on %s, but %s may see only: %s" %
                                (target.label, dep, room_of(path), ", ".join(ARROWS[room_of(path)]) or "itself"))
    if is_a_test and "no-tsan" not in target.tags and build_files.reaches(target.label, build_files.GRPC, by_label):
        yield Violation(path, target.line, "tag", "%s links gRPC, which Debian builds without thread sanitizer: tag "
                        'it "no-tsan"' % target.label)


def _skips(target, path, by_label, files):
    """What a test skips depends on the machine: an answer out of Bazel's cache would be another machine's, or day's."""
    if not target.rule.endswith("_test") or "external" in target.tags:
        return
    skipping = any("GTEST_SKIP(" in cpp_text.code_only(files.get(source, "")) for source in target.sources
                   if source.endswith(CPP))
    if skipping or build_files.reaches(target.label, build_files.SKIPS, by_label):
        yield Violation(path, target.line, "tag", '%s may skip: tag it "external", so that Bazel never answers for it '
                        "out of its cache" % target.label)
