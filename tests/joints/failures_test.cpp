// Texts of the program: failures of models, warnings, answers of resumed sessions; and its standard input.

#include <gtest/gtest.h>

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

std::size_t count(const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
        ++found;
    return found;
}

/// Makes the server the configured one.
void home_config(Home& home, const ModelServer& server) {
    home.set("OPENAI_API_KEY", "");
    terminal_tests::write_file(home.config(),
                               "provider: openai\nbase_url: " + server.url() + "\nmodel: local\n");
}

std::string failure(int status, const std::string& message) {
    // No provider repeats such a request.
    return refusal(status,
                   boost::json::serialize(boost::json::object{{"error", {{"message", message}}}}),
                   "x-should-retry: false\r\n");
}

class FallbackFailures : public ::testing::Test {
protected:
    FallbackFailures(const ModelServer& first, const ModelServer& second) {
        home.set("OPENAI_API_KEY", "sk-one");
        terminal_tests::write_file(
            home.config(), "provider: openai\nbase_url: " + first.url() +
                               "\nmodel: m1\nproviders:\n  second: {type: openai, base_url: \"" +
                               second.url() + "\"}\nfallback_models: [second/m2]\n");
        port = second.url().substr(0, second.url().rfind('/'));
        port.erase(0, port.rfind(':'));
    }
    void expect_plain(const std::string& shown, const std::string& at_end) const {
        EXPECT_EQ(count(shown, "the first is full"), 1u) << shown;
        EXPECT_EQ(count(shown, "the second refuses"), 1u) << shown;
        EXPECT_NE(shown.find("/m1 is unavailable (HTTP 503: the first is full); continuing with "
                             "second/m2"),
                  std::string::npos)
            << shown;
        EXPECT_NE(shown.find(at_end + port), std::string::npos) << shown;
        for (const char* internal : {"ProviderUnavailable", "ProviderAuthFailed", " @ http", "["})
            EXPECT_EQ(shown.find(internal), std::string::npos) << shown;
    }

    Home home;
    std::string port;
};

struct Servers {
    ModelServer first{{failure(503, "the first is full")}};
    ModelServer refusing{{failure(401, "the second refuses")}};
    ModelServer unavailable{{failure(503, "the second refuses")}};
};

struct FailedKeyOfFallback : Servers, FallbackFailures {
    FailedKeyOfFallback() : FallbackFailures(first, refusing) {}
};
struct FailedFallback : Servers, FallbackFailures {
    FailedFallback() : FallbackFailures(first, unavailable) {}
};

TEST_F(FailedKeyOfFallback, Run_NamesTheServerOfTheKey) {
    const Piped run = run_piped(home, {"run", "hello"});
    EXPECT_EQ(run.status, 1);
    expect_plain(run.err, "authentication failed at m2 at 127.0.0.1");
}

TEST_F(FailedKeyOfFallback, Chat_ReportsTheSame) {
    Terminal chat(home, {"chat", "--no-save", "hello"}, 160, 40);
    ASSERT_TRUE(chat.expect_on_screen("then: cubepi doctor")) << chat.screen().text();
    expect_plain(chat.screen().text(), "authentication failed at m2 at 127.0.0.1");
}

TEST_F(FailedFallback, Run_ReportsEachModelOnce) {
    const Piped run = run_piped(home, {"run", "hello"});
    EXPECT_EQ(run.status, 1);
    expect_plain(run.err, "m2 at 127.0.0.1");
    EXPECT_EQ(run.err.find("no model is left"), std::string::npos) << run.err;
}

TEST_F(FailedFallback, Json_HasTheDetails) {
    const Piped run = run_piped(home, {"run", "--json", "hello"});
    EXPECT_NE(run.out.find("ProviderUnavailable: HTTP 503: the first is full"), std::string::npos)
        << run.out;
    EXPECT_NE(run.out.find("no model is left"), std::string::npos) << run.out;
}

const std::string overloaded = R"({"error":{"message":"Overloaded"}})";

