// Changes of files by tools, and how a user takes them back: across processes, sub-agents, forks and sessions that are deleted.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "../terminal/terminal.hpp"
#include "model_server.hpp"
#include "program.hpp"

namespace cubepi::joint_tests {
namespace {

namespace fs = std::filesystem;

using terminal_tests::Home;
using terminal_tests::Piped;
using terminal_tests::read_file;
using terminal_tests::run_piped;
using terminal_tests::Terminal;
using terminal_tests::write_file;

const std::string escape_twice = "\x1b\x1b";
const std::string ctrl_d = "\x04";

std::string writes(const std::string& path, const std::string& content) {
    const boost::json::object arguments{{"path", path}, {"content", content}};
    return chat_answer("", {{"write", boost::json::serialize(arguments)}});
}

class Undo : public ::testing::Test {
protected:
    Undo() { home.set("OPENAI_API_KEY", "key"); }

    std::vector<std::string> chat(const ModelServer& server, std::vector<std::string> more) const {
        std::vector<std::string> all = {"chat",       "-y",         "--provider", "openai",
                                        "--base-url", server.url(), "-m",         "local"};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
    std::string content(const char* name) const { return read_file(home.work() / name); }
    bool exists(const char* name) const { return fs::exists(home.work() / name); }
    fs::path checkpoints() const { return home.root() / "home/.local/state/cubepi/checkpoints"; }
    static void leave(Terminal& terminal) {
        terminal.type(ctrl_d);
        EXPECT_EQ(terminal.wait(), 0) << terminal.shown();
    }
    static bool is_idle(Terminal& terminal) { return terminal.expect_gone("Esc stops ·"); }

    Home home;
};

TEST_F(Undo, D158_ChangesOfRun_AreTakenBackInChat) {
    write_file(home.work() / "old.txt", "old\n");
    ModelServer server(
        {writes("old.txt", "new\n"), writes("made.txt", "x\n"), chat_answer("Done.")});
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "-y", "change it"}).status, 0);
    ASSERT_EQ(content("old.txt"), "new\n");
    for (const auto& entry : fs::recursive_directory_iterator(checkpoints())) {
        const fs::perms others = entry.status().permissions() & fs::perms(0077);
        EXPECT_EQ(others, fs::perms::none) << entry.path();
    }
    Terminal terminal(home, chat(server, {"--session", "s1"}));
    ASSERT_TRUE(terminal.answer_on_screen("talks to", "/undo\r")) << terminal.shown();
    ASSERT_TRUE(terminal.expect_on_screen("Took back the changes of “change it”:"));
    ASSERT_TRUE(terminal.expect_on_screen("not covered")) << terminal.shown();
    EXPECT_EQ(content("old.txt"), "old\n");
    EXPECT_FALSE(exists("made.txt"));
    ASSERT_TRUE(terminal.answer_on_screen("/redo makes", "/redo\r")) << terminal.shown();
    ASSERT_TRUE(terminal.expect_on_screen("Made the changes again:")) << terminal.shown();
    EXPECT_EQ(content("old.txt"), "new\n");
    ASSERT_TRUE(terminal.answer("created", "/undo\r")) << terminal.shown();
    ASSERT_TRUE(terminal.answer("/redo makes", "what now?\r")) << terminal.shown();
    ASSERT_TRUE(terminal.expect("Done.")) << terminal.shown();
    ASSERT_TRUE(is_idle(terminal)) << terminal.shown();
    leave(terminal);
    EXPECT_NE(server.requests().back().find("the user has changed these files back"),
              std::string::npos);
}

TEST_F(Undo, D158_FileChangedByUser_IsNamedAndLeft) {
    ModelServer server({writes("a.txt", "tool\n"), chat_answer("Done.")});
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "-y", "change it"}).status, 0);
    write_file(home.work() / "a.txt", "user\n");
    Terminal terminal(home, chat(server, {"--session", "s1"}));
    ASSERT_TRUE(terminal.answer_on_screen("talks to", "/undo\r")) << terminal.shown();
    ASSERT_TRUE(terminal.expect_on_screen("left       a.txt: it was changed since"))
        << terminal.shown();
    terminal.type("/undo\r");
    ASSERT_TRUE(terminal.expect_on_screen("There is nothing to undo.")) << terminal.shown();
    leave(terminal);
    EXPECT_EQ(content("a.txt"), "user\n");
}

TEST_F(Undo, D158_ChangesOfSubAgent_BelongToThePrompt) {
    ModelServer server({writes("first.txt", "1\n"), chat_answer("First."),
                        chat_answer("", {{"subagent", R"({"prompt": "write"})"}}),
                        writes("second.txt", "2\n"), chat_answer("Written."),
                        chat_answer("Second.")});
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "-y", "one"}).status, 0);
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "-y", "two"}).status, 0);
    ASSERT_TRUE(exists("second.txt"));
    Terminal terminal(home, chat(server, {"--session", "s1"}));
    ASSERT_TRUE(terminal.answer_on_screen("talks to", "/undo\r")) << terminal.shown();
    ASSERT_TRUE(terminal.expect_on_screen("Took back the changes of “two”:")) << terminal.shown();
    leave(terminal);
    EXPECT_FALSE(exists("second.txt"));
    EXPECT_TRUE(exists("first.txt"));
}

