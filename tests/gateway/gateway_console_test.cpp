// The web console: the page, the login of browsers, and what pages of other origins cannot do.

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "console_browser.hpp"

namespace cubepi::gateway_tests {
namespace {

TEST_F(ConsoleTest, D199_Page_HasNothingInlineOrForeign) {
    start();
    Browser browser = stranger();
    const Answered page = browser.get("");
    EXPECT_EQ(page.status, 200);
    EXPECT_EQ(page.headers.get("content-type"), "text/html; charset=utf-8");
    EXPECT_EQ(page.body.find("<script>"), std::string::npos) << page.body;
    EXPECT_EQ(page.body.find("<style"), std::string::npos);
    EXPECT_EQ(page.body.find("://"), std::string::npos);
    const std::string policy(page.headers.get("content-security-policy"));
    for (const char* part : {"default-src 'none'", "script-src 'self'", "style-src 'self'",
                             "frame-ancestors 'none'", "base-uri 'none'", "trusted-types 'none'"})
        EXPECT_NE(policy.find(part), std::string::npos) << policy;
    EXPECT_EQ(policy.find("unsafe"), std::string::npos);
    EXPECT_EQ(page.headers.get("x-content-type-options"), "nosniff");
    EXPECT_EQ(page.headers.get("referrer-policy"), "no-referrer");
    EXPECT_EQ(browser.get("app.js").headers.get("content-type"), "text/javascript; charset=utf-8");
    EXPECT_EQ(browser.get("app.css").headers.get("content-type"), "text/css; charset=utf-8");
    EXPECT_EQ(browser.get("..%2Findex.html").status, 404);
    browser.base = "/console";
    const Answered moved = browser.get("");
    EXPECT_EQ(moved.status, 308);
    EXPECT_EQ(moved.headers.get("location"), "console/");
}

TEST_F(ConsoleTest, D199_Link_LogsOneBrowserIn) {
    start();
    const CommandResult command = run_command(home, {"gateway", "console", "--name", "olga"});
    EXPECT_EQ(command.status, 0) << command.output;
    EXPECT_EQ(command.output.find(origin() + "/console/#login="), 0u) << command.output;
    EXPECT_NE(command.output.find("The link logs in once, within 60 minutes."), std::string::npos);
    const std::string one = command.output.substr(0, command.output.find('\n'));
    Browser browser = stranger();
    EXPECT_EQ(browser.get("session").status, 401);
    for (const std::string& wrong : {std::string(), std::string("0"), std::string(64, '0')})
        EXPECT_EQ(browser.call("POST", "login", "", {{"x-console-link", wrong}}).status, 401);
    // A body is not received, so that no client can occupy the route with it.
    EXPECT_EQ(browser.post("login", "{}").status, 413);
    const Answered first = browser.log_in(one);
    EXPECT_EQ(first.json().at("name"), "olga");
    EXPECT_EQ(first.json().at("role"), "operator");
    const std::string cookie(first.headers.get("set-cookie"));
    EXPECT_EQ(cookie.find("cubepi_console_" + std::to_string(browser.port) + "="), 0u) << cookie;
    EXPECT_NE(cookie.find("; HttpOnly; SameSite=Strict"), std::string::npos) << cookie;
    EXPECT_EQ(browser.get("session").json().at("csrf"), first.json().at("csrf"));
    Browser thief = stranger();
    EXPECT_EQ(thief.log_in(one).status, 401);
    EXPECT_EQ(browser.post("logout").status, 200);
    EXPECT_EQ(browser.get("session").status, 401);
    EXPECT_EQ(gateway->output().find(one.substr(one.find('#'))), std::string::npos);
}

TEST_F(ConsoleTest, D199_Operations_RefuseOtherOriginsAndStrangers) {
    start();
    const Browser olga = browser_of(false, "olga");
    const Browser vera = browser_of(true, "vera");
    for (const app::GatewayOperation& operation : app::gateway_operations()) {
        const std::string method(operation.method);
        const std::string path = path_of(operation);
        if (operation.name == "console") {
            EXPECT_EQ(olga.call(method, path).status, 404) << "no link for another name";
            continue;
        }
        EXPECT_EQ(stranger().call(method, path).status, 401) << path;
        for (const char* site : {"cross-site", "same-site"})
            EXPECT_EQ(olga.call(method, path, "", {{"sec-fetch-site", site}}).status, 403) << path;
        if (operation.role == app::GatewayRole::viewer) {
            EXPECT_EQ(vera.call(method, path).status, olga.call(method, path).status) << path;
            continue;
        }
        EXPECT_EQ(vera.call(method, path).status, 403) << path;
        if (!operation.changes()) {
            EXPECT_EQ(olga.call(method, path).status, 200) << path;
            continue;
        }
        for (const char* token : {"", "0", "é"})
            EXPECT_EQ(olga.call(method, path, "", {{"x-csrf-token", token}}).status, 403) << path;
        EXPECT_EQ(
            olga.call(method, path, "", {{"x-csrf-token", vera.headers.at("x-csrf-token")}}).status,
            403);
        for (const std::string& other :
             {std::string("null"), std::string("http://evil.example"), std::string(),
              "https" + origin().substr(4), origin() + "0"})
            EXPECT_EQ(olga.call(method, path, "", {{"origin", other}}).status, 403) << other;
    }
    EXPECT_EQ(olga.get("v1/admin/status").json().at("state"), "running");
    EXPECT_EQ(gateway->output().find("\"operation\":\"drain\""), std::string::npos);
    Browser foreign = stranger();
    foreign.headers["origin"] = "http://evil.example";
    EXPECT_EQ(foreign.log_in(link()).status, 403);
}

constexpr const char* writes_file =
    R"({"tokens_per_second": 100000, "answers": [{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1",
        "name": "write", "arguments": {"path": "a.txt", "content": "<script>alert(1)</script>"}}]}, "Done."]})";

