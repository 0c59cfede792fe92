"""packages_test.py TOOL PROGRAM: packages the program with tools/package, installs both packages as their users do, and runs it."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

TOOL, PROGRAM = map(pathlib.Path, sys.argv[1:3])


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command[0]} failed with {done.returncode}:\n{done.stdout}")
    return done.stdout


def loaded_libraries(program):
    """Returns the shared libraries that the program loads, by the loader's own report."""
    report = run(program, "--version", env={"LD_DEBUG": "libs", "PATH": "/usr/bin:/bin"})
    return {line.split("calling init: ", 1)[1] for line in report.splitlines() if "calling init: " in line}


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.scratch.name)
        run(TOOL, "--level", "1", PROGRAM, cls.root / "made")
        cls.wheel, = cls.root.glob("made/*.whl")
        cls.tarball, = cls.root.glob("made/*.tgz")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def check_program(self, program, place):
        """Runs a turn, without anything of this environment, and checks where the libraries come from."""
        home = self.root / "home"
        home.mkdir(exist_ok=True)
        answer = run(program, "run", "--offline", "--no-save", "hello", cwd=home,
                     env={"HOME": str(home), "PATH": "/usr/bin:/bin"}, stdin=subprocess.DEVNULL)
        self.assertTrue(answer.strip())
        glibc = ("libc.so", "libm.so", "ld-linux", "libresolv.so", "libdl.so", "libpthread.so", "librt.so")
        for library in loaded_libraries(program):
            if not pathlib.Path(library).name.startswith(glibc):
                self.assertTrue(os.path.realpath(library).startswith(os.path.realpath(place)), library)

    @unittest.skipUnless((PROGRAM.parent.parent / "grammars").is_dir(), "built without grammars")
    def test_licenses_of_grammars(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            file, = [name for name in wheel.namelist() if name.endswith("/licenses/tree-sitter-grammars")]
            text = wheel.read(file).decode()
        for package in ("tree-sitter-cpp", "tree-sitter-yaml", "tree-sitter-python"):
            self.assertIn(package, text)
        self.assertGreaterEqual(text.count("Permission is hereby granted"), 13)

    def test_wheel(self):
        place = self.root / "venv"
        run(sys.executable, "-m", "venv", place)
        run(place / "bin" / "pip", "install", "--no-index", "--quiet", self.wheel)
        self.check_program(place / "bin" / "cubepi", place)
        run(place / "bin" / "pip", "uninstall", "--yes", "--quiet", "cubepi-cli")
        self.assertFalse((place / "bin" / "cubepi").exists())
        self.assertFalse(list(place.glob("lib/cubepi/*")))

    def test_npm_package(self):
        place = self.root / "prefix"
        run("npm", "install", "--global", "--offline", "--no-audit", "--no-fund", "--prefix", place, self.tarball)
        self.check_program(place / "bin" / "cubepi", place)
        run("npm", "uninstall", "--global", "--prefix", place, "cubepi-cli")
        self.assertFalse((place / "bin" / "cubepi").exists())

    def test_licenses(self):
        names = zipfile.ZipFile(self.wheel).namelist()
        licenses = [name for name in names if "/share/doc/cubepi/licenses/" in name]
        libraries = [name for name in names if "/lib/cubepi/" in name]
        self.assertIn("cubepi", {pathlib.Path(name).name for name in licenses})
        self.assertTrue(libraries)
        self.assertGreater(len(licenses), 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
