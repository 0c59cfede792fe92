#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/scoped_test_directory.hpp>

#include "input_field.hpp"
#include "keys.hpp"
#include "prompt.hpp"

// Keys, the text under editing, history and completion, without a terminal.

// Keys that the user has changed.

namespace cubepi::app {

namespace {

std::vector<KeyCode> codes(const std::vector<Key>& keys) {
    std::vector<KeyCode> all;
    for (const Key& key : keys) all.push_back(key.code);
    return all;
}

TEST(Keys, KeysInAnyPieces_AreDecodedTheSame) {
    const std::string bytes =
        "aö\x1b[A\x1bOB\x1b[1;5C\x1b[3~\x1b\r\x1b[200~p\r\nq\x1b[201~\x7f\x03\x1b[99;9Rz";
    KeyDecoder whole;
    const std::vector<Key> expected = whole.feed(bytes);
    EXPECT_EQ(codes(expected),
              (std::vector<KeyCode>{KeyCode::text, KeyCode::text, KeyCode::up, KeyCode::down,
                                    KeyCode::word_right, KeyCode::erase, KeyCode::new_line,
                                    KeyCode::paste, KeyCode::backspace, KeyCode::interrupt,
                                    KeyCode::text}));
    EXPECT_EQ(expected[7].text, "p\nq");
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
        KeyDecoder decoder;
        std::vector<Key> keys = decoder.feed(bytes.substr(0, cut));
        for (Key& key : decoder.feed(bytes.substr(cut))) keys.push_back(std::move(key));
        EXPECT_EQ(codes(keys), codes(expected)) << "cut at " << cut;
    }
}

TEST(Keys, LoneEsc_IsAKeyOnceNothingFollows) {
    KeyDecoder decoder;
    EXPECT_TRUE(decoder.feed("\x1b").empty());
    EXPECT_EQ(decoder.pending(), KeyDecoder::Pending::escape);
    EXPECT_EQ(codes(decoder.flush()), std::vector<KeyCode>{KeyCode::escape});
    EXPECT_EQ(decoder.pending(), KeyDecoder::Pending::none);
    EXPECT_EQ(codes(decoder.feed("\x1b\x03")),
              (std::vector<KeyCode>{KeyCode::escape, KeyCode::interrupt}));
}

TEST(Keys, HalfACharacter_IsNotEsc) {
    KeyDecoder decoder;
    EXPECT_TRUE(decoder.feed("\xc3").empty());
    EXPECT_EQ(decoder.pending(), KeyDecoder::Pending::other);
    EXPECT_EQ(decoder.feed("\xb6").at(0).text, "ö");
    EXPECT_TRUE(decoder.feed("\x1b[1;").empty()) << "a sequence that comes in pieces";
    EXPECT_EQ(decoder.pending(), KeyDecoder::Pending::other);
    EXPECT_EQ(codes(decoder.feed("5D")), std::vector<KeyCode>{KeyCode::word_left});
    EXPECT_EQ(codes(decoder.feed("\xe2\x82\x03")), std::vector<KeyCode>{KeyCode::interrupt});
}

TEST(Keys, D95_UnfinishedReports_AreDroppedAfterASilence) {
    for (const std::string cut : {"\x1b]11;rgb:", "\x1b]11;rgb:\x1b", "\x1bP1", "\x1b_", "\x1b^",
                                  "\x1bX", "\x1b[", "\x1b[?1;2", "\x1b[M !", "\x1bO", "\xe2\x82"}) {
        KeyDecoder decoder;
        EXPECT_TRUE(decoder.feed(cut).empty()) << cut;
        EXPECT_EQ(decoder.pending(), KeyDecoder::Pending::other) << cut;
        EXPECT_TRUE(decoder.flush().empty()) << cut;
        EXPECT_EQ(codes(decoder.feed("\x03")), std::vector<KeyCode>{KeyCode::interrupt}) << cut;
    }
}

TEST(Keys, D95_PasteOverTheLimit_IsCut) {
    KeyDecoder decoder;
    EXPECT_TRUE(decoder.feed("\x1b[200~").empty());
    const std::string part(KeyDecoder::max_paste / 2 + 100, 'a');
    EXPECT_TRUE(decoder.feed(part).empty());
    const std::vector<Key> keys = decoder.feed(part);
    ASSERT_EQ(codes(keys), std::vector<KeyCode>{KeyCode::paste});
    EXPECT_EQ(keys.front().text.size(), KeyDecoder::max_paste);
    EXPECT_TRUE(decoder.feed("more\x1b[20").empty());
    EXPECT_EQ(decoder.feed("1~b").at(0).text, "b");
    EXPECT_TRUE(decoder.feed("\x1b[200~").empty());
    (void)decoder.feed(part + part);
    EXPECT_EQ(codes(decoder.feed("more\x03")), std::vector<KeyCode>{KeyCode::interrupt});
}

TEST(Keys, AltWithMeaninglessKey_IsIgnored) {
    KeyDecoder decoder;
    EXPECT_TRUE(decoder.feed("\x1bx").empty());
    EXPECT_TRUE(decoder.feed("\x1bö").empty());
    EXPECT_EQ(codes(decoder.feed("\x1b"
                                 "d\n\x1f")),
              (std::vector<KeyCode>{KeyCode::erase_next_word, KeyCode::new_line, KeyCode::undo}));
}

Key key(KeyCode code, std::string text = {}) {
    Key made;
    made.code = code;
    made.text = std::move(text);
    return made;
}

TEST(EditBuffer, EditKeys_WorkByCharactersWordsAndLines) {
    EditBuffer buffer;
    buffer.set("öne two");
    buffer.apply(key(KeyCode::word_left));
    buffer.apply(key(KeyCode::text, "x"));
    EXPECT_EQ(buffer.text(), "öne xtwo");
    buffer.apply(key(KeyCode::home));
    buffer.apply(key(KeyCode::erase));
    EXPECT_EQ(buffer.text(), "ne xtwo");
    buffer.apply(key(KeyCode::end));
    buffer.apply(key(KeyCode::erase_word));
    EXPECT_EQ(buffer.text(), "ne ");
    buffer.apply(key(KeyCode::yank));
    buffer.apply(key(KeyCode::yank));
    EXPECT_EQ(buffer.text(), "ne xtwoxtwo");
    buffer.apply(key(KeyCode::erase_to_start));
    EXPECT_TRUE(buffer.empty());
    buffer.apply(key(KeyCode::backspace));
    buffer.apply(key(KeyCode::left));
    EXPECT_TRUE(buffer.empty());
}

TEST(EditBuffer, UpAndDown_MoveUntilNoLineRemains) {
    EditBuffer buffer;
    buffer.set("long line\nab\nthird");
    EXPECT_TRUE(buffer.apply(key(KeyCode::up)));
    EXPECT_EQ(buffer.cursor(), 12u) << "the end of a shorter line";
    EXPECT_TRUE(buffer.apply(key(KeyCode::up)));
    EXPECT_EQ(buffer.cursor(), 2u);
    EXPECT_FALSE(buffer.apply(key(KeyCode::up)));
    EXPECT_TRUE(buffer.apply(key(KeyCode::down)));
    EXPECT_TRUE(buffer.apply(key(KeyCode::down)));
    EXPECT_FALSE(buffer.apply(key(KeyCode::down)));
    EXPECT_FALSE(buffer.apply(key(KeyCode::tab)));
}

TEST(EditBuffer, Undo_RevertsWordsPastesAndCuts) {
    EditBuffer buffer;
    for (const char letter : std::string("one two")) buffer.apply(key(KeyCode::text, {letter}));
    buffer.apply(key(KeyCode::paste, "a\nwrong\npaste"));
    buffer.apply(key(KeyCode::undo));
    EXPECT_EQ(buffer.text(), "one two");
    buffer.apply(key(KeyCode::undo));
    EXPECT_EQ(buffer.text(), "one");
    buffer.apply(key(KeyCode::erase_to_start));
    EXPECT_TRUE(buffer.empty());
    buffer.apply(key(KeyCode::undo));
    EXPECT_EQ(buffer.text(), "one");
    EXPECT_EQ(buffer.cursor(), 3u);
    buffer.replace({}, 0);
    buffer.apply(key(KeyCode::undo));
    EXPECT_EQ(buffer.text(), "one") << "also what Ctrl-C dropped";
    buffer.apply(key(KeyCode::undo));
    buffer.apply(key(KeyCode::undo));
    EXPECT_TRUE(buffer.empty());
}

TEST(EditBuffer, CursorKeys_MoveByVisibleCharacters) {
    EditBuffer buffer;
    buffer.set("e\u0301👨\u200D👩x");
    buffer.apply(key(KeyCode::left));
    buffer.apply(key(KeyCode::backspace));
    EXPECT_EQ(buffer.text(), "e\u0301x");
    buffer.set("漢字\nabc");
    buffer.apply(key(KeyCode::left));
    buffer.apply(key(KeyCode::up));
    EXPECT_EQ(buffer.cursor(), 3u) << "below each other are columns, not bytes";
}

std::vector<std::string> texts(const std::vector<TerminalText>& rows) {
    std::vector<std::string> all;
    for (const TerminalText& row : rows) all.push_back(row.str());
    return all;
}

TEST(InputField, InvisibleCharacters_AreSpelledOut) {
    EditBuffer buffer;
    const auto shown = [&](const std::string& text) {
        buffer.set(text);
        return field_rows(TerminalView("> "), buffer, 60, 5).rows.at(0).str();
    };
    EXPECT_EQ(shown("a\x1b]52;c;eA==\x07"), "> a^[]52;c;eA==^G") << "a file's name, after Tab";
    EXPECT_EQ(shown("ls \u202Egpj.sh"), "> ls <U+202E>gpj.sh");
    EXPECT_EQ(shown("x\x9b[2J"), "> x<9B>[2J");
    EXPECT_EQ(shown("x\u009b31m"), "> x<U+009B>31m");
    EXPECT_EQ(shown("a\u200bb"), "> a<U+200B>b");
    EXPECT_EQ(shown("e\u0301 \U0001F469\u200D\U0001F4BB \u2764\uFE0F"),
              "> e\u0301 \U0001F469\u200D\U0001F4BB \u2764\uFE0F")
        << "accents and emoji are text";
}

TEST(InputField, HiddenLines_AreCountedAboveAndBelow) {
    EditBuffer buffer;
    std::string text;
    for (int i = 1; i <= 200; ++i) text += (i == 1 ? "" : "\n") + std::to_string(i);
    buffer.set(text);
    FieldRows field = field_rows(TerminalView("> "), buffer, 40, 5);
    EXPECT_EQ(texts(field.rows), (std::vector<std::string>{"  … 196 lines above", "  197", "  198",
                                                           "  199", "  200"}));
    for (int i = 0; i < 100; ++i) buffer.apply(key(KeyCode::up));
    field = field_rows(TerminalView("> "), buffer, 40, 5);
    EXPECT_EQ(field.rows[field.cursor_row].str(), "  100");
    EXPECT_EQ(field.rows.front().str(), "  … 98 lines above");
    EXPECT_EQ(field.rows.back().str(), "  … 99 lines below");
    for (int i = 0; i < 99; ++i) buffer.apply(key(KeyCode::up));
    field = field_rows(TerminalView("> "), buffer, 40, 5);
    EXPECT_EQ(field.rows.front().str(), "> 1");
    EXPECT_EQ(field.cursor_row, 0u);
}

Prompt empty_prompt() { return Prompt(Style(), History({})); }

void paste(Prompt& prompt, const std::string& text) {
    Key pasted = key(KeyCode::paste);
    pasted.text = text;
    (void)prompt.press(pasted, false);
}

TEST(PromptLines, BackslashBeforeEnter_BeginsAnotherLine) {
    Prompt prompt = empty_prompt();
    const Key enter{KeyCode::enter, {}};
    for (const std::string& text : std::vector<std::string>{"one\\", "two\\\\"}) {
        for (const char c : text) (void)prompt.press(Key{KeyCode::text, std::string(1, c)}, false);
        (void)prompt.press(enter, false);
    }
    EXPECT_EQ(prompt.take(), "one\ntwo\\\\");
}

TEST(PromptPaste, LongPaste_IsFoldedUntilEntered) {
    std::string text;
    for (int i = 0; i < 1204; ++i) text += "line " + std::to_string(i) + "\n";
    Prompt prompt = empty_prompt();
    paste(prompt, text);
    EXPECT_EQ(prompt.text(), "[pasted 1,204 lines]");
    paste(prompt, "other" + text);
    EXPECT_EQ(prompt.text(), "[pasted 1,204 lines][pasted 1,204 lines, 2]");
    EXPECT_EQ(prompt.press(key(KeyCode::enter), false), Prompt::Outcome::entered);
    EXPECT_EQ(prompt.take(), text + "other" + text);
    EXPECT_TRUE(prompt.taken_was_pasted());
}

TEST(PromptPaste, PasteAfterTypedText_IsNoted) {
    Prompt prompt = empty_prompt();
    Key typed = key(KeyCode::text);
    typed.text = "see ";
    (void)prompt.press(typed, false);
    (void)prompt.press(key(KeyCode::enter), false);
    (void)prompt.take();
    EXPECT_FALSE(prompt.taken_has_paste());
    (void)prompt.press(typed, false);
    paste(prompt, "@file");
    (void)prompt.press(key(KeyCode::enter), false);
    EXPECT_EQ(prompt.take(), "see @file");
    EXPECT_FALSE(prompt.taken_was_pasted());
    EXPECT_TRUE(prompt.taken_has_paste());
}

TEST(PromptPaste, ShortPaste_IsShown) {
    Prompt prompt = empty_prompt();
    paste(prompt, "one\ntwo");
    EXPECT_EQ(prompt.text(), "one\ntwo");
}

TEST(PromptPaste, PastedMark_IsText) {
    Prompt prompt = empty_prompt();
    const std::string text(5000, 'x');
    paste(prompt, "[pasted 5,000 bytes]");
    paste(prompt, text);
    (void)prompt.press(key(KeyCode::enter), false);
    EXPECT_EQ(prompt.take(), text + text) << "the mark cannot be told from its text";
    paste(prompt, "[pasted 5,000 bytes]");
    (void)prompt.press(key(KeyCode::enter), false);
    EXPECT_EQ(prompt.take(), "[pasted 5,000 bytes]");
}

TEST(PromptPaste, Undo_RemovesTheFold) {
    Prompt prompt = empty_prompt();
    paste(prompt, std::string(5000, 'x'));
    (void)prompt.press(key(KeyCode::undo), false);
    EXPECT_EQ(prompt.text(), "");
}

TEST(Keys, ShiftTabAndPages_AreKeys) {
    KeyDecoder decoder;
    EXPECT_EQ(codes(decoder.feed("\x1b[Z\x1b[5~\x1b[6~")),
              (std::vector<KeyCode>{KeyCode::back_tab, KeyCode::page_up, KeyCode::page_down}));
}

TEST(InputField, LongQuestion_IsWrapped) {
    EditBuffer buffer;
    const FieldRows field =
        field_rows(TerminalView("  [y]es  [n]o  [a]lways  [e]dit > "), buffer, 30, 8);
    std::string all;
    for (const std::string& row : texts(field.rows)) all += row + "|";
    EXPECT_NE(all.find("[a]lways"), std::string::npos) << all;
    EXPECT_NE(all.find("[e]dit"), std::string::npos) << all;
    EXPECT_EQ(field.rows.back().str(), "  [e]dit > ");
    EXPECT_EQ(field.cursor_column, 11u);
    // The answer does not fit into its last row.
    buffer.set("a long answer");
    const FieldRows full =
        field_rows(TerminalView("Which of these long names is it? > "), buffer, 22, 8);
    EXPECT_EQ(texts(full.rows), (std::vector<std::string>{"Which of these long", "names is it? ",
                                                          "> a long answer"}));
}

TEST(InputField, LongText_WrapsAndKeepsCursorInView) {
    EditBuffer buffer;
    buffer.set(std::string(30, 'a'));
    FieldRows field = field_rows(TerminalView("> "), buffer, 21, 10);
    EXPECT_EQ(field.rows.size(), 2u);
    EXPECT_EQ(field.rows[0].str(), "> " + std::string(18, 'a'));
    EXPECT_EQ(field.rows[1].str(), "  " + std::string(12, 'a'));
    EXPECT_EQ(field.cursor_row, 1u);
    EXPECT_EQ(field.cursor_column, 14u);
    buffer.set("1\n2\n3\n4\n5\n6");
    field = field_rows(TerminalView("> "), buffer, 21, 3);
    EXPECT_EQ(texts(field.rows), (std::vector<std::string>{"  4", "  5", "  6"}));
    EXPECT_EQ(field.cursor_row, 2u);
    buffer.set("y");
    field = field_rows(TerminalView("a question that is long > "), buffer, 24, 5);
    EXPECT_EQ(field.rows.back().str(), "long > y");
    EXPECT_EQ(field.cursor_column, 8u);
}

class EditingDirectory : public ::testing::Test {
protected:
    EditingDirectory() : before_(std::filesystem::current_path()) {
        std::filesystem::current_path(directory_);
    }
    ~EditingDirectory() override { std::filesystem::current_path(before_); }
    std::filesystem::path before_;
    ScopedTestDirectory temporary_;
    const std::filesystem::path& directory_ = temporary_.path();
};

TEST_F(EditingDirectory, History_GoesBackAndKeepsTheDraft) {
    History history(directory_ / "history");
    for (const char* entry : {"one", "two", "two", "t\\ree\nlines"}) history.add(entry);
    EXPECT_EQ(history.size(), 3u);
    EXPECT_EQ(*history.older("draft"), "t\\ree\nlines");
    EXPECT_EQ(*history.older(""), "two");
    EXPECT_EQ(*history.newer(), "t\\ree\nlines");
    EXPECT_EQ(*history.newer(), "draft");
    EXPECT_EQ(history.newer(), nullptr);
    EXPECT_EQ(*history.find_older("n"), "t\\ree\nlines");
    EXPECT_EQ(*history.find_older("n"), "one");
    EXPECT_EQ(history.find_older("n"), nullptr);
    History other(directory_ / "history");
    history.add("four");
    other.add("five");
    History both(directory_ / "history");
    EXPECT_EQ(*both.older(""), "five");
    EXPECT_EQ(*both.older(""), "four") << "two chats share the file";
    std::filesystem::remove(directory_ / "history");
    History first_again(directory_ / "history");
    for (const char* entry : {"one", "two", "t\\ree\nlines"}) first_again.add(entry);
    History again(directory_ / "history");
    EXPECT_EQ(again.size(), 3u);
    EXPECT_EQ(*again.older(""), "t\\ree\nlines");
    std::ifstream file(directory_ / "history");
    std::string first;
    std::getline(file, first);
    EXPECT_EQ(first, "_HiStOrY_V2_") << "earlier versions read it as well";
    const auto mode = std::filesystem::status(directory_ / "history").permissions();
    EXPECT_EQ(mode, std::filesystem::perms(0600));
}

TEST_F(EditingDirectory, Tab_CompletesCommandsAndFiles) {
    std::ofstream("lighthouse.md") << "x";
    std::ofstream("lightning.txt") << "x";
    std::filesystem::create_directory("docs");
    const std::vector<std::string> commands{"/help", "/history", "/quit"};
    EXPECT_EQ(complete_line("/q", 2, commands).word, "/quit ");
    EXPECT_EQ(complete_line("/h", 2, commands).choices,
              (std::vector<std::string>{"/help", "/history"}));
    EXPECT_EQ(complete_line("see ligh", 8, commands).word, "light");
    EXPECT_EQ(complete_line("see lighth", 10, commands).word, "lighthouse.md ");
    EXPECT_EQ(complete_line("see @lighth", 11, commands).word, "@lighthouse.md ");
    EXPECT_EQ(complete_line("do", 2, commands).word, "docs/");
    EXPECT_EQ(complete_line("nothing", 7, commands).word, "nothing");
    EXPECT_EQ(complete_line("", 0, commands).word, "");
}

TEST(KeyBindings, D211_ChangedKeys_AreDecoded) {
    KeyBindings bindings;
    bindings.set("f5", "/status");
    bindings.set("alt-e", "editor");
    bindings.set("ctrl-o", "none");
    bindings.set("f1", "pager");
    const std::string bytes =
        "a\x1b[15~\x1b"
        "e\x0f\x1bOPb\x05";
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
        KeyDecoder decoder;
        decoder.set_bindings(&bindings);
        std::vector<Key> keys = decoder.feed(bytes.substr(0, cut));
        for (Key& key : decoder.feed(bytes.substr(cut))) keys.push_back(std::move(key));
        ASSERT_EQ(keys.size(), 6u) << "cut at " << cut;
        EXPECT_EQ(keys[1].code, KeyCode::command);
        EXPECT_EQ(keys[1].text, "/status");
        EXPECT_EQ(keys[2].code, KeyCode::cancel);
        EXPECT_EQ(keys[3].code, KeyCode::unfold);
        EXPECT_EQ(keys[5].code, KeyCode::end);
    }
}