TEST(Outage, D15_TemporaryFailures_AreRetriedWithNotices) {
    const Home home;
    const std::string failed = refusal(529, overloaded);
    const ModelServer server({failed, failed, failed, chat_answer("Back again.")});
    const Piped run = run_at(home, server, {"hello"});
    EXPECT_EQ(run.out, "Back again.\n") << run.err;
    EXPECT_EQ(count(run.err, "! HTTP 529: Overloaded; trying again in "), 3u) << run.err;
    EXPECT_NE(run.err.find(" s (3, for at most 60 s)"), std::string::npos) << run.err;
}

TEST(Outage, D15_StoppedWait_SendsNoOtherRequest) {
    const Home home;
    const ModelServer server({refusal(503, overloaded, "retry-after: 55\r\n")});
    const auto command = [&server](const char* verb) {
        return std::vector<std::string>{verb,         "--provider", "openai", "--base-url",
                                        server.url(), "-m",         "local",  "hello"};
    };
    Terminal chat(home, command("chat"));
    ASSERT_TRUE(chat.expect_on_screen("trying again in 55.0 s (1, for at most 60 s)"));
    ASSERT_TRUE(chat.answer_on_screen("waiting to retry", "\x1b")) << chat.screen().text();
    EXPECT_TRUE(chat.expect_on_screen("stopped.")) << chat.screen().text();
    Terminal run(home, command("run"));
    ASSERT_TRUE(run.answer("trying again in 55.0 s (1, for at most 60 s)", "\x03")) << run.shown();
    EXPECT_EQ(run.wait(), 130) << run.shown();
    EXPECT_EQ(server.requests().size(), 2u);
}

/// The beginning of an answer, after which the stream ends.
std::string cut_answer(const std::string& text, const std::vector<SentCall>& calls = {}) {
    std::string body = chat_answer(text, calls);
    return body.substr(0, body.find("\n\n") + 2);
}

const SentCall to_read{"read", R"({"path":"note.txt"})"};

