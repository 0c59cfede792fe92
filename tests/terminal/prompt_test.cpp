// The prompt of a chat: the popup for commands and files, and the editor of the user.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "terminal.hpp"

namespace cubepi::terminal_tests {
namespace {

const std::string down = "\x1b[B";
const std::string ctrl_g = "\x07";

TEST(ChatPrompt, Popup_ChoosesCommandsAndFiles) {
    const Home home;
    write_file(home.work() / "lighthouse notes.md", "The lamp turns.");
    write_file(home.work() / "README.md", "");
    Terminal chat(home, {"chat", "--offline", "--no-save"}, 80, 24);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "/stat")) << chat.shown();
    ASSERT_TRUE(chat.answer_on_screen("❯ /status", "\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("  session    not saved")) << chat.screen().text();
    chat.type("show @li");
    ASSERT_TRUE(chat.answer_on_screen("❯ @\"lighthouse notes.md\"", "\t")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("> show @\"lighthouse notes.md\"")) << chat.screen().text();
    chat.type("now\r");
    EXPECT_TRUE(chat.expect_on_screen("(lighthouse notes.md 15 bytes)")) << chat.screen().text();
}

TEST(ChatPrompt, Editor_ChangesTheText) {
    Home home;
    const std::filesystem::path editor = home.work() / "editor";
    write_file(
        editor,
        "#!/bin/sh\nstat -c %a \"$1\" > mode\ncp \"$1\" before\necho 'from the editor' > \"$1\"\n");
    std::filesystem::permissions(editor, std::filesystem::perms::owner_all);
    home.set("EDITOR", editor.string());
    home.set("VISUAL", "");
    Terminal chat(home, {"chat", "--offline", "--no-save"}, 80, 24);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "a draft" + ctrl_g)) << chat.shown();
    ASSERT_TRUE(chat.answer_on_screen("> from the editor", "\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("You wrote: from the editor")) << chat.screen().text();
    EXPECT_EQ(read_file(home.work() / "before"), "a draft\n");
    EXPECT_EQ(read_file(home.work() / "mode"), "600\n");
}

TEST(ChatPrompt, FailedEditor_LeavesTheText) {
    Home home;
    home.set("VISUAL", "false");
    Terminal chat(home, {"chat", "--offline", "--no-save"}, 80, 24);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "a draft" + ctrl_g)) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("the editor 'false' failed")) << chat.screen().text();
    EXPECT_TRUE(chat.expect_on_screen("> a draft")) << chat.screen().text();
    chat.type(" of mine\r");
    EXPECT_TRUE(chat.expect_on_screen("You wrote: a draft of mine")) << chat.screen().text();
}

}  // namespace
}  // namespace cubepi::terminal_tests
