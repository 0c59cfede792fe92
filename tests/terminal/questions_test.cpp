// Questions during an answer: what is shown before them, and how a model is chosen.

#include <gtest/gtest.h>

#include <string>

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

TEST(Questions, TextBeforeACallIsShownBeforeTheQuestionOfARun) {
    const wire::RawServer server(talkative());
    const Home home;
    Terminal run(home, {"run", "--base-url", server.url("/v1"), "-m", "m", "go"}, 400);
    ASSERT_TRUE(run.expect_on_screen("[e]dit >")) << run.shown();
    expect_text_before_question(run.screen().text());
    run.type("y\r");
    EXPECT_EQ(run.wait(), 0) << run.shown();
    EXPECT_NE(run.shown().find("That is all."), std::string::npos) << run.shown();
}

TEST(Questions, TextBeforeACallIsShownBeforeTheQuestionOfAChat) {
    for (const char* term : {"xterm", "dumb"}) {
        const wire::RawServer server(talkative());
        Home home;
        home.set("TERM", term);
        Terminal chat(home, {"chat", "--base-url", server.url("/v1"), "-m", "m"}, 400);
        ASSERT_TRUE(chat.expect("> ")) << chat.shown();
        chat.type("go\r");
        ASSERT_TRUE(chat.expect_on_screen("[e]dit >")) << chat.shown();
        expect_text_before_question(chat.screen().text());
        chat.type("y\r");
        ASSERT_TRUE(chat.expect_on_screen("That is all.")) << chat.shown();
    }
}

TEST(Questions, TheModelPickerTakesNumbersNamesAndPartsOfThem) {
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
        ASSERT_TRUE(run.expect("number or name > ")) << run.shown();
        run.type("alp\r");
        ASSERT_TRUE(run.expect("'alp' matches 3 models; enter a number from 1 to 3"))
            << run.shown();
        ASSERT_TRUE(run.expect("number or name > ")) << run.shown();
        run.type("2x\r");
        ASSERT_TRUE(run.expect("'2x' is not in the list")) << run.shown();
        ASSERT_TRUE(run.expect("number or name > ")) << run.shown();
        run.type("\r");
        ASSERT_TRUE(run.expect("no model was chosen")) << run.shown();
        ASSERT_TRUE(run.expect("number or name > ")) << run.shown();
        run.type(std::string(answer) + "\r");
        EXPECT_EQ(run.wait(), 0) << run.shown();
        EXPECT_NE(asked.find("\"alpha-small\""), std::string::npos) << answer << "\n" << asked;
    }
}

TEST(Questions, ARunBreaksItsAnswerBetweenWords) {
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

}  // namespace
}  // namespace cubepi::terminal_tests
