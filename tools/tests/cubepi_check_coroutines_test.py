"""tools/cubepi-check-coroutines, the check for users of the library."""
import pathlib
import subprocess
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parent.parent / "cubepi-check-coroutines"
RIGHT = "Task<> f() {\n    Options options{1};\n    co_await g(std::move(options));\n}\n"
WRONG = "Task<> f() {\n    co_await g({1});\n}\n"
DETACHED = "void f() { asio::co_spawn(context, g(), asio::detached); }\n"


class UsersSources(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = pathlib.Path(scratch.name)

    def check(self, *paths):
        return subprocess.run([PROGRAM, *paths], cwd=self.directory, capture_output=True, text=True, timeout=60, check=False)

    def write(self, name, text):
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def test_a_file_without_findings_passes(self):
        self.write("right.cpp", RIGHT)
        done = self.check("right.cpp")
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_a_finding_names_file_and_line(self):
        self.write("wrong.cpp", WRONG)
        done = self.check("wrong.cpp")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"^wrong\.cpp:2: braced initialiser")

    def test_directories_are_searched_for_cpp_files(self):
        self.write("source/wrong.hpp", WRONG)
        self.write("source/notes.txt", WRONG)
        self.write(".git/wrong.cpp", WRONG)
        done = self.check(".")
        self.assertEqual((done.returncode, done.stdout.count("\n")), (1, 1))
        self.assertIn("source/wrong.hpp:2:", done.stdout)

    def test_users_may_detach_coroutines(self):
        self.write("detached.cpp", DETACHED)
        self.assertEqual(self.check("detached.cpp").returncode, 0)

    def test_a_name_that_does_not_exist_is_an_error(self):
        done = self.check("no_such_file.cpp")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no such file or directory: no_such_file.cpp", done.stderr)


if __name__ == "__main__":
    unittest.main()
