import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from argument_order import SENTENCE, lint


def found(body):
    return [sentence.split(" is moved")[0] for _, sentence in lint("void f(X x) {\n" + body + "\n}\n")]


class Offenders(unittest.TestCase):
    def test_a_use_before_and_after_the_move(self):
        self.assertEqual(lint("g(x.size(),\n  std::move(x));"), [(1, SENTENCE.format("x"))])
        self.assertEqual(found("g(std::move(x), x.size());"), ["x"])

    def test_deep_in_an_argument(self):
        self.assertEqual(found("g(a.front().late ? queue(x->id) : b, h(1, std::move(x)));"), ["x"])
        self.assertEqual(found("auto y = co_await g(Id{x.id}, Box{std::move(x)});"), ["x"])

    def test_an_inner_call(self):
        self.assertEqual(found("if (a(b, c(x.id, std::move(x)))) { return; }"), ["x"])
        self.assertEqual(found("return {1, g(x.id, std::move(x))};"), ["x"])

    def test_members_elements_and_pointees(self):
        self.assertEqual(found("m.emplace(x.y.id(), std::move(x.y));"), ["x.y"])
        self.assertEqual(found("g(all[i].id, std::move(all[i]));"), ["all[i]"])
        self.assertEqual(found("g(x->id, std::move(*x));"), ["x"])
        self.assertEqual(found("g(this->x_.id, std::move(x_));"), ["x_"])
        self.assertEqual(found("g(x_.id, std::move(this->x_));"), ["x_"])

    def test_the_whole_and_a_part(self):
        self.assertEqual(found("g(x, std::move(x.y));"), ["x.y"])
        self.assertEqual(found("g(x.y, std::move(x));"), ["x"])

    def test_forward_exchange_and_two_moves(self):
        self.assertEqual(found("g(x.size(), std::forward<T>(x));"), ["x"])
        self.assertEqual(found("g(x.size(), std::exchange(x, {}));"), ["x"])
        self.assertEqual(found("g(std::move(x), std::move(x));"), ["x"])

    def test_captures(self):
        self.assertEqual(found("g(x.size(), [x = std::move(x)] { return x.size(); });"), ["x"])
        self.assertEqual(found("g([x] { return 1; }, std::move(x));"), ["x"])
        self.assertEqual(found("g([&x] { return 1; }, std::move(x));"), ["x"])

    def test_a_constructor(self):
        self.assertEqual(found("return std::make_unique<P<int>>(x.size(), std::move(x));"), ["x"])
        self.assertEqual(found("Y y(x.size(), std::move(x));"), ["x"])


class Harmless(unittest.TestCase):
    def nothing(self, body):
        self.assertEqual(found(body), [])

    def test_braces_are_ordered(self):
        self.nothing("g(Pair{x.size(), std::move(x)});")
        self.nothing("Y y{x.size(), std::move(x)};")

    def test_one_argument(self):
        self.nothing("g(std::move(x).size());")
        self.nothing("g(c ? std::move(x) : x);")

    def test_the_called_expression_is_evaluated_first(self):
        self.nothing("x.g(std::move(x));")
        self.nothing("x.name().g(1, std::move(x));")

    def test_other_things_of_the_same_name(self):
        self.nothing("g(y.x, std::move(x));")
        self.nothing("g(y->x, std::move(x));")
        self.nothing("g(x::id, std::move(x));")
        self.nothing("g(y::x, std::move(x));")
        self.nothing("g(x.z, std::move(x.y));")
        self.nothing("g(all.size(), std::move(all[i]));")
        self.nothing("g(Y{.z = 1}, std::move(z));")

    def test_the_body_of_a_lambda_runs_later(self):
        self.nothing("g(std::move(x), [](X x) { return x.size(); });")

    def test_statements(self):
        self.nothing("for (X y = x; more(); take(std::move(x))) use(x);")
        self.nothing("h(x.size()); g(std::move(x));")

    def test_initialisers_of_members(self):
        self.assertEqual(lint("Y::Y(X x) : size_(x.size()), x_(std::move(x)) {}"), [])

    def test_an_exception_needs_a_reason(self):
        self.nothing("// any order: the callee takes references\ng(x.id, std::move(x));")
        self.nothing("g(x.id, std::move(x));  // any order: takes references")
        self.assertEqual(found("g(x.id, std::move(x));  // any order:"), ["x"])


if __name__ == "__main__":
    unittest.main()
