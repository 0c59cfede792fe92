// Limits of the program's turns: a model that repeats its calls is told, and then stopped (D121).

#include <gtest/gtest.h>

#include <csignal>
#include <cstddef>
#include <functional>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "program.hpp"

namespace cubepi::joint_tests {
namespace {

using terminal_tests::Home;
using terminal_tests::Piped;
using terminal_tests::run_piped;
using terminal_tests::Terminal;
using terminal_tests::write_file;

const std::string note = "with the same arguments and the same result";

const SentCall to_read{"read", R"({"path":"a.txt"})"};
const SentCall to_list{"list", R"({"path":"."})"};

/// The number of messages of the last request that have the note.
std::size_t notes(const ModelServer& server) {
    const boost::json::array messages =
        server.bodies().back().as_object().at("messages").as_array();
    std::size_t count = 0;
    for (const boost::json::value& message : messages)
        count += boost::json::serialize(message).find(note) != std::string::npos ? 1 : 0;
    return count;
}

TEST(RepeatedCalls, D121_Run_EndsAsLimited) {
    const Home home;
    write_file(home.work() / "a.txt", "text");
    ModelServer server({chat_answer("", {to_read})});
    const Piped run = run_at(home, server, {"go"});
    EXPECT_NE(run.status, 0);
    EXPECT_NE(run.err.find("max_repeated_calls (10)"), std::string::npos) << run.err;
    EXPECT_EQ(server.requests().size(), 10u);
    EXPECT_EQ(notes(server), 1u);
    EXPECT_EQ(run.err.find("prefix"), std::string::npos) << run.err;
}

TEST(RepeatedCalls, D121_AlternatingCalls_EndAsLimited) {
    const Home home;
    write_file(home.work() / "a.txt", "text");
    std::vector<std::string> answers;
    for (int i = 0; i < 200; ++i)
        answers.push_back(chat_answer("", {i % 2 == 0 ? to_read : to_list}));
    ModelServer server(std::move(answers));
    EXPECT_NE(run_at(home, server, {"go"}).status, 0);
    EXPECT_EQ(server.requests().size(), 19u);
    EXPECT_EQ(notes(server), 2u);
}

TEST(RepeatedCalls, D121_Subagent_EndsAloneAndIsReported) {
    const Home home;
    write_file(home.work() / "a.txt", "text");
    std::vector<std::string> answers{chat_answer("", {{"subagent", R"({"prompt":"read it"})"}})};
    answers.insert(answers.end(), 10, chat_answer("", {to_read}));
    answers.push_back(chat_answer("All done."));
    ModelServer server(std::move(answers));
    const Piped run = run_at(home, server, {"--yes", "go"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(server.requests().size(), 12u);
    EXPECT_NE(server.requests().back().find("max_repeated_calls (10)"), std::string::npos);
}

TEST(RepeatedCalls, D121_Setting_ChangesTheLimit) {
    const Home home;
    write_file(home.work() / "a.txt", "text");
    write_file(home.config(), "max_repeated_calls: 4\nmax_turns: 12\n");
    ModelServer server({chat_answer("", {to_read})});
    const Piped four = run_at(home, server, {"go"});
    EXPECT_NE(four.err.find("max_repeated_calls (4)"), std::string::npos) << four.err;
    EXPECT_EQ(server.requests().size(), 4u);
    write_file(home.config(), "max_repeated_calls: false\nmax_turns: 12\n");
    const Piped any = run_at(home, server, {"go"});
    EXPECT_NE(any.err.find("max_turns (12)"), std::string::npos) << any.err;
}

TEST(RepeatedCalls, D121_Chat_EndsTheTurnOnly) {
    const Home home;
    write_file(home.work() / "a.txt", "text");
    std::vector<std::string> answers(10, chat_answer("", {to_read}));
    answers.push_back(chat_answer("All done."));
    ModelServer server(std::move(answers));
    Terminal chat(home,
                  {"chat", "--provider", "openai", "--base-url", server.url(), "-m", "local"});
    ASSERT_TRUE(chat.expect_on_screen("talks to")) << chat.shown();
    chat.type("hello\r");
    ASSERT_TRUE(chat.expect("max_repeated_calls")) << chat.shown();
    chat.type("on\r");
    ASSERT_TRUE(chat.expect_on_screen("All done.")) << chat.shown();
    chat.type("\x04");
    EXPECT_EQ(chat.wait(), 0) << chat.shown();
}

std::string list_answer(const std::string& id) {
    SentCall call = to_list;
    call.id = id;
    return chat_answer("", {call});
}

/// A model that holds one request until the program that has sent it is killed.
class HeldModel {
public:
    /// `answer`: called with the number of the request, from 1, and an id for a call.
    HeldModel(std::size_t held, std::function<std::string(std::size_t, const std::string&)> answer)
        : held_(held), answer_(std::move(answer)) {}

    void kill_when_held(Terminal& program) {
        reached_.get_future().wait();
        program.send(SIGKILL);
        EXPECT_EQ(program.wait(), 128 + SIGKILL);
        released_.set_value();
    }

private:
    std::string respond() {
        if (++asked_ == held_) {
            reached_.set_value();
            released_.get_future().wait();
        }
        return answer_(asked_, "call_" + std::to_string(asked_));
    }

    const std::size_t held_;
    const std::function<std::string(std::size_t, const std::string&)> answer_;
    std::promise<void> reached_;
    std::promise<void> released_;
    std::size_t asked_ = 0;

public:
    ModelServer server{
        [this](const boost::json::object&) { return respond(); }};  // last: it calls the others
};

/// A run that is killed is continued by another prompt, which has a limit of its own.
TEST(KilledRun, D222_NextPrompt_HasTheWholeLimit) {
    const Home home;
    HeldModel model(2, [](std::size_t, const std::string& id) { return list_answer(id); });
    {
        Terminal killed(home, {"run", "-s", "s1", "--provider", "openai", "--base-url",
                               model.server.url(), "-m", "local", "--max-turns", "3", "go"});
        model.kill_when_held(killed);
    }
    const Piped next = run_at(home, model.server, {"-s", "s1", "--max-turns", "3", "more"});
    EXPECT_NE(next.err.find("max_turns (3)"), std::string::npos) << next.err;
    EXPECT_EQ(model.server.requests().size(), 5u);
}

/// The same in a chat, which shows what was stored before the kill.
TEST(KilledRun, D222_NextPromptOfChat_HasTheWholeLimit) {
    const Home home;
    HeldModel model(2, [](std::size_t, const std::string& id) { return list_answer(id); });
    const std::vector<std::string> chat{
        "chat", "-s",    "s1",          "--provider", "openai", "--base-url", model.server.url(),
        "-m",   "local", "--max-turns", "3"};
    {
        Terminal killed(home, chat);
        ASSERT_TRUE(killed.answer_on_screen("talks to", "go\r")) << killed.shown();
        model.kill_when_held(killed);
    }
    Terminal next(home, chat);
    ASSERT_TRUE(next.answer_on_screen("talks to", "more\r")) << next.shown();
    ASSERT_TRUE(next.expect("max_turns (3)")) << next.shown();
    next.type("\x04");
    EXPECT_EQ(next.wait(), 0) << next.shown();
    EXPECT_EQ(model.server.requests().size(), 5u);
}

/// The call of the killed run is closed; another one starts an agent with limits of its own.
TEST(KilledRun, D222_NextSubagent_HasTheWholeLimit) {
    const Home home;
    write_file(home.config(), "subagents: {max_turns: 3}\n");
    HeldModel model(3, [](std::size_t asked, const std::string& id) {
        if (asked == 1 || asked == 4)
            return chat_answer("", {{"subagent", R"({"prompt":"list it"})", id}});
        return asked == 8 ? chat_answer("All done.") : list_answer(id);
    });
    {
        Terminal killed(home, {"run", "--yes", "-s", "s1", "--provider", "openai", "--base-url",
                               model.server.url(), "-m", "local", "go"});
        model.kill_when_held(killed);
    }
    const Piped next = run_at(home, model.server, {"--yes", "-s", "s1", "more"});
    EXPECT_EQ(next.status, 0) << next.err;
    EXPECT_NE(next.out.find("All done."), std::string::npos) << next.out;
    EXPECT_EQ(model.server.requests().size(), 8u);
    EXPECT_NE(model.server.requests().back().find("max_turns (3)"), std::string::npos);
}

TEST(MaxCost, D120_RunAndChat_NeedAPrice) {
    Home home;
    home.set("OPENAI_API_KEY", "key");
    ModelServer server({chat_answer("Paid.")});
    const Piped run = run_at(home, server, {"--max-cost", "5", "hello"});
    EXPECT_EQ(run.status, 5) << run.err;
    EXPECT_NE(run.err.find("--max-cost is set"), std::string::npos) << run.err;
    EXPECT_NE(run.err.find("--max-cost USD"), std::string::npos) << run.err;
    Terminal chat(home, {"chat", "--provider", "openai", "--base-url", server.url(), "-m", "local",
                         "--max-cost", "5"});
    ASSERT_TRUE(chat.answer_on_screen("talks to", "hello\r")) << chat.screen().text();
    EXPECT_TRUE(chat.expect_on_screen("--max-cost USD")) << chat.screen().text();
    EXPECT_EQ(server.requests().size(), 0u);
}

TEST(MaxCost, ScriptedModel_CostsNothing) {
    const Home home;
    const Piped run = run_piped(home, {"run", "--offline", "--max-cost", "0.01", "hello"});
    EXPECT_EQ(run.status, 0) << run.err;
}

}  // namespace
}  // namespace cubepi::joint_tests
