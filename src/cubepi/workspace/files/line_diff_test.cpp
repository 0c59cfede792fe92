#include <cubepi/workspace/files/line_diff.hpp>

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <vector>

#include <gtest/gtest.h>

namespace cubepi::detail {
namespace {

std::vector<std::string> lines_of(std::string_view text) {
    std::vector<std::string> lines;
    while (!text.empty()) {
        const auto end = text.find('\n');
        const auto size = end == std::string_view::npos ? text.size() : end + 1;
        lines.emplace_back(text.substr(0, size));
        text.remove_prefix(size);
    }
    return lines;
}

/// Applies the hunks of a diff as patch(1) does, and checks every context and removed line.
std::string patched(std::string_view before, const std::string& diff) {
    const std::vector<std::string> old_lines = lines_of(before);
    std::string out;
    std::size_t at = 0;
    std::vector<std::string> hunks = lines_of(diff);
    for (std::size_t i = 0; i < hunks.size(); ++i) {
        std::string line = hunks[i];
        if (line.starts_with("@@ -")) {
            std::size_t begin = std::stoul(line.substr(4));
            const std::size_t count = std::stoul(line.substr(line.find(',') + 1));
            if (count > 0) --begin;
            while (at < begin) out += old_lines.at(at++);
            continue;
        }
        if (i + 1 < hunks.size() && hunks[i + 1].starts_with("\\ No newline")) line.pop_back();
        if (line[0] == '\\') continue;
        if (line[0] != '-') out += line.substr(1);
        if (line[0] == '+') continue;
        EXPECT_EQ(line.substr(1), old_lines.at(at));
        ++at;
    }
    while (at < old_lines.size()) out += old_lines[at++];
    return out;
}

/// The number of lines in a longest common subsequence.
std::size_t common_lines(const std::vector<std::string>& a, const std::vector<std::string>& b) {
    std::vector<std::size_t> row(b.size() + 1, 0);
    for (const std::string& line : a) {
        std::size_t diagonal = 0;
        for (std::size_t j = 0; j < b.size(); ++j) {
            const std::size_t above = row[j + 1];
            row[j + 1] = line == b[j] ? diagonal + 1 : std::max(above, row[j]);
            diagonal = above;
        }
    }
    return row.back();
}

TEST(LineDiff, ShowsHunksWithContextAndLineNumbers) {
    const LineDiff diff = diff_lines("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n",
                                     "1\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n11\n12\n13\n");
    EXPECT_EQ(diff.text,
              "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
              "@@ -10,3 +10,4 @@\n 10\n 11\n 12\n+13\n");
    EXPECT_EQ(diff.removed, 1u);
    EXPECT_EQ(diff.added, 2u);
}

TEST(LineDiff, HandlesEmptyTextsAndMissingLineEnds) {
    EXPECT_EQ(diff_lines("", "").text, "");
    EXPECT_EQ(diff_lines("a\n", "a\n").text, "");
    EXPECT_EQ(diff_lines("", "a\nb\n").text, "@@ -0,0 +1,2 @@\n+a\n+b\n");
    EXPECT_EQ(diff_lines("a\nb\n", "").text, "@@ -1,2 +0,0 @@\n-a\n-b\n");
    EXPECT_EQ(diff_lines("a\nb", "a\nb\n").text,
              "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n");
    EXPECT_EQ(diff_lines("x\nb", "y\nb").text,
              "@@ -1,2 +1,2 @@\n-x\n+y\n b\n\\ No newline at end of file\n");
}

TEST(LineDiff, IsTheShortestAndAppliesToTheOldText) {
    std::uint64_t state = 42;
    const auto random = [&state](std::uint64_t below) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return (state >> 33) % below;
    };
    for (int round = 0; round < 3000; ++round) {
        const auto make = [&] {
            std::string text;
            const std::uint64_t count = random(14);
            const std::uint64_t letters = 1 + random(5);
            for (std::uint64_t i = 0; i < count; ++i) {
                text += static_cast<char>('a' + random(letters));
                if (i + 1 < count || random(4) > 0) text += '\n';
            }
            return text;
        };
        const std::string before = make();
        const std::string after = make();
        DiffLimits limits;
        limits.context = random(4);
        const LineDiff diff = diff_lines(before, after, limits);
        ASSERT_EQ(patched(before, diff.text), after) << before << "---\n" << after << diff.text;
        const std::size_t common = common_lines(lines_of(before), lines_of(after));
        ASSERT_EQ(diff.removed, count_lines(before) - common) << before << "---\n" << after;
        ASSERT_EQ(diff.added, count_lines(after) - common);
        // With a work limit of zero the diff is coarser but still correct.
        limits.max_work = 0;
        ASSERT_EQ(patched(before, diff_lines(before, after, limits).text), after);
        limits.max_compared_lines = 1;
        ASSERT_EQ(patched(before, diff_lines(before, after, limits).text), after);
    }
}

TEST(LineDiff, IsBoundedForHugeTextsWithoutCommonLines) {
    std::string before;
    std::string after;
    for (int i = 0; i < 90'000; ++i) {
        before += "a" + std::to_string(i) + "\n";
        after += "b" + std::to_string(i) + "\n";
    }
    DiffLimits limits;
    limits.max_work = 1'000'000;
    limits.max_lines = 10;
    const LineDiff diff = diff_lines(before, after, limits);
    EXPECT_EQ(diff.removed, 90'000u);
    EXPECT_EQ(diff.added, 90'000u);
    EXPECT_EQ(diff.hidden, 180'000u - 9);
    EXPECT_EQ(count_lines(diff.text), 10u);
    const LineDiff newlines = diff_lines(std::string(4'000'000, '\n'), "", limits);
    EXPECT_EQ(newlines.removed, 4'000'000u);
}

TEST(LineDiff, CutsLongLinesAtACharacter) {
    DiffLimits limits;
    limits.max_line_bytes = 4;
    const LineDiff diff = diff_lines("", "abc\u00e9def\n", limits);
    EXPECT_EQ(diff.text, "@@ -0,0 +1,1 @@\n+abc…\n");
    EXPECT_TRUE(diff.cut_lines);
}

}  // namespace
}  // namespace cubepi::detail
