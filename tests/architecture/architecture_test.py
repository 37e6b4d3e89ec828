"""Plants one violation of each kind in a tree that is clean, and expects exactly it to be found."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import architecture  # noqa: E402
import cpp_text  # noqa: E402
import fault_table  # noqa: E402

HEADER = """#ifndef CELLBATCH_CELLS_IDS_H_
#define CELLBATCH_CELLS_IDS_H_
#include <vector>
#include "absl/types/span.h"
namespace cellbatch {
inline int Twice(int x) { return 2 * x; }
}  // namespace cellbatch
#endif  // CELLBATCH_CELLS_IDS_H_
"""

CLEAN = {
    "cells/ids.h": HEADER,
    "cells/BUILD": 'cc_library(name = "ids", hdrs = ["ids.h"], deps = ["//memplan:planner"])\n',
    "scheduler/manager.cc": '#include "cells/ids.h"\n#if defined(__AVX2__)\n#endif\nint Run() { return 1; }\n',
    "server/call.cc": '#include <grpcpp/grpcpp.h>\n#include "scheduler/manager.h"\n#include "proto/a.grpc.pb.h"\n',
    "server/BUILD": 'cc_library(name = "call", deps = ["//deploy/bazel:grpc"])\n'
                    'cc_test(name = "call_test", deps = [":call"], tags = ["no-tsan"])\n',
    "proto/BUILD": 'proto(name = "a", src = "a.proto", grpc = True)\n',
    "loadgen/sender.cc": '#include "client/client.h"\n#include "proto/a.pb.h"\n',
    "tests/e2e/e2e_test.cc": '#include "server/call.h"\n#include "loadgen/sender.h"\n',
    "cells/device/cuda/stream.cc": "#include <cuda_runtime.h>\n#ifdef __CUDA_ARCH__\n#endif\n",
    "README.md": "Cellbatch\n",
}


def long_function(num_lines):
    return "int Long() {\n" + "  Step();\n" * (num_lines - 2) + "}\n"


class TreeTest(unittest.TestCase):

    def found(self, files=()):
        """The violations of the clean tree after planting `files`."""
        files = {**CLEAN, **dict(files)}
        return [(violation.path, violation.rule) for violation in architecture.check(files)]

    def expect_only(self, path, rule, text):
        self.assertEqual(self.found(files={path: text}), [(path, rule)])

    def test_a_clean_tree_has_no_violations(self):
        self.assertEqual(self.found(), [])

    def test_an_include_against_an_arrow_is_found(self):
        for path, included in (("cells/a.cc", "scheduler/manager.h"), ("memplan/a.cc", "cells/ids.h"),
                               ("scheduler/a.cc", "server/call.h"), ("client/a.cc", "server/call.h"),
                               ("loadgen/a.cc", "server/call.h"), ("server/a.cc", "client/client.h"),
                               ("scheduler/a.cc", "memplan/planner.h"), ("scheduler/a.cc", "proto/a.h"),
                               ("proto/a.cc", "cells/ids.h"), ("server/a.cc", "tests/testing/clock.h")):
            with self.subTest(path=path, included=included):
                self.expect_only(path, "arrow", '#include "%s"\n' % included)

    def test_a_unit_test_may_use_the_builders_of_tests_but_no_other_room(self):
        self.assertEqual(self.found(files={"cells/a_test.cc": '#include "tests/testing/clock.h"\n'}), [])
        self.expect_only("cells/a_test.cc", "arrow", '#include "tests/e2e/server_process.h"\n')
        self.expect_only("cells/a_test.cc", "arrow", '#include "server/cell_codec.h"\n')

    def test_an_include_in_a_comment_or_a_string_is_none(self):
        text = '// #include "server/call.h"\n/*\n#include "server/call.h"\n*/\nconst char* k = R"(\n"x)";\n'
        self.assertEqual(self.found(files={"cells/a.cc": text}), [])

    def test_an_include_that_does_not_start_at_the_workspace_is_found(self):
        self.expect_only("cells/a.cc", "include", '#include "ids.h"\n')
        self.expect_only("cells/a.cc", "include", '#include "../scheduler/manager.h"\n')

    def test_each_door_stays_shut(self):
        for path, included in (("cells/device/cpu/a.cc", "cuda_runtime.h"), ("scheduler/a.cc", "cuda.h"),
                               ("server/a.cc", "cublas_v2.h"), ("cells/kernels/cpu/a.cc", "mma.h"),
                               ("scheduler/a.cc", "grpcpp/grpcpp.h"), ("loadgen/a.cc", "grpc/grpc.h"),
                               ("cells/a.cc", "google/protobuf/message.h"), ("memplan/a.cc", "google/protobuf/a.h"),
                               ("client/a.cc", "boost/asio.hpp"), ("server/grpc/a.cc", "boost/beast.hpp"),
                               ("scheduler/a.cc", "boost/lockfree/stack.hpp"), ("cells/compile/a.cc", "xbyak/xbyak.h")):
            with self.subTest(path=path, included=included):
                self.expect_only(path, "door", "#include <%s>\n" % included)

    def test_generated_headers_stand_behind_the_same_doors(self):
        self.expect_only("loadgen/a.cc", "door", '#include "proto/a.grpc.pb.h"\n')
        self.assertIn(("scheduler/a.cc", "door"), self.found(files={"scheduler/a.cc": '#include "proto/a.pb.h"\n'}))

    def test_a_file_may_have_500_lines_and_a_test_800(self):
        line = "int x;\n"
        self.assertEqual(self.found(files={"cells/a.cc": line * 500, "cells/a_test.cc": line * 800,
                                           "tests/e2e/b.cc": line * 800}), [])
        self.expect_only("cells/a.cc", "file length", line * 501)
        self.expect_only("cells/a_test.cc", "file length", line * 801)
        self.expect_only("cells/BUILD", "file length", "# a\n" * 501)

    def test_a_function_may_have_70_lines(self):
        self.assertEqual(self.found(files={"cells/a.cc": long_function(70)}), [])
        self.expect_only("cells/a.cc", "function length", long_function(71))
        self.expect_only("cells/a_test.cc", "function length", "TEST(A, B) {\n" + "Step();\n" * 70 + "}\n")
        self.expect_only("tests/a.py", "function length", "def a():\n" + "    b()\n" * 70)

    def test_a_compiler_that_knows_a_device_is_found(self):
        for path, included in (("cells/compile/a.cc", "cells/kernels/cpu/a.h"), ("cells/program/a.h", "cells/device/a.h"),
                               ("cells/program/a.cc", "cells/compile/a.h")):
            with self.subTest(path=path, included=included):
                self.assertIn((path, "device-neutral"), self.found(files={path: '#include "%s"\n' % included}))
        self.assertEqual(self.found(files={"cells/compile/a_test.cc": '#include "cells/kernels/cpu/a.h"\n',
                                           "cells/device/a.cc": '#include "cells/compile/a.h"\n'}), [])

    def test_two_types_of_one_name_are_found(self):
        one = "namespace cellbatch {\nstruct Place {\n  int x;\n};\n}  // namespace cellbatch\n"
        files = {"cells/a.cc": one, "cells/b.cc": "class Place;\n" + one.replace("struct", "enum class")}
        self.assertEqual(self.found(files=files), [("cells/b.cc", "one definition")])
        for other in (one.replace("cellbatch {", "cellbatch::kernels {"), one.replace("cellbatch {", "{"),
                      one.replace("Place", "Other"), "struct Outer {\n  struct Place { int x; };\n};\n"):
            with self.subTest(other=other):
                self.assertEqual(self.found(files={"cells/a.cc": one, "cells/b.cc": other}), [])

    def test_a_default_among_enumerators_is_found_in_cells(self):
        text = "int F(Kind k) {\n  switch (k) {\n    case Kind::kAdd:\n      return 1;\n    default:\n      return 2;\n  }\n}\n"
        self.expect_only("cells/a.cc", "default", text)
        self.assertEqual(self.found(files={"server/a.cc": text}), [])
        self.assertEqual(self.found(files={"cells/a.cc": text.replace("Kind::kAdd", "'+'")}), [])
        self.assertEqual(self.found(files={"cells/a.cc": text.replace("    default:\n      return 2;\n", "")}), [])

    def test_unfinished_words_are_found_in_code_scripts_and_texts(self):
        for word in ("TO" "DO", "FIX" "ME", "XX" "X", "HA" "CK"):
            with self.subTest(word=word):
                self.expect_only("cells/a.cc", "unfinished", "// %s: later\n" % word)
                self.expect_only("cells/README.md", "unfinished", "%s\n" % word)
        self.assertEqual(self.found(files={"cells/a.cc": "// a template mktemp -d aXX" "X; todo lists\n"}), [])

    def test_a_disabled_test_is_found(self):
        self.expect_only("cells/a_test.cc", "disabled test", "TEST(A, DISA" "BLED_B) {}\n")

    def test_a_path_of_one_machine_is_found(self):
        self.expect_only("deploy/run", "machine path", "cd /wo" "rk/main\n")
        self.expect_only("cells/README.md", "machine path", "see /ho" "me/me/x\n")
        self.assertEqual(self.found(files={"cells/README.md": "cells/wo" "rk/x https://a.b/wo" "rk/x $HOME/ro" "ot/x\n"}),
                         [])

    def test_a_package_registry_is_found(self):
        self.expect_only("deploy/run", "registry", "pip install --index" "-url https://a.b/simple\n")
        self.expect_only("deploy/run", "registry", "de" "b [trusted=yes] http://a.b/debian bookworm main\n")

    def test_a_wrong_or_missing_include_guard_is_found(self):
        self.expect_only("cells/ids.h", "include guard", "inline int x = 1;\n")
        self.expect_only("cells/ids.h", "include guard", "#pragma once\n")
        self.assertIn(("cells/ids.h", "include guard"),
                      self.found(files={"cells/ids.h": HEADER.replace("CELLS_IDS", "IDS")}))
        self.expect_only("cells/ids.h", "include guard", HEADER + "#include <vector>\n")

    def test_variants_by_preprocessor_are_found(self):
        for condition in ("#ifdef __CUDACC__", "#if defined(__CUDA_ARCH__)", "#ifdef CELLBATCH_WITH_CUDA",
                          "#ifndef NDEBUG", "#if \\\n  USE_AVX"):
            with self.subTest(condition=condition):
                self.expect_only("cells/a.cc", "switch", condition + "\n#endif\n")

    def test_a_macro_is_found(self):
        self.expect_only("cells/a.cc", "macro", "#define RETURN_IF_ERROR(x) x\n")

    def test_reading_the_environment_is_found_outside_tests(self):
        self.expect_only("server/a.cc", "environment", 'auto x = std::getenv("HOME");\n')
        self.assertEqual(self.found(files={"tests/a.cc": "std::getenv(\"CELLBATCH_DATA\");\n"}), [])

    def test_a_file_named_for_nothing_is_found(self):
        self.expect_only("server/string_util.cc", "name", "int x;\n")
        self.expect_only("server/common/a.cc", "name", "int x;\n")

    def test_what_is_not_of_the_layout_is_found(self):
        self.expect_only("READ_ME_NOW.txt", "layout", "Stop.\n")
        self.expect_only("notes/a.md", "layout", "Stop.\n")

    def test_a_link_that_leads_nowhere_is_found(self):
        page = "# Cells\n\n## What a `cell` *is*, and costs\n\n## Again\n\n## Again\n"
        pages = {"cells/README.md": page, "README.md": "```\n](gone.md)\n```\n"}
        good = ("cells/README.md", "cells", "cells/ids.h", "cells/README.md#what-a-cell-is-and-costs",
                "cells/README.md#again-1", "https://a.b/c.md#d", "#here")
        for target in good:
            with self.subTest(target=target):
                self.assertEqual(self.found(files={**pages, "scheduler/README.md": "[a](%s)\n# Here\n" % (
                    target if target[0] == "#" or ":" in target else "../" + target)}), [])
        for target in ("cells/GONE.md", "cell", "cells/README.md#again-2", "cells/README.md#what-a-cell-costs",
                       "cells/ids.h#cells", "picture.png", "#here"):
            with self.subTest(target=target):
                self.assertEqual(self.found(files={**pages, "README.md": "text, [a](%s)\n" % target}),
                                 [("README.md", "link")])

    def test_a_picture_is_looked_for_in_the_folder(self):
        page = {"README.md": '<img src="a/b.png" width="9"> ![c](d.svg)\n'}
        seen = []
        self.assertEqual(architecture.check({**CLEAN, **page}, exists=lambda path: not seen.append(path)), [])
        self.assertEqual(seen, ["a/b.png", "d.svg"])


class FaultTableTest(unittest.TestCase):
    """A table in which every row is said to have no test, except the first, and what becomes of it."""

    CODE = {"tests/fault/a_test.cc": "TEST_F(ATest, P1IsSo) {}\n",
            "tests/deploy/b_test.py": "class BTest(unittest.TestCase):\n    def test_it(self):\n        pass\n"}

    def found(self, first, others=fault_table.ROWS[1:]):
        lines = [first] + ["| %s | – | not served |" % row for row in others]
        return [text for _, text in fault_table.problems({**self.CODE, fault_table.TABLE: "\n".join(lines)})]

    def test_tests_that_are_there_are_found_and_no_table_is_no_problem(self):
        self.assertEqual(self.found("| P1 | `ATest.P1IsSo` | `tests/fault/a_test.cc` |"), [])
        self.assertEqual(self.found("| P1 | `BTest.test_it` | `tests/deploy/b_test.py` |"), [])
        self.assertEqual(list(fault_table.problems(CLEAN)), [])

    def test_a_test_that_is_not_there_any_more_is_found(self):
        for test, file in (("ATest.P1Is", "tests/fault/a_test.cc"), ("ATest.P1IsSo", "tests/fault/b_test.cc"),
                           ("BTest.test_i", "tests/deploy/b_test.py")):
            text, = self.found("| P1 | `%s` | `%s` |" % (test, file))
            self.assertIn("there is no test %s in" % test, text)

    def test_a_row_that_is_missing_unknown_or_says_nothing_is_found(self):
        self.assertEqual(self.found("| P1 | – | not served |", others=fault_table.ROWS[2:]), ["row P2 is missing"])
        self.assertEqual(self.found("| P1 | soon | . |"), ["P1 names neither a test nor, by –, none"])
        self.assertEqual(self.found("| X1 | – | not served |"),
                         ["X1 is no row of the reference", "row P1 is missing"])


class BuildTest(unittest.TestCase):

    def found(self, path, text):
        return [(violation.path, violation.rule) for violation in architecture.check({**CLEAN, path: text})]

    def test_a_dependency_against_an_arrow_is_found(self):
        for text in ('cc_library(name = "a", deps = ["//scheduler:manager"])\n',
                     'cc_library(name = "a", deps = [":b"] + select({"//x": ["//scheduler"]}))\n',
                     'D = ["//server:call"]\ncc_library(name = "a", deps = D)\n',
                     '[cc_test(name = n + "_test", deps = ["//server:call"], tags = ["no-tsan"]) for n in ["a"]]\n',
                     'cc_binary(name = "a", data = ["//client:cellbatch-client"])\n'):
            with self.subTest(text=text):
                self.assertEqual(self.found("cells/BUILD", text), [("cells/BUILD", "arrow")])

    def test_a_test_that_may_skip_and_is_cached_is_found(self):
        source = {"cells/a_test.cc": '  if (none) GTEST_SKIP() << "there is none";\n'}
        rules = {'cc_test(name = "a_test", srcs = ["a_test.cc"])\n': [("cells/BUILD", "tag")],
                 'cc_test(name = "a_test", srcs = ["a_test.cc"], tags = ["external"])\n': [],
                 'cc_test(name = "b_test", srcs = ["b_test.cc"])\n': [],
                 'py_library(name = "skips")\npy_test(name = "b_test", deps = ["//tests/external:skips"])\n':
                     [("cells/BUILD", "tag")]}
        for text, expected in rules.items():
            with self.subTest(text=text):
                found = architecture.check({**CLEAN, **source, "cells/BUILD": text})
                self.assertEqual([(v.path, v.rule) for v in found if v.rule == "tag"], expected)

    def test_visibility_and_comments_are_no_dependencies(self):
        text = '# "//server"\ncc_library(name = "a", visibility = ["//scheduler:__subpackages__"])\n'
        self.assertEqual(self.found("cells/BUILD", text), [])

    def test_a_library_behind_a_door_is_found(self):
        for room, library in (("scheduler", "grpc"), ("cells", "protobuf"), ("client", "boost_beast"),
                              ("loadgen", "grpc_channelz"), ("scheduler", "boost_lockfree"), ("memplan", "xbyak")):
            with self.subTest(room=room):
                text = 'cc_library(name = "a", deps = ["//deploy/bazel:%s"])\n' % library
                self.assertEqual(self.found(room + "/BUILD", text), [(room + "/BUILD", "door")])

    def test_a_test_that_links_grpc_however_far_down_wants_its_tag(self):
        text = 'cc_test(name = "e2e_test", deps = [":between"])\ncc_library(name = "between", deps = ["//server:call"])\n'
        self.assertEqual(self.found("tests/e2e/BUILD", text), [("tests/e2e/BUILD", "tag")])
        self.assertEqual(self.found("tests/e2e/BUILD", 'sh_test(name = "x_test", data = ["//server:call"])\n'),
                         [("tests/e2e/BUILD", "tag")])
        self.assertEqual(self.found("proto/BUILD", 'proto(name = "a", src = "a.proto", grpc = True)\n'
                                    'cc_test(name = "a_test", deps = [":a"])\n'), [("proto/BUILD", "tag")])

    def test_a_build_file_that_cannot_be_read_is_said(self):
        self.assertEqual(self.found("cells/BUILD", "cc_library(\n"), [("cells/BUILD", "build file")])


class FunctionsTest(unittest.TestCase):

    def names(self, text):
        return [(function.name, function.num_lines) for function in cpp_text.functions(text)]

    def test_braces_in_strings_comments_and_characters_do_not_count(self):
        text = 'int A() {\n  f("}");  // }\n  g(\'}\', 1\'000, R"x(}\n})x");  /* } */\n  return 1;\n}\nint B() { return 2; }\n'
        self.assertEqual(self.names(text), [("A", 6), ("B", 1)])

    def test_methods_constructors_operators_and_templates_are_functions(self):
        text = """
