"""What mutate.py promises."""

import unittest

import mutate

MUTANT = "# off by one\nroom/file.cc\n<<<<\n  return n;\n====\n  return n - 1;\n>>>>\n"


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
            mutate.mutate("# nothing\nroom/file.cc\n", "room/file.cc", "")

    def test_changes_several_sources_each_by_its_own_exchanges(self):
        mutant = MUTANT + "room/other.cc\n<<<<\na\n====\nb\n>>>>\n<<<<\nc\n====\n>>>>\n"
        self.assertEqual(mutate.mutate(mutant, "room/other.cc", "a\nc\nd\n"), "b\nd\n")
        self.assertEqual(mutate.mutate(mutant, "room/file.cc", "  return n;\n"), "  return n - 1;\n")


if __name__ == "__main__":
    unittest.main()
