#include <cubepi/core/detail/async_function.hpp>

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <cubepi/core/run.hpp>

namespace cubepi {
namespace {

CUBEPI_DETAIL_SLOT(test, "a callable of this test")

constexpr detail::AsyncRules optional_last{.last_is_optional = true};
constexpr detail::AsyncRules void_is_default{.void_is_default = true};

using Length = detail::AsyncFunction<std::size_t(const std::string&), test_slot>;

Task<std::size_t> length_of(Length function, std::string text) {
    MaybeTask<std::size_t> outcome = function(text);
    if (!outcome.is_pending()) co_return std::move(outcome).value();
    std::size_t length = co_await std::move(outcome).task();
    co_return length;
}

TEST(AsyncFunction, CallsAPlainCallableWithoutATask) {
    const Length function([](const std::string& text) { return text.size(); });
    EXPECT_FALSE(function.is_async());
    MaybeTask<std::size_t> outcome = function("four");
    EXPECT_FALSE(outcome.is_pending());
    EXPECT_EQ(std::move(outcome).value(), 4U);
}

TEST(AsyncFunction, ReturnsTheTaskOfACoroutine) {
    const Length function(
        [](const std::string& text) -> Task<std::size_t> { co_return text.size(); });
    EXPECT_TRUE(function.is_async());
    EXPECT_TRUE(function("four").is_pending());
    EXPECT_EQ(run(length_of(function, "four")), 4U);
}

TEST(AsyncFunction, ConvertsTheResultOfATask) {
    const Length function([](const std::string&) -> Task<unsigned char> { co_return 7; });
    EXPECT_EQ(run(length_of(function, "any")), 7U);
}

TEST(AsyncFunction, PassesAMaybeTaskOn) {
    const Length function(
        [](const std::string& text) { return MaybeTask<std::size_t>(text.size()); });
    EXPECT_TRUE(function.is_async());
    EXPECT_FALSE(function("four").is_pending());
}

TEST(AsyncFunction, CopiesShareTheCallable) {
    auto calls = std::make_unique<int>(0);
    int* const count = calls.get();
    const detail::AsyncFunction<void(), test_slot> function(
        [calls = std::move(calls)] { ++*calls; });
    const auto copy = function;
    (void)function();
    (void)copy();
    EXPECT_EQ(*count, 2);
}

TEST(AsyncFunction, MayLeaveOutTheLastArgument) {
    using Sum = detail::AsyncFunction<int(int, int), test_slot, optional_last>;
    const Sum both([](int a, int b) { return a + b; });
    const Sum first([](int a) { return a; });
    EXPECT_EQ(both(1, 2).value(), 3);
    EXPECT_EQ(first(1, 2).value(), 1);
}

TEST(AsyncFunction, ACallableThatReturnsNothingYieldsTheDefault) {
    const detail::AsyncFunction<std::string(), test_slot, void_is_default> function([] {});
    EXPECT_EQ(function().value(), "");
}

TEST(AsyncFunction, IsEmptyWithoutACallable) { EXPECT_FALSE(Length()); }

}  // namespace
}  // namespace cubepi
