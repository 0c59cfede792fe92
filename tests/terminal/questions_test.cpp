// Questions during an answer: what is shown before them, how they are answered, and which hosts `fetch` asks about.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../wire/net/raw_server.hpp"
#include "terminal.hpp"

namespace cubepi::terminal_tests {
namespace {

constexpr int words = 50;

std::string chunk(const std::string& delta, const std::string& finish = "null") {
    return R"(data: {"id": "r", "object": "chat.completion.chunk", "model": "m", "choices": [{"index": 0, "delta": )" +
           delta + R"(, "finish_reason": )" + finish + "}]}\n\n";
}

/// Text in many pieces and a call, in one write: the agent gets to its question before much of the text is shown.
std::string text_and_call() {
    std::string body;
    for (int i = 0; i < words; ++i)
        body += chunk(R"({"content": "w)" + std::to_string(i) + R"( "})");
    body += chunk(
        R"({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "write", "arguments": "{\"path\": \"a.txt\", \"content\": \"x\"}"}}]})");
    body += chunk("{}", "\"tool_calls\"");
    return wire::ok(body + "data: [DONE]\n\n", "Content-Type: text/event-stream\r\n");
}

std::string last_answer() {
    const std::string body = chunk(R"({"content": "That is all."})") + chunk("{}", "\"stop\"");
    return wire::ok(body + "data: [DONE]\n\n", "Content-Type: text/event-stream\r\n");
}

wire::RawServer::Handler talkative() {
    return [](wire::Connection& connection) {
        for (;;) {
            const std::string request = connection.read_request();
            const bool called = request.find("\"tool_call_id\"") != std::string::npos;
            if (request.empty() || !connection.send(called ? last_answer() : text_and_call()))
                return;
        }
    };
}

/// The text of the answer is above the question, whole and once.
void expect_text_before_question(const std::string& screen) {
    const std::size_t question = screen.find("? write creates a.txt");
    ASSERT_NE(question, std::string::npos) << screen;
    for (int i = 0; i < words; ++i) {
        const std::string word = "w" + std::to_string(i) + (i + 1 == words ? "" : " ");
        const std::size_t at = screen.find(word);
        EXPECT_LT(at, question) << word << "\n" << screen;
    }
}

TEST(Questions, TextBeforeCallInRun_PrecedesTheQuestion) {
    const wire::RawServer server(talkative());
    const Home home;
    Terminal run(home, {"run", "--base-url", server.url("/v1"), "-m", "m", "go"}, 400);
    ASSERT_TRUE(run.expect_on_screen("[e]dit >")) << run.shown();
    expect_text_before_question(run.screen().text());
    run.type("y\r");
    EXPECT_EQ(run.wait(), 0) << run.shown();
    EXPECT_NE(run.shown().find("That is all."), std::string::npos) << run.shown();
}

TEST(Questions, TextBeforeCallInChat_PrecedesTheQuestion) {
    for (const char* term : {"xterm", "dumb"}) {
        const wire::RawServer server(talkative());
        Home home;
        home.set("TERM", term);
        Terminal chat(home, {"chat", "--base-url", server.url("/v1"), "-m", "m"}, 400);
        ASSERT_TRUE(chat.answer("> ", "go\r")) << chat.shown();
        ASSERT_TRUE(chat.expect_on_screen("[e]dit >")) << chat.shown();
        expect_text_before_question(chat.screen().text());
        chat.type("y\r");
        ASSERT_TRUE(chat.expect_on_screen("That is all.")) << chat.shown();
    }
}

std::string calls(const std::string& list) {
    return R"([{"stop_reason": "tool_use", "content": [)" + list + R"(]}, "That is all."])";
}

std::string call(const std::string& id, const std::string& tool, const std::string& arguments) {
    return R"({"type": "tool_call", "id": ")" + id + R"(", "name": ")" + tool +
           R"(", "arguments": )" + arguments + "}";
}

std::string ask_user_script() {
    return calls(call("c1", "ask_user",
                      R"({"questions": [{"key": "color", "prompt": "Which color?",
                          "options": [{"label": "Red", "value": "r"}, {"label": "Blue", "value": "b"}]},
                         {"key": "name", "prompt": "Whose?", "required": false}]})"));
}