TEST_F(Undo, D159_EscTwice_RestoresConversationAndFiles) {
    ModelServer server({writes("a.txt", "1\n"), chat_answer("First."), writes("a.txt", "2\n"),
                        chat_answer("Second."), chat_answer("Third.")});
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "-y", "prompt one"}).status, 0);
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "-y", "prompt two"}).status, 0);
    ASSERT_EQ(content("a.txt"), "2\n");
    Terminal terminal(home, chat(server, {"--session", "s1"}));
    ASSERT_TRUE(terminal.answer_on_screen("talks to", escape_twice)) << terminal.shown();
    ASSERT_TRUE(terminal.answer_on_screen("❯ prompt two  1 file", "\r")) << terminal.shown();
    ASSERT_TRUE(terminal.answer("[n]othing", "b")) << terminal.shown();
    ASSERT_TRUE(terminal.expect_on_screen("Continuing in session s1-2.")) << terminal.shown();
    EXPECT_EQ(content("a.txt"), "1\n");
    // The prompt is there again, to be edited.
    ASSERT_TRUE(terminal.answer_on_screen("> prompt two", " again\r")) << terminal.shown();
    ASSERT_TRUE(terminal.expect_on_screen("Third.")) << terminal.shown();
    ASSERT_TRUE(is_idle(terminal)) << terminal.shown();
    // The first prompt has come along with its changes.
    terminal.type("/undo\r");
    ASSERT_TRUE(terminal.expect_on_screen("Took back the changes of “prompt one”"))
        << terminal.shown();
    leave(terminal);
    EXPECT_FALSE(exists("a.txt"));
    const std::string request = server.requests().back();
    EXPECT_NE(request.find("prompt two again"), std::string::npos);
    EXPECT_NE(request.find("prompt one"), std::string::npos);
    EXPECT_EQ(request.find("Second."), std::string::npos);
    // Nothing of the session before is lost.
    const Piped listed = run_piped(home, {"sessions", "list"});
    EXPECT_NE(listed.out.find("s1-2"), std::string::npos) << listed.out;
    Terminal before(home, chat(server, {"--session", "s1"}));
    ASSERT_TRUE(before.expect_on_screen("Second.")) << before.shown();
    leave(before);
}

TEST_F(Undo, D159_RewindToFirstPrompt_BeginsANewSession) {
    ModelServer server({chat_answer("First."), chat_answer("Second.")});
    Terminal terminal(home, chat(server, {}));
    ASSERT_TRUE(terminal.answer_on_screen("talks to", "prompt one\r")) << terminal.shown();
    ASSERT_TRUE(terminal.expect_on_screen("First.")) << terminal.shown();
    ASSERT_TRUE(is_idle(terminal)) << terminal.shown();
    terminal.type("/rewind 1\r");
    ASSERT_TRUE(terminal.answer("[n]othing", "c")) << terminal.shown();
    ASSERT_TRUE(terminal.expect("cubepi chat --session prompt-one")) << terminal.shown();
    ASSERT_TRUE(terminal.answer("> prompt one", " again\r")) << terminal.shown();
    ASSERT_TRUE(terminal.expect_on_screen("Second.")) << terminal.shown();
    ASSERT_TRUE(is_idle(terminal)) << terminal.shown();
    leave(terminal);
    EXPECT_EQ(server.requests().back().find("First."), std::string::npos);
}

TEST_F(Undo, D159_Fork_ContinuesInANamedSession) {
    ModelServer server({chat_answer("First."), chat_answer("Second.")});
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "prompt one"}).status, 0);
    Terminal terminal(home, chat(server, {"--session", "s1"}));
    ASSERT_TRUE(terminal.answer_on_screen("talks to", "/fork s1\r")) << terminal.shown();
    ASSERT_TRUE(terminal.expect_on_screen("choose another name")) << terminal.shown();
    terminal.type("/fork other\r");
    ASSERT_TRUE(terminal.expect_on_screen("Continuing in session other.")) << terminal.shown();
    terminal.type("more\r");
    ASSERT_TRUE(terminal.expect_on_screen("Second.")) << terminal.shown();
    ASSERT_TRUE(is_idle(terminal)) << terminal.shown();
    leave(terminal);
    EXPECT_NE(server.requests().back().find("prompt one"), std::string::npos);
    const Piped deleted = run_piped(home, {"sessions", "delete", "s1", "-y"});
    EXPECT_EQ(deleted.status, 0) << deleted.err;
}

