"""A result is known while nothing that it depends on changes."""
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import known_results


class Known(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name).resolve() / "tree"
        (self.root / "src" / "a").mkdir(parents=True)
        self.source = self.write("src/a/one.cpp", '#include <a/one.hpp>\n#include <vector>\n')
        self.write("src/a/one.hpp", '#include "two.hpp"\n')
        self.write("src/a/two.hpp", "int two;\n")
        for patch in (mock.patch.object(known_results, "ROOT", self.root),
                      mock.patch.object(known_results, "DIRECTORIES", [self.root / "src"]),
                      mock.patch.dict(os.environ, {"XDG_CACHE_HOME": scratch.name, "ALL": ""})):
            patch.start()
            self.addCleanup(patch.stop)
        self.forget()

    def write(self, name, text):
        (self.root / name).write_text(text)
        return self.root / name

    def forget(self):
        known_results.includes.cache_clear()
        known_results.checksum.cache_clear()

    def key(self, settings=b"clang 19", words=""):
        self.forget()
        return known_results.KnownResults("test", settings).key([self.source], words)

    def test_a_result_is_known_after_it_was_added(self):
        results = known_results.KnownResults("test", b"")
        self.assertFalse(results.has(self.key()))
        results.add(self.key())
        self.assertTrue(results.has(self.key()))
        with mock.patch.dict(os.environ, {"ALL": "1"}):
            self.assertFalse(results.has(self.key()))

    def test_the_key_follows_headers_that_are_included_through_others(self):
        before = self.key()
        self.write("src/a/two.hpp", "int three;\n")
        self.assertNotEqual(before, self.key())

    def test_a_direct_key_follows_the_headers_of_the_source_only(self):
        def direct():
            self.forget()
            return known_results.KnownResults("test", b"").key([self.source], direct=True)
        before = direct()
        self.write("src/a/two.hpp", "int three;\n")
        self.assertEqual(before, direct())
        self.write("src/a/one.hpp", "int one;\n")
        self.assertNotEqual(before, direct())

    def test_the_key_follows_settings_and_words(self):
        self.assertEqual(self.key(), self.key())
        self.assertNotEqual(self.key(), self.key(settings=b"clang 20"))
        self.assertNotEqual(self.key(), self.key(words="-O2"))

    def test_the_key_is_the_same_in_another_clone(self):
        before = self.key(words=f"clang -I{self.root}/src")
        other = self.root.parent / "clone"
        self.root.rename(other)
        self.source = other / "src/a/one.cpp"
        with mock.patch.object(known_results, "ROOT", other), mock.patch.object(known_results, "DIRECTORIES", [other / "src"]):
            self.assertEqual(before, self.key(words=f"clang -I{other}/src"))

    def test_results_depend_on_compilers_and_libraries_but_not_on_browsers(self):
        for name in (b"clang-19 1", b"libc6-dev:amd64 2.36", b"libstdc++-12-dev 12", b"g++-12 12", b"postgresql-15 15.1"):
            self.assertTrue(known_results.PACKAGES.match(name), name)
        for name in (b"chromium 150", b"libnss3:amd64 3.87", b"fonts-dejavu 2"):
            self.assertFalse(known_results.PACKAGES.match(name), name)


if __name__ == "__main__":
    unittest.main()
