"""What cellbatch-learn says of flags that cannot be, before it touches anything."""

import os
import subprocess
import sys
import unittest

LEARN = os.path.realpath(sys.argv.pop(1))
MODEL = ("--model-repository=absent", "--model=m")


class LearnMainTest(unittest.TestCase):
    def run_learn(self, *flags):
        return subprocess.run([LEARN, *flags], text=True, capture_output=True, check=False)

    def refused(self, *flags):
        done = self.run_learn(*flags)
        self.assertEqual(done.returncode, 2, flags)
        self.assertEqual(done.stdout, "")
        self.assertTrue(done.stderr.startswith("cellbatch-learn: "), done.stderr)
        return done.stderr[len("cellbatch-learn: "):]

    def test_help_is_shown_to_who_asks_or_says_nothing(self):
        asked = self.run_learn("--help")
        self.assertEqual(asked.returncode, 0)
        for flag in ("--model-repository", "--objective", "--load", "--write-costs"):
            self.assertIn("\n  " + flag + " ", asked.stdout)
        unasked = self.run_learn()
        self.assertEqual((unasked.returncode, unasked.stderr), (2, asked.stdout))

    def test_what_is_missing_is_named(self):
        self.assertEqual(self.refused("--model=m"), "--model-repository DIR is missing; see --help\n")
        self.assertEqual(self.refused("--model-repository=absent"), "--model NAME is missing; see --help\n")
        self.assertEqual(self.refused(*MODEL, "trees.ptb"), 'what is "trees.ptb"? See --help.\n')

    def test_a_value_that_cannot_be_is_named_with_what_can(self):
        for flag, values, takes in (("version", ("0", "-1", "soon", "1.5", ""), "a whole number, 1 or more"),
                                    ("seed", ("0", "-1", "18446744073709551616"), "a whole number, 1 or more"),
                                    ("objective", ("", "throughput"), "batches or latency"),
                                    ("load", ("60", "0%", "100%", "-5%", "nan%", "inf%", "%", ""),
                                     "more than 0% and less than 100%, such as 60%"),
                                    ("tail-weight", ("-0.1", "1.1", "nan", "inf", ""), "a number from 0 to 1")):
            for value in values:
                self.assertEqual(self.refused(*MODEL, "--%s=%s" % (flag, value)),
                                 '--%s cannot be "%s", it takes %s\n' % (flag, value, takes))

    def test_no_flag_is_left_out_in_silence(self):
        for flag in ("--load=50%", "--tail-weight=0.0", "--devices=cpu", "--costs=c", "--write-costs=c"):
            text = "%s is of --objective latency, and what is learned for is batches\n" % flag.split("=")[0]
            self.assertEqual(self.refused(*MODEL, flag), text)
            self.assertEqual(self.refused(*MODEL, flag, "--objective=batches"), text)
        latency = (*MODEL, "--objective=latency", "--costs=c")
        self.assertIn("--costs c and --devices cpu exclude each other", self.refused(*latency, "--devices=cpu"))
        self.assertIn("--costs c and --write-costs d exclude each other", self.refused(*latency, "--write-costs=d"))

    def test_every_value_at_its_border_is_taken(self):
        flags = ("--objective=latency", "--load=99.9%", "--tail-weight=0.0", "--version=1", "--seed=18446744073709551615")
        done = self.run_learn(*MODEL, *flags)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertNotIn("it takes", done.stderr)


if __name__ == "__main__":
    unittest.main()
