// A suspended run continues at the endpoint where it was, or not at all (D86): no other server receives its conversation.

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

using terminal_tests::Home;
using terminal_tests::Piped;
using terminal_tests::run_piped;
using terminal_tests::Terminal;
using terminal_tests::write_file;

const SentCall to_shell{"shell", R"({"command":"echo one >> log.txt"})"};
const SentCall to_ask{"ask_user", R"({"questions":[{"key":"color","prompt":"Which color?"}]})"};

class Continuation : public ::testing::Test {
protected:
    Continuation()
        : a({chat_answer("", {to_shell}), chat_answer("A is done")}), b({chat_answer("B")}) {
        home.set("OPENAI_API_KEY", "key");
    }

    /// Suspends the session s1 at A, which flags name.
    Piped suspend(std::vector<std::string> more = {}) const {
        std::vector<std::string> arguments = {"run",        "-s",    "s1", "--provider", "openai",
                                              "--base-url", a.url(), "-m", "local",      "private"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Piped run = run_piped(home, std::move(arguments));
        EXPECT_EQ(run.status, 7) << run.err;
        return run;
    }
    void configure(const std::string& text) const { write_file(home.config(), text); }
    std::string id() const {
        const Piped listed = run_piped(home, {"inbox", "--json"});
        return std::string(
            boost::json::parse(listed.out).at(0).at("request").at("question_id").as_string());
    }
    Piped inbox(std::vector<std::string> more) const {
        std::vector<std::string> arguments = {"inbox", more.front(), id(), "--session", "s1"};
        arguments.insert(arguments.end(), more.begin() + 1, more.end());
        return run_piped(home, std::move(arguments));
    }
    bool is_executed() const { return std::filesystem::exists(home.work() / "log.txt"); }
    void expect_refused(const Piped& run) const {
        EXPECT_EQ(run.status, 3) << run.out;
        EXPECT_NE(run.err.find("--base-url " + a.url()), std::string::npos) << run.err;
        EXPECT_NE(run.err.find("--model local"), std::string::npos) << run.err;
        EXPECT_EQ(b.requests().size(), 0u) << run.err;
        EXPECT_FALSE(is_executed());
    }
    void expect_continued(const Piped& run) const {
        EXPECT_EQ(run.status, 0) << run.err;
        EXPECT_EQ(run.out, "A is done\n") << run.err;
        EXPECT_EQ(a.requests().size(), 2u);
        EXPECT_EQ(b.requests().size(), 0u);
        EXPECT_TRUE(is_executed());
    }

    Home home;
    ModelServer a;
    ModelServer b;
};

TEST_F(Continuation, D86_PrintedCommand_ContinuesAtTheEndpoint) {
    home.set("OPENAI_BASE_URL", b.url());
    const Piped first = suspend();
    expect_continued(run_printed(home, first.err, "To answer: "));
}

TEST_F(Continuation, D86_OtherEnvironment_IsRefused) {
    (void)suspend();
    home.set("OPENAI_BASE_URL", b.url());
    for (const char* how : {"approve", "deny"}) expect_refused(inbox({how}));
    // No model is called with a prompt, and none is needed to withdraw the question.
    expect_refused(run_piped(home, {"run", "-s", "s1", "more"}));
    expect_refused(run_piped(home, {"run", "-c", "more"}));
    const Piped cancelled = inbox({"cancel"});
    EXPECT_EQ(cancelled.status, 0) << cancelled.err;
    EXPECT_EQ(b.requests().size(), 0u);
}

/// Otherwise the model would continue under other instructions, and without a limit.
TEST_F(Continuation, FlagsOfRun_HoldInTheNextProcess) {
    (void)suspend({"--system", "Be terse.", "--max-turns", "1"});
    const Piped over = inbox({"approve", "--base-url", a.url(), "-m", "local"});
    EXPECT_TRUE(is_executed()) << over.err;
    for (const boost::json::value& body : a.bodies()) {
        EXPECT_EQ(body.at("messages").at(0).at("content").as_string().find("Be terse."), 0u)
            << boost::json::serialize(body);
    }
    EXPECT_NE(over.err.find("max_turns (1)"), std::string::npos) << over.err << over.out;
}

TEST_F(Continuation, D166_MaxTurns_HoldsAcrossApprovals) {
    ModelServer server({chat_answer("", {to_shell}), chat_answer("", {to_shell}),
                        chat_answer("", {to_shell}), chat_answer("never asked for")});
    Piped over = run_piped(home, {"run", "-s", "s1", "--provider", "openai", "--base-url",
                                  server.url(), "-m", "local", "--max-turns", "2", "go"});
    EXPECT_EQ(over.status, 7) << over.err;
    over = run_printed(home, over.err, "To answer: ");
    EXPECT_EQ(over.status, 7) << over.err;
    over = run_printed(home, over.err, "To answer: ");
    EXPECT_EQ(over.status, 5) << over.err;
    EXPECT_EQ(server.requests().size(), 2u);
}

TEST_F(Continuation, D86_FurtherDirectories_AreStoredWithTheRun) {
    const std::filesystem::path other = home.work().parent_path() / "other";
    std::filesystem::create_directories(other);
    const std::string file = (other / "note.txt").string();
    ModelServer server({chat_answer("", {{"write", R"({"content":"x","path":")" + file + "\"}"}}),
                        chat_answer("A is done")});
    const Piped first =
        run_piped(home, {"run", "-s", "s1", "--provider", "openai", "--base-url", server.url(),
                         "-m", "local", "--add-dir", "../other", "private"});
    EXPECT_EQ(first.status, 7) << first.err;
    const Piped over = run_printed(home, first.err, "To answer: ");
    EXPECT_EQ(over.status, 0) << over.err;
    EXPECT_TRUE(std::filesystem::exists(file)) << over.err << over.out;
    EXPECT_NE(over.err.find("also work in " + other.string()), std::string::npos) << over.err;
}