TEST(KeyBindings, D211_KeysThatStop_CannotBeChanged) {
    KeyBindings bindings;
    for (const char* key : {"ctrl-c", "ctrl-d", "ctrl-m", "enter", "esc", "a", "alt-[", "Ctrl-E",
                            "ctrl-ee", "f13", "f0", ""}) {
        EXPECT_THROW(bindings.set(key, "editor"), Error) << key;
    }
    for (const char* action : {"edit", "", "/", "/a\nb", "//x"})
        EXPECT_THROW(bindings.set("f5", action), Error) << action;
    EXPECT_EQ(bindings, KeyBindings());
}

TEST(KeyBindings, D211_AltLetters_AreNotThoseOfVi) {
    KeyBindings bindings;
    bindings.set("alt-e", "editor");
    KeyDecoder decoder;
    decoder.set_bindings(&bindings);
    decoder.set_alt_letters(false);
    const std::vector<Key> keys = decoder.feed(
        "\x1b"
        "e");
    ASSERT_EQ(keys.size(), 2u);
    EXPECT_EQ(keys[0].code, KeyCode::escape);
    EXPECT_EQ(keys[1].text, "e");
}

TEST(KeyBindings, Help_NamesTheKeyInUse) {
    KeyBindings bindings;
    EXPECT_EQ(bindings.key_of(KeyCode::unfold).str(), "Ctrl-O");
    bindings.set("ctrl-o", "editor");
    EXPECT_EQ(bindings.key_of(KeyCode::unfold).str(), "");
    EXPECT_EQ(bindings.key_of(KeyCode::cancel).str(), "Ctrl-O");
    bindings.set("f2", "pager");
    bindings.set("f3", "/cost");
    const std::string help = bindings.help();
    EXPECT_NE(help.find("  F2                results"), std::string::npos) << help;
    EXPECT_NE(help.find("  F3                /cost\n"), std::string::npos) << help;
    EXPECT_NE(help.find("  Editing: Ctrl-A line-start, "), std::string::npos) << help;
}

}  // namespace

}  // namespace cubepi::app