TEST(CutStream, D15_CutAnswer_IsRequestedAgain) {
    const Home home;
    terminal_tests::write_file(home.work() / "note.txt", "Rivers flow.");
    const ModelServer server({cut_answer("I re", {to_read}), chat_answer("", {to_read}),
                              cut_answer("The no"), chat_answer("The note is about rivers.")});
    const Piped run = run_at(home, server, {"what is in note.txt?"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_TRUE(run.out.ends_with("The note is about rivers.\n")) << run.out;
    EXPECT_EQ(count(run.err, "! the answer was cut off: local failed ("), 2u) << run.err;
    EXPECT_EQ(count(run.err, " s (1 of 2)\n"), 2u) << run.err;
    const std::vector<boost::json::value> sent = server.bodies();
    ASSERT_EQ(sent.size(), 4u);
    EXPECT_EQ(sent[0], sent[1]) << "nothing of the cut answer";
    EXPECT_EQ(sent[2], sent[3]);
}

TEST(CutStream, D15_Result_IsTheWholeAnswer) {
    const Home home;
    const ModelServer server({cut_answer("The no"), chat_answer("The note.")});
    const Piped run = run_at(home, server, {"--output-format", "json", "go"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(boost::json::parse(run.out).at("text"), boost::json::value("The note.")) << run.out;
}

TEST(CutStream, D15_ThreeCutAnswers_EndTheRun) {
    const Home home;
    const ModelServer server({cut_answer("The no")});
    const Piped run = run_at(home, server, {"go"});
    EXPECT_EQ(run.status, 1) << run.err;
    EXPECT_EQ(server.requests().size(), 3u);
    EXPECT_EQ(run.err.find("To continue: "), std::string::npos) << "no answer was complete";
}

TEST(FailedRun, D107_WorkWithoutSession_IsSavedAndContinued) {
    Home home;
    terminal_tests::write_file(home.work() / "note.txt", "Rivers flow.");
    const ModelServer server({chat_answer("", {to_read}), failure(500, "It broke."),
                              chat_answer("The note is about rivers.")});
    const Piped failed = run_at(home, server, {"summarize the note"});
    EXPECT_EQ(failed.status, 1) << failed.err;
    EXPECT_NE(failed.err.find("It broke."), std::string::npos) << failed.err;
    EXPECT_NE(failed.err.find("The run is saved as session 'summarize-the-note'.\n"),
              std::string::npos)
        << failed.err;
    const Piped listed = run_piped(home, {"sessions", "list"});
    EXPECT_NE(listed.out.find("summarize-the-note"), std::string::npos) << listed.out;
    const Piped next = run_printed(home, failed.err, "To continue: ");
    EXPECT_EQ(next.status, 0) << next.err;
    EXPECT_EQ(next.out, "The note is about rivers.\n") << next.err;
    const std::string request = server.requests().back();
    EXPECT_NE(request.find("summarize the note"), std::string::npos);
    EXPECT_NE(request.find("Rivers flow."), std::string::npos);
}

TEST(FailedRun, D107_ReachedLimit_IsSaved) {
    const Home home;
    terminal_tests::write_file(home.work() / "note.txt", "Rivers flow.");
    const ModelServer server({chat_answer("", {to_read})});
    const Piped run = run_at(home, server, {"--max-turns", "1", "--json", "summarize the note"});
    EXPECT_EQ(run.status, 5) << run.err;
    EXPECT_NE(run.err.find("To continue: cubepi run --session summarize-the-note"),
              std::string::npos)
        << run.err;
    EXPECT_NE(run.out.find(R"("session":"summarize-the-note")"), std::string::npos) << run.out;
}

TEST(FailedRun, D107_NothingToContinue_IsNotSaved) {
    const Home home;
    terminal_tests::write_file(home.work() / "note.txt", "Rivers flow.");
    const ModelServer refusing({failure(500, "It broke.")});
    const ModelServer working({chat_answer("", {to_read}), failure(500, "It broke.")});
    const Piped first = run_at(home, refusing, {"summarize the note"});
    const Piped temporary = run_at(home, working, {"--no-save", "summarize the note"});
    for (const Piped& run : {first, temporary}) {
        EXPECT_EQ(run.status, 1) << run.err;
        EXPECT_EQ(run.err.find("saved"), std::string::npos) << run.err;
    }
    const Piped listed = run_piped(home, {"sessions", "list"});
    EXPECT_EQ(listed.out.find("summarize"), std::string::npos) << listed.out;
}

TEST(WebPage, NoAnswer_IsNamedWithItsStatus) {
    const std::string body = "\n<!DOCTYPE html><html><head><title>Sign in</title></head></html>";
    for (const char* status : {"200 OK", "403 Forbidden", "404 Not Found"}) {
        for (const char* type : {"text/html; charset=utf-8", "application/json"}) {
            const Home home;
            const std::string page =
                "HTTP/1.1 " + std::string(status) + "\r\nContent-Type: " + type +
                "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
            ModelServer server({page});
            server.answers_lists = true;
            const std::string expected = "answered with a web page instead of the API (HTTP " +
                                         std::string(status).substr(0, 3) + ").";
            const Piped run = run_at(home, server, {"hello"});
            EXPECT_EQ(run.status, 1);
            EXPECT_NE(run.err.find(expected), std::string::npos) << run.err;
            EXPECT_EQ(run.err.find("Server message"), std::string::npos) << run.err;
            const Piped models =
                run_piped(home, {"models", "--provider", "openai", "--base-url", server.url()});
            EXPECT_NE(models.err.find(expected), std::string::npos) << models.err;
        }
    }
}

TEST(Warnings, EachOutput_HasOneForm) {
    const Home home;
    const ModelServer server({chat_answer("cut", {}, "length")});
    terminal_tests::write_file(home.config(), "api_key: very-secret\nbase_url: " + server.url() +
                                                  "\nmodel: local\nallow: [\"shell: make\"]\n");
    std::filesystem::permissions(home.config(), std::filesystem::perms(0644));
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"run", "hello"}, {"run", "--json", "hello"}}) {
        const Piped run = run_piped(home, arguments);
        for (const char* warning :
             {"\ncubepi: the configuration file has an API key", "\ncubepi: The rule 'shell: make'",
              "\ncubepi: the answer was cut off"})
            EXPECT_NE(("\n" + run.err).find(warning), std::string::npos) << run.err;
    }
    Terminal chat(home, {"chat", "--no-save", "hello"}, 200, 40);
    ASSERT_TRUE(chat.expect_on_screen("cubepi: the answer was cut off")) << chat.screen().text();
    const std::string screen = chat.screen().text();
    for (const char* warning :
         {"\ncubepi: the configuration file has an API key", "\ncubepi: The rule 'shell: make'"})
        EXPECT_NE(screen.find(warning), std::string::npos) << screen;
}

TEST(PipedInput, WithoutAPrompt_IsThePrompt) {
    Home home;
    ModelServer server({chat_answer("Hi.")});
    home_config(home, server);
    const std::vector<std::vector<std::string>> commands = {{}, {"run"}, {"run", "-"}, {"-"}};
    for (const std::vector<std::string>& command : commands) {
        const Piped run = run_piped(home, command, "from the pipe");
        EXPECT_EQ(run.status, 0) << run.err;
        EXPECT_EQ(run.out, "Hi.\n") << run.err;
        EXPECT_NE(server.requests().back().find("from the pipe"), std::string::npos);
    }
    EXPECT_EQ(server.requests().size(), commands.size());
}

TEST(PipedInput, ContinueWithoutInput_SaysWhatItNeeds) {
    Home home;
    ModelServer server({chat_answer("Hi.")});
    home_config(home, server);
    EXPECT_EQ(run_piped(home, {"run", "-s", "s1", "hello"}).status, 0);
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"-c"}, {"-s", "s1"}, {"run", "-c"}}) {
        const Piped run = terminal_tests::run_with_stdin(home, command, "/dev/null");
        EXPECT_EQ(run.status, 2) << run.err;
        EXPECT_EQ(run.err.find("the prompt is empty"), std::string::npos) << run.err;
        EXPECT_NE(run.err.find("a session is continued by a prompt.\n  Example: cubepi run "
                               "--continue"),
                  std::string::npos)
            << run.err;
    }
    EXPECT_EQ(server.requests().size(), 1u);
}

