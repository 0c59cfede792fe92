#include <cubepi/core/support/regular_expression.hpp>

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/error.hpp>

namespace cubepi::detail {
namespace {

std::string repeated(std::string_view text, std::size_t times) {
    std::string all;
    for (std::size_t i = 0; i < times; ++i) all += text;
    return all;
}

/// "yes", "no", "too many steps" or "invalid".
std::string found(const std::string& expression, std::string_view text) {
    try {
        return RegularExpression(expression).occurs_in(text) ? "yes" : "no";
    } catch (const Error& error) {
        return error.code() == ErrorCode::limit ? "too many steps" : "invalid";
    }
}

TEST(RegularExpression, WholeText_IsMatched) {
    const RegularExpression expression("shell|mcp_.*_(read|write)");
    EXPECT_TRUE(expression.matches("shell"));
    EXPECT_TRUE(expression.matches("mcp_files_read"));
    EXPECT_FALSE(expression.matches("shell2"));
    EXPECT_TRUE(expression.occurs_in("shell2"));
    EXPECT_FALSE(expression.matches(""));
    EXPECT_TRUE(RegularExpression("").matches(""));
    EXPECT_TRUE(RegularExpression("^a[[:digit:]]{2,3}(?!b)\\b").occurs_in("a12 b"));
}

TEST(RegularExpression, Options_AreApplied) {
    EXPECT_TRUE(RegularExpression("a.c", {.ignore_case = true}).occurs_in("xABC"));
    EXPECT_FALSE(RegularExpression("a.c", {.is_literal = true}).occurs_in("abc"));
    EXPECT_TRUE(RegularExpression("a.c", {.ignore_case = true, .is_literal = true}).matches("A.C"));
}

TEST(RegularExpression, TextOfSeveralLines_IsOneText) {
    EXPECT_EQ(found("^b", "a\nb"), "no");
    EXPECT_EQ(found("a$", "a\nb"), "no");
    EXPECT_EQ(found("b$", "a\nb\n"), "no");
    EXPECT_EQ(found("a.b", "a\nb"), "no");
    EXPECT_EQ(found("a\\sb$", "a\nb"), "yes");
    EXPECT_FALSE(RegularExpression("a.*").matches("a\nb"));
    EXPECT_TRUE(RegularExpression("a(.|\\n)*").matches("a\nb"));
}

TEST(RegularExpression, InvalidExpression_IsReported) {
    for (const char* const one : {"(", "[a", "a{2,1}", "*", "[z-a]", "a\\", "(?R)", "[[.none.]]"}) {
        try {
            const RegularExpression expression(one);
            ADD_FAILURE() << one;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
            EXPECT_EQ(std::string_view(error.what()).find("'" + std::string(one)), 0U);
        }
    }
}

TEST(RegularExpression, D279_DeepOrLongExpression_IsRefused) {
    const std::vector<std::string> hostile = {repeated("(", 100'000),
                                              repeated("(", 5000) + repeated(")", 5000),
                                              repeated("(?:", 2000) + repeated(")*", 2000),
                                              repeated("(?=", 3000),
                                              repeated("[", 10'000),
                                              repeated("a", 100'000),
                                              repeated("a?", 100'000),
                                              repeated("a|", 100'000)};
    for (const std::string& one : hostile) {
        try {
            const RegularExpression expression(one);
            ADD_FAILURE() << one.substr(0, 20);
        } catch (const Error& error) {
            EXPECT_LT(std::string_view(error.what()).size(), 1000U);
        }
    }
}

TEST(RegularExpression, D279_HostileMatch_Ends) {
    const std::string line = repeated("a", 65'536);
    EXPECT_EQ(found("(a+)+$", repeated("a", 60) + "b"), "too many steps");
    EXPECT_EQ(found("(a|aa)+c", line), "too many steps");
    EXPECT_EQ(found("(x+x+)+y", repeated("x", 1000)), "too many steps");
    EXPECT_EQ(found(repeated("a?", 4000) + "b", repeated("a", 100)), "too many steps");
    EXPECT_EQ(found(repeated("a*", 1000) + "b", line), "too many steps");
    EXPECT_EQ(found(repeated("(?:", 50) + "a" + repeated(")*", 50) + "b", line), "too many steps");
    EXPECT_EQ(found("(a*)\\1\\1b", line), "too many steps");
    EXPECT_EQ(found("(?:a|(?R))*b", repeated("a", 20)), "too many steps");
    EXPECT_EQ(found("(a{0,1000000}){0,1000000}b", line), "too many steps");
    EXPECT_EQ(found("a{1000000000}", line), "too many steps");
    EXPECT_EQ(found("(((a{1000}){1000}){1000}){1000}", repeated("a", 1000)), "no");
}

TEST(RegularExpression, D279_LongText_NeedsNoStack) {
    const std::string text = repeated("a", 1'000'000);
    EXPECT_EQ(found("^[a-z]*$", text), "yes");
    EXPECT_EQ(found("b", text), "no");
    EXPECT_EQ(found("(?:a|b)*c", text), "too many steps");
}

TEST(RegularExpression, AnyBytes_AreMatched) {
    EXPECT_EQ(found("\xff[\x80-\xbf]+", "\xff\x80\xbf"), "yes");
    EXPECT_EQ(found("^.{3}$", std::string_view("\0\xc3\xff", 3)), "yes");
    EXPECT_EQ(found(std::string("a\0b", 3), std::string_view("a\0b", 3)), "yes");
}

}  // namespace
}  // namespace cubepi::detail
