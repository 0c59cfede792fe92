// The popup of the prompt, and the order of its entries.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "popup.hpp"
#include "prompt.hpp"

namespace cubepi::app {
namespace {

using Names = std::vector<std::string>;

Names best(const std::string& pattern, const Names& texts) {
    Names found;
    for (const std::size_t index : fuzzy_matches(pattern, texts, 10, true))
        found.push_back(texts[index]);
    return found;
}

Key key(KeyCode code, std::string text = {}) {
    Key made;
    made.code = code;
    made.text = std::move(text);
    return made;
}

TEST(FuzzyMatch, BetterMatches_AreFirst) {
    EXPECT_EQ(best("main", {"src/domain.cpp", "main.cpp", "src/main.cpp", "mxaxixn"}),
              (Names{"main.cpp", "src/main.cpp", "src/domain.cpp", "mxaxixn"}));
    EXPECT_EQ(best("SM", {"src/main.cpp", "small.md"}), (Names{"small.md", "src/main.cpp"}));
    EXPECT_EQ(best("zz", {"a", "b"}), Names());
    EXPECT_EQ(best("", {"b", "a"}), (Names{"b", "a"}));
}

class PromptWithPopup : public ::testing::Test {
protected:
    PromptWithPopup() : prompt(Style(), History({})) {
        PopupSources sources;
        sources.commands = {{"/copy", "copies"}, {"/cost", "costs"}, {"/later ", "later", true}};
        sources.skills = {{"$review", "reviews"}};
        sources.want_files = [this] { ++wanted; };
        sources.want_resources = [this](const std::string& word) { words.push_back(word); };
        prompt.set_sources(std::move(sources));
    }
    void set_files(Names names) {
        prompt.set_files(std::make_shared<const Names>(std::move(names)));
    }
    Prompt::Outcome type(const std::string& text) {
        Prompt::Outcome last = Prompt::Outcome::none;
        for (const char c : text) last = prompt.press(key(KeyCode::text, {c}), true);
        return last;
    }
    Prompt::Outcome press(KeyCode code) { return prompt.press(key(code), false); }
    std::string menu() const {
        std::string text;
        for (const TerminalText& row : prompt.menu(60, 6)) text += row.str() + "\n";
        return text;
    }