TEST(ResumedRun, OutputAtATerminal_IsTheAnswer) {
    Home home;
    ModelServer server({chat_answer("The first answer."), chat_answer("The second answer.")});
    home_config(home, server);
    EXPECT_EQ(run_piped(home, {"run", "-s", "s1", "hello"}).status, 0);
    for (const std::vector<std::string>& flags : {std::vector<std::string>{"-c"}, {"-s", "s1"}}) {
        std::vector<std::string> command = {"run", "and now?"};
        command.insert(command.end(), flags.begin(), flags.end());
        Terminal run(home, command);
        EXPECT_EQ(run.wait(), 0) << run.shown();
        EXPECT_NE(run.shown().find("The second answer."), std::string::npos) << run.shown();
        EXPECT_EQ(run.shown().find("The first answer."), std::string::npos) << run.shown();
    }
}

TEST(SuspendedRun, Continuation_KeepsThePromptCache) {
    Home home;
    const SentCall write{"write", R"({"path":"a","content":"1"})", "call_1"};
    ModelServer server(
        {chat_answer("I look.", {{"list", R"({"path":"."})"}, write}),
         chat_answer("", {{"ask_user", R"({"questions":[{"key":"k","prompt":"Color?"}]})"}}),
         chat_answer("", {{"write", R"({"path":"b","content":"2"})", "call_2"}}),
         chat_answer("All done.")});
    home_config(home, server);
    const auto id = [&home] {
        const Piped listed = run_piped(home, {"inbox", "--json"});
        return std::string(boost::json::parse(listed.out).at(0).at("id").as_string());
    };
    std::string printed = run_piped(home, {"run", "-s", "s1", "hello"}).err;
    printed += run_piped(home, {"inbox", "approve", id()}).err;
    printed += run_piped(home, {"inbox", "answer", id(), "red"}).err;
    const Piped last = run_piped(home, {"inbox", "deny", id(), "no"});
    EXPECT_EQ(last.out, "All done.\n") << last.err;
    EXPECT_EQ((printed + last.err).find("prompt cache"), std::string::npos) << printed << last.err;
}

}  // namespace
}  // namespace cubepi::joint_tests
