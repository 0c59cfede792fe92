import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parent.parent / "count_tests.py"


class CountTests(unittest.TestCase):
    def count(self, cases):
        with tempfile.TemporaryDirectory() as directory:
            build = pathlib.Path(directory)
            (build / "test-results.xml").write_text(f"<testsuite>{cases}</testsuite>")
            done = subprocess.run(
                [sys.executable, PROGRAM, build, "--label", "dev", "--append", build / "counts", "--failures", build / "failures"],
                capture_output=True, text=True, timeout=60, check=False)
            return done, (build / "counts").read_text(), (build / "failures").read_text()

    def test_prints_and_saves_failures(self):
        done, counts, failures = self.count(
            '<testcase name="a" status="run"/><testcase name="b" status="fail"><system-out>boom</system-out></testcase>')
        self.assertEqual((done.returncode, counts), (1, "dev 1 1\n"))
        self.assertEqual(failures, "---- b (dev) failed:\nboom\n")
        self.assertEqual(done.stdout, failures + "dev: 1 passed, 1 failed\n")

    def test_shortens_a_long_output_in_the_middle(self):
        output = "\n".join(f"line {number}" for number in range(5000))
        _, _, failures = self.count(f'<testcase name="b" status="fail"><system-out>{output}</system-out></testcase>')
        self.assertIn("line 0\n", failures)
        self.assertIn("line 4999\n", failures)
        self.assertLess(failures.count("\n"), 500)

    def test_saves_nothing_without_failures(self):
        done, counts, failures = self.count('<testcase name="a" status="run"/>')
        self.assertEqual((done.returncode, counts, failures), (0, "dev 1 0\n", ""))


if __name__ == "__main__":
    unittest.main()
