// Sub-agents of the program: their calls need the approval that those of the conversation need (D85).

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "../terminal/terminal.hpp"
#include "model_server.hpp"

namespace cubepi::joint_tests {
namespace {

using terminal_tests::Home;
using terminal_tests::Piped;
using terminal_tests::run_piped;
using terminal_tests::Terminal;

const SentCall to_subagent{"subagent", R"({"prompt":"write it"})"};
const SentCall to_write{"write", R"({"path":"new.txt","content":"hello"})"};

/// The endpoint uses the same id for each call.
std::vector<std::string> answers() {
    return {chat_answer("", {to_subagent}), chat_answer("", {to_write}), chat_answer("written"),
            chat_answer("All done.")};
}

Piped cubepi_at(const Home& home, const ModelServer& server, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(),
                     {"--provider", "openai", "--base-url", server.url(), "-m", "local"});
    return run_piped(home, std::move(arguments));
}

/// The question of the only suspended run.
boost::json::value open_question(const Home& home) {
    const Piped listed = run_piped(home, {"inbox", "--json"});
    const boost::json::array all = boost::json::parse(listed.out).as_array();
    EXPECT_EQ(all.size(), 1u) << listed.out;
    return all.empty() ? boost::json::value() : all.front().at("request");
}

std::string id_of(const boost::json::value& question) {
    return std::string(question.at("question_id").as_string());
}

class Subagents : public ::testing::Test {
protected:
    bool is_written() const { return std::filesystem::exists(home.work() / "new.txt"); }
    /// Starts the sub-agent, whose first call needs approval. Returns its question.
    boost::json::value start(const ModelServer& server) {
        const Piped first = cubepi_at(home, server, {"run", "-s", "s1", "hello"});
        const boost::json::value parents = open_question(home);
        EXPECT_EQ(parents.at("payload").at("tool_name"), "subagent") << first.err;
        const Piped second =
            cubepi_at(home, server, {"inbox", "approve", id_of(parents), "--session", "s1"});
        EXPECT_FALSE(is_written()) << second.err;
        EXPECT_EQ(server.requests().size(), 2u) << second.err;
        return open_question(home);
    }

    Home home;
};

TEST_F(Subagents, D85_CallInRun_WaitsForApproval) {
    ModelServer server(answers());
    const boost::json::value question = start(server);
    EXPECT_EQ(question.at("payload").at("tool_name"), "write");
    EXPECT_NE(id_of(question), "call_0") << "the endpoint uses it for each call";
    const Piped over =
        cubepi_at(home, server, {"inbox", "approve", id_of(question), "--session", "s1"});
    EXPECT_EQ(over.status, 0) << over.err;
    EXPECT_NE(over.out.find("All done."), std::string::npos) << over.out << over.err;
    EXPECT_TRUE(is_written());
    EXPECT_EQ(server.requests().size(), 4u);
}

TEST_F(Subagents, D85_DeniedCallInRun_IsNotExecuted) {
    ModelServer server(answers());
    const boost::json::value question = start(server);
    const Piped over =
        cubepi_at(home, server, {"inbox", "deny", id_of(question), "--session", "s1"});
    EXPECT_EQ(over.status, 0) << over.err;
    EXPECT_FALSE(is_written());
    EXPECT_EQ(server.requests().size(), 4u);
}

TEST_F(Subagents, D85_QuestionOfRun_IsAnsweredInTheChat) {
    ModelServer server(answers());
    const boost::json::value question = start(server);
    Terminal chat(home, {"chat", "-s", "s1", "--provider", "openai", "--base-url", server.url(),
                         "-m", "local"});
    ASSERT_TRUE(chat.expect("creates new.txt")) << chat.shown();
    ASSERT_TRUE(chat.expect("[e]dit")) << chat.shown();
    chat.type("y\r");
    ASSERT_TRUE(chat.expect_on_screen("All done.")) << chat.shown();
    EXPECT_TRUE(is_written());
    chat.type("\x04");
    EXPECT_EQ(chat.wait(), 0) << chat.shown();
}

TEST_F(Subagents, D85_CallInChat_IsAskedInTheChat) {
    ModelServer server(answers());
    Terminal chat(home,
                  {"chat", "--provider", "openai", "--base-url", server.url(), "-m", "local"});
    ASSERT_TRUE(chat.expect_on_screen("talks to")) << chat.shown();
    chat.type("hello\r");
    ASSERT_TRUE(chat.expect("[e]dit")) << chat.shown();
    chat.type("y\r");
    ASSERT_TRUE(chat.expect("creates new.txt")) << chat.shown();
    ASSERT_TRUE(chat.expect("[e]dit")) << chat.shown();
    EXPECT_FALSE(is_written());
    chat.type("y\r");
    ASSERT_TRUE(chat.expect_on_screen("All done.")) << chat.shown();
    EXPECT_TRUE(is_written());
    chat.type("\x04");
    EXPECT_EQ(chat.wait(), 0) << chat.shown();
}

}  // namespace
}  // namespace cubepi::joint_tests
