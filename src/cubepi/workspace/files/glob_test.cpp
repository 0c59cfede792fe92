#include <cubepi/workspace/files/glob.hpp>

#include <gtest/gtest.h>

namespace cubepi::detail {
namespace {

struct Case {
    const char* pattern;
    const char* path;
    bool matches;
};

TEST(Glob, MatchesLikeAShell) {
    const Case cases[] = {
        {"*.cpp", "a.cpp", true},
        {"*.cpp", "src/a.cpp", true},
        {"*.cpp", "a.hpp", false},
        {"src/*.cpp", "src/a.cpp", true},
        {"src/*.cpp", "src/x/a.cpp", false},
        {"**/*.cpp", "a.cpp", true},
        {"**/*.cpp", "x/y/a.cpp", true},
        {"src/**/a.cpp", "src/a.cpp", true},
        {"src/**/a.cpp", "src/x/y/a.cpp", true},
        {"src/**", "src/x/y", true},
        {"src/**", "lib/x", false},
        {"?.c", "a.c", true},
        {"?.c", "ab.c", false},
        {"[a-c].c", "b.c", true},
        {"[!a-c].c", "b.c", false},
        {"[!a-c].c", "d.c", true},
        {"*.{cpp,hpp}", "a.hpp", true},
        {"*.{cpp,hpp}", "a.c", false},
        {"a[", "a[", true},
        {"\\*", "*", true},
        {"\\*", "x", false},
        {"./src/*", "src/a", true},
        {"**/test/*", "x/latest/a", false},
        {"**/test/*", "x/test/a", true},
        {"a*b*c", "axxbyyc", true},
        {"a*b*c", "axxbyy", false},
        {"*", "", true},
    };
    for (const Case& c : cases) {
        EXPECT_EQ(Glob(c.pattern).matches(c.path), c.matches) << c.pattern << " on " << c.path;
    }
}

TEST(Glob, IsNotExponential) {
    std::string pattern;
    for (int i = 0; i < 30; ++i) pattern += "a*";
    EXPECT_FALSE(Glob(pattern + "b").matches(std::string(2000, 'a')));
}

TEST(IgnoreRules, FollowGitignore) {
    const IgnoreRules rules("", "# comment\n*.o\n!keep.o\nbuild/\n/top\ndocs/*.html\n\n");
    using V = IgnoreRules::Verdict;
    EXPECT_EQ(rules.check("a.o", false), V::ignored);
    EXPECT_EQ(rules.check("x/a.o", false), V::ignored);
    EXPECT_EQ(rules.check("x/keep.o", false), V::included);
    EXPECT_EQ(rules.check("x/build", true), V::ignored);
    EXPECT_EQ(rules.check("x/build", false), V::none);
    EXPECT_EQ(rules.check("top", false), V::ignored);
    EXPECT_EQ(rules.check("x/top", false), V::none);
    EXPECT_EQ(rules.check("docs/a.html", false), V::ignored);
    EXPECT_EQ(rules.check("x/docs/a.html", false), V::none);
}

TEST(IgnoreRules, ApplyBelowTheirDirectory) {
    const IgnoreRules rules("lib", "/out\n");
    EXPECT_EQ(rules.check("lib/out", true), IgnoreRules::Verdict::ignored);
    EXPECT_EQ(rules.check("out", true), IgnoreRules::Verdict::none);
    EXPECT_EQ(rules.check("library/out", true), IgnoreRules::Verdict::none);
}

}  // namespace
}  // namespace cubepi::detail
