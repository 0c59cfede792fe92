import importlib.machinery
import importlib.util
import pathlib
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent.parent


def load(name):
    """A script of tools/ that has no .py at its end, as a module."""
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(TOOLS / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


modules = load("check-modules")
docs = load("check-docs")
snippets = load("extract_snippets.py")
ORDER = ["core", "net", "agent", "testing"]


class ModuleOrder(unittest.TestCase):
    def complaints(self, path, text):
        return list(modules.check_file(pathlib.PurePath(path), text, ORDER))

    def test_a_module_includes_the_modules_listed_before_it(self):
        self.assertEqual(self.complaints("agent/run/loop.cpp", "#include <cubepi/core/task.hpp>\n#include <curl/curl.h>\n"), [])

    def test_a_module_does_not_include_later_modules(self):
        self.assertIn("may not include agent", self.complaints("net/a.cpp", "\n#include <cubepi/agent/loop.hpp>\n")[0])

    def test_tests_may_use_testing(self):
        self.assertEqual(self.complaints("net/a_test.cpp", "#include <cubepi/testing/clock.hpp>\n"), [])
        self.assertEqual(len(self.complaints("net/a.cpp", "#include <cubepi/testing/clock.hpp>\n")), 1)

    def test_heavy_libraries_stay_out_of_public_headers(self):
        self.assertEqual(len(self.complaints("net/a.hpp", "#include <curl/curl.h>\n")), 1)
        self.assertEqual(self.complaints("net/detail/a.hpp", "#include <curl/curl.h>\n"), [])

    def test_installed_headers_include_only_installed_ones(self):
        private = "#include <cubepi/net/curl/engine.hpp>\n"
        for path in ("net/a.hpp", "net/detail/a.hpp"):
            self.assertIn("which is not installed", self.complaints(path, private)[0])
        for path in ("net/a.cpp", "net/curl/a.hpp", "net/a_test_support.hpp"):
            self.assertEqual(self.complaints(path, private), [])
        self.assertEqual(self.complaints("net/a.hpp", "#include <cubepi/net/detail/b.hpp>\n"), [])

    def test_the_pipeline_includes_the_library_and_not_the_other_way_round(self):
        order = ["tape", "kernel", "channel"]
        check = lambda path, text: list(modules.check_file(pathlib.PurePath(path), text, order, root="bub"))
        self.assertEqual(check("framework.cpp", "#include <bub/kernel/turn.hpp>\n#include <cubepi/agent/agent.hpp>\n"), [])
        self.assertIn("may not include kernel", check("tape/tape.cpp", "#include <bub/framework.hpp>\n")[0])
        self.assertIn("may not include channel", check("kernel/turn.cpp", "#include <bub/channel/manager.hpp>\n")[0])
        self.assertEqual(check("channel/manager.cpp", "#include <bub/framework.hpp>\n#include <bub/tape/tape.hpp>\n"), [])
        self.assertIn("includes bub", self.complaints("net/a.cpp", "#include <bub/hooks.hpp>\n")[0])

    def test_the_lists_are_read_from_cmake(self):
        self.assertEqual(modules.read_test_modules("cubepi_module(a\n  TEST_DEPENDS testing\n    net\n  LINK x)"), {"testing", "net"})
        self.assertEqual(modules.read_modules("x\nset(modules a b\n c)\n"), ["a", "b", "c"])


class Pages(unittest.TestCase):
    def test_anchors(self):
        self.assertEqual(docs.anchors("# A b, c\n```\n# no\n```\n## `d_e` f\n"), {"a-b-c", "d_e-f"})

    def test_snippets_become_functions(self):
        page = "<!-- snippet-context\nint a();\n-->\n\n```cpp\nuse(a());\n```\n```cpp sketch\n...\n```\n"
        source = snippets.convert("p.md", page, "p")
        self.assertIn("namespace p_1 {", source)
        self.assertIn('#line 6 "p.md"\nuse(a());', source)
        self.assertIn("int a();", source)
        self.assertNotIn("...", source)

    def test_a_page_without_snippets(self):
        self.assertIsNone(snippets.convert("p.md", "# A\n```sh\nls\n```\n", "p"))


if __name__ == "__main__":
    unittest.main()
