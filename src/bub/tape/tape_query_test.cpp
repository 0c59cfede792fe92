#include <bub/tape/tape_query.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/memory_tape_store.hpp>
#include <bub/tape/search/query_filter.hpp>
#include <bub/tape/tape.hpp>
#include <bub/tape/tape_test_support.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/json/utf8.hpp>

namespace bub {
namespace {

/// Returns the names of anchors and the texts of messages, or the code of an error.
std::string asked(TapeStore& store, TapeQuery query) {
    std::string found;
    try {
        for (const TapeEntry& entry : run(store.fetch("w__s", std::move(query)))) {
            const Json* text = entry.payload.if_contains("content");
            found += text ? std::string_view(text->as_string()) : entry_name(entry);
            found += ' ';
        }
    } catch (const cubepi::Error& error) {
        found = to_string(error.code());
    }
    return found;
}

void fill(TapeStore& store, int from, int to) {
    const char* const names[] = {"0", "#a", "1", "#b", "2", "#a", "3"};
    for (int i = from; i < to; ++i) {
        const std::string name = names[i];
        std::vector<TapeEntry> one;
        one.push_back(name.front() == '#' ? anchor_entry(name) : message_entry("user", name));
        run(store.append("w__s", std::move(one), TapeAppend()));
    }
}

bool finds(std::string_view text, std::string_view wanted) {
    return detail::TextSearch(wanted).found_in(message_entry("user", std::string(text)));
}

std::vector<std::string> texts(const std::vector<TapeEntry>& entries) {
    std::vector<std::string> found;
    for (const TapeEntry& entry : entries)
        found.emplace_back(entry.payload.at("content").as_string());
    return found;
}

Tape tape_of(std::vector<std::string> texts) {
    const Tape tape(std::make_shared<MemoryTapeStore>(), "w__s");
    for (std::string& text : texts) run(tape.append(message_entry("user", std::move(text))));
    return tape;
}

std::vector<std::string> search(const Tape& tape, std::string text, std::size_t limit = 20) {
    TapeSearch wanted;
    wanted.text = std::move(text);
    wanted.limit = limit;
    return texts(run(tape.search(std::move(wanted))));
}

}  // namespace

/// Runs every query on a tape in memory, on one in files, and on each split between a tape and its fork.
class Queries : public ::testing::TestWithParam<int> {
protected:
    Queries() {
        const int split = GetParam();
        if (split < 0) {
            store_ = std::make_shared<FileTapeStore>(directory_.options());
            fill(*store_, 0, 7);
        } else {
            const auto parent = std::make_shared<FileTapeStore>(directory_.options());
            fill(*parent, 0, split);
            store_ = std::make_shared<TurnTransaction>(parent, "w__s");
            fill(*store_, split, 7);
        }
    }
    std::string ask(TapeQuery query) { return asked(*store_, std::move(query)); }

