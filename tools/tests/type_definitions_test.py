import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from type_definitions import defined_twice, types_of


class TypesOf(unittest.TestCase):
    def names(self, source):
        return sorted(types_of(source))

    def test_types_of_namespaces(self):
        self.assertEqual(self.names("""
            struct Global {};
            namespace a::b {
            class Class final : public Base<int> { struct Inner {}; };
            template <class T> requires true struct Template { T t; };
            enum class Enum : int { one };
            struct [[nodiscard]] Marked {};
            union Union { int i; };
            void f() { struct Local {}; }
            }"""), ["Global", "a::b::Class", "a::b::Enum", "a::b::Marked", "a::b::Template", "a::b::Union"])

    def test_declarations_members_specialisations_and_unnamed_namespaces_do_not_count(self):
        self.assertEqual(self.names("""
            namespace a {
            struct Declared;
            struct Outer::Member { int i; };
            template <> struct Template<int> {};
            struct Template<A::b> : Base {};
            struct Tag f(int);
            namespace { struct Own {}; }
            namespace { namespace b { struct Own {}; } }
            // struct Comment {};
            }"""), [])

    def test_a_qualified_base_is_not_part_of_the_name(self):
        self.assertEqual(self.names("namespace a { struct One : b::Base { int i; }; }"), ["a::One"])


class DefinedTwice(unittest.TestCase):
    def test_names_both_places(self):
        self.assertEqual(defined_twice({"x": "namespace a {\nstruct One {};\n}", "y": "namespace a { struct One { int i; }; }",
                                        "z": "namespace b { struct One {}; }"}),
                         [("x", 2, "a::One is also defined in y; rename one of them"),
                          ("y", 1, "a::One is also defined in x; rename one of them")])


if __name__ == "__main__":
    unittest.main()
