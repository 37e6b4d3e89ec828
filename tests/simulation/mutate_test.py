"""What mutate.py promises."""

import unittest

import mutate

EXPECT = "# off by one\nexpect: too few\nexpect: \"none\"\n"
MUTANT = EXPECT + "room/file.cc\n<<<<\n  return n;\n====\n  return n - 1;\n>>>>\n"
CONTROL = "# as it is\nexpect: nothing\n"


class MutateTest(unittest.TestCase):

    def test_exchanges_the_lines(self):
        self.assertEqual(mutate.mutate(MUTANT, "x/room/file.cc", "{\n  return n;\n}\n"), "{\n  return n - 1;\n}\n")

    def test_refuses_lines_that_are_gone(self):
        with self.assertRaisesRegex(mutate.MutantError, "has these lines 0 times"):
            mutate.mutate(MUTANT, "room/file.cc", "{\n  return m;\n}\n")

    def test_refuses_lines_that_are_there_twice(self):
        with self.assertRaisesRegex(mutate.MutantError, "2 times"):
            mutate.mutate(MUTANT, "room/file.cc", "  return n;\n  return n;\n")

    def test_refuses_another_source(self):
        with self.assertRaisesRegex(mutate.MutantError, "no exchange for room/other.cc"):
            mutate.mutate(MUTANT, "room/other.cc", "  return n;\n")

    def test_refuses_a_mutant_that_changes_nothing(self):
        with self.assertRaisesRegex(mutate.MutantError, "no exchange"):
            mutate.mutate(EXPECT, "room/file.cc", "")

    def test_refuses_a_mutant_that_does_not_say_what_must_notice_it(self):
        with self.assertRaisesRegex(mutate.MutantError, "does not say what must notice it"):
            mutate.mutate("# off by one\nroom/file.cc\n<<<<\na\n====\nb\n>>>>\n", "room/file.cc", "a\n")

    def test_changes_several_sources_each_by_its_own_exchanges(self):
        mutant = MUTANT + "room/other.cc\n<<<<\na\n====\nb\n>>>>\n<<<<\nc\n====\n>>>>\n"
        self.assertEqual(mutate.mutate(mutant, "room/other.cc", "a\nc\nd\n"), "b\nd\n")
        self.assertEqual(mutate.mutate(mutant, "room/file.cc", "  return n;\n"), "  return n - 1;\n")

    def test_a_control_leaves_every_source_as_it_is(self):
        self.assertEqual(mutate.mutate(CONTROL, "room/any.cc", "a\n"), "a\n")

    def test_refuses_a_control_that_changes_something(self):
        with self.assertRaisesRegex(mutate.MutantError, "nothing, and something else"):
            mutate.mutate(CONTROL + "room/file.cc\n<<<<\na\n====\nb\n>>>>\n", "room/file.cc", "a\n")

    def test_tells_the_test_what_is_expected(self):
        self.assertIn('return {"too few", "\\"none\\""};', mutate.expected_source(MUTANT))
        self.assertIn("return {};", mutate.expected_source(CONTROL))


if __name__ == "__main__":
    unittest.main()
