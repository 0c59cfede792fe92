#include <bub/tape/database_map.hpp>

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/digest.hpp>

namespace bub {
namespace {

DatabaseMap thirds() {
    return DatabaseMap({{"a", "0000-5554"}, {"b", "5555-aaa9"}, {"c", "aaaa-ffff"}});
}

std::string problem_of(const std::vector<DatabaseShare>& shares) {
    try {
        (void)DatabaseMap(shares);
    } catch (const cubepi::Error& error) {
        return error.what();
    }
    return {};
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

TEST(DatabaseMap, D258_Positions_NeverChange) {
    EXPECT_EQ(session_position(""), 0xe3b0);
    EXPECT_EQ(session_position("telegram:42"), 0x65d8);
    EXPECT_EQ(session_position("http:s1"), 0xc674);
    EXPECT_EQ(session_position("http:s2"), 0xeafb);
    EXPECT_EQ(session_position("http:s3"), 0xa20f);
    EXPECT_EQ(session_position("console:0123456789abcdef"), 0x7237);
    EXPECT_EQ(session_position("http:\xc3\xbc"), 0xe194);
}

TEST(DatabaseMap, D258_Session_IsInOneDatabase) {
    const DatabaseMap map = thirds();
    EXPECT_EQ(map.name(map.of_session("telegram:42")), "b");
    EXPECT_EQ(map.name(map.of_session("http:s1")), "c");
    EXPECT_EQ(map.at_position(0), 0U);
    EXPECT_EQ(map.at_position(0x5554), 0U);
    EXPECT_EQ(map.at_position(0x5555), 1U);
    EXPECT_EQ(map.at_position(0xffff), 2U);
    std::array<int, 3> counts{};
    constexpr int sessions = 3000;
    for (int i = 0; i < sessions; ++i) ++counts.at(map.of_session("http:" + std::to_string(i)));
    for (const int count : counts) EXPECT_GT(count, sessions / 4);
}

TEST(DatabaseMap, D258_TapesOfASession_AreWithIt) {
    const DatabaseMap map = thirds();
    for (int i = 0; i < 100; ++i) {
        const std::string session = "http:" + std::to_string(i);
        const std::string tape =
            "0123456789abcdef__" + cubepi::detail::sha256_hex(session).substr(0, 32);
        EXPECT_EQ(map.of_tape(tape), map.of_session(session));
        EXPECT_EQ(map.of_tape(tape + "__sidecar"), map.of_session(session));
    }
    EXPECT_EQ(map.of_tape("x__name"), map.of_tape("x__name__sidecar"));
    // Any name has a database.
    for (const char* name : {"", "__", "x__12", "x__zzzz", "plain"})
        EXPECT_LT(map.of_tape(name), map.size()) << name;
}

TEST(DatabaseMap, D258_SeveralRanges_AreMerged) {
    const DatabaseMap map({{"a", "0000-0fff, 2000-ffff"}, {"old", "none"}, {"b", "1000-1fff"}});
    EXPECT_EQ(map.ranges(0), "0000-0fff, 2000-ffff");
    EXPECT_EQ(map.ranges(1), "none");
    EXPECT_EQ(map.at_position(0x1800), 2U);
    EXPECT_EQ(map.record(2), "b of a: 0000-0fff, 2000-ffff; old: none; b: 1000-1fff");
    const std::vector<DatabaseShare> one = {{"a", "8000-ffff,0000-7fff"}};
    const DatabaseMap split(one);
    EXPECT_EQ(split.record(0), "a of a: 0000-ffff");
}

TEST(DatabaseMap, D258_InvalidDivision_IsRefused) {
    EXPECT_TRUE(has(problem_of({}), "no database has the sessions at 0000"));
    EXPECT_TRUE(has(problem_of({{"a", "0000-7fff"}}), "no database has the sessions at 8000"));
    EXPECT_TRUE(has(problem_of({{"a", "0001-ffff"}}), "at 0000"));
    EXPECT_TRUE(has(problem_of({{"a", "0000-8000"}, {"b", "8000-ffff"}}), "8000"));
    EXPECT_TRUE(has(problem_of({{"a", "0000-7fff"}, {"a", "8000-ffff"}}), "two databases"));
    for (const char* name : {"", "a b", "a:b", "\xc3\xbc"})
        EXPECT_TRUE(has(problem_of({{name, "0000-ffff"}}), "the name of a database")) << name;
    for (const char* ranges : {"", "0-ffff", "0000ffff", "0000-fffff", "ffff-0000", "0000-7fff,",
                               "0x00-ffff", "-001-ffff"})
        EXPECT_TRUE(has(problem_of({{"a", ranges}}), "four hexadecimal digits")) << ranges;
}

}  // namespace
}  // namespace bub
