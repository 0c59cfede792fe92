import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from coroutine_lint import BRACES, CAPTURE, CO_RETURN, DETACHED, TERNARY, lint, markdown_snippets, tokenize


def found(body):
    return [sentence for _, sentence in lint("Task<int> f(int a) {\n" + body + "\n}\n")]


class Offenders(unittest.TestCase):
    def test_braced_list_as_argument(self):
        self.assertEqual(found('co_await f({"a", "b"});'), [BRACES])

    def test_aggregate_temporary(self):
        self.assertEqual(found("auto x = co_await f(Options{.a = 1});"), [BRACES])

    def test_aggregate_over_several_lines(self):
        self.assertEqual(lint("Task<> f() {\n  co_await g(\n    a,\n    Options{\n .a = 1});\n}"), [(4, BRACES)])

    def test_aggregate_around_the_await(self):
        self.assertEqual(found("auto o = Options{.x = co_await g()};"), [BRACES])

    def test_template_type(self):
        self.assertEqual(found("co_await f(std::vector<S>{a});"), [BRACES])

    def test_brace_in_condition(self):
        self.assertEqual(found("if (co_await f({})) { return; }"), [BRACES])

    def test_range_for(self):
        self.assertEqual(found("for (auto x : std::vector<int>{co_await a(), co_await b()}) use(x);"), [BRACES])

    def test_capturing_lambda(self):
        self.assertEqual(found("co_await f([x](int y) { return x + y; });"), [CAPTURE])
        self.assertEqual(found("co_await f([&] { g(); });"), [CAPTURE])
        self.assertEqual(found("co_await [t]() -> Task<> { co_return; }();"), [CAPTURE])

    def test_ternary(self):
        self.assertEqual(found("co_await (c ? f(T) : g(T));"), [TERNARY])
        self.assertEqual(found("auto x = c ? co_await f() : co_await g();"), [TERNARY])

    def test_co_return_of_a_list(self):
        self.assertEqual(found("co_return {1, 2};"), [CO_RETURN])

    def test_inside_a_lambda_body(self):
        self.assertEqual(found("auto g = [x](int) -> Task<> { co_await f({1}); };"), [BRACES])

    def test_inside_a_class(self):
        self.assertEqual(lint("struct A : B { Task<> f() override { co_await g({1}); } };"), [(1, BRACES)])

    def test_after_a_raw_string_and_a_comment(self):
        self.assertEqual(found('auto s = R"x({ co_await )" )x"; /* { */ // {\n co_await f({s});'), [BRACES])

    def test_detached(self):
        self.assertEqual(found("co_spawn(e, f(), boost::asio::detached);"), [DETACHED])
        self.assertEqual(found("end(HitlEnd::detached);"), [])


class Harmless(unittest.TestCase):
    def assert_clean(self, body):
        self.assertEqual(found(body), [])

    def test_named_first(self):
        self.assert_clean("Options o{.a = {1, 2}}; co_await f(std::move(o));")
        self.assert_clean("auto g = [x] { return x; }; co_await f(std::move(g));")

    def test_lambda_without_captures(self):
        self.assert_clean("co_await f([](int a) { return A{a}; });")
        self.assert_clean("co_await f([](int a) -> Task<std::pair<int, int>> { co_return g(a); });")

    def test_blocks_around_awaits(self):
        self.assert_clean("if (a) { co_await f(); } else { co_await g(); }")
        self.assert_clean("while (auto e = co_await n()) { use(e); }")
        self.assert_clean("for (auto& x : list) { co_await f(x); }")
        self.assert_clean("switch (co_await f()) { case 1: { co_await g(); break; } default: break; }")
        self.assert_clean("try { co_await f(); } catch (const Error& e) { failed = {1}; }")
        self.assert_clean("do { co_await f(); } while (a);")

    def test_ternary_of_values(self):
        self.assert_clean("co_await f(a ? 1 : 2);")
        self.assert_clean("x = co_await f() ? 1 : 2;")
        self.assert_clean("co_await f(a ? 1 : 2, 3); y = b ? 1 : 2;")

    def test_co_return_of_a_named_type(self):
        self.assert_clean("co_return Result{1};")

    def test_functions_and_types(self):
        self.assertEqual(lint("""
            namespace a::b { template <class T> struct X : Y<T> { int z{1}; Task<> f() const noexcept; }; enum class E : int { a }; }
            template <class T> Task<T> g(T t) { co_await t; }
            auto h() -> Task<void> { co_await g(1); }
            X::X() : a_{1}, b_(2), c_{3} { run(); }
            Task<int> X::k() const { auto [a, b] = co_await f(); co_return v[a]; }
            [[nodiscard]] Task<int> m() { co_return co_await f(); }
            """), [])

    def test_subscript_and_attribute_are_not_a_lambda(self):
        self.assert_clean("co_await f(list[i]); [[maybe_unused]] auto x = co_await g();")
        self.assert_clean("auto& [a, b] = pair; co_await f(map_[key].value);")

    def test_macro_with_a_block(self):
        self.assert_clean("EXPECT_THROW({ f(); }, E); co_await g();")

    def test_digits_with_separators_and_characters(self):
        self.assert_clean("int a = 1'000'000; char c = '{'; co_await f(a, c);")


class Snippets(unittest.TestCase):
    def test_line_numbers_of_markdown(self):
        snippets = list(markdown_snippets("# A\n\n```cpp\nTask<> f() {\n    co_await g({1});\n}\n```\n```sh\nls {\n```\n"))
        self.assertEqual([lint(s) for s in snippets], [[(5, BRACES)]])

    def test_directives_are_skipped(self):
        self.assertEqual(tokenize("#define A { \\\n  co_await\nint b;"), [("int", 3), ("b", 3), (";", 3)])


if __name__ == "__main__":
    unittest.main()
