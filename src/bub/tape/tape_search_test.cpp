#include <gtest/gtest.h>

#include <bub/tape/memory_tape_store.hpp>
#include <bub/tape/search/query_filter.hpp>
#include <bub/tape/tape.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>

namespace bub {
namespace {

using cubepi::run;

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

TEST(TextSearch, B17_CaseIsFoldedInEveryScript) {
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

TEST(TextSearch, B17_LettersWithMarksMatchHoweverTheyAreComposed) {
    EXPECT_TRUE(finds("cafe\u0301", "café"));
    EXPECT_TRUE(finds("CAFÉ", "cafe\u0301"));
    EXPECT_TRUE(finds("\u1112\u1161\u11ab", "한"));
    EXPECT_FALSE(finds("café", "cafe")) << "e is not é";
    EXPECT_FALSE(finds("Größe", "gro"));
    EXPECT_TRUE(finds("Größe", "Gr"));
}

TEST(TextSearch, B17_JsonInsideTextIsLookedInto) {
    EXPECT_TRUE(finds(R"({"path": "\u4f60\u597d.txt"})", "你好"));
    EXPECT_TRUE(finds(R"({"cmd": "echo \"hi\""})", "echo \"hi\""));
    EXPECT_FALSE(finds(R"(\u4f60)", "你"));
}

TEST(TextSearch, InvalidUtf8IsHarmless) {
    EXPECT_FALSE(finds("\xff\xfe\xf5\x80\xc0\xaf\xed\xa0\x80", "x"));
    EXPECT_TRUE(finds("\xe4\xbd", "\xff")) << "both are U+FFFD";
}

TEST(TapeSearch, B17_ExactFindsComeBeforeNearOnes) {
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

TEST(TapeSearch, B17_NearFindsWorkInEveryScript) {
    const Tape tape = tape_of({"съешь ещё этих мягких булок", "Größenordnung"});
    EXPECT_EQ(search(tape, "мягкхи").size(), 1u);
    EXPECT_EQ(search(tape, "grössenordnug").size(), 1u);
}

TEST(TapeSearch, OneDateAloneIsABound) {
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

TEST(TapeSearch, B17_ForksAreSearchedAsTapesAre) {
    const Tape tape = tape_of({"one ÄPFEL"});
    const auto fork = tape.fork();
    const Tape inside = tape.in(fork);
    run(inside.append(message_entry("user", "two äpfel")));
    run(inside.append(message_entry("user", "birnen")));
    EXPECT_EQ(search(inside, "Äpfel"), (std::vector<std::string>{"two äpfel", "one ÄPFEL"}));
    EXPECT_EQ(search(tape, "Äpfel"), std::vector<std::string>{"one ÄPFEL"});
    run(fork->discard());
}

TEST(ContextOverflow, IsToldFromItsText) {
    for (const char* text :
         {"This model's maximum context length is 8192 tokens", "context_length_exceeded",
          "Prompt is too long", "input exceeds the context window",
          "prompt is too long: 210000 tokens > 200000 maximum", "token limit reached"})
        EXPECT_TRUE(is_context_overflow(text)) << text;
    for (const char* text : {"", "rate limited", "invalid api key", "the context was lost"})
        EXPECT_FALSE(is_context_overflow(text)) << text;
}

}  // namespace bub
