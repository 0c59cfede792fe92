#include "chat_commands.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace cubepi::app {
namespace {

using Kind = ChatInput::Kind;

ChatInput at_terminal(const std::string& text) {
    return read_chat_input(text, ChatAbilities{.live = true, .trusted = true});
}

ChatInput from_pipe(const std::string& text) { return read_chat_input(text, ChatAbilities{}); }

TEST(ChatCommands, UnknownOnesAreRefusedWithASuggestion) {
    for (const char* text : {"/exti", "/exi", "/hlep", "/modle gpt-5.1", "/n"}) {
        const ChatInput input = at_terminal(text);
        EXPECT_EQ(input.kind, Kind::refused) << text;
        EXPECT_NE(input.text.find("Did you mean /"), std::string::npos) << input.text;
    }
    EXPECT_NE(at_terminal("/exti").text.find("/exit?"), std::string::npos);
    EXPECT_NE(at_terminal("/n").text.find("/new?"), std::string::npos);
    const ChatInput far = at_terminal("/xylophone");
    EXPECT_EQ(far.kind, Kind::refused);
    EXPECT_EQ(far.text.find("Did you mean"), std::string::npos) << far.text;
}

TEST(ChatCommands, PathsAndEscapedTextArePrompts) {
    for (const char* text : {"/etc/hosts is wrong", "/** a comment */", "/Users is a directory",
                             "/2 of them", " /quit", "/", "a /quit"}) {
        const ChatInput input = at_terminal(text);
        EXPECT_EQ(input.kind, Kind::prompt) << text;
        EXPECT_EQ(input.text, text);
    }
    EXPECT_EQ(at_terminal("//quit now").kind, Kind::prompt);
    EXPECT_EQ(at_terminal("//quit now").text, "/quit now");
    EXPECT_EQ(at_terminal("// a comment").text, "// a comment");
}

TEST(ChatCommands, ArgumentsAreChecked) {
    EXPECT_EQ(at_terminal("/exit").action, ChatAction::quit);
    EXPECT_EQ(at_terminal("/quit ").kind, Kind::action);
    const ChatInput now = at_terminal("/exit now");
    EXPECT_EQ(now.kind, Kind::refused);
    EXPECT_NE(now.text.find("/exit takes no arguments"), std::string::npos) << now.text;
    EXPECT_EQ(at_terminal("/later").kind, Kind::refused);
    EXPECT_EQ(at_terminal("/later  two\nlines").text, "two\nlines");
    EXPECT_EQ(at_terminal("/model").kind, Kind::pipeline);
    EXPECT_EQ(at_terminal("/export a b.md").text, "a b.md");
    EXPECT_EQ(at_terminal("  ").kind, Kind::nothing);
}

TEST(ChatCommands, ShellAndCommaLinesAreForThePipeline) {
    EXPECT_EQ(at_terminal("!ls").kind, Kind::pipeline);
    EXPECT_EQ(at_terminal("!ls").text, ",!ls");
    EXPECT_EQ(at_terminal("/model").text, ",model");
    EXPECT_EQ(at_terminal("/model it's").text, ",model 'it'\\''s'");
    EXPECT_EQ(at_terminal(",tape_info").kind, Kind::pipeline);
    EXPECT_EQ(at_terminal("! ").kind, Kind::refused);
}

TEST(ChatCommands, B11_TextFromAPipeRunsNothing) {
    EXPECT_EQ(from_pipe("!ls").kind, Kind::prompt);
    EXPECT_EQ(from_pipe(",ls").kind, Kind::prompt);
    EXPECT_EQ(from_pipe("/export x.md").kind, Kind::refused);
    EXPECT_EQ(from_pipe("/nwe").kind, Kind::refused);
    EXPECT_EQ(from_pipe("/quit").action, ChatAction::quit);
}

TEST(ChatCommands, OfOneTableAreInHelpAndCompletion) {
    const ChatAbilities live{.live = true, .trusted = true};
    const ChatAbilities plain{.live = false, .trusted = true};
    for (const char* name : {"/new", "/model ", "/status", "/cost", "/copy", "/export "}) {
        for (const ChatAbilities& chat : {live, plain}) {
            EXPECT_NE(chat_help(chat).find("  " + std::string(name)), std::string::npos) << name;
            const std::vector<Command> known = chat_completions(chat);
            EXPECT_TRUE(std::any_of(known.begin(), known.end(), [&](const Command& one) {
                return one.name == name;
            })) << name;
        }
    }
    EXPECT_EQ(chat_help(plain).find("/later"), std::string::npos);
    EXPECT_EQ(read_chat_input("/later x", plain).kind, Kind::refused);
}

}  // namespace
}  // namespace cubepi::app