namespace a::b {
class C final : public D<int(int)> {
 public:
  explicit C(int x) : x_{x},
                      y_(f({1, 2})) {
    Go();
  }
  C() = default;
  bool operator()(int a) const noexcept {
    return a > 1;
  }
  template <typename T>
    requires std::integral<T>
  auto Get() const -> std::pair<int, T> {
    return {1, 2};
  }
 private:
  int x_{3};
  std::array<int, 2> y_ = {1, 2};
};
}  // namespace a::b
"""
        self.assertEqual(self.names(text), [("C", 4), ("operator", 3), ("Get", 5)])

    def test_tables_enums_and_structs_are_no_functions(self):
        text = """
enum class E : int { kA, kB };
struct alignas(64) S { int x = f(1); };
const Row kRows[] = {
  {1, 2},
};
constexpr auto kTable = std::to_array<Row>({
  {1, 2},
});
extern "C" {
int f(void);
}
int After() { return 1; }
"""
        self.assertEqual(self.names(text), [("After", 1)])

    def test_a_lambda_counts_with_its_function_and_alone_at_namespace_scope(self):
        text = "void A() {\n  auto f = [](int x) {\n    return x;\n  };\n}\nconst auto kF = [](int x) {\n  return x;\n};\n"
        self.assertEqual([lines for _, lines in self.names(text)], [5, 3])

    def test_a_macro_that_opens_no_brace_does_not_derail_what_follows(self):
        text = "#define OPEN {\nTEST(ATest, Holds) {\n  if (x) { y(); }\n}\nint B() { return 1; }\n"
        self.assertEqual(self.names(text), [("TEST(ATest, Holds)", 3), ("B", 1)])


class CheckoutTest(unittest.TestCase):

    def test_environments_and_bazels_folders_are_not_read(self):
        with tempfile.TemporaryDirectory() as root:
            for path in ("WORKSPACE", "cells/a.cc", "bazel-out/b.cc", ".cache/c.cc", "venv/pyvenv.cfg", "venv/d.cc"):
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write("\n")
            self.assertEqual(sorted(architecture.read_tree(root)), ["WORKSPACE", "cells/a.cc"])


if __name__ == "__main__":
    unittest.main()