    TestDirectory directory_;
    std::shared_ptr<TapeStore> store_;
};

TEST_P(Queries, B17_Queries_AnswerTheSameInForks) {
    EXPECT_EQ(ask(TapeQuery()), "0 #a 1 #b 2 #a 3 ");
    EXPECT_EQ(ask(TapeQuery().last_anchor()), "3 ");
    EXPECT_EQ(ask(TapeQuery().last_anchor().with_anchor()), "#a 3 ");
    EXPECT_EQ(ask(TapeQuery().after_anchor("#b")), "2 #a 3 ");
    EXPECT_EQ(ask(TapeQuery().after_anchor("#b").with_anchor()), "#b 2 #a 3 ");
    EXPECT_EQ(ask(TapeQuery().after_anchor("#x")), "not_found");
    EXPECT_EQ(ask(TapeQuery().after_anchor("")), "0 #a 1 #b 2 #a 3 ");
    EXPECT_EQ(ask(TapeQuery().between_anchors("#b", "#a")), "2 ");
    EXPECT_EQ(ask(TapeQuery().between_anchors("#b", "#a").with_anchor()), "#b 2 ");
    EXPECT_EQ(ask(TapeQuery().between_anchors("#a", "#b")), "not_found") << "the last #a";
    EXPECT_EQ(ask(TapeQuery().between_anchors("#x", "#b")), "not_found");
    EXPECT_EQ(ask(TapeQuery().limit(3)), "0 #a 1 ");
    EXPECT_EQ(ask(TapeQuery().limit(0)), "");
    EXPECT_EQ(ask(TapeQuery().newest_first().limit(4)), "3 #a 2 #b ");
    EXPECT_EQ(ask(TapeQuery().newest_first().kinds({"message"}).limit(3)), "3 2 1 ");
    EXPECT_EQ(ask(TapeQuery().kinds({"anchor"})), "#a #b #a ");
    EXPECT_EQ(ask(TapeQuery().text("2")), "2 ");
    EXPECT_EQ(ask(TapeQuery().between_dates("2020-01-02", "2020-01-01")), "invalid_argument");
    EXPECT_EQ(ask(TapeQuery().between_dates("2020-01-01", "2020-01-02")), "");
    EXPECT_EQ(ask(TapeQuery().between_dates("2020-01-01", "9999-01-02").limit(1)), "0 ");
    const TapeInfo info = run(store_->info("w__s"));
    EXPECT_EQ(info.entries, 7);
    EXPECT_EQ(info.anchors, 3);
    EXPECT_EQ(info.last_anchor, "#a");
    EXPECT_EQ(info.entries_since_last_anchor, 1);
    EXPECT_EQ(run(store_->anchors("w__s", 2)).size(), 2u);
    EXPECT_EQ(run(store_->position("w__s")).messages, 4);
}

INSTANTIATE_TEST_SUITE_P(SplitAt, Queries, ::testing::Values(-1, 0, 1, 2, 3, 4, 5, 6, 7));

/// Python's text for comparison of each character that its Unicode version assigns: "CODE FOLDED..." in lines.
constexpr const char* folded_by_python = R"(python3 -c '
import sys, unicodedata
def decomposed(text): return unicodedata.normalize("NFD", text)
for code in range(128, sys.maxunicode + 1):
    if unicodedata.category(chr(code)) not in ("Cn", "Cs"):
        print(code, *map(ord, decomposed(decomposed(chr(code)).casefold())))
')";

TEST(TextSearch, B17_FoldedCase_IsThatOfPython) {
    const std::unique_ptr<FILE, int (*)(FILE*)> python(popen(folded_by_python, "r"), pclose);
    ASSERT_TRUE(python);
    std::array<char, 256> line;
    std::size_t count = 0;
    while (std::fgets(line.data(), line.size(), python.get())) {
        std::istringstream numbers(line.data());
        std::uint32_t code = 0;
        numbers >> code;
        std::string text;
        cubepi::detail::append_utf8(text, code);
        std::u32string expected;
        for (std::uint32_t one = 0; numbers >> one;) expected += one;
        ASSERT_EQ(detail::folded(text), expected) << line.data();
        ++count;
    }
    EXPECT_GT(count, 140'000U) << "python3 did not run";
}

TEST(TextSearch, B17_Case_IsFoldedInEveryScript) {
    EXPECT_TRUE(finds("The QUICK fox", "quick"));
    EXPECT_TRUE(finds("ΣΊΣΥΦΟΣ", "σίσυφος"));
    EXPECT_TRUE(finds("STRASSE", "straße"));
    EXPECT_TRUE(finds("straße", "STRASSE"));
    EXPECT_TRUE(finds("ЁЛКА", "ёлка"));
    EXPECT_TRUE(finds("ᎠᎡᎢ", "ꭰꭱꭲ"));
    EXPECT_TRUE(finds("𐐀𐐁", "𐐨𐐩"));
    EXPECT_TRUE(finds("你好，世界", "好，世"));
    EXPECT_TRUE(finds("가나다", "나"));
    EXPECT_TRUE(finds("🎉 party", "🎉"));
    EXPECT_FALSE(finds("你好", "好你"));
}

TEST(TextSearch, B17_LettersWithMarks_MatchInAnyComposition) {
    EXPECT_TRUE(finds("cafe\u0301", "café"));
    EXPECT_TRUE(finds("CAFÉ", "cafe\u0301"));
    EXPECT_TRUE(finds("\u1112\u1161\u11ab", "한"));
    EXPECT_FALSE(finds("café", "cafe")) << "e is not é";
    EXPECT_FALSE(finds("Größe", "gro"));
    EXPECT_TRUE(finds("Größe", "Gr"));
}

TEST(TextSearch, B17_JsonInsideText_IsSearched) {
    EXPECT_TRUE(finds(R"({"path": "\u4f60\u597d.txt"})", "你好"));
    EXPECT_TRUE(finds(R"({"cmd": "echo \"hi\""})", "echo \"hi\""));
    EXPECT_FALSE(finds(R"(\u4f60)", "你"));
}

TEST(TextSearch, InvalidUtf8_IsHarmless) {
    EXPECT_FALSE(finds("\xff\xfe\xf5\x80\xc0\xaf\xed\xa0\x80", "x"));
    EXPECT_TRUE(finds("\xe4\xbd", "\xff")) << "both are U+FFFD";
}

TEST(TapeSearch, B17_ExactMatches_PrecedeNearOnes) {
    const Tape tape =
        tape_of({"the database migration", "unrelated", "databse migration", "Database again"});
    EXPECT_EQ(search(tape, "database"),
              (std::vector<std::string>{"Database again", "the database migration",
                                        "databse migration"}));
    EXPECT_EQ(search(tape, "database", 2),
              (std::vector<std::string>{"Database again", "the database migration"}));
    EXPECT_EQ(search(tape, "migratoin"),
              (std::vector<std::string>{"databse migration", "the database migration"}));
    EXPECT_EQ(search(tape, "größe"), std::vector<std::string>());
}

TEST(TapeSearch, B17_NearMatches_WorkInEveryScript) {
    const Tape tape = tape_of({"съешь ещё этих мягких булок", "Größenordnung"});
    EXPECT_EQ(search(tape, "мягкхи").size(), 1u);
    EXPECT_EQ(search(tape, "grössenordnug").size(), 1u);
}

TEST(TapeSearch, OneDateAlone_IsABound) {
    const Tape tape = tape_of({"x"});
    TapeSearch wanted;
    wanted.text = "x";
    wanted.from = "2020-01-01";
    EXPECT_EQ(run(tape.search(wanted)).size(), 1u);
    wanted.to = "2020-01-02";
    EXPECT_EQ(run(tape.search(wanted)).size(), 0u);
    wanted.from = "soon";
    EXPECT_THROW(run(tape.search(wanted)), cubepi::Error);
}

TEST(TapeSearch, B17_Forks_AreSearchedLikeTapes) {
    const Tape tape = tape_of({"one ÄPFEL"});
    const auto fork = tape.fork();
    const Tape inside = tape.in(fork);
    run(inside.append(message_entry("user", "two äpfel")));
    run(inside.append(message_entry("user", "birnen")));
    EXPECT_EQ(search(inside, "Äpfel"), (std::vector<std::string>{"two äpfel", "one ÄPFEL"}));
    EXPECT_EQ(search(tape, "Äpfel"), std::vector<std::string>{"one ÄPFEL"});
    run(fork->discard());
}

}  // namespace bub
