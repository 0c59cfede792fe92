// Operators who write in the web console: who may, what becomes of it, and the list of all sessions.

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "console_browser.hpp"

namespace cubepi::gateway_tests {
namespace {

constexpr const char* sessions_path = "v1/admin/sessions";

std::string encoded(std::string session) {
    const std::size_t colon = session.find(':');
    return session.replace(colon, 1, "%3A");
}

class ConsoleChatTest : public ConsoleTest {
protected:
    static std::string path_to(const std::string& session) {
        return std::string(sessions_path) + "/" + encoded(session);
    }
    static std::string body_of(const std::string& text, bool steer = false) {
        return boost::json::serialize(JsonObject{{"text", text}, {"steer", steer}});
    }
    /// Begins a session; returns its id.
    static std::string begin(const Browser& browser, const std::string& text) {
        const Answered begun = browser.post(sessions_path, body_of(text));
        EXPECT_EQ(begun.status, 200) << begun.body;
        return detail::text_member(begun.json(), "session");
    }
    /// Reads the history until it contains all texts; returns it.
    static std::string history_with(const Browser& browser, const std::string& session,
                                    const std::vector<std::string>& texts) {
        std::string history;
        for (int i = 0; i < 6000; ++i) {
            history = browser.get(path_to(session)).body;
            bool has_all = true;
            for (const std::string& text : texts)
                has_all = has_all && history.find(text) != std::string::npos;
            if (has_all) return history;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        ADD_FAILURE() << history;
        return history;
    }
};

TEST_F(ConsoleChatTest, D218_NewSession_IsAnsweredAndRecorded) {
    start();
    const Browser olga = browser_of(false, "olga");
    const std::string session = begin(olga, "hello");
    EXPECT_EQ(session.find("console:"), 0u) << session;
    const std::string history =
        history_with(olga, session, {"\"re: hello\"", "\"state\":\"idle\""});
    EXPECT_NE(history.find("\"from\":\"olga\""), std::string::npos) << history;
    JsonObject logged;
    do {
        logged = gateway->wait_for("gateway.operated");
    } while (logged.at("operation") != "begin");
    EXPECT_EQ(logged.at("by"), "olga");
    EXPECT_EQ(detail::text_member(logged, "target"), session);
    EXPECT_EQ(logged.at("outcome"), "ok");
    // The model knows who has asked, and where.
    const std::string asked = model.wait_for("hello");
    EXPECT_NE(asked.find("channel=$console"), std::string::npos) << asked;
    EXPECT_NE(asked.find("sender_id=olga"), std::string::npos) << asked;
}

TEST_F(ConsoleChatTest, D218_RepeatedRequest_IsOneMessage) {
    start();
    const Browser olga = browser_of(false, "olga");
    const std::string body = R"({"text": "once", "key": "k1"})";
    const Answered first = olga.post(sessions_path, body);
    const Answered second = olga.post(sessions_path, body);
    EXPECT_EQ(first.status, 200) << first.body;
    EXPECT_EQ(second.body, first.body);
    const std::string session = detail::text_member(first.json(), "session");
    (void)history_with(olga, session, {"\"re: once\"", "\"state\":\"idle\""});
    EXPECT_EQ(model.count("once"), 1u);
}

TEST_F(ConsoleChatTest, D218_RunningTurn_IsSteeredOrFollowed) {
    start();
    const Browser olga = browser_of(false, "olga");
    model.hold("first");
    const std::string session = begin(olga, "first");
    (void)model.wait_for("first");
    const std::string messages = path_to(session) + "/messages";
    EXPECT_EQ(olga.post(messages, body_of("later")).status, 200);
    EXPECT_EQ(olga.post(messages, body_of("steered", true)).status, 200);
    const JsonObject busy = olga.get(sessions_path).json();
    EXPECT_EQ(busy.at("sessions").at(0).at("steering"), 1) << boost::json::serialize(busy);
    EXPECT_EQ(busy.at("sessions").at(0).at("waiting"), 1);
    model.release();
    const std::string history =
        history_with(olga, session, {"\"re: later\"", "\"re: steered\"", "\"state\":\"idle\""});
    // The turn takes it before the message that came earlier.
    EXPECT_LT(history.find("re: steered"), history.find("re: later")) << history;
}

TEST_F(ConsoleChatTest, D218_SessionOfChannel_GetsAnswerThere) {
    start();
    EXPECT_EQ(ask("one").status, 200);
    const Browser olga = browser_of(false, "olga");
    const Answered sent = olga.post(path_to("http:s1") + "/messages", body_of("two"));
    EXPECT_EQ(sent.status, 200) << sent.body;
    EXPECT_EQ(sent.json().at("channel"), "http");
    (void)history_with(olga, "http:s1", {"\"re: two\"", "\"state\":\"idle\""});
    // Rules for a client named olga do not hold for an operator of that name.
    EXPECT_NE(model.wait_for("two").find("sender_id=olga (console)"), std::string::npos);
    EXPECT_EQ(olga.post(path_to("http:s2") + "/messages", body_of("two")).status, 404);
    EXPECT_EQ(olga.post(path_to("http:s1/agent/x") + "/messages", body_of("two")).status / 100, 4);
}

TEST_F(ConsoleChatTest, B11_PastedCommand_IsRefused) {
    start();
    const Browser olga = browser_of(false, "olga");
    const std::filesystem::path made = home.path() / "made";
    const auto paste = [&](const std::string& text) {
        const JsonObject body{{"text", text}, {"typed", true}, {"pasted", true}};
        return olga.post(sessions_path, boost::json::serialize(body));
    };
    for (const char* const begin : {",touch ", ",!touch ", "!touch ", " ,touch "}) {
        const Answered refused = paste(begin + made.string());
        EXPECT_EQ(refused.status, 400) << begin << refused.body;
        EXPECT_NE(refused.body.find("type it"), std::string::npos) << refused.body;
    }
    EXPECT_FALSE(std::filesystem::exists(made));
    const Answered sent = paste("a, b");
    EXPECT_EQ(sent.status, 200) << sent.body;
}

TEST_F(ConsoleChatTest, B11_Command_RunsAndItsOutputIsShown) {
    start();
    const Browser olga = browser_of(false, "olga");
    const std::string session = begin(olga, ",help");
    const std::string history =
        history_with(olga, session, {"Commands begin with a comma", "\"state\":\"idle\""});
    EXPECT_NE(history.find("\"role\":\"command\""), std::string::npos) << history;
    EXPECT_NE(history.find("\",help\""), std::string::npos) << history;
}

TEST_F(ConsoleChatTest, D218_Viewer_CannotWrite) {
    start();
    const Browser olga = browser_of(false, "olga");
    const Browser vera = browser_of(true, "vera");
    const std::string session = begin(olga, "hello");
    (void)history_with(vera, session, {"\"re: hello\""});
    const std::string large(1 << 20, 'x');
    for (const std::string& path : {std::string(sessions_path), path_to(session) + "/messages"}) {
        EXPECT_EQ(vera.post(path, body_of("no")).status, 403) << path;
        EXPECT_EQ(vera.post(path, large).status, 403) << "the body is not read";
    }
    for (const char* operation : {"/fork", "/stop"})
        EXPECT_EQ(vera.post(path_to(session) + operation).status, 403) << operation;
    EXPECT_EQ(vera.get("v1/admin/logins").status, 403);
    EXPECT_EQ(model.count("no"), 0u);
}

TEST_F(ConsoleChatTest, D218_Files_ReachTheModelWithinLimits) {
    start();
    const Browser olga = browser_of(false, "olga");
    const std::string with_file =
        R"({"text": "look", "files": [{"name": "a.txt", "type": "text/plain", "content": "aGVsbG8="}]})";
    const Answered sent = olga.post(sessions_path, with_file);
    EXPECT_EQ(sent.status, 200) << sent.body;
    (void)history_with(olga, detail::text_member(sent.json(), "session"),
                       {"\"re: ", "\"state\":\"idle\""});
    std::string stored;
    for (const auto& one : std::filesystem::recursive_directory_iterator(home.workspaces()))
        if (one.path().filename() == "a.txt") std::ifstream(one.path()) >> stored;
    EXPECT_EQ(stored, "hello") << "the session works with the file";
    for (const char* wrong :
         {R"({"text": "", "files": []})", R"({"text": " "})", R"({"files": "x"})",
          R"({"text": "x", "files": [{"name": "a", "content": "%%%"}]})",
          R"({"text": "x", "files": [{"name": "a", "type": "text/html\n", "content": ""}]})",
          R"({"text": "x", "files": [{}]})", R"({"text": "x", "files": [5]})",
          R"({"text": "x", "key": "a b"})", R"({"text": 5})", "[]", "{"}) {
        const Answered refused = olga.post(sessions_path, wrong);
        EXPECT_EQ(refused.status, 400) << wrong << refused.body;
    }
    JsonArray many;
    for (int i = 0; i < 11; ++i)
        many.push_back(JsonObject{{"name", "a"}, {"type", "text/plain"}, {"content", ""}});
    const JsonObject body{{"text", "x"}, {"files", many}};
    EXPECT_EQ(olga.post(sessions_path, boost::json::serialize(body)).status, 400);
    EXPECT_EQ(olga.post(sessions_path, std::string((12 << 20) + 1, ' ')).status, 413);
}

TEST_F(ConsoleChatTest, D218_StoredSessions_ArePagedAndSearched) {
    start();
    const Browser vera = browser_of(true, "vera");
    const Browser olga = browser_of(false, "olga");
    std::vector<std::string> begun;
    for (const char* text : {"apples", "pears", "plums"}) {
        begun.push_back(begin(olga, text));
        (void)history_with(olga, begun.back(), {std::string("re: ") + text, "\"idle\""});
    }
    std::vector<std::string> listed;
    std::string after;
    do {
        const JsonObject page = vera.get("v1/admin/stored-sessions?limit=2" + after).json();
        for (const Json& one : page.at("sessions").as_array())
            listed.emplace_back(one.at("session").as_string());
        const std::string next = detail::text_member(page, "next");
        const std::size_t blank = next.find(' ');
        after =
            next.empty() ? "" : "&after=" + next.substr(0, blank) + "%20" + next.substr(blank + 1);
    } while (!after.empty());
    EXPECT_EQ(listed, (std::vector<std::string>{begun[2], begun[1], begun[0]}));
    const JsonObject found = vera.get("v1/admin/stored-sessions?search=PEAR").json();
    ASSERT_EQ(found.at("sessions").as_array().size(), 1u);
    EXPECT_EQ(found.at("sessions").at(0).at("title"), "pears");
    EXPECT_EQ(found.at("sessions").at(0).at("state"), "idle");
    EXPECT_EQ(found.at("sessions").at(0).at("messages"), 2);
    for (const char* wrong : {"after=x", "after=12", "after=-1%20x", "after=9999999999999999%20x",
                              "after=12%20%FF", "search=%00", "limit=-1"})
        EXPECT_EQ(vera.get(std::string("v1/admin/stored-sessions?") + wrong).status, 400) << wrong;
}

TEST_F(ConsoleChatTest, D218_Fork_ContinuesInANewSession) {
    start();
    const Browser olga = browser_of(false, "olga");
    const std::string session = begin(olga, "hello");
    (void)history_with(olga, session, {"re: hello", "\"state\":\"idle\""});
    const Answered forked = olga.post(path_to(session) + "/fork");
    ASSERT_EQ(forked.status, 200) << forked.body;
    const std::string other = detail::text_member(forked.json(), "session");
    EXPECT_NE(other, session);
    (void)history_with(olga, other, {"re: hello"});
    EXPECT_EQ(olga.post(path_to(other) + "/messages", body_of("more")).status, 200);
    (void)history_with(olga, other, {"re: hello", "re: more", "\"state\":\"idle\""});
    EXPECT_EQ(olga.get(path_to(session)).body.find("re: more"), std::string::npos);
    const JsonObject listed = olga.get("v1/admin/stored-sessions").json();
    EXPECT_EQ(Json(listed.at("sessions").at(0).at("forked_from")), Json(session));
    EXPECT_EQ(olga.post(path_to("console:none") + "/fork").status, 404);
    const JsonObject spent = olga.get(path_to(other) + "/spending").json();
    EXPECT_TRUE(spent.contains("cost")) << boost::json::serialize(spent);
}

TEST_F(ConsoleChatTest, D220_MadePages_CannotUseTheLogin) {
    configure(R"(, console: {listen: "127.0.0.1:0"})");
    gateway = std::make_unique<GatewayProcess>(
        home, model.flags(),
        std::vector<std::string>{"CUBEPI_TRACE=" + (home.path() / "traces").string()});
    wait_until_running();
    const Browser vera = browser_of(true, "vera");
    const Browser olga = browser_of(false, "olga");
    const std::string session = begin(olga, "<script>alert(1)</script>");
    (void)history_with(olga, session, {"re: <script>", "\"state\":\"idle\""});
    const Answered exported = vera.get("pages/sessions/" + encoded(session));
    EXPECT_EQ(exported.status, 200) << exported.body;
    EXPECT_EQ(exported.headers.get("content-security-policy"),
              "sandbox allow-scripts; frame-ancestors 'none'");
    EXPECT_EQ(exported.headers.get("content-disposition"), "attachment; filename=\"session.html\"");
    EXPECT_EQ(exported.body.find("<script>alert"), std::string::npos);
    EXPECT_NE(exported.body.find("&lt;script&gt;alert"), std::string::npos) << exported.body;
    EXPECT_EQ(stranger().get("pages/sessions/" + encoded(session)).status, 401);
    JsonObject traces;
    for (int i = 0; i < 6000 && (traces.empty() || traces.at("traces").as_array().empty()); ++i) {
        const Answered read = vera.get(path_to(session) + "/traces");
        ASSERT_EQ(read.status, 200) << read.body;
        traces = read.json();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_EQ(traces.at("traces").as_array().size(), 1u) << boost::json::serialize(traces);
    const std::string id(traces.at("traces").at(0).at("id").as_string());
    const Answered page = vera.get("pages/traces/" + id);
    EXPECT_EQ(page.status, 200) << page.body;
    EXPECT_EQ(page.headers.get("content-security-policy"),
              "sandbox allow-scripts; frame-ancestors 'none'");
    EXPECT_EQ(page.headers.get("content-type"), "text/html; charset=utf-8");
    EXPECT_NE(page.body.find(id), std::string::npos);
    for (const char* unknown : {"0", "..%2Ftraces", "00000000000000000000000000000000"})
        EXPECT_EQ(vera.get(std::string("pages/traces/") + unknown).status, 404) << unknown;
    EXPECT_EQ(vera.get(path_to("console:none") + "/traces").status, 404);
}

TEST_F(ConsoleChatTest, D219_Login_IsListedAndEndedByItself) {
    start();
    const Browser olga = browser_of(false, "olga");
    const Browser otto = browser_of(false, "otto");
    const std::string unused = link(true, "vera");
    const JsonObject all = olga.get("v1/admin/logins").json();
    ASSERT_EQ(all.at("logins").as_array().size(), 3u) << boost::json::serialize(all);
    std::string ids[3];
    for (const Json& one : all.at("logins").as_array()) {
        const std::string name(one.at("name").as_string());
        ids[name == "olga" ? 0 : name == "otto" ? 1 : 2] = one.at("id").as_string();
        EXPECT_EQ(one.at("current"), name == "olga");
        EXPECT_EQ(one.as_object().contains("used"), name != "vera") << name;
        EXPECT_EQ(one.at("role"), name == "vera" ? "viewer" : "operator");
    }
    // Neither a cookie nor a link is in the list.
    const std::string text = boost::json::serialize(all);
    EXPECT_EQ(text.find(otto.cookie.substr(otto.cookie.find('=') + 1)), std::string::npos);
    EXPECT_EQ(text.find(unused.substr(unused.find("#login=") + 7)), std::string::npos);
    EXPECT_EQ(olga.post("v1/admin/logins/" + ids[1] + "/end").status, 200);
    EXPECT_EQ(otto.get("v1/admin/status").status, 401);
    EXPECT_EQ(olga.get("v1/admin/status").status, 200);
    EXPECT_EQ(olga.post("v1/admin/logins/" + ids[1] + "/end").status, 404);
    const CommandResult listed = run_command(home, {"gateway", "logins"});
    EXPECT_NE(listed.output.find(ids[2] + "\tviewer\tvera"), std::string::npos) << listed.output;
    EXPECT_EQ(run_command(home, {"gateway", "logout", ids[2]}).status, 0);
    Browser late = stranger();
    EXPECT_EQ(late.log_in(unused).status, 401);
    JsonObject logged;
    do {
        logged = gateway->wait_for("gateway.operated");
    } while (logged.at("operation") != "logout");
    EXPECT_EQ(logged.at("by"), "olga");
    EXPECT_EQ(detail::text_member(logged, "target"), ids[1]);
}

}  // namespace
}  // namespace cubepi::gateway_tests