TEST_F(Undo, D159_ForkOfTemporarySession_HasNoName) {
    ModelServer server({chat_answer("First."), chat_answer("Second.")});
    Terminal terminal(home, chat(server, {"--no-save"}));
    ASSERT_TRUE(terminal.answer_on_screen("talks to", "prompt one\r")) << terminal.shown();
    ASSERT_TRUE(terminal.expect_on_screen("First.")) << terminal.shown();
    ASSERT_TRUE(is_idle(terminal)) << terminal.shown();
    terminal.type("/fork other\r");
    ASSERT_TRUE(
        terminal.expect_on_screen("Continuing in another temporary session, which has no name."))
        << terminal.shown();
    terminal.type("more\r");
    ASSERT_TRUE(terminal.expect_on_screen("Second.")) << terminal.shown();
    ASSERT_TRUE(is_idle(terminal)) << terminal.shown();
    leave(terminal);
    EXPECT_NE(server.requests().back().find("First."), std::string::npos);
}

TEST_F(Undo, D158_DeletedSession_LosesItsCopies) {
    write_file(home.work() / "a.txt", "old\n");
    ModelServer server({writes("a.txt", "new\n"), chat_answer("Done.")});
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "-y", "change it"}).status, 0);
    ASSERT_FALSE(fs::is_empty(checkpoints()));
    const Piped deleted = run_piped(home, {"sessions", "delete", "s1", "-y"});
    EXPECT_EQ(deleted.status, 0) << deleted.err;
    EXPECT_NE(deleted.err.find("copies of changed files"), std::string::npos) << deleted.err;
    EXPECT_TRUE(fs::is_empty(checkpoints()));
}

TEST_F(Undo, D158_DiskWithoutSpaceForCopies_IsReported) {
    write_file(home.work() / "a.txt", "old\n");
    fs::create_directories(checkpoints().parent_path());
    write_file(checkpoints(), "not a directory");
    ModelServer server({writes("a.txt", "new\n"), chat_answer("Done.")});
    const Piped done = run_at(home, server, {"-s", "s1", "-y", "change it"});
    EXPECT_EQ(done.status, 0) << done.err;
    EXPECT_EQ(content("a.txt"), "new\n");
    EXPECT_NE(done.err.find("The change of a.txt cannot be undone"), std::string::npos) << done.err;
}

TEST_F(Undo, Diff_ShowsGitAndUntrackedFiles) {
    const std::string git = "cd '" + home.work().string() +
                            "' && git init -q . && git -c user.name=a -c user.email=a@b "
                            "commit -q --allow-empty -m start && echo one > kept.txt && git add . "
                            "&& git -c user.name=a -c user.email=a@b commit -q -m kept";
    ASSERT_EQ(std::system(git.c_str()), 0);
    write_file(home.work() / "kept.txt", "two\n");
    write_file(home.work() / "new file.txt", "fresh\n");
    // The repository's own settings must not run programs.
    write_file(home.work() / ".gitattributes", "*.txt filter=evil diff=evil\n");
    const std::string settings = "cd '" + home.work().string() +
                                 "' && git config filter.evil.clean 'touch ran' && git config "
                                 "diff.evil.textconv 'touch ran' && git config diff.evil.command "
                                 "'touch ran' && git config core.fsmonitor 'touch ran'";
    ASSERT_EQ(std::system(settings.c_str()), 0);
    ModelServer server({chat_answer("Done.")});
    Terminal terminal(home, chat(server, {"--no-save"}));
    ASSERT_TRUE(terminal.answer_on_screen("talks to", "/diff\r")) << terminal.shown();
    ASSERT_TRUE(terminal.expect_on_screen("new file.txt (new)")) << terminal.shown();
    ASSERT_TRUE(terminal.expect_on_screen("two")) << terminal.shown();
    ASSERT_TRUE(terminal.expect_on_screen("fresh")) << terminal.shown();
    terminal.type("q");
    ASSERT_TRUE(terminal.expect_gone("q closes")) << terminal.shown();
    leave(terminal);
    EXPECT_FALSE(exists("ran"));
}

TEST_F(Undo, DiffLast_ShowsTheChangesOfTheTools) {
    write_file(home.work() / "a.txt", "old\n");
    ModelServer server({writes("a.txt", "new\n"), chat_answer("Done.")});
    Terminal terminal(home, chat(server, {"--no-save"}));
    ASSERT_TRUE(terminal.answer_on_screen("talks to", "change it\r")) << terminal.shown();
    ASSERT_TRUE(terminal.expect_on_screen("Done.")) << terminal.shown();
    ASSERT_TRUE(is_idle(terminal)) << terminal.shown();
    terminal.type("/diff last\r");
    ASSERT_TRUE(terminal.expect_on_screen("1 of 1")) << terminal.shown();
    ASSERT_TRUE(terminal.expect_on_screen("-old")) << terminal.shown();
    terminal.type("q");
    ASSERT_TRUE(terminal.expect_gone("q closes")) << terminal.shown();
    terminal.type("/undo\r");
    ASSERT_TRUE(terminal.expect_on_screen("restored   a.txt")) << terminal.shown();
    leave(terminal);
    EXPECT_EQ(content("a.txt"), "old\n");
}

}  // namespace
}  // namespace cubepi::joint_tests
