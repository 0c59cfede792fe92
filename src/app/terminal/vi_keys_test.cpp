// The keys of vi at the prompt, without a terminal.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "prompt.hpp"

namespace cubepi::app {
namespace {

/// A prompt with the keys of vi.
class ViPrompt {
public:
    ViPrompt() : prompt_(Style(), History({})) {
        prompt_.use_vi_keys();
        decoder_.set_alt_letters(false);
    }

    /// Presses the keys of these bytes, and returns the last outcome.
    Prompt::Outcome type(const std::string& bytes) {
        Prompt::Outcome outcome = Prompt::Outcome::none;
        std::vector<Key> keys = decoder_.feed(bytes);
        for (Key& key : decoder_.flush()) keys.push_back(std::move(key));
        for (const Key& key : keys) outcome = prompt_.press(key, false);
        return outcome;
    }
    Prompt::Outcome press(KeyCode code, const std::string& text = {}) {
        return prompt_.press(Key{code, text}, false);
    }
    Prompt& prompt() { return prompt_; }
    const std::string& text() const { return prompt_.text(); }
    std::string mode() const { return std::string(prompt_.vi_mode().str()); }

private:
    Prompt prompt_;
    KeyDecoder decoder_;
};

/// Types `text` with line feeds, then the keys in the mode normal at its beginning. Returns the text with a `|` before the cursor.
std::string after(const std::string& text, const std::string& keys) {
    ViPrompt vi;
    // Ctrl-J begins a line.
    (void)vi.type(text);
    (void)vi.type("\x1bgg0" + keys);
    if (vi.mode() == "NORMAL") (void)vi.type("i");
    (void)vi.type("|");
    return vi.text();
}

struct Case {
    const char* text;
    const char* keys;
    const char* expected;
};

TEST(ViKeys, D172_Motions_LeadToTheirPlaces) {
    const std::vector<Case> cases = {
        {"one two", "w", "one |two"},
        {"one two", "ww", "one tw|o"},
        {"one, two", "w", "one|, two"},
        {"one, two", "W", "one, |two"},
        {"one two", "e", "on|e two"},
        {"one two", "ee", "one tw|o"},
        {"one two", "$", "one tw|o"},
        {"one two", "$b", "one |two"},
        {"  one", "^", "  |one"},
        {"  one", "^0", "|  one"},
        {"one two", "lllh", "on|e two"},
        {"one two", "3l", "one| two"},
        {"one two", "99l", "one tw|o"},
        {"a\nb\nc", "G", "a\nb\n|c"},
        {"a\nb\nc", "2G", "a\n|b\nc"},
        {"a\nb\nc", "Ggg", "|a\nb\nc"},
        {"ab\ncd", "lj", "ab\nc|d"},
        {"ab\ncd", "jlk", "a|b\ncd"},
        {"a.b.c.d", "f.", "a|.b.c.d"},
        {"a.b.c.d", "t.", "|a.b.c.d"},
        {"a.b.c.d", "2f.", "a.b|.c.d"},
        {"a.b.c.d", "f.;;", "a.b.c|.d"},
        {"a.b.c.d", "f.;;,", "a.b|.c.d"},
        {"a.b.c.d", "$F.", "a.b.c|.d"},
        {"a.b.c.d", "$T.", "a.b.c.|d"},
        {"ab.cd.e", "t.;", "ab.c|d.e"},
        {"a b", "fz", "|a b"},
        {"größe über", "w", "größe |über"},
        {"größe über", "e", "größ|e über"},
        {"日本 語", "l", "日|本 語"},
        {"a\n\nb", "w", "a\n|\nb"},
        {"", "wbe$hjkl", "|"},
    };
    for (const Case& one : cases)
        EXPECT_EQ(after(one.text, one.keys), one.expected) << one.text << " " << one.keys;
}

TEST(ViKeys, D172_Operators_ChangeTheirRanges) {
    const std::vector<Case> cases = {
        {"one two three", "dw", "|two three"},
        {"one two three", "2dw", "|three"},
        {"one two three", "d2w", "|three"},
        {"one two", "wdw", "one| "},
        {"one two", "cwX", "X| two"},
        {"one two three", "c2wX", "X| three"},
        {"a b", "cwX", "X| b"},
        {"one two", "de", "| two"},
        {"one two", "wD", "one| "},
        {"one two", "wCX", "one X|"},
        {"one two", "$db", "one |o"},
        {"one two", "dfo", "|"},
        {"one two", "dtw", "|wo"},
        {"one two", "wd0", "|two"},
        {"a\nb\nc", "dd", "|b\nc"},
        {"a\nb\nc", "2dd", "|c"},
        {"a\nb\nc", "Gdd", "a\n|b"},
        {"a", "dd", "|"},
        {"a\nb\nc", "dj", "|c"},
        {"a\nb\nc", "jdG", "|a"},
        {"a\nb\nc", "Gdgg", "|"},
        {"a\nb\nc", "jccX", "a\nX|\nc"},
        {"a\nb", "SX", "X|\nb"},
        {"abc", "sX", "X|bc"},
        {"abcd", "2x", "|cd"},
        {"abcd", "$X", "ab|d"},
        {"abcd", "$x", "ab|c"},
        {"abc", "rX", "|Xbc"},
        {"abc", "2rX", "X|Xc"},
        {"abc", "9rX", "|abc"},
        {"aBc", "3~", "Ab|C"},
        {"a\n  b", "J", "a| b"},
        {"a\nb\nc", "3J", "a b| c"},
        {"one two", "yiwwP", "one on|etwo"},
        {"ab", "xp", "b|a"},
        {"ab", "x3p", "baa|a"},
        {"a\nb", "yyp", "a\n|a\nb"},
        {"a\nb", "jYP", "a\n|b\nb"},
        {"a\nb", "ddp", "b\n|a"},
        {"one\n", "dw", "|\n"},
        {"ö日c", "x", "|日c"},
        {"abc", "dz", "|abc"},
        {"one two", "d\x1bw", "one |two"},
        {"a\nb", "dk", "|a\nb"},
    };
    for (const Case& one : cases)
        EXPECT_EQ(after(one.text, one.keys), one.expected) << one.text << " " << one.keys;
}

TEST(ViKeys, D172_TextObjects_AreWordsQuotesAndBrackets) {
    const std::vector<Case> cases = {
        {"one two three", "wldiw", "one | three"},
        {"one two three", "wldaw", "one |three"},
        {"one two", "wldaw", "on|e"},
        {"one-two x", "diW", "| x"},
        {"a \"b c\" d", "ci\"X", "a \"X|\" d"},
        {"a \"b c\" d", "da\"", "a |d"},
        {"'it' 'is'", "f'lllldi'", "'it' '|'"},
        {"f(a, (b))", "f(ci(X", "f(X|)"},
        {"f(a, (b))", "fbdi(", "f(a, (|))"},
        {"f(a, (b))", "fbdab", "f(a, |)"},
        {"f(a)", "di(", "|f(a)"},
        {"{\n a\n}", "jdi{", "{|}"},
        {"x[1]", "f1ci[2", "x[2|]"},
        {"f(a) g", "f)da(", "f| g"},
        {"say \"", "di\"", "|say \""},
        {"f(a", "fadi(", "f(|a"},
    };
    for (const Case& one : cases)
        EXPECT_EQ(after(one.text, one.keys), one.expected) << one.text << " " << one.keys;
}

TEST(ViKeys, D172_Insertion_IsUndoneAndRepeatedAsOne) {
    const std::vector<Case> cases = {
        {"a b", "cwone more\x1bu", "|a b"},
        {"a b", "cwX\x1bu\x12", "|X b"},
        {"a b c", "cwX\x1bw.", "X |X c"},
        {"a b c", "cwX\x1bw.u", "X |b c"},
        {"abcd", "x..", "|d"},
        {"abcdef", "x3.", "|ef"},
        {"abcdef", "2x.", "|ef"},
        {"a\nb", "A;\x1bj.", "a;\nb|;"},
        {"a", "onew\x1b.", "a\nnew\nne|w"},
        {"a", "Onew\x1b", "ne|w\na"},
        {"  a", "IX\x1b", "  |Xa"},
        {"ab", "aX\x1b", "a|Xb"},
        {"ab", "xxuu", "|ab"},
        {"ab", "xxuu\x12", "|b"},
        {"ab", "xu\x12\x12", "|b"},
        {"a.b.c", "dt..", "|.c"},
        {"a b c", "dwu.", "|b c"},
        {"ab", ".", "|ab"},
    };
    for (const Case& one : cases)
        EXPECT_EQ(after(one.text, one.keys), one.expected) << one.text << " " << one.keys;
}

TEST(ViKeys, D172_Escape_EndsInsertThenCommandThenAnswer) {
    ViPrompt vi;
    EXPECT_EQ(vi.mode(), "INSERT");
    EXPECT_EQ(vi.type("text\x1b"), Prompt::Outcome::none);
    EXPECT_EQ(vi.mode(), "NORMAL");
    EXPECT_EQ(vi.type("d\x1b"), Prompt::Outcome::none) << "drops the command";
    EXPECT_EQ(vi.type("\x1b"), Prompt::Outcome::escape);
    EXPECT_EQ(vi.text(), "text");
    EXPECT_EQ(vi.type("\r"), Prompt::Outcome::entered);
    EXPECT_EQ(vi.prompt().take(), "text");
    EXPECT_EQ(vi.mode(), "INSERT") << "the next text";
}

TEST(ViKeys, D172_UpAndDown_ShowTheHistory) {
    ViPrompt vi;
    (void)vi.type("first\r");
    vi.prompt().remember(vi.prompt().take());
    (void)vi.type("draft\x1bk");
    EXPECT_EQ(vi.text(), "first");
    EXPECT_EQ(vi.mode(), "NORMAL");
    (void)vi.type("x");
    EXPECT_EQ(vi.text(), "firs") << "the cursor is on the last character";
    (void)vi.type("j");
    EXPECT_EQ(vi.text(), "draft");
    (void)vi.type("dd/fir\r");
    EXPECT_EQ(vi.text(), "first");
    EXPECT_EQ(vi.type("\r"), Prompt::Outcome::entered);
    (void)vi.prompt().take();
    EXPECT_TRUE(vi.prompt().taken_has_paste()) << "an entry may have been pasted";
}

TEST(ViKeys, D172_FoldedPaste_KeepsItsTextInTheRegister) {
    std::string pasted;
    for (int i = 0; i < 20; ++i) pasted += "line\n";
    ViPrompt vi;
    (void)vi.press(KeyCode::paste, pasted);
    EXPECT_EQ(vi.text(), "[pasted 20 lines]");
    (void)vi.type(
        "\x1b"
        "ddp");
    EXPECT_EQ(vi.type("\r"), Prompt::Outcome::entered);
    EXPECT_EQ(vi.prompt().take(), "\n" + pasted);
    EXPECT_TRUE(vi.prompt().taken_was_pasted());
    // At once Esc and P begin a string of the terminal.
    (void)vi.type("\x1b");
    (void)vi.type("P\r");
    EXPECT_EQ(vi.prompt().take(), pasted + "\n");
    EXPECT_TRUE(vi.prompt().taken_has_paste());
}

TEST(ViKeys, D172_Popup_IsOfInsertOnly) {
    ViPrompt vi;
    PopupSources sources;
    Command command;
    command.name = "/status";
    sources.commands.push_back(command);
    vi.prompt().set_sources(std::move(sources));
    (void)vi.type("/st");
    EXPECT_EQ(vi.prompt().menu(80, 5).size(), 1u);
    (void)vi.type("\x1b");
    EXPECT_EQ(vi.mode(), "NORMAL");
    EXPECT_TRUE(vi.prompt().menu(80, 5).empty());
    (void)vi.type("x");
    EXPECT_TRUE(vi.prompt().menu(80, 5).empty());
    (void)vi.type("at\t");
    EXPECT_EQ(vi.prompt().menu(80, 5).size(), 0u);
    EXPECT_EQ(vi.text(), "/status ");
}

TEST(ViKeys, EscapeAndLetterAtOnce_AreTwoKeys) {
    KeyDecoder decoder;
    decoder.set_alt_letters(false);
    const std::vector<Key> keys = decoder.feed(
        "\x1b"
        "b\x1b[A\x1b\r");
    ASSERT_EQ(keys.size(), 4u);
    EXPECT_EQ(keys[0].code, KeyCode::escape);
    EXPECT_EQ(keys[1].text, "b");
    EXPECT_EQ(keys[2].code, KeyCode::up);
    EXPECT_EQ(keys[3].code, KeyCode::new_line) << "Alt-Enter";
}

}  // namespace
}  // namespace cubepi::app
