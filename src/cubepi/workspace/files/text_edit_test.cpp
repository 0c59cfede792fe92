#include <cubepi/workspace/files/text_edit.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>

namespace cubepi::detail {
namespace {

using ::testing::HasSubstr;

std::string failure(std::string_view text, std::string_view old_text, std::string_view new_text,
                    bool all = false) {
    try {
        edit_text(text, old_text, new_text, all, "a.txt");
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        return error.what();
    }
    return "no failure";
}

TEST(TextEdit, B12_ReplacesExactlyOneMatch) {
    const auto outcome = edit_text("one\ntwo\nthree\n", "two", "2", false, "a.txt");
    EXPECT_EQ(outcome.text, "one\n2\nthree\n");
    EXPECT_EQ(outcome.replacements, 1u);
    EXPECT_EQ(outcome.first_line, 2u);
}

TEST(TextEdit, B12_RefusesSeveralMatchesAndNamesTheirLines) {
    EXPECT_THAT(failure("a\nb\na\na\n", "a", "x"),
                HasSubstr("occurs 3 times in a.txt (lines 1, 3, 4)"));
    EXPECT_THAT(failure("aaa", "aa", "x"), HasSubstr("occurs 2 times"));
}

TEST(TextEdit, ReplacesAllOnRequest) {
    const auto outcome = edit_text("a\nb\naa\n", "a", "xa", true, "a.txt");
    EXPECT_EQ(outcome.text, "xa\nb\nxaxa\n");
    EXPECT_EQ(outcome.replacements, 3u);
}

TEST(TextEdit, B12_PreservesCrLfLineEndings) {
    const auto outcome =
        edit_text("one\r\ntwo\r\nthree\r\n", "one\ntwo", "1\n2\n2b", false, "a.txt");
    EXPECT_EQ(outcome.text, "1\r\n2\r\n2b\r\nthree\r\n");
}

TEST(TextEdit, B12_PreservesMixedLineEndingsOutsideTheMatch) {
    const auto outcome = edit_text("a\r\nb\nc\r\nd\ne\n", "c\nd", "x\ny", false, "a.txt");
    EXPECT_EQ(outcome.text, "a\r\nb\nx\ny\ne\n");
}

TEST(TextEdit, InsertsNoCarriageReturnsIntoAnLfFile) {
    const auto outcome = edit_text("a\nb\n", "a\r\nb", "x\r\ny", false, "a.txt");
    EXPECT_EQ(outcome.text, "x\ny\n");
}

TEST(TextEdit, DeletesText) {
    EXPECT_EQ(edit_text("a\r\nb\r\nc", "b\n", "", false, "a.txt").text, "a\r\nc");
}

TEST(TextEdit, PointsToTheNearestLine) {
    const std::string text = "int main() {\n\treturn compute(1, 2);\n}\n";
    EXPECT_THAT(failure(text, "return compute(1, 3);", "x"),
                HasSubstr("The nearest is line 2: \treturn compute(1, 2);"));
    EXPECT_THAT(failure(text, "    return compute(1, 2);", "x"),
                HasSubstr("compare the indentation"));
    EXPECT_THAT(failure(text, "zzzzqqqq", "x"), HasSubstr("Nothing in the file resembles it"));
    EXPECT_THAT(failure(text, "zzzzqqqq", "x"), HasSubstr("0 matches"));
}

TEST(TextEdit, RefusesEmptyAndIdenticalTexts) {
    EXPECT_THAT(failure("a", "", "b"), HasSubstr("write tool"));
    EXPECT_THAT(failure("a", "a", "a"), HasSubstr("nothing to change"));
}

}  // namespace
}  // namespace cubepi::detail
