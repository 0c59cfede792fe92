"""Every program of tools/ prints a description with --help and does nothing else."""
import os
import pathlib
import subprocess
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = sorted(path for path in TOOLS.iterdir() if path.is_file() and os.access(path, os.X_OK))


class Help(unittest.TestCase):
    def test_each_program_describes_itself(self):
        self.assertGreater(len(PROGRAMS), 10)
        for program in PROGRAMS:
            with self.subTest(program.name):
                done = subprocess.run([program, "--help"], cwd="/", capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn(program.name, done.stdout)
                self.assertGreater(len(done.stdout.split()), 10)

    def test_a_wrong_argument_prints_the_help(self):
        for name in ("lint", "check", "check-tidy", "check-words", "check-modules"):
            with self.subTest(name):
                done = subprocess.run([TOOLS / name, "surplus"], cwd="/", capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(name, done.stderr)


if __name__ == "__main__":
    unittest.main()
