"""deploy/systemd: the unit starts the server that there is, and waits for it as long as it may take."""

import configparser
import re
import shlex
import subprocess
import sys
import unittest

UNIT, SERVER = sys.argv[1:3]
del sys.argv[1:3]

LAST_ANSWERS_S = 20 + 20  # main.cc's kWatchdogExtraSeconds: for the last answers and ports, then for all to be closed


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(ms|s|min|h)", text).groups()
    return int(number) * {"ms": 0.001, "s": 1, "min": 60, "h": 3600}[unit]


class SystemdTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        parser = configparser.ConfigParser(strict=True, interpolation=None)
        parser.optionxform = str
        parser.read(UNIT)
        cls.service = parser["Service"]
        cls.help = subprocess.run([SERVER, "--help"], check=True, capture_output=True, text=True).stdout

    def default(self, flag):
        return re.search(rf"^  --{flag}=(\S*)$", self.help, re.MULTILINE).group(1)

    def test_every_flag_is_the_servers(self):
        flags = shlex.split(self.service["ExecStart"])[1:]
        self.assertTrue(flags)
        for flag in flags:
            name = flag.split("=")[0]
            self.assertRegex(self.help, rf"(?m)^  {name}(=|$)")

    def test_who_stops_it_waits_until_the_last_answer(self):
        drains = seconds(self.default("drain-delay")) + seconds(self.default("drain-timeout"))
        self.assertGreater(int(self.service["TimeoutStopSec"]), drains + LAST_ANSWERS_S)

    def test_it_may_write_where_it_keeps_what_it_measured(self):
        cache = re.search(r"--calibration-cache=(\S+)", self.service["ExecStart"]).group(1)
        self.assertEqual(cache, "/var/cache/" + self.service["CacheDirectory"])


if __name__ == "__main__":
    unittest.main()
