import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from unity_groups import LARGEST, commands, names_of, parse_targets
from unity_groups import groups_of as groups_of_facts


def facts(source):
    return names_of(source), len(source)


def groups_of(sources):
    return groups_of_facts({name: facts(source) for name, source in sources.items()})


def private(source):
    return set(names_of(source)[0])


class PrivateNames(unittest.TestCase):
    def test_unnamed_namespaces(self):
        self.assertEqual(private("""
            namespace a {
            namespace {
            int one(int x) { return x; }
            std::map<std::string, int> two(std::function<void(int)> f);
            template <class T> requires true
            struct Three : Base<T> { int inner; };
            enum class Four : int { first };
            constexpr std::array<int, 2> five{1, 2};
            std::string six = "six";
            int seven[2];
            }  // namespace
            void open() { int local = 1; }
            struct Public {};
            }"""), {"one", "two", "Three", "Four", "five", "six", "seven"})

    def test_what_is_internal_without_one(self):
        self.assertEqual(private("#define ONE 1\nnamespace a { static void two(); constexpr int three = 3; using Four = int;\n"
                                 "using std::five; using namespace six; const int seven{7}; int eight; }"),
                         {"ONE", "two", "three", "Four", "seven"})

    def test_members_and_tests_are_not(self):
        self.assertEqual(private("namespace { void Class::method() {} TEST(Suite, Name) { f(); } }"), set())

    def test_constructors_with_initialisers(self):
        self.assertEqual(private("namespace { int f() { return g({1}); } }\nA::A() : x_(1), y_{2} { f(); }\nstatic int h();"),
                         {"f", "h"})


class Groups(unittest.TestCase):
    def test_files_without_common_names_are_together(self):
        self.assertEqual(groups_of({"a": "namespace { int f(); }", "b": "namespace { int g(); }"}), [["a", "b"]])

    def test_the_same_private_name(self):
        self.assertEqual(groups_of({"a": "namespace { int f(); }", "b": "namespace { int f(); }"}), [["a"], ["b"]])

    def test_a_private_name_that_another_file_uses(self):
        for user in ("void g() { f(); }", "void g(int f);"):
            self.assertEqual(groups_of({"a": "namespace { int f(); }", "b": user}), [["a"], ["b"]])
            self.assertEqual(groups_of({"b": user, "a": "namespace { int f(); }"}), [["b"], ["a"]])

    def test_members_qualified_names_comments_and_strings_do_not_count(self):
        self.assertEqual(groups_of({"a": "namespace { int f(); }", "b": "int g = x.f() + y->f() + ::f(); // f\nauto t = \"f\";"}),
                         [["a", "b"]])

    def test_equal_aliases_do_not_count(self):
        for other, together in (("int", True), ("long", False)):
            self.assertEqual(len(groups_of({"a": "using A = int;", "b": f"using A = {other};"})), 1 if together else 2)
        self.assertEqual(len(groups_of({"a": "using A = int;", "b": "A a;"})), 2)

    def test_the_same_directives(self):
        self.assertEqual(groups_of({"a": "using namespace x;", "b": "int i;", "c": "using namespace x;"}), [["a", "c"], ["b"]])

    def test_a_later_group_takes_what_fits(self):
        self.assertEqual(groups_of({"a": "static int f();", "b": "static int f();", "c": "int g();"}), [["a", "c"], ["b"]])

    def test_a_group_is_limited(self):
        many = {str(number): "" for number in range(LARGEST + 1)}
        self.assertEqual([len(group) for group in groups_of(many)], [LARGEST, 1])


class Commands(unittest.TestCase):
    def test_a_source_of_several_targets_of_a_directory_has_no_group(self):
        targets = parse_targets("one|/d|a.cpp;b.cpp;/e/shared.cpp\ntwo|/d|c.cpp;/e/shared.cpp\nthree|/f|/e/shared.cpp;d.cpp\n")
        found = commands(targets, dict.fromkeys(("/d/a.cpp", "/d/b.cpp", "/d/c.cpp", "/f/d.cpp", "/e/shared.cpp"), facts("")))
        self.assertEqual(found.replace("\n    ", " "), """\
set_source_files_properties( "/d/a.cpp" "/d/b.cpp" TARGET_DIRECTORY one PROPERTIES UNITY_GROUP group1)
set_source_files_properties( "/d/c.cpp" TARGET_DIRECTORY two PROPERTIES UNITY_GROUP group1)
set_source_files_properties( "/e/shared.cpp" "/f/d.cpp" TARGET_DIRECTORY three PROPERTIES UNITY_GROUP group1)
""")


if __name__ == "__main__":
    unittest.main()