/// The conversation of a run without `-s` moves to a saved session when it is suspended.
TEST_F(Continuation, D86_RunWithoutSession_ContinuesAtItsEndpoint) {
    const Piped run = run_piped(
        home, {"run", "--provider", "openai", "--base-url", a.url(), "-m", "local", "private"});
    EXPECT_EQ(run.status, 7) << run.err;
    home.set("OPENAI_BASE_URL", b.url());
    expect_refused(run_piped(home, {"inbox", "approve", id()}));
    expect_continued(run_piped(home, {"inbox", "approve", id(), "--base-url", a.url()}));
}

TEST_F(Continuation, D86_FlagsForAnotherServer_AreRefused) {
    (void)suspend();
    expect_refused(inbox({"approve", "--base-url", b.url(), "-m", "local"}));
    configure("providers:\n  bee: {base_url: \"" + b.url() + "\", model: m}\n");
    expect_refused(inbox({"approve", "--provider", "bee"}));
    expect_refused(inbox({"approve", "-m", "bee/local"}));
    expect_continued(inbox({"approve", "--base-url", a.url()}));
}

TEST_F(Continuation, D86_ConfiguredServer_IsUsed) {
    configure("provider: aye\nproviders:\n  aye: {base_url: \"" + a.url() + "\", model: local}\n");
    const Piped run = run_piped(home, {"run", "-s", "s1", "private"});
    EXPECT_EQ(run.status, 7) << run.err;
    // Another default, and the same one elsewhere.
    configure("provider: bee\nproviders:\n  aye: {base_url: \"" + b.url() +
              "\", model: local}\n  bee: {base_url: \"" + b.url() + "\", model: m}\n");
    expect_refused(inbox({"approve"}));
    configure("provider: bee\nproviders:\n  aye: {base_url: \"" + a.url() +
              "\", model: other}\n  bee: {base_url: \"" + b.url() + "\", model: m}\n");
    expect_continued(inbox({"approve"}));
    EXPECT_EQ(a.bodies()[1].at("model"), "local");
}

TEST_F(Continuation, D86_ModelOfTheSession_IsNotUsed) {
    const std::string providers = "\nproviders:\n  aye: {base_url: \"" + a.url() +
                                  "\", model: local}\n  bee: {base_url: \"" + b.url() +
                                  "\", model: m}\n";
    configure("provider: aye" + providers);
    EXPECT_EQ(run_piped(home, {"run", "-s", "s1", "private"}).status, 7);
    Terminal chat(home, {"chat", "-s", "s1"});
    ASSERT_TRUE(chat.expect("[e]dit")) << chat.shown();
    chat.type("\x1b");
    ASSERT_TRUE(chat.expect_gone("[e]dit")) << chat.shown();
    chat.type(",model bee/m\r");
    ASSERT_TRUE(chat.expect("Session model set to")) << chat.shown();
    chat.type("\x04");
    (void)chat.wait();
    expect_continued(inbox({"approve"}));
}