TEST(Questions, QuestionOfModel_IsAskedAtATerminal) {
    for (const char* command : {"run", "chat"}) {
        for (const char* term : {"xterm", "dumb"}) {
            Home home;
            home.set("TERM", term);
            Terminal program(home, {command, "--script", home.script(ask_user_script()), "go"});
            ASSERT_TRUE(program.expect("number > ")) << program.shown();
            ASSERT_TRUE(program.answer_on_screen(
                "? The model asks:\n  │ Which color?\n  │ 1  Red\n  │ 2  Blue\n", "green\r"))
                << program.screen().text();
            ASSERT_TRUE(program.expect("enter a number from 1 to 2, or the text of an option"))
                << program.shown();
            ASSERT_TRUE(program.answer("number > ", "2\r")) << program.shown();
            ASSERT_TRUE(program.answer("answer (Enter skips) > ", "Ada\r")) << program.shown();
            ASSERT_TRUE(program.expect_on_screen("    Which color? → Blue\n    Whose? → Ada\n"))
                << program.screen().text();
            ASSERT_TRUE(program.expect_on_screen("That is all.")) << program.shown();
        }
    }
}

/// Two calls that need approval, then another one, then the end.
std::string three_writes() {
    const auto write = [](const std::string& id) {
        return call(id, "write", R"({"path": ")" + id + R"(.txt", "content": "x"})");
    };
    return R"([{"stop_reason": "tool_use", "content": [)" + write("c1") + ", " + write("c2") +
           R"(]}, {"stop_reason": "tool_use", "content": [)" + write("c3") +
           R"(]}, "That is all."])";
}

/// Runs the first of three_writes(), which is suspended, and returns the rest as a script.
std::string suspend(Home& home) {
    const std::string all = three_writes();
    const Piped run =
        run_piped(home, {"run", "--session", "s", "--script", home.script(all), "go"});
    EXPECT_EQ(run.status, 7) << run.err;
    return home.script("[" + all.substr(all.find("]}, ") + 4));
}

TEST(Questions, SuspendedSession_ChatAsksItsQuestion) {
    for (const char* term : {"xterm", "dumb"}) {
        Home home;
        home.set("TERM", term);
        const std::string rest = suspend(home);
        Terminal chat(home, {"chat", "--continue", "--script", rest}, 120);
        ASSERT_TRUE(chat.expect("? write creates c1.txt")) << chat.shown();
        ASSERT_TRUE(chat.answer("[e]dit > ", "y\r")) << chat.shown();
        ASSERT_TRUE(chat.expect("? write creates c2.txt")) << chat.shown();
        ASSERT_TRUE(chat.answer("[e]dit > ", "n\r")) << chat.shown();
        // The run continues, and asks again.
        ASSERT_TRUE(chat.expect("? write creates c3.txt")) << chat.shown();
        ASSERT_TRUE(chat.answer("[e]dit > ", "y\r")) << chat.shown();
        ASSERT_TRUE(chat.expect_on_screen("That is all.")) << chat.shown();
        EXPECT_EQ(run_piped(home, {"inbox"}).out, "");
        EXPECT_TRUE(std::filesystem::exists(home.work() / "c1.txt"));
        EXPECT_FALSE(std::filesystem::exists(home.work() / "c2.txt"));
        EXPECT_TRUE(std::filesystem::exists(home.work() / "c3.txt"));
    }
}

TEST(Questions, UnansweredQuestion_StaysOpen) {
    Home home;
    const std::string rest = suspend(home);
    Terminal chat(home, {"chat", "--continue", "--script", rest, "a", "prompt"}, 120);
    ASSERT_TRUE(chat.expect("? write creates c1.txt")) << chat.shown();
    ASSERT_TRUE(chat.answer("[e]dit > ", "\x03")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("cubepi inbox approve ")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("> a prompt")) << "it is not lost\n" << chat.shown();
    chat.type("\r");
    ASSERT_TRUE(chat.answer_on_screen("the message has not been read yet", ",deny c1\r"))
        << chat.screen().text();
    ASSERT_TRUE(chat.expect("? write creates c2.txt")) << chat.shown();
    EXPECT_NE(run_piped(home, {"inbox"}).out.find("c2.txt"), std::string::npos);
}

TEST(Questions, NoTerminal_ModelQuestionWaits) {
    const Home home;
    const Piped run = run_piped(home, {"run", "--script", home.script(ask_user_script()), "go"});
    EXPECT_EQ(run.status, 7) << run.err;
    EXPECT_NE(run.err.find("Which color?"), std::string::npos) << run.err;
    EXPECT_NE(run_piped(home, {"inbox"}).out.find("Which color?"), std::string::npos);
}

