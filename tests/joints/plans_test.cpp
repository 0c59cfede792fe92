// To-do lists and goals, through the program: the requests that a model server gets.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "../terminal/terminal.hpp"
#include "model_server.hpp"
#include "program.hpp"

namespace cubepi::joint_tests {
namespace {

using terminal_tests::Home;
using terminal_tests::Piped;

constexpr const char* two_items =
    R"({"todos": [{"content": "a", "status": "in_progress"}, {"content": "b", "status": "pending"}]})";

/// Expects that the tools, the system prompt and the messages of each request begin with those of the one before.
void expect_prefixes(const std::vector<boost::json::value>& bodies) {
    for (std::size_t i = 1; i < bodies.size(); ++i) {
        EXPECT_EQ(bodies[i].at("tools"), bodies[i - 1].at("tools")) << i;
        const boost::json::array& before = bodies[i - 1].at("messages").as_array();
        const boost::json::array& after = bodies[i].at("messages").as_array();
        ASSERT_LT(before.size(), after.size()) << i;
        for (std::size_t k = 0; k < before.size(); ++k) {
            EXPECT_EQ(boost::json::serialize(after[k]), boost::json::serialize(before[k]))
                << i << " " << k;
        }
    }
}

TEST(Plans, D117_RemindersInTwoProcesses_KeepPrefix) {
    Home home;
    home.set("OPENAI_API_KEY", "key");
    std::vector<std::string> answers = {chat_answer("", {{"write_todos", two_items}})};
    for (int i = 0; i < 7; ++i)
        answers.push_back(chat_answer("", {{"tape_info", "{}", "call_" + std::to_string(i)}}));
    answers.push_back(chat_answer("Which database?"));
    answers.push_back(chat_answer("Done."));
    ModelServer server(answers);
    const Piped first = run_at(home, server, {"-s", "s1", "go"});
    EXPECT_EQ(first.status, 0) << first.err;
    EXPECT_NE(first.err.find("○ b"), std::string::npos) << first.err;
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "the small one"}).status, 0);
    const std::vector<boost::json::value> bodies = server.bodies();
    ASSERT_EQ(bodies.size(), 10u);
    expect_prefixes(bodies);
    EXPECT_NE(server.requests()[7].find("was not updated for 5 turns"), std::string::npos);
}

TEST(Plans, StepsAfterLongList_StoreItOnce) {
    Home home;
    home.set("OPENAI_API_KEY", "key");
    const std::string content(20'000, 'x');
    std::vector<std::string> answers = {chat_answer(
        "", {{"write_todos",
              R"({"todos": [{"content": ")" + content + R"(", "status": "in_progress"}]})"}})};
    for (int i = 0; i < 4; ++i)
        answers.push_back(chat_answer("", {{"tape_info", "{}", "call_" + std::to_string(i)}}));
    answers.push_back(chat_answer("Done."));
    ModelServer server(answers);
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "go"}).status, 0);
    std::size_t states = 0;
    for (const auto& file : std::filesystem::directory_iterator(home.tapes())) {
        if (file.path().extension() != ".jsonl") continue;
        std::ifstream lines(file.path());
        for (std::string line; std::getline(lines, line);) {
            const bool is_state = line.find("\"cubepi.extra") != std::string::npos;
            if (is_state && line.find(content) != std::string::npos) ++states;
        }
    }
    EXPECT_EQ(states, 1u);
}

TEST(Plans, D119_GoalOfPrompt_IsEvaluatedAndKeepsPrefix) {
    Home home;
    home.set("OPENAI_API_KEY", "key");
    ModelServer server(
        {chat_answer("Begun."),
         chat_answer("", {{"structured_output", R"({"achieved": false, "reason": "no file"})"}}),
         chat_answer("Finished."), refusal(500, "{}", "x-should-retry: false\r\n")});
    const Piped done = run_at(home, server, {"-s", "s1", "/goal write a file"});
    // The evaluator fails at the end, and the answer remains.
    EXPECT_EQ(done.status, 0) << done.err;
    EXPECT_NE(done.out.find("Finished."), std::string::npos) << done.out;
    const std::vector<boost::json::value> bodies = server.bodies();
    ASSERT_GE(bodies.size(), 4u);
    expect_prefixes({bodies[0], bodies[2]});
    const std::string prompt(bodies[0].at("messages").as_array().back().at("content").as_string());
    EXPECT_TRUE(prompt.ends_with("\nwrite a file")) << prompt;
    const Piped state = run_at(home, server, {"-s", "s1", "/goal"});
    EXPECT_NE(state.out.find("Goal (active, 1 of 10 evaluations): write a file"), std::string::npos)
        << state.out << state.err;
    EXPECT_EQ(server.requests().size(), bodies.size());
}

TEST(Plans, D119_ExhaustedGoal_IsReported) {
    Home home;
    home.set("OPENAI_API_KEY", "key");
    std::vector<std::string> answers;
    for (int i = 0; i < 10; ++i) {
        answers.push_back(chat_answer("Tried."));
        answers.push_back(chat_answer(
            "", {{"structured_output", R"({"achieved": false, "reason": "no file"})"}}));
    }
    ModelServer server(answers);
    const Piped done = run_at(home, server, {"-s", "s1", "/goal write a file"});
    EXPECT_EQ(done.status, 0) << done.err;
    EXPECT_NE(done.err.find("! The goal is given up: no file"), std::string::npos) << done.err;
    EXPECT_EQ(server.requests().size(), 20u);
}

TEST(Plans, Doctor_NamesTheirSettings) {
    Home home;
    home.set("OPENAI_API_KEY", "key");
    terminal_tests::write_file(
        home.config(),
        "provider: openai\nmodel: m\nmax_repeated_calls: 3\nmemory: true\ntodos: false\n");
    const Piped doctor = terminal_tests::run_piped(home, {"doctor", "--offline"});
    for (const char* line : {"max_repeated_calls: 3 (config.yaml)", "memory: true (config.yaml)",
                             "todos: false (config.yaml)"})
        EXPECT_NE(doctor.out.find(line), std::string::npos) << line << "\n" << doctor.out;
}

TEST(Plans, TodosOffInConfiguration_ToolIsNotOffered) {
    Home home;
    home.set("OPENAI_API_KEY", "key");
    terminal_tests::write_file(home.config(), "todos: false\n");
    ModelServer server({chat_answer("ok")});
    EXPECT_EQ(run_at(home, server, {"--no-save", "go"}).status, 0);
    EXPECT_EQ(server.requests().at(0).find("write_todos"), std::string::npos);
}

}  // namespace
}  // namespace cubepi::joint_tests