TEST_F(ConsoleTest, D199_Answer_IsRecordedWithItsOperator) {
    start({"--script", home.script(writes_file)});
    (void)ask("write");
    const Browser olga = browser_of(false, "olga");
    const Browser otto = browser_of(false, "otto");
    const Answered open = olga.get("v1/admin/questions");
    ASSERT_EQ(open.json().at("questions").as_array().size(), 1u) << open.body;
    // A browser must not take it for HTML.
    EXPECT_EQ(open.headers.get("content-type"), "application/json");
    EXPECT_EQ(open.headers.get("x-content-type-options"), "nosniff");
    EXPECT_EQ(open.headers.get("cache-control"), "no-store");
    const std::string path =
        "v1/admin/questions/" + std::string(open.json().at("questions").at(0).at("id").as_string());
    auto first = std::async(std::launch::async, [&] { return olga.post(path + "/approve"); });
    auto second = std::async(std::launch::async, [&] {
        return otto.post(path + "/deny", R"({"text": "not this one"})");
    });
    const Answered approved = first.get();
    const Answered denied = second.get();
    EXPECT_NE(approved.status == 200, denied.status == 200) << approved.body << denied.body;
    const Answered& refused = approved.status == 200 ? denied : approved;
    EXPECT_TRUE(refused.status == 404 || refused.status == 409) << refused.status;
    EXPECT_FALSE(refused.error().empty()) << refused.body;
    const std::string who = approved.status == 200 ? "olga" : "otto";
    std::map<std::string, std::string> outcomes;
    while (outcomes.size() < 2) {
        const JsonObject logged = gateway->wait_for("gateway.operated");
        if (logged.at("operation") == "answer")
            outcomes[detail::text_member(logged, "by")] = detail::text_member(logged, "outcome");
    }
    EXPECT_EQ(outcomes.at(who), "ok");
    EXPECT_NE(outcomes.at(who == "olga" ? "otto" : "olga"), "ok");
}

TEST_F(ConsoleTest, D199_Proxy_DecidesOriginAndCookie) {
    configure(
        R"(, console: {listen: "127.0.0.1:0"}, base_path: /agents, trusted_proxies: [127.0.0.1])");
    start();
    EXPECT_NE(link().find("/agents/console/#login="), std::string::npos);
    Browser browser = stranger();
    browser.base = "/agents/console/";
    browser.headers = {{"origin", "https://agents.example.org"},
                       {"x-forwarded-for", "192.0.2.7"},
                       {"x-forwarded-proto", "https"},
                       {"x-forwarded-host", "agents.example.org"}};
    EXPECT_EQ(browser.get("").status, 200);
    const Answered entered = browser.log_in(link());
    EXPECT_EQ(entered.status, 200) << entered.body;
    EXPECT_NE(entered.headers.get("set-cookie").find("; Secure"), std::string::npos);
    // The path of the cookie is that of the browser's address, which may be another one.
    EXPECT_EQ(entered.headers.get("set-cookie").find("Path"), std::string::npos);
    browser.headers["origin"] = origin();
    EXPECT_EQ(browser.post("v1/admin/reload").status, 403);
    browser.headers["origin"] = "https://agents.example.org";
    EXPECT_EQ(browser.post("v1/admin/sessions/x/stop").status, 409);
    browser.headers["x-forwarded-host"] = "agents.example.org:443";
    EXPECT_EQ(browser.post("v1/admin/sessions/x/stop").status, 409);
    const JsonObject made = gateway->wait_for("gateway.operated");
    EXPECT_EQ(made.at("operation"), "console");
    EXPECT_EQ(made.at("action"), "operator");
    EXPECT_EQ(made.at("target"), "olga");
    browser.headers.erase("x-forwarded-host");
    const Answered refused = browser.post("v1/admin/sessions/x/stop");
    EXPECT_EQ(refused.status, 403);
    EXPECT_NE(refused.error().find("gateway.trusted_proxies"), std::string::npos);
}