    Prompt prompt;
    int wanted = 0;
    Names words;  // whose ends are asked for
};

TEST_F(PromptWithPopup, Enter_RunsTheMarkedCommand) {
    (void)type("/co");
    EXPECT_EQ(menu(), "❯ /copy  copies\n  /cost  costs\n");
    (void)press(KeyCode::down);
    EXPECT_EQ(press(KeyCode::enter), Prompt::Outcome::entered);
    EXPECT_EQ(prompt.take(), "/cost ");
    EXPECT_EQ(menu(), "");
}

TEST_F(PromptWithPopup, CommandWithArgument_WaitsForIt) {
    (void)type("/la");
    EXPECT_EQ(press(KeyCode::enter), Prompt::Outcome::none);
    EXPECT_EQ(prompt.text(), "/later ");
    (void)type("now");
    EXPECT_EQ(press(KeyCode::enter), Prompt::Outcome::entered);
}

TEST_F(PromptWithPopup, Escape_HidesItForTheWord) {
    (void)type("/c");
    EXPECT_EQ(press(KeyCode::escape), Prompt::Outcome::none);
    EXPECT_EQ(menu(), "");
    (void)type("o");
    EXPECT_EQ(menu(), "");
    EXPECT_EQ(press(KeyCode::enter), Prompt::Outcome::entered);
    EXPECT_EQ(prompt.take(), "/co") << "as it was typed";
    (void)type("/c");
    EXPECT_NE(menu(), "");
}

TEST_F(PromptWithPopup, Files_AreAskedForOnce) {
    (void)type("see @ma");
    EXPECT_EQ(wanted, 1);
    EXPECT_EQ(press(KeyCode::escape), Prompt::Outcome::escape) << "no file is known yet";
    set_files({"README.md", "src/my main.cpp", "Makefile"});
    EXPECT_EQ(menu(), "❯ @Makefile\n  @\"src/my main.cpp\"\n");
    (void)press(KeyCode::down);
    EXPECT_EQ(press(KeyCode::tab), Prompt::Outcome::none);
    EXPECT_EQ(prompt.text(), "see @\"src/my main.cpp\" ");
    (void)type("and @READ");
    EXPECT_EQ(wanted, 2);
    EXPECT_EQ(press(KeyCode::enter), Prompt::Outcome::none);
    EXPECT_EQ(press(KeyCode::enter), Prompt::Outcome::entered);
    EXPECT_EQ(prompt.take(), "see @\"src/my main.cpp\" and @README.md ");
}

TEST_F(PromptWithPopup, Resources_AreOfferedNextToFiles) {
    set_files({"notes.md"});
    prompt.set_resources({{"@docs:a://notes", "About notes"}, {"@docs:a://other", "Others"}});
    (void)type("see @not");
    EXPECT_EQ(menu(), "❯ @notes.md\n  @docs:a://notes  About notes\n");
    (void)press(KeyCode::down);
    (void)press(KeyCode::tab);
    EXPECT_EQ(prompt.text(), "see @docs:a://notes ");
    set_files({"notes.md", "notes.txt"});
    EXPECT_EQ(menu(), "") << "the word is complete";
    EXPECT_TRUE(words.empty());
}

TEST_F(PromptWithPopup, TemplateOfResources_IsCompleted) {
    prompt.set_resources({{"@docs:log://", "log://{day}", true}});
    (void)type("@log");
    (void)press(KeyCode::tab);
    EXPECT_EQ(prompt.text(), "@docs:log://") << "the variable follows";
    EXPECT_EQ(words, Names({"@docs:log://"}));
    (void)type("mo");
    EXPECT_EQ(words.back(), "@docs:log://mo");
    prompt.set_resources({{"@docs:log://monday", ""}, {"@docs:log://", "log://{day}", true}});
    EXPECT_EQ(menu().find("❯ @docs:log://monday\n"), 0u) << menu();
    (void)press(KeyCode::tab);
    EXPECT_EQ(prompt.text(), "@docs:log://monday ");
}

TEST_F(PromptWithPopup, WholeWord_IsSent) {
    set_files({"notes.md", "notes.md.orig"});
    (void)type("read @notes.md");
    EXPECT_NE(menu(), "");
    EXPECT_EQ(press(KeyCode::enter), Prompt::Outcome::entered);
    EXPECT_EQ(prompt.take(), "read @notes.md");
}

TEST_F(PromptWithPopup, History_HasTheArrows) {
    prompt.remember("/copy");
    prompt.remember("older");
    (void)press(KeyCode::up);
    (void)press(KeyCode::up);
    EXPECT_EQ(prompt.text(), "/copy");
    EXPECT_EQ(menu(), "");
    (void)press(KeyCode::down);
    EXPECT_EQ(prompt.text(), "older");
}

TEST_F(PromptWithPopup, Skills_FollowADollarSign) {
    (void)type("use $re");
    EXPECT_EQ(menu(), "❯ $review  reviews\n");
    (void)press(KeyCode::enter);
    EXPECT_EQ(prompt.text(), "use $review ");
    (void)type("for $5");
    EXPECT_EQ(menu(), "");
}

TEST_F(PromptWithPopup, PastedPicture_BecomesAFile) {
    prompt.set_picture_test([](const std::string& pasted) {
        return pasted == "/tmp/a.png" ? "@/tmp/a.png" : std::string();
    });
    (void)prompt.press(key(KeyCode::paste, "/tmp/a.png"), false);
    (void)press(KeyCode::enter);
    EXPECT_FALSE(prompt.taken_has_paste());
    EXPECT_EQ(prompt.take(), "@/tmp/a.png ");
    (void)prompt.press(key(KeyCode::paste, "@secret"), false);
    (void)press(KeyCode::enter);
    EXPECT_TRUE(prompt.taken_has_paste());
}

TEST_F(PromptWithPopup, CtrlG_AsksForTheEditor) {
    (void)type("a text");
    EXPECT_EQ(press(KeyCode::cancel), Prompt::Outcome::editor);
    prompt.replace_text("another\ntext");
    EXPECT_EQ(prompt.whole_text(), "another\ntext");
    (void)press(KeyCode::undo);
    EXPECT_EQ(prompt.text(), "a text");
}

}  // namespace
}  // namespace cubepi::app
