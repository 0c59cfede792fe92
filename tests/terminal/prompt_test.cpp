// The prompt of a chat: the popup for commands and files, and the editor of the user.

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>

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

TEST(ChatPrompt, SignalDuringEditor_RemovesTheFile) {
    Home home;
    const std::filesystem::path editor = home.work() / "editor";
    // The name is complete when the second file is there.
    write_file(editor, "#!/bin/sh\necho \"$1\" > name\ntouch named\nexec sleep 1000\n");
    std::filesystem::permissions(editor, std::filesystem::perms::owner_all);
    home.set("VISUAL", editor.string());
    Terminal chat(home, {"chat", "--offline", "--no-save"}, 80, 24);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "a draft" + ctrl_g)) << chat.shown();
    while (!std::filesystem::exists(home.work() / "named")) std::this_thread::yield();
    std::string name = read_file(home.work() / "name");
    name.pop_back();
    EXPECT_TRUE(std::filesystem::exists(name)) << name;
    chat.send(SIGTERM);
    EXPECT_EQ(chat.wait(), 128 + SIGTERM);
    EXPECT_FALSE(std::filesystem::exists(name)) << name;
}

TEST(ChatPrompt, Image_GoesWithTheFirstPrompt) {
    const Home home;
    const std::string picture("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\b\6\0\0\0", 29);
    write_file(home.work() / "a.png", picture);
    write_file(home.work() / "b.png", picture);
    Terminal chat(home, {"chat", "--offline", "--no-save", "--image", "a.png", "--image", "b.png"},
                  80, 24);
    ASSERT_TRUE(chat.expect_on_screen("With the first prompt: a.png 29 bytes, b.png 29 bytes"))
        << chat.shown();
    chat.type("/status\r");
    ASSERT_TRUE(chat.expect_on_screen("  session    not saved")) << chat.screen().text();
    chat.type("look\r");
    ASSERT_TRUE(chat.expect_on_screen("> look  (a.png 29 bytes, b.png 29 bytes)"))
        << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("You wrote: look", "again\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("You wrote: again")) << chat.screen().text();
    EXPECT_TRUE(chat.expect_on_screen("> again\n")) << chat.screen().text();
}

TEST(ChatPrompt, UnusableImage_EndsBeforeTheSession) {
    const Home home;
    write_file(home.work() / "notes.txt", "text");
    for (const auto& [file, why] :
         {std::pair("notes.txt", "is not a picture that models take"),
          std::pair("none.png", "No such file"), std::pair(".", "Is a directory")}) {
        Terminal chat(home, {"chat", "--offline", "--image", file}, 100, 24);
        EXPECT_EQ(chat.wait(), 2) << chat.shown();
        EXPECT_NE(chat.shown().find(why), std::string::npos) << chat.shown();
        EXPECT_EQ(chat.shown().find("talks to"), std::string::npos) << chat.shown();
    }
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
