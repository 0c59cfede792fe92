// Questions about tool calls: when they are asked, and what an answer changes.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../terminal/terminal.hpp"
#include "model_server.hpp"
#include "program.hpp"

namespace cubepi::joint_tests {
namespace {

using terminal_tests::Home;
using terminal_tests::Piped;
using terminal_tests::Terminal;

SentCall to_fetch(const std::string& url) {
    return {"fetch", boost::json::serialize(boost::json::object{{"url", url}})};
}

const std::vector<std::string> always_refused = {"http://127.0.0.1:9/x",
                                                 "http://localhost:8080/",
                                                 "http://a.localhost./",
                                                 "http://2130706433/",
                                                 "http://0x7f.1/",
                                                 "http://169.254.169.254/latest",
                                                 "http://[::1]:9/",
                                                 "http://192.168.0.1/",
                                                 "file:///etc/passwd",
                                                 "http://u:p@8.8.8.8/",
                                                 "no url"};

TEST(FetchOfARefusedAddress, Run_AsksNothing) {
    for (const std::string& url : always_refused) {
        const Home home;
        ModelServer server({chat_answer("", {to_fetch(url)}), chat_answer("All done.")});
        const Piped run = run_at(home, server, {"-s", "s1", "go"});
        EXPECT_EQ(run.status, 0) << url << run.err;
        EXPECT_EQ(run.out, "All done.\n") << url << run.err;
        ASSERT_EQ(server.requests().size(), 2u) << url;
    }
}

TEST(FetchOfARefusedAddress, Chat_GetsTheToolsAnswer) {
    const Home home;
    ModelServer server(
        {chat_answer("", {to_fetch("http://127.0.0.1:9/x")}), chat_answer("All done.")});
    Terminal chat(home, {"chat", "--no-save", "--base-url", server.url(), "-m", "local", "go"});
    ASSERT_TRUE(chat.expect_on_screen("All done.")) << chat.screen().text();
    EXPECT_EQ(chat.screen().text().find("[y]es"), std::string::npos) << chat.screen().text();
    EXPECT_NE(server.requests()[1].find("has the address 127.0.0.1, which belongs to this machine"),
              std::string::npos)
        << server.requests()[1];
}

TEST(FetchOfARefusedAddress, OtherAddress_IsAskedAbout) {
    const Home home;
    ModelServer server({chat_answer("", {to_fetch("http://8.8.8.8:9/x")})});
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "go"}).status, 7);
}

}  // namespace
}  // namespace cubepi::joint_tests