/// An answer of minutes with a thought, and a command that does not end by itself.
std::string works_slowly() {
    std::string text = "One";
    for (int i = 0; i < 2'000; ++i) text += " more";
    return R"({"tokens_per_second": 8, "answers": [{"content": [{"type": "thinking", "thinking": "Let us see."}, {"type": "text", "text": ")" +
           text +
           R"("}]}, {"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1", "name": "shell", "arguments":
               {"command": "sleep 1000"}}]}, "Done."]})";
}

TEST_F(ConsoleTest, D200_RunningTurn_ShowsWhatIsNotStored) {
    configure(
        R"(, console: {listen: "127.0.0.1:0"}, rules: [{allow: ["shell: cd * && sleep 1000"]}])");
    start({"--script", home.script(works_slowly())});
    const Browser olga = browser_of(false, "olga");
    const std::string path = "v1/admin/sessions/http%3As1";
    const auto live_with = [&](const std::string& text) {
        JsonObject history;
        for (int i = 0; i < 6000; ++i) {
            history = olga.get(path).json();
            const JsonObject* const live = detail::object_member(history, "live");
            if (live && boost::json::serialize(*live).find(text) != std::string::npos) return *live;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        ADD_FAILURE() << boost::json::serialize(history);
        return JsonObject();
    };
    auto answer = post_later(ports.at("http"), "answer", "s1");
    const JsonObject begun = live_with("One");
    EXPECT_EQ(detail::text_member(begun, "thinking"), "Let us see.");
    EXPECT_EQ(olga.post(path + "/stop").status, 200);
    (void)answer.get();
    EXPECT_FALSE(olga.get(path).json().contains("live"));

    auto command = post_later(ports.at("http"), "command", "s1");
    const JsonObject runs = live_with("sleep");
    EXPECT_EQ(runs.at("calls").at(0).at("name"), "shell");
    EXPECT_EQ(olga.post(path + "/stop").status, 200);
    (void)command.get();
    const Answered history = olga.get(path);
    EXPECT_FALSE(history.json().contains("live"));
    // Operators see thinking and arguments, clients of the channel do not.
    EXPECT_NE(history.body.find("sleep 1000"), std::string::npos) << history.body;
    const HttpReply of_channel = run(call_channel(ports.at("http"), "GET", "/v1/sessions/s1"));
    EXPECT_NE(of_channel.body.find("\"shell\""), std::string::npos) << of_channel.body;
    EXPECT_EQ(of_channel.body.find("sleep 1000"), std::string::npos) << of_channel.body;
    EXPECT_EQ(of_channel.body.find("Let us see"), std::string::npos) << of_channel.body;
}

TEST_F(ConsoleTest, D199_Reload_KeepsBrowsersLoggedIn) {
    configure(R"(, console: {listen: "127.0.0.1:0"}, max_waiting: 5)");
    start();
    const Browser olga = browser_of(false, "olga");
    configure(R"(, console: {listen: "127.0.0.1:0"}, max_waiting: 6)");
    EXPECT_EQ(olga.post("v1/admin/reload").status, 200);
    EXPECT_EQ(olga.get("v1/admin/status").json().at("state"), "running");
    configure(", console: false");
    EXPECT_EQ(run_command(home, {"gateway", "reload"}).status, 0);
    const CommandResult none = run_command(home, {"gateway", "console"});
    EXPECT_NE(none.status, 0);
    EXPECT_NE(none.output.find("this gateway has no web console"), std::string::npos)
        << none.output;
    configure(R"(, console: {listen: "127.0.0.1:)" + std::to_string(olga.port) + "\"}");
    EXPECT_EQ(run_command(home, {"gateway", "reload"}).status, 0);
    EXPECT_EQ(olga.get("session").status, 401) << "the console was off";
}

TEST_F(ConsoleTest, D199_HostileNames_AreRefusedInLinks) {
    start();
    for (const char* name : {"a\nb", "\x1b[31m", "\xff"}) {
        const JsonObject request{{"command", "console"}, {"name", name}};
        EXPECT_ANY_THROW((void)app::call_gateway(home.socket(), request)) << name;
    }
    EXPECT_EQ(browser_of(true, "<b>olga</b>").get("session").json().at("name"), "<b>olga</b>");
}

}  // namespace
}  // namespace cubepi::gateway_tests
