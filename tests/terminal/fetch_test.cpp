// The tool `fetch` in `cubepi chat`: whom it asks before it goes to another host.

#include <gtest/gtest.h>

#include <string>

#include "../wire/net/raw_server.hpp"
#include "terminal.hpp"

namespace cubepi::terminal_tests {
namespace {

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
    std::string calls(const std::string& urls) { return home.script("[" + urls + R"("Done."])"); }
    static std::string call(const std::string& url) {
        return R"({"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c)" + url +
               R"(", "name": "fetch", "arguments": {"url": ")" + url + R"("}}]},)";
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

TEST_F(FetchInAChat, D52_ARedirectToAnotherHostIsAskedAboutAsACallOfItsOwn) {
    Terminal chat(home, {"chat", "--script", calls(call(asked_url) + call(other_url))}, 160, 40);
    ASSERT_TRUE(chat.expect_on_screen("talks to")) << chat.shown();
    chat.type("go\r");
    ASSERT_TRUE(chat.expect_on_screen("? Fetch http://93.184.216.34/a")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("always adds: fetch: http://93.184.216.34"));
    ASSERT_TRUE(chat.expect_on_screen("[e]dit >"));
    chat.type("y\r");
    ASSERT_TRUE(chat.expect_on_screen(not_followed)) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("? Fetch http://8.8.8.8/b")) << chat.screen().text();
    ASSERT_TRUE(chat.expect("always adds: fetch: http://8.8.8.8")) << chat.screen().text();
    ASSERT_TRUE(chat.expect("[e]dit >"));
    chat.type("y\r");
    ASSERT_TRUE(chat.expect_on_screen("Done.")) << chat.screen().text();
    EXPECT_NE(chat.screen().text().find("HTTP 200, text/plain, 27 bytes, http://8.8.8.8/b"),
              std::string::npos)
        << chat.screen().text();
}

TEST_F(FetchInAChat, D52_ARuleForOneHostDoesNotCoverTheHostItRedirectsTo) {
    write_file(home.config(), "allow: [\"fetch: http://93.184.216.34\", \"fetch: 8.8.8.8\"]\n");
    const Piped run = run_piped(home, {"run", "--script", calls(call(asked_url)), "go"});
    EXPECT_NE(run.err.find("HTTP 302, a redirect from"), std::string::npos) << run.err;
    EXPECT_EQ(run.err.find("HTTP 200"), std::string::npos) << run.err;
}

TEST_F(FetchInAChat, D52_WhatIsAllowedIsFollowedWithoutAQuestion) {
    write_file(home.config(),
               "allow: [\"fetch: http://93.184.216.34\", \"fetch: http://8.8.8.8\"]\n");
    const std::string script = calls(call(asked_url));
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

}  // namespace
}  // namespace cubepi::terminal_tests
