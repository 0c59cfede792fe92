// Headers whose values commands print.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/scoped_test_directory.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/testing/manual_clock.hpp>

#include "mcp/mcp_settings.hpp"

namespace cubepi::app {
namespace {

using ::testing::HasSubstr;
using Source = std::function<Task<HttpHeaders>(bool is_refused)>;

Task<std::string> token_of(const Source* source, bool is_refused) {
    Task<HttpHeaders> asking = (*source)(is_refused);
    const HttpHeaders headers = co_await std::move(asking);
    co_return std::string(headers.get("authorization"));
}

Task<> ask_twice(const Source* source) {
    std::vector<Task<std::string>> both;
    both.push_back(token_of(source, false));
    both.push_back(token_of(source, false));
    (void)co_await when_all(std::move(both));
}

class HeaderCommand : public ::testing::Test {
protected:
    HeaderCommand() {
        server.name = "team";
        server.url = "https://host/mcp";
        server.header_max_age = std::chrono::seconds(60);
        auto made = std::make_shared<Runtime>();
        made->clock = clock;
        runtime = std::move(made);
    }
    /// Each time the command runs, it adds a character to a file, and prints the file.
    Source counting() {
        const std::string file = (directory_.path() / "runs").string();
        return source("printf x >> '" + file + "'; printf 'Bearer '; cat '" + file + "'");
    }
    Source source(const std::string& command) {
        server.header_commands["Authorization"] = command;
        return header_commands(server, EnvironmentPolicy(), runtime);
    }
    std::string failure(const std::string& command) {
        const Source failing = source(command);
        try {
            return run(token_of(&failing, false));
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::auth);
            return error.what();
        }
    }

    McpServerSettings server;
    std::shared_ptr<testing::ManualClock> clock = std::make_shared<testing::ManualClock>();
    std::shared_ptr<const Runtime> runtime;

private:
    ScopedTestDirectory directory_;
};

TEST_F(HeaderCommand, D202_Value_IsUsedUntilItIsOld) {
    const Source headers = counting();
    EXPECT_EQ(run(token_of(&headers, false)), "Bearer x");
    clock->advance(std::chrono::seconds(59));
    EXPECT_EQ(run(token_of(&headers, false)), "Bearer x");
    clock->advance(std::chrono::seconds(1));
    EXPECT_EQ(run(token_of(&headers, false)), "Bearer xx");
}

TEST_F(HeaderCommand, D202_RefusedValue_IsReplaced) {
    const Source headers = counting();
    EXPECT_EQ(run(token_of(&headers, false)), "Bearer x");
    EXPECT_EQ(run(token_of(&headers, true)), "Bearer xx");
    EXPECT_EQ(run(token_of(&headers, false)), "Bearer xx");
}

TEST_F(HeaderCommand, D202_RequestsAtOnce_ShareOneCommand) {
    const Source headers = counting();
    run(ask_twice(&headers));
    EXPECT_EQ(run(token_of(&headers, false)), "Bearer x");
}

TEST_F(HeaderCommand, D202_Failure_NamesTheHeaderAndNoOutput) {
    EXPECT_THAT(failure("echo secret; exit 3"),
                ::testing::AllOf(HasSubstr("Authorization"), HasSubstr("status 3"),
                                 ::testing::Not(HasSubstr("secret"))));
    EXPECT_THAT(failure("true"), HasSubstr("nothing"));
    EXPECT_THAT(failure("printf 'a\\nsecret'"),
                ::testing::AllOf(HasSubstr("one line"), ::testing::Not(HasSubstr("secret"))));
    EXPECT_EQ(failure("sleep 0; echo works"), "works");
}

TEST_F(HeaderCommand, D202_FailedCommand_RunsAgain) {
    const ScopedTestDirectory directory;
    const std::string mark = (directory.path() / "mark").string();
    const Source headers =
        source("if [ -e '" + mark + "' ]; then echo ok; else touch '" + mark + "'; exit 1; fi");
    EXPECT_THROW((void)run(token_of(&headers, false)), Error);
    EXPECT_EQ(run(token_of(&headers, false)), "ok");
}

TEST(McpSettings, D202_HeaderCommands_AreTheUsers) {
    const char* text = R"({"team":{"url":"https://host/mcp","header_max_age":60,
        "header_commands":{"Authorization":"make-token"}}})";
    const std::vector<McpServerSettings> servers = mcp_settings(parse_json(text));
    EXPECT_EQ(servers.at(0).header_commands.at("Authorization"), "make-token");
    EXPECT_EQ(servers.at(0).header_max_age, std::chrono::seconds(60));
    const ProjectMcpServers project =
        project_mcp_servers("/p/.mcp.json", R"({"mcpServers":)" + std::string(text) + "}");
    EXPECT_TRUE(project.servers.at(0).header_commands.empty());
    for (const char* wrong : {R"({"a":{"command":"x","header_commands":{"A":"y"}}})",
                              R"({"a":{"url":"https://x","header_max_age":0}})",
                              R"({"a":{"url":"https://x","header_commands":["y"]}})"})
        EXPECT_THROW((void)mcp_settings(parse_json(wrong)), Error) << wrong;
}

}  // namespace
}  // namespace cubepi::app