TEST_F(Continuation, D86_Fallback_IsNotCalled) {
    const std::string fallback =
        "provider: aye\nfallback_models: [bee/m]\nproviders:\n  bee: {base_url: \"" + b.url() +
        "\", model: m}\n  aye: {model: local, base_url: \"";
    configure(fallback + a.url() + "\"}\n");
    a.known_requests = 1;
    EXPECT_EQ(run_piped(home, {"run", "-s", "s1", "private"}).status, 7);
    const Piped over = inbox({"approve"});
    EXPECT_NE(over.status, 0) << over.out;
    EXPECT_GE(a.requests().size(), 2u);
    EXPECT_EQ(b.requests().size(), 0u) << over.err;
}

TEST_F(Continuation, D86_RunOfAFallback_ContinuesThere) {
    b.known_requests = 0;
    configure("provider: bee\nfallback_models: [aye/local]\nproviders:\n  bee: {base_url: \"" +
              b.url() + "\", model: m}\n  aye: {base_url: \"" + a.url() + "\"}\n");
    EXPECT_EQ(run_piped(home, {"run", "-s", "s1", "private"}).status, 7);
    const std::size_t before = b.requests().size();
    const Piped over = inbox({"approve"});
    EXPECT_EQ(over.out, "A is done\n") << over.err;
    EXPECT_EQ(b.requests().size(), before);
}

TEST_F(Continuation, D86_TwoProvidersAtOneHost_AreNotConfused) {
    ModelServer both({refusal(404, R"({"error": {"code": "model_not_found", "message": "no"}})"),
                      chat_answer("", {to_shell}), chat_answer("done")});
    configure(
        "provider: openai\nfallback_models: [openrouter/other]\nproviders:\n  openai: {base_url: "
        "\"" +
        both.url() + "\", model: local}\n  openrouter: {base_url: \"" + both.url() + "/two\"}\n");
    EXPECT_EQ(run_piped(home, {"run", "-s", "s1", "private"}).status, 7);
    const Piped over = inbox({"approve"});
    EXPECT_EQ(over.out, "done\n") << over.err;
    ASSERT_EQ(both.requests().size(), 3u);
    EXPECT_TRUE(both.requests()[2].starts_with("POST /v1/two/chat/completions "))
        << both.requests()[2];
    EXPECT_EQ(both.bodies()[2].at("model"), "other");
}

TEST_F(Continuation, D86_FlagsForOtherServer_AreNamedInHint) {
    configure("provider: aye\nproviders:\n  aye: {base_url: \"" + a.url() + "\", model: local}\n");
    EXPECT_EQ(run_piped(home, {"run", "-s", "s1", "private"}).status, 7);
    const Piped refused = inbox({"approve", "--base-url", b.url(), "-m", "local"});
    EXPECT_EQ(refused.status, 3) << refused.out;
    EXPECT_NE(refused.err.find("To continue it there, leave out the flags that name another"),
              std::string::npos)
        << refused.err;
    expect_continued(inbox({"approve"}));
}