TEST(Questions, UnsavedWithoutTerminal_ModelHasNoAskTool) {
    const Home home;
    const Piped run =
        run_piped(home, {"run", "--no-save", "--script", home.script(ask_user_script()), "go"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_NE(run.err.find("ask_user"), std::string::npos) << run.err;
    EXPECT_EQ(run.out.find("Which color?"), std::string::npos) << run.out;
    EXPECT_EQ(run.err.find("The user answered"), std::string::npos) << run.err;
}

TEST(Questions, CtrlC_EndsTheLineOfAQuestion) {
    const std::string script = calls(call("c1", "write", R"({"path": "a.txt", "content": "x"})"));
    for (const std::string term : {"xterm", "dumb"}) {
        Home home;
        home.set("TERM", term);
        Terminal run(home, {"run", "--script", home.script(script), "go"});
        ASSERT_TRUE(run.answer_on_screen("[e]dit >", "\x03")) << run.screen().text();
        EXPECT_EQ(run.wait(), 130) << run.shown();
        // A terminal that edits lines itself shows the key.
        const std::string key = term == "dumb" ? " ^C" : "";
        EXPECT_NE(run.screen().text().find("[e]dit >" + key + "\n● write"), std::string::npos)
            << run.screen().text();
        EXPECT_EQ(run.shown().find("A question to the user ended"), std::string::npos)
            << run.shown();
    }
}

TEST(Questions, EditAtAnyTerminal_ChangesTheArguments) {
    const std::string script = calls(call("c1", "write", R"({"path": "a.txt", "content": "x"})"));
    for (const std::string term : {"xterm", "dumb"}) {
        for (const bool keep : {false, true}) {
            Home home;
            home.set("TERM", term);
            Terminal run(home, {"run", "--script", home.script(script), "go"});
            ASSERT_TRUE(run.answer("[e]dit > ", "e\r")) << run.shown();
            ASSERT_TRUE(run.expect_on_screen("content >")) << run.shown();
            // A line editor changes the text that is there, another terminal needs all of it.
            if (!keep && term == "xterm") run.type("\x7f");
            if (!keep) run.type("new");
            run.type("\r");
            EXPECT_EQ(run.wait(), 0) << run.shown();
            EXPECT_EQ(read_file(home.work() / "a.txt"), keep ? "x" : "new") << run.shown();
        }
    }
}

TEST(Questions, CtrlD_DeletesOrLeavesTheQuestionOpen) {
    const Home home;
    ASSERT_EQ(run_piped(home, {"run", "--offline", "--session", "plan", "hi"}).status, 0);
    Terminal refused(home, {"sessions", "delete", "plan"});
    ASSERT_TRUE(refused.answer("permanently? [y/N] ", "yn\x1b[D\x04\x7f\x04")) << refused.shown();
    EXPECT_EQ(refused.wait(), 1) << refused.shown();
    EXPECT_NE(refused.shown().find("Nothing was deleted."), std::string::npos) << refused.shown();
    Terminal interrupted(home, {"sessions", "delete", "plan"});
    ASSERT_TRUE(interrupted.answer("permanently? [y/N] ", "y\x03")) << interrupted.shown();
    EXPECT_EQ(interrupted.wait(), 130) << interrupted.shown();
    EXPECT_NE(interrupted.raw().rfind("\x1b[?2004l"), std::string::npos)
        << "the terminal is as it was";
    Terminal agreed(home, {"sessions", "delete", "plan"});
    ASSERT_TRUE(agreed.answer("permanently? [y/N] ", "yn\x1b[D\x04\r")) << agreed.shown();
    EXPECT_EQ(agreed.wait(), 0) << agreed.shown();
    EXPECT_NE(agreed.shown().find("Deleted: plan"), std::string::npos) << agreed.shown();
}

TEST(Questions, Always_AnswersOtherCallsOfTheSameAnswer) {
    const Home home;
    const std::string script = calls(call("c1", "fetch", R"({"url": "http://a.invalid/a"})") + "," +
                                     call("c2", "fetch", R"({"url": "http://a.invalid/b"})"));
    Terminal chat(home, {"chat", "--script", home.script(script), "go"});
    ASSERT_TRUE(chat.answer_on_screen("[e]dit >", "a\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("save it permanently?", "\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("That is all.")) << chat.shown();
    EXPECT_EQ(chat.screen().text().find("? Fetch http://a.invalid/b"), std::string::npos)
        << chat.screen().text();
}

TEST(Questions, ModelPicker_AcceptsNumbersNamesAndParts) {
    for (const char* answer : {"2", "alpha-small", "SMALL"}) {
        std::string asked;
        const wire::RawServer server([&asked](wire::Connection& connection) {
            for (;;) {
                const std::string request = connection.read_request();
                if (request.empty()) return;
                const bool list = request.starts_with("GET /v1/models ");
                if (!list) asked += request;
                const std::string models =
                    R"({"data": [{"id": "alpha-large"}, {"id": "alpha-small"}, {"id": "alpha"}]})";
                const std::string reply =
                    list ? wire::ok(models, "Content-Type: application/json\r\n") : last_answer();
                if (!connection.send(reply)) return;
            }
        });
        const Home home;
        Terminal run(home, {"run", "--base-url", server.url("/v1"), "go"});
        ASSERT_TRUE(run.answer("number or name > ", "alp\r")) << run.shown();
        ASSERT_TRUE(run.expect("'alp' matches 3 models; enter a number from 1 to 3"))
            << run.shown();
        ASSERT_TRUE(run.answer("number or name > ", "2x\r")) << run.shown();
        ASSERT_TRUE(run.expect("'2x' is not in the list")) << run.shown();
        ASSERT_TRUE(run.answer("number or name > ", "\r")) << run.shown();
        ASSERT_TRUE(run.expect("no model was chosen")) << run.shown();
        ASSERT_TRUE(run.answer("number or name > ", std::string(answer) + "\r")) << run.shown();
        EXPECT_EQ(run.wait(), 0) << run.shown();
        EXPECT_NE(asked.find("\"alpha-small\""), std::string::npos) << answer << "\n" << asked;
    }
}

TEST(Questions, RunAnswer_BreaksBetweenWords) {
    const Home home;
    const std::string script = home.script(
        R"({"tokens_per_second": 2000, "answers": ["Some prose that is longer than forty columns, in **bold and longer than a row** and 漢字漢字漢字漢字漢字漢字.\n\n- an item that has more words than one row can show\n\n```sh\nmake all && echo 'a line of code that the terminal breaks'\n```\n"]})");
    Terminal run(home, {"run", "--script", script, "go"}, 40, 30);
    EXPECT_EQ(run.wait(), 0) << run.shown();
    const std::string screen = run.screen().text();
    EXPECT_NE(screen.find("Some prose that is longer than forty\n"
                          "columns, in bold and longer than a row\n"
                          "and 漢字漢字漢字漢字漢字漢字.\n"),
              std::string::npos)
        << screen;
    EXPECT_NE(screen.find("• an item that has more words than one\n  row can show\n"),
              std::string::npos)
        << screen;
    EXPECT_NE(run.shown().find("make all && echo 'a line of code that the terminal breaks'\n"),
              std::string::npos)
        << run.shown();
}

constexpr const char* asked_url = "http://93.184.216.34/a";
constexpr const char* other_url = "http://8.8.8.8/b";

/// Two hosts of the Internet behind a proxy: the first redirects, to itself and then to the second.
std::string page_of(const std::string& request) {
    const auto redirect = [](const std::string& to) {
        return "HTTP/1.1 302 Found\r\nLocation: " + to + "\r\nContent-Length: 0\r\n\r\n";
    };
    if (request.starts_with("GET http://93.184.216.34/a ")) return redirect("/moved");
    if (request.starts_with("GET http://93.184.216.34/moved ")) return redirect(other_url);
    if (request.starts_with("GET http://8.8.8.8/b "))
        return wire::ok("The page of the other host.", "Content-Type: text/plain\r\n");
    return "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
}

struct FetchInAChat : ::testing::Test {
    FetchInAChat() {
        const std::string proxy = internet.url("");
        home.set("http_proxy", proxy);
    }
    /// A script that fetches one URL after another.
    std::string fetches(const std::vector<std::string>& urls) const {
        std::string turns;
        for (const std::string& url : urls)
            turns += R"({"stop_reason": "tool_use", "content": [)" +
                     call("c" + url, "fetch", R"({"url": ")" + url + R"("})") + "]},";
        return home.script("[" + turns + R"("Done."])");
    }

    wire::RawServer internet{[](wire::Connection& connection) {
        for (;;) {
            const std::string request = connection.read_request();
            if (request.empty() || !connection.send(page_of(request))) return;
        }
    }};
    Home home;
};

constexpr const char* not_followed =
    "a redirect from http://93.184.216.34/moved to another origin, "
    "http://8.8.8.8, which was not followed";

TEST_F(FetchInAChat, D52_RedirectToOtherHost_IsAskedSeparately) {
    Terminal chat(home, {"chat", "--script", fetches({asked_url, other_url})}, 160, 40);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("? Fetch http://93.184.216.34/a")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("always adds: fetch: http://93.184.216.34"));
    ASSERT_TRUE(chat.answer_on_screen("[e]dit >", "y\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen(not_followed)) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("? Fetch http://8.8.8.8/b")) << chat.screen().text();
    ASSERT_TRUE(chat.expect("always adds: fetch: http://8.8.8.8")) << chat.screen().text();
    ASSERT_TRUE(chat.answer("[e]dit >", "y\r")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("Done.")) << chat.screen().text();
    EXPECT_NE(chat.screen().text().find("HTTP 200, text/plain, 27 bytes, http://8.8.8.8/b"),
              std::string::npos)
        << chat.screen().text();
}

TEST_F(FetchInAChat, D52_RuleForOneHost_ExcludesItsRedirectTarget) {
    write_file(home.config(), "allow: [\"fetch: http://93.184.216.34\", \"fetch: 8.8.8.8\"]\n");
    const Piped run = run_piped(home, {"run", "--script", fetches({asked_url}), "go"});
    EXPECT_NE(run.err.find("HTTP 302, a redirect from"), std::string::npos) << run.err;
    EXPECT_EQ(run.err.find("HTTP 200"), std::string::npos) << run.err;
}

TEST_F(FetchInAChat, D52_AllowedRedirect_IsFollowedWithoutAQuestion) {
    write_file(home.config(),
               "allow: [\"fetch: http://93.184.216.34\", \"fetch: http://8.8.8.8\"]\n");
    const std::string script = fetches({asked_url});
    const Piped by_rules = run_piped(home, {"run", "--script", script, "go"});
    EXPECT_NE(by_rules.err.find("HTTP 200, text/plain, 27 bytes, http://8.8.8.8/b"),
              std::string::npos)
        << by_rules.err;
    write_file(home.config(), "");
    const Piped by_flag = run_piped(home, {"run", "--yes", "--script", script, "go"});
    EXPECT_NE(by_flag.err.find("HTTP 200, text/plain, 27 bytes, http://8.8.8.8/b"),
              std::string::npos)
        << by_flag.err;
}

/// An answer is about the call on the screen.
TEST(Questions, ClearedScreen_ShowsTheQuestionAgain) {
    const Home home;
    std::string command = "true";
    for (int i = 10; i < 90; ++i) command += "\\ntrue w" + std::to_string(i);
    const std::string script =
        R"([{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1",
        "name": "shell", "arguments": {"command": ")" +
        command + R"("}}]}, "Done."])";
    Terminal chat(home, {"chat", "--script", home.script(script)}, 80, 24);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "run it\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer("[w]hole", "\x0c")) << chat.shown();
    ASSERT_TRUE(chat.expect("w10")) << chat.shown();
    ASSERT_TRUE(chat.answer("[w]hole", "w")) << chat.shown();
    ASSERT_TRUE(chat.answer("[e]dit", "\x0c")) << chat.shown();
    // All of it was shown, and is shown again.
    for (const char* word : {"w10", "w50", "w89"}) ASSERT_TRUE(chat.expect(word)) << chat.shown();
    EXPECT_TRUE(chat.answer("[e]dit", "y")) << chat.shown();
    EXPECT_TRUE(chat.expect("Done.")) << chat.shown();
}

TEST(Questions, NarrowerTerminal_ShowsTheQuestionAgain) {
    const Home home;
    std::string line;
    for (int i = 10; i < 30; ++i) line += "w" + std::to_string(i) + " ";
    const std::string script =
        R"([{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1",
        "name": "write", "arguments": {"path": "a.txt", "content": ")" +
        line + R"("}}]}, "Done."])";
    Terminal chat(home, {"chat", "--script", home.script(script)}, 100, 40);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "write it\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("[e]dit >")) << chat.screen().text();
    chat.resize(44, 40);
    // The rows of the new text have frames; those of the old one may be broken at the left edge.
    ASSERT_TRUE(chat.expect_on_screen("\u250a")) << chat.screen().text();
    EXPECT_TRUE(chat.answer_on_screen("[e]dit >", "y\r")) << chat.screen().text();
    EXPECT_TRUE(chat.expect_on_screen("Done.")) << chat.screen().text();
}

}  // namespace
}  // namespace cubepi::terminal_tests