TEST_F(Continuation, D86_NamedKey_IsSentToItsOriginOnly) {
    home.set("MINE", "key-of-mine");
    ModelServer other({chat_answer("", {to_shell}), chat_answer("B is done")});
    configure("provider: aye\nproviders:\n  aye: {base_url: \"" + a.url() +
              "\", model: local}\n  bee: {base_url: \"" + other.url() + "\", model: m}\n");
    EXPECT_EQ(run_piped(home, {"run", "-s", "s1", "private"}).status, 7);
    // The address of this command is that of the suspended run.
    expect_continued(inbox({"approve", "--api-key-env", "MINE"}));
    EXPECT_NE(a.requests()[1].find("key-of-mine"), std::string::npos) << a.requests()[1];
    // A run at another address begins and continues without the key.
    Terminal chat(home, {"chat", "-s", "s2", "--api-key-env", "MINE"});
    ASSERT_TRUE(chat.answer_on_screen("local · s2", ",model bee/m\r")) << chat.shown();
    ASSERT_TRUE(chat.answer("Session model set to", "hello\r")) << chat.shown();
    ASSERT_TRUE(chat.answer("[e]dit", "y\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("B is done")) << chat.shown();
    chat.type("\x04");
    (void)chat.wait();
    ASSERT_EQ(other.requests().size(), 2u);
    for (const std::string& request : other.requests())
        EXPECT_EQ(request.find("key-of-mine"), std::string::npos) << request;
}

TEST_F(Continuation, D107_CompletedRun_NextPromptUsesTheConfiguration) {
    ModelServer first({chat_answer("A is done")});
    EXPECT_EQ(run_piped(home, {"run", "-s", "s1", "--base-url", first.url(), "-m", "local", "one"})
                  .status,
              0);
    home.set("OPENAI_BASE_URL", b.url());
    EXPECT_EQ(run_piped(home, {"run", "-s", "s1", "-m", "local", "two"}).out, "B\n");
    ASSERT_EQ(b.requests().size(), 1u);
    EXPECT_NE(b.requests()[0].find("A is done"), std::string::npos) << b.requests()[0];
    EXPECT_EQ(first.requests().size(), 1u);
}

TEST_F(Continuation, D86_StorageFailsDuringAnswer_IsNotARefusal) {
    (void)suspend();
    std::vector<std::string> arguments = {"inbox", "approve",    id(),   "--session",
                                          "s1",    "--base-url", a.url()};
    const Piped failed = terminal_tests::run_with_file_limit(home, arguments, 100);
    EXPECT_NE(failed.status, 0);
    EXPECT_EQ(failed.err.find("was not accepted"), std::string::npos) << failed.err;
    EXPECT_NE(failed.err.find("store the conversation"), std::string::npos) << failed.err;
    EXPECT_FALSE(is_executed());
    expect_continued(inbox({"approve", "--base-url", a.url()}));
}

TEST_F(Continuation, D83_CancelledKey_WithdrawsItsQuestionOnly) {
    // The endpoint repeats the id of its calls.
    ModelServer asks({chat_answer("", {to_shell})});
    for (const char* session : {"s1", "s2"}) {
        const Piped run =
            run_piped(home, {"run", "-s", session, "--base-url", asks.url(), "-m", "local", "hi"});
        EXPECT_EQ(run.status, 7) << run.err;
    }
    const auto open = [this] {
        std::vector<std::string> names;
        const Piped listed = run_piped(home, {"inbox", "--json"});
        const boost::json::value questions = boost::json::parse(listed.out);
        for (const boost::json::value& one : questions.as_array())
            names.emplace_back(one.at("id").as_string());
        return names;
    };
    const std::vector<std::string> before = open();
    ASSERT_EQ(before.size(), 2u);
    const Piped cancelled = run_piped(home, {"inbox", "cancel", before.front()});
    EXPECT_EQ(cancelled.status, 0) << cancelled.err;
    EXPECT_EQ(open(), std::vector<std::string>{before.back()});
    // A new question of the same session and call id has another key.
    EXPECT_EQ(
        run_piped(home, {"run", "-s", "s1", "--base-url", asks.url(), "-m", "local", "hi"}).status,
        7);
    EXPECT_NE(run_piped(home, {"inbox", "cancel", before.front()}).status, 0);
    EXPECT_EQ(open().size(), 2u);
}

TEST_F(Continuation, D86_ResumeElsewhere_ReturnsToTheChat) {
    (void)suspend();
    for (const std::vector<std::string>& which :
         {std::vector<std::string>{}, std::vector<std::string>{"--session", "s2"}}) {
        ModelServer other({chat_answer("First answer."), chat_answer("Second answer.")});
        std::vector<std::string> words = {"chat", "--base-url", other.url(), "-m", "x"};
        words.insert(words.end(), which.begin(), which.end());
        Terminal chat(home, std::move(words));
        ASSERT_TRUE(chat.answer_on_screen("talks to", "one\r")) << chat.shown();
        ASSERT_TRUE(chat.expect_on_screen("First answer.")) << chat.shown();
        ASSERT_TRUE(chat.expect_gone("Esc stops ·")) << chat.shown();
        chat.type("/resume s1\r");
        ASSERT_TRUE(chat.expect("--base-url " + a.url())) << chat.shown();
        ASSERT_TRUE(chat.answer("talks to", "two\r")) << chat.shown();
        ASSERT_TRUE(chat.expect_on_screen("Second answer.")) << chat.shown();
        chat.type("\x04");
        EXPECT_EQ(chat.wait(), 0) << chat.shown();
        ASSERT_EQ(other.requests().size(), 2u);
        EXPECT_NE(other.requests()[1].find("First answer."), std::string::npos);
    }
    EXPECT_FALSE(is_executed());
}

TEST_F(Continuation, D86_ChatElsewhere_IsRefused) {
    (void)suspend();
    home.set("OPENAI_BASE_URL", b.url());
    for (const std::vector<std::string>& flags :
         {std::vector<std::string>{}, std::vector<std::string>{"--base-url", b.url(), "-m", "x"}}) {
        std::vector<std::string> arguments = {"chat", "--session", "s1"};
        arguments.insert(arguments.end(), flags.begin(), flags.end());
        Terminal chat(home, std::move(arguments));
        EXPECT_EQ(chat.wait(), 3);
        EXPECT_NE(chat.shown().find("--base-url " + a.url()), std::string::npos) << chat.shown();
    }
    EXPECT_EQ(b.requests().size(), 0u);
    EXPECT_FALSE(is_executed());
}

TEST_F(Continuation, D86_Answer_ContinuesAtTheEndpointOnly) {
    ModelServer asks({chat_answer("", {to_ask}), chat_answer("A is done")});
    EXPECT_EQ(
        run_piped(home, {"run", "-s", "s1", "--base-url", asks.url(), "-m", "local", "hi"}).status,
        7);
    home.set("OPENAI_BASE_URL", b.url());
    EXPECT_NE(inbox({"answer", "red"}).status, 0);
    EXPECT_EQ(b.requests().size(), 0u);
    EXPECT_EQ(inbox({"answer", "red", "--base-url", asks.url()}).out, "A is done\n");
}

TEST_F(Continuation, D86_Subagent_StaysAtTheEndpoint) {
    ModelServer parent({chat_answer("", {{"subagent", R"({"prompt":"do it"})"}}),
                        chat_answer("child"), chat_answer("A is done")});
    EXPECT_EQ(run_piped(home, {"run", "-s", "s1", "--base-url", parent.url(), "-m", "local", "hi"})
                  .status,
              7);
    configure("providers:\n  bee: {base_url: \"" + b.url() + "\", model: m}\n");
    EXPECT_EQ(inbox({"approve", "--base-url", parent.url()}).out, "A is done\n");
    EXPECT_EQ(parent.requests().size(), 3u);
    EXPECT_EQ(b.requests().size(), 0u);
}

TEST_F(Continuation, D86_SubagentWithAnotherModel_StaysAtTheEndpoint) {
    for (const std::string model : {"bee/m", "other"}) {
        const Home here;
        ModelServer parent(
            {chat_answer("", {{"subagent", R"({"prompt":"do it","model":")" + model + "\"}"}}),
             chat_answer(model == "other" ? "child" : "A is done"), chat_answer("A is done")});
        write_file(here.config(), "providers:\n  bee: {base_url: \"" + b.url() + "\", model: m}\n");
        const std::vector<std::string> flags = {"--base-url", parent.url(), "-m", "local"};
        std::vector<std::string> start = {"run", "-s", "s1", "hi"};
        start.insert(start.end(), flags.begin(), flags.end());
        EXPECT_EQ(run_piped(here, std::move(start)).status, 7);
        const Piped listed = run_piped(here, {"inbox"});
        std::vector<std::string> approve = {"inbox", "approve",
                                            listed.out.substr(0, listed.out.find('\t'))};
        approve.insert(approve.end(), flags.begin(), flags.end());
        const Piped over = run_piped(here, std::move(approve));
        EXPECT_EQ(over.out, "A is done\n") << over.err;
        if (model == "other") {
            ASSERT_EQ(parent.requests().size(), 3u);
            EXPECT_EQ(parent.bodies()[1].at("model"), "other");
        } else {
            ASSERT_EQ(parent.requests().size(), 2u);
            EXPECT_NE(parent.requests()[1].find("continues at"), std::string::npos);
        }
        EXPECT_EQ(b.requests().size(), 0u);
    }
}

TEST_F(Continuation, D86_KeyOfAnotherOrigin_IsNotSent) {
    (void)suspend();
    home.set("OPENAI_BASE_URL", b.url());
    expect_continued(inbox({"approve", "--base-url", a.url()}));
    for (const std::string& request : a.requests())
        EXPECT_EQ(request.find("Bearer key"), std::string::npos) << request;
}

TEST_F(Continuation, D92_HostileCallId_IsQuoted) {
    for (const std::string call_id :
         {"$(touch${IFS}pwned)", "a;touch${IFS}pwned", "`touch${IFS}pwned`", "it's\"\\&"}) {
        Home other;
        ModelServer server({chat_answer("", {{to_shell.name, to_shell.arguments, call_id}}),
                            chat_answer("A is done")});
        const Piped first =
            run_piped(other, {"run", "-s", "s 1", "--base-url", server.url(), "-m", "local", "hi"});
        EXPECT_EQ(first.status, 7) << first.err;
        const Piped over = run_printed(other, first.err, "To answer: ");
        EXPECT_EQ(over.out, "A is done\n") << first.err << over.err;
        EXPECT_FALSE(std::filesystem::exists(other.work() / "pwned")) << first.err;
        EXPECT_TRUE(std::filesystem::exists(other.work() / "log.txt")) << first.err;
    }
}

TEST(ShownQuestions, WaitingCall_IsShownAsInTheChat) {
    Home home;
    write_file(home.work() / "a.txt", "1\n2\n3\n4\n5\n6\n7\n");
    const SentCall write{"write", R"({"path":"a.txt","content":"1\nnew\n"})"};
    ModelServer server({chat_answer("", {write}), chat_answer("A is done")});
    home.set("OPENAI_BASE_URL", server.url());
    const Piped run = run_piped(home, {"run", "-s", "s1", "-m", "local", "hi"});
    EXPECT_EQ(run.status, 7) << run.err;
    const Piped listed = run_piped(home, {"inbox"});
    EXPECT_NE(listed.out.find("\twrite replaces 7 lines of a.txt\n"), std::string::npos)
        << listed.out;
    const std::string name = listed.out.substr(0, listed.out.find('\t'));
    const Piped shown = run_piped(home, {"inbox", "show", name});
    for (const std::string& text : {run.err, shown.out}) {
        EXPECT_NE(text.find("? write replaces 7 lines of a.txt (+1 -6)"), std::string::npos)
            << text;
        EXPECT_NE(text.find("+new"), std::string::npos) << text;
        EXPECT_EQ(text.find("{\"path\""), std::string::npos) << text;
    }
    const Piped over = run_piped(home, {"inbox", "approve", name});
    EXPECT_EQ(over.out, "A is done\n") << over.err;
    EXPECT_EQ(over.err.find("waits for an answer"), std::string::npos) << over.err;
}

TEST(ShownQuestions, LongCommand_IsCutInTheHintOnly) {
    Home home;
    std::string command;
    for (int i = 0; i < 200; ++i) command += "echo line" + std::to_string(i) + "\n";
    const boost::json::object arguments{{"command", command}};
    ModelServer server(
        {chat_answer("", {{"shell", boost::json::serialize(arguments)}}), chat_answer("done")});
    home.set("OPENAI_BASE_URL", server.url());
    const Piped run = run_piped(home, {"run", "-s", "s 1", "-m", "local", "hi"});
    EXPECT_NE(run.err.find("Run this command"), std::string::npos) << run.err;
    EXPECT_EQ(run.err.find("echo line100"), std::string::npos) << run.err;
    const Piped shown = run_printed(home, run.err, "To see all of it: ");
    EXPECT_NE(shown.out.find("echo line100"), std::string::npos) << shown.out << shown.err;
}

TEST(PrintedCommands, D92_SuggestedCommand_IsQuoted) {
    Home home;
    const std::string word = "a$(touch${IFS}pwned)";
    Terminal refused(home, {word});
    EXPECT_NE(refused.wait(), 0);
    EXPECT_NE(refused.shown().find("cubepi run '" + word + "' or cubepi chat '" + word + "'"),
              std::string::npos)
        << refused.shown();
}

TEST(PrintedCommands, D92_SessionWithLineBreak_IsOneLine) {
    Home home;
    ModelServer server({chat_answer("", {to_shell}), chat_answer("A is done")});
    const std::string name = "s\ntouch pwned";
    home.set("OPENAI_BASE_URL", server.url());
    const Piped first = run_piped(home, {"run", "-s", name, "-m", "local", "hi"});
    EXPECT_NE(first.err.find("New session 's^Jtouch pwned'."), std::string::npos) << first.err;
    const Piped over = run_printed(home, first.err, "To answer: ");
    EXPECT_EQ(over.out, "A is done\n") << first.err << over.err;
    const Piped gone = run_piped(home, {"sessions", "delete", name, "--yes"});
    EXPECT_NE(gone.err.find("Deleted: s^Jtouch pwned ("), std::string::npos) << gone.err;
    EXPECT_FALSE(std::filesystem::exists(home.work() / "pwned"));
}

}  // namespace
}  // namespace cubepi::joint_tests
