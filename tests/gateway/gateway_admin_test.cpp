// The operations on a running gateway, by the control socket and by the routes of gateway.admin, for each role.

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>

#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/net/http_server.hpp>

#include "gateway/control_server.hpp"
#include "operated_gateway.hpp"

namespace cubepi::gateway_tests {
namespace {

constexpr const char* viewer = "viewer-0123456789";
constexpr const char* olga = "operator-0123456789";
constexpr const char* admin =
    R"(, admin: {listen: "127.0.0.1:0", viewer_token_env: VIEWER, operator_token_env: OPERATOR})";

std::uint16_t free_port() {
    boost::asio::io_context context;
    HttpServer server(context.get_executor());
    server.open();
    return server.port();
}

class AdminTest : public OperatedGatewayTest {
protected:
    AdminTest() { configure(admin); }

    void start(std::vector<std::string> flags) {
        OperatedGatewayTest::start(
            std::move(flags), {std::string("VIEWER=") + viewer, std::string("OPERATOR=") + olga});
    }
    void start() { start(model.flags()); }
    HttpReply call(const std::string& method, const std::string& path, const std::string& token,
                   const std::string& body = {}) const {
        return run(call_with_token(ports.at("admin"), method, "/v1/admin/" + path, token, body));
    }
    HttpReply get(const std::string& path) const { return call("GET", path, viewer); }
    HttpReply post(const std::string& path, const std::string& body = {}) const {
        return call("POST", path, olga, body);
    }
    /// Sends a request to the control socket; an error becomes the member `error`.
    JsonObject socket(JsonObject request) const {
        try {
            return app::call_gateway(home.socket(), request);
        } catch (const Error& error) {
            return JsonObject{{"error", error.what()}};
        }
    }
    std::future<HttpReply> ask(const std::string& text, const std::string& session = "s1") const {
        return post_later(ports.at("http"), text, session);
    }
    static std::string error_of(const HttpReply& reply) {
        const JsonObject all = reply.json();
        const JsonObject* const error = detail::object_member(all, "error");
        return error ? detail::text_member(*error, "message") : std::string();
    }
    static std::string path_of(const app::GatewayOperation& operation, const std::string& value) {
        return OperatedGatewayTest::path_of(operation, value)
            .substr(std::string_view("v1/admin/").size());
    }
};

TEST_F(AdminTest, D108_Tokens_DecideWhoMayDoWhat) {
    start();
    for (const app::GatewayOperation& operation : app::gateway_operations()) {
        const std::string method(operation.method);
        const std::string path = path_of(operation, "x");
        for (const char* wrong : {"", "0123456789abcdef", "viewer-012345678", "é"}) {
            const HttpReply refused = call(method, path, wrong, "no JSON");
            EXPECT_EQ(refused.status, 401) << path;
            EXPECT_EQ(error_of(refused), "the bearer token is missing or wrong");
        }
        const HttpReply viewed = call(method, path, viewer, "no JSON");
        if (operation.role == app::GatewayRole::operator_) {
            EXPECT_EQ(viewed.status, 403) << path << viewed.body;
        } else {
            EXPECT_NE(viewed.status, 401) << path;
            EXPECT_NE(viewed.status, 403) << path << viewed.body;
            EXPECT_EQ(call(method, path, olga).status, viewed.status) << path;
        }
    }
    EXPECT_NE(get("status").body.find(R"({"key":"gateway.max_waiting","value":"32 messages)"),
              std::string::npos)
        << get("status").body;
    EXPECT_EQ(get("status").json().at("state"), "running") << "a viewer has ended nothing";
    EXPECT_EQ(run(call_with_token(ports.at("http"), "GET", "/v1/sessions/s1", olga)).status, 401);
    EXPECT_EQ(gateway->output().find("gateway.operated"), std::string::npos);
}

TEST_F(AdminTest, D108_SharedAddress_HasSeparateTokens) {
    home.configure("{listen: \"127.0.0.1:" + std::to_string(free_port()) + "\", http: {}" +
                   R"(, admin: {operator_token_env: OPERATOR}})");
    start();
    ASSERT_EQ(ports.at("admin"), ports.at("http"));
    EXPECT_EQ(call("GET", "status", olga).status, 200);
    EXPECT_EQ(call("GET", "status", viewer).status, 401) << "not configured";
    EXPECT_EQ(call("GET", "status", "").status, 401);
    EXPECT_EQ(run(call_channel(ports.at("http"), "GET", "/v1/admin/status")).status, 401);
    EXPECT_EQ(run(call_with_token(ports.at("http"), "GET", "/v1/sessions/s1", olga)).status, 401);
}

TEST_F(AdminTest, D58_CommandsOfModel_DoNotGetTokens) {
    configure(std::string(admin) + R"(, rules: [{allow: ["shell: cd * && printenv"]}])");
    start();
    EXPECT_EQ(ask("run printenv").get().text(), "re: run printenv");
    const std::string result = model.wait_for("run printenv", 2);
    EXPECT_NE(result.find("PATH=/usr/bin:/bin"), std::string::npos) << result;
    for (const char* token : {viewer, olga})
        EXPECT_EQ(result.find(token), std::string::npos) << result;
}

TEST_F(AdminTest, D108_Views_AreThoseOfTheSocket) {
    start();
    model.hold("wait");
    auto waits = ask("wait", "s2");
    (void)model.wait_for("wait");
    auto queued = ask("queued", "s2");
    while (get("status").json().at("waiting_messages") != 1) {
    }
    for (const char* name : {"status", "sessions", "held", "questions"}) {
        const HttpReply viewed = get(name);
        EXPECT_EQ(viewed.status, 200) << viewed.body;
        EXPECT_TRUE(viewed.json() == socket(JsonObject{{"command", name}})) << viewed.body;
    }
    EXPECT_EQ(boost::json::serialize(get("sessions").json()),
              R"({"sessions":[{"session":"http:s2","running":true,"waiting":1,"steering":0}]})");
    EXPECT_EQ(run_command(home, {"gateway", "sessions", "--json"}).output,
              boost::json::serialize(get("sessions").json()) + "\n");
    model.release();
    EXPECT_EQ(queued.get().text(), "re: queued");
}

TEST_F(AdminTest, D108_ManySessions_AreListedInPages) {
    start();
    std::vector<std::future<HttpReply>> asked;
    for (const char* session : {"a", "b", "c"}) {
        model.hold(session);
        asked.push_back(ask(session, session));
        (void)model.wait_for(session);
    }
    const JsonObject first = get("sessions?limit=2").json();
    EXPECT_EQ(first.at("sessions").as_array().size(), 2u);
    EXPECT_EQ(first.at("next"), "http:b");
    const JsonObject second = get("sessions?limit=2&after=http%3Ab").json();
    EXPECT_EQ(second.at("sessions").at(0).at("session"), "http:c");
    EXPECT_FALSE(second.contains("next"));
    EXPECT_EQ(
        socket(JsonObject{{"command", "sessions"}, {"limit", 0}}).at("sessions").as_array().size(),
        1u);
    EXPECT_EQ(get("sessions?limit=all").status, 400);
    model.release();
}

constexpr const char* delegates =
    R"({"tokens_per_second": 100000, "answers": [{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1",
        "name": "subagent", "arguments": {"prompt": "help", "session": "helper"}}]}, "It is done.", "Done."]})";

TEST_F(AdminTest, D100_History_IncludesSessionsOfSubagents) {
    configure(std::string(admin) + R"(, rules: [{allow: ["subagent: *"]}])");
    start({"--script", home.script(delegates)});
    EXPECT_EQ(ask("one").get().text(), "Done.");
    const HttpReply newest = get("sessions/http%3As1?limit=1");
    EXPECT_EQ(newest.json().at("session"), "http:s1") << newest.body;
    EXPECT_EQ(newest.json().at("messages").at(0).at("text"), "Done.");
    const std::string before = std::to_string(newest.json().at("before").as_int64());
    const HttpReply older = get("sessions/http:s1?before=" + before);
    EXPECT_EQ(older.json().at("messages").at(0).at("text"), "one") << older.body;
    const HttpReply helper = get("sessions/http%3As1%2Fagent%2Fhelper");
    EXPECT_EQ(helper.json().at("session"), "http:s1/agent/helper") << helper.body;
    EXPECT_NE(helper.body.find("It is done."), std::string::npos) << helper.body;
    const JsonObject request{{"command", "history"}, {"id", "http:s1/agent/helper"}};
    EXPECT_TRUE(helper.json() == socket(request)) << helper.body;
    // A session of that name is unknown, and clients of the channel cannot name the sub-agent's.
    EXPECT_EQ(get("sessions/http%3As1%252Fagent%252Fhelper").status, 404);
    const std::string of_channel = "/v1/sessions/s1%2Fagent%2Fhelper";
    EXPECT_EQ(run(call_channel(ports.at("http"), "GET", of_channel)).status, 400);
}

TEST_F(AdminTest, D96_Stop_EndsOneTurnOnce) {
    start();
    for (const char* text : {"one", "two"}) {
        model.hold(text);
        auto asked = ask(text);
        (void)model.wait_for(text);
        const bool by_http = std::string_view(text) == "one";
        if (by_http) {
            const HttpReply stopped = post("sessions/http%3As1/stop");
            EXPECT_EQ(stopped.json().at("ok"), true) << stopped.body;
        } else {
            const JsonObject request{{"command", "stop"}, {"id", "http:s1"}};
            EXPECT_EQ(socket(request).at("ok"), true);
        }
        EXPECT_NE(asked.get().body.find("The turn was stopped."), std::string::npos);
        const HttpReply again = post("sessions/http%3As1/stop");
        EXPECT_EQ(again.status, 409) << again.body;
        EXPECT_NE(error_of(again).find("no turn is running in the session 'http:s1'"),
                  std::string::npos);
        const JsonObject logged = gateway->wait_for("gateway.operated");
        EXPECT_EQ(logged.at("operation"), "stop");
        EXPECT_EQ(logged.at("target"), "http:s1");
        EXPECT_EQ(logged.at("outcome"), "ok");
        EXPECT_EQ(logged.at("address"), by_http ? "127.0.0.1" : "control socket");
        EXPECT_EQ(logged.at("by") == "operator token", by_http);
        EXPECT_EQ(gateway->wait_for("gateway.operated").at("outcome"), "invalid_state");
    }
    EXPECT_EQ(gateway->output().find(olga), std::string::npos);
}

TEST_F(AdminTest, D90_HeldMessage_IsDecidedOnce) {
    for (int times = 0; times < 2; ++times) {
        for (const char* text : {"one", "two"}) model.hold(text);
        start();
        std::vector<std::future<HttpReply>> lost;
        if (times == 0) {
            lost.push_back(ask("one", "s1"));
            lost.push_back(ask("two", "s2"));
        }
        for (const char* text : {"one", "two"})
            (void)model.wait_for(text, static_cast<std::size_t>(times) + 1);
        gateway->kill();
    }
    start();
    model.release();
    JsonObject held = get("held").json();
    ASSERT_EQ(held.at("messages").as_array().size(), 2u) << boost::json::serialize(held);
    // They were sent at the same time, so that either may be the first.
    const bool swapped = held.at("messages").at(0).at("text") != "one";
    const auto id = [&held, swapped](std::size_t at) {
        const std::size_t place = swapped ? 1 - at : at;
        return std::string(held.at("messages").at(place).at("id").as_string());
    };
    EXPECT_EQ(call("POST", "held/" + id(0) + "/release", viewer).status, 403);
    std::vector<std::future<HttpReply>> releases;
    for (int i = 0; i < 4; ++i) {
        releases.push_back(std::async(std::launch::async,
                                      [this, &id] { return post("held/" + id(0) + "/release"); }));
    }
    int released = 0;
    for (auto& one : releases) {
        const int status = one.get().status;
        EXPECT_TRUE(status == 200 || status == 404 || status == 409) << status;
        released += status == 200 ? 1 : 0;
    }
    EXPECT_EQ(released, 1);
    (void)model.wait_for("one", 3);
    EXPECT_EQ(post("held/" + id(1) + "/discard").status, 200);
    EXPECT_EQ(post("held/" + id(1) + "/discard").status, 404);
    EXPECT_NE(socket(JsonObject{{"command", "release"}, {"id", id(1)}})
                  .at("error")
                  .as_string()
                  .find("no held message or answer has the id"),
              boost::json::string::npos);
    EXPECT_EQ(run_command(home, {"gateway", "held"}).output, "Nothing is held.\n");
    EXPECT_EQ(model.count("one"), 3u);
    EXPECT_EQ(model.count("two"), 2u);
}

constexpr const char* writes_files =
    R"({"tokens_per_second": 100000, "answers": [{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1",
        "name": "write", "arguments": {"path": "a.txt", "content": "a"}}]}, {"stop_reason": "tool_use", "content": [{"type":
        "tool_call", "id": "c2", "name": "write", "arguments": {"path": "b.txt", "content": "b"}}]}, "Done."]})";

TEST_F(AdminTest, D108_Questions_AreShownAndAnswered) {
    start({"--script", home.script(writes_files)});
    (void)ask("write").get();
    const HttpReply list = get("questions");
    ASSERT_EQ(list.json().at("questions").as_array().size(), 1u) << list.body;
    const std::string first(list.json().at("questions").at(0).at("id").as_string());
    const HttpReply shown = get("questions/" + first);
    EXPECT_EQ(shown.json().at("asker").at("session"), "http:s1") << shown.body;
    const JsonObject request{{"command", "question"}, {"question", first}};
    EXPECT_TRUE(shown.json() == socket(request)) << shown.body;
    EXPECT_EQ(call("POST", "questions/" + first + "/approve", viewer).status, 403);
    EXPECT_EQ(post("questions/" + first + "/explode").status, 400);
    EXPECT_EQ(post("questions/" + first + "/answer", R"({"text": "what?"})").status, 400);
    // The path names the question, not the body.
    const HttpReply answered =
        post("questions/" + first + "/approve", R"({"question": "x", "action": "deny"})");
    EXPECT_EQ(answered.json().at("session"), "http:s1") << answered.body;
    std::string second = first;
    while (second == first) {
        const JsonObject open = get("questions").json();
        const JsonArray& questions = open.at("questions").as_array();
        if (!questions.empty()) second = questions.at(0).at("id").as_string();
    }
    const HttpReply late = post("questions/" + first + "/approve");
    EXPECT_EQ(late.status, 409) << late.body;
    EXPECT_NE(late.body.find("operator token has approved it before"), std::string::npos)
        << late.body;
    EXPECT_EQ(post("questions/" + second + "/deny", R"({"text": "not this one"})").status, 200);
    while (get("sessions/http%3As1").json().at("state") != "idle") {
    }
    const HttpReply history = get("sessions/http%3As1");
    EXPECT_NE(history.body.find("not this one"), std::string::npos) << history.body;
    const JsonObject logged = gateway->wait_for("gateway.operated");
    EXPECT_EQ(logged.at("operation"), "answer");
}

TEST_F(AdminTest, D108_AnswersAtOnce_OneIsAccepted) {
    start({"--script", home.script(writes_files)});
    (void)ask("write").get();
    const JsonObject open = get("questions").json();
    const std::string id(open.at("questions").at(0).at("id").as_string());
    std::vector<std::pair<std::string, std::future<HttpReply>>> answers;
    for (const char* action : {"approve", "deny", "deny", "deny"}) {
        answers.emplace_back(action, std::async(std::launch::async, [this, id, action] {
                                 return post("questions/" + id + "/" + action,
                                             R"({"text": "not this one"})");
                             }));
    }
    std::vector<std::string> accepted;
    for (auto& [action, answer] : answers) {
        const HttpReply reply = answer.get();
        EXPECT_TRUE(reply.status == 200 || reply.status == 404 || reply.status == 409)
            << reply.body;
        if (reply.status == 200) accepted.push_back(action);
    }
    ASSERT_EQ(accepted.size(), 1u);
    // The next question is stored before the turn with the answer ends.
    HttpReply history = get("sessions/http%3As1");
    while (history.json().at("state") != "waiting" ||
           history.body.find("\"c2\"") == std::string::npos) {
        history = get("sessions/http%3As1");
    }
    EXPECT_EQ(history.body.find("not this one") != std::string::npos, accepted.front() == "deny")
        << history.body;
}

TEST_F(AdminTest, D108_AdminAndChatAtOnce_OneAnswerCounts) {
    start({"--script", home.script(writes_files)});
    const HttpReply asked = ask("write").get();
    const std::string name(
        asked.json().at("outputs").at(0).at("question").at("request_id").as_string());
    const JsonObject open = get("questions").json();
    const std::string id(open.at("questions").at(0).at("id").as_string());
    auto in_chat = std::async(std::launch::async, [this, name] {
        const JsonObject answer{{"decision", "deny"}, {"reason", "not this one"}};
        return run(post_message(
            ports.at("http"),
            {{"session", "s1"}, {"answer_to", name}, {"answer", answer}, {"user", "olga"}}));
    });
    const HttpReply by_admin = post("questions/" + id + "/approve");
    const HttpReply by_chat = in_chat.get();
    const bool chat_won = by_chat.json().at("ok") == true;
    // The answer of the operator is a message of the session, which may be queued after that of the chat (D242).
    const std::string state = detail::text_member(by_admin.json(), "state");
    if (chat_won) {
        EXPECT_TRUE(by_admin.status == 404 || by_admin.status == 409 || state == "waiting")
            << by_admin.body;
    } else {
        EXPECT_EQ(by_admin.status, 200) << by_admin.body;
    }
    if (by_admin.status == 409) {
        EXPECT_NE(by_admin.body.find("It was denied before by olga"), std::string::npos)
            << by_admin.body;
    }
    if (!chat_won) {
        EXPECT_NE(by_chat.body.find("already answered"), std::string::npos) << by_chat.body;
    }
    // The next question is stored before the turn with the answer ends.
    HttpReply history = get("sessions/http%3As1");
    while (history.json().at("state") != "waiting" ||
           history.body.find("\"c2\"") == std::string::npos) {
        history = get("sessions/http%3As1");
    }
    EXPECT_EQ(history.body.find("not this one") != std::string::npos, chat_won) << history.body;
}

TEST_F(AdminTest, D108_HostileNames_AreRefused) {
    start();
    EXPECT_EQ(ask("one").get().status, 200);
    for (const app::GatewayOperation& operation : app::gateway_operations()) {
        if (operation.required.empty()) continue;
        const std::string method(operation.method);
        for (const std::string& name :
             {std::string("%00"), std::string("%FF"), std::string("a%0Ab"), std::string("%C3%28"),
              std::string("%7F"), std::string(1'025, 'x')}) {
            const HttpReply refused = call(method, path_of(operation, name), olga);
            EXPECT_EQ(refused.status, 400) << path_of(operation, name) << refused.body;
        }
        for (const char* name : {"..%2F..%2Fetc%2Fpasswd", "%2e%2e", "%252e%252e%252f", "http%3As2",
                                 "http%253As1", "cli%3Aplan", "%24%28id%29", "%F0%9F%92%A9", "__",
                                 "774db28f68ad5a7d__f9581ef9d0836099"}) {
            const HttpReply unknown = call(method, path_of(operation, name), olga);
            EXPECT_TRUE(unknown.status >= 400 && unknown.status < 500)
                << path_of(operation, name) << unknown.status << unknown.body;
        }
        JsonObject request{{"command", operation.name}, {"action", "approve"}};
        for (Json value : {Json(""), Json(5), Json(nullptr), Json("a\nb"), Json(JsonArray())}) {
            request[operation.required] = value;
            EXPECT_TRUE(socket(request).contains("error")) << boost::json::serialize(request);
        }
    }
    for (const char* query : {"after=%00", "after=%", "after=a%0Ab", "limit=-1", "limit=1e99"})
        EXPECT_EQ(get(std::string("sessions?") + query).status, 400) << query;
    EXPECT_EQ(get("questions?after=no-cursor").status / 100, 4);
    EXPECT_EQ(get("questions?limit=%FF").status, 400);
    for (Json command : {Json("explode"), Json(), Json(5), Json(JsonArray())}) {
        const JsonObject unknown = socket(JsonObject{{"command", command}});
        EXPECT_NE(detail::text_member(unknown, "error").find("does not know the command"),
                  std::string::npos)
            << boost::json::serialize(unknown);
    }
    for (const char* body : {"[]", "{", "\"x\"", "5"})
        EXPECT_EQ(post("sessions/http%3As1/stop", body).status, 400) << body;
    EXPECT_EQ(post("sessions/http%3As1/stop", std::string(100'000, ' ')).status, 413);
    EXPECT_EQ(get("status").status, 200);
}

TEST_F(AdminTest, D90_FailedReload_SaysWhy) {
    start();
    configure(std::string(admin) + ", threads: many");
    const HttpReply refused = post("reload");
    EXPECT_EQ(refused.status, 409) << refused.body;
    EXPECT_NE(error_of(refused).find("gateway.threads must be"), std::string::npos);
    configure(R"(, admin: {viewer_token_env: NO_SUCH_VARIABLE})");
    EXPECT_NE(error_of(post("reload")).find("NO_SUCH_VARIABLE is not set"), std::string::npos);
    configure(R"(, admin: {viewer_token_env: VIEWER, operator_token_env: VIEWER})");
    EXPECT_NE(error_of(post("reload")).find("must differ"), std::string::npos);
    configure(R"(, admin: {viewer_token_env: VIEWER, operator_token_env: CUBEPI_HTTP_TOKEN})");
    EXPECT_NE(error_of(post("reload")).find("which clients of a channel have"), std::string::npos);
    EXPECT_EQ(get("status").json().at("state"), "running");

    model.hold("one");
    auto one = ask("one");
    (void)model.wait_for("one");
    // Another server: the request that reloads is answered by the one that ends.
    configure(R"(, admin: {listen: "127.0.0.1:)" + std::to_string(free_port()) +
              R"(", viewer_token_env: OPERATOR})");
    auto reloading = std::async(std::launch::async, [this] { return post("reload"); });
    while (get("status").json().at("state") != "reloading") {
    }
    EXPECT_EQ(post("reload").status, 409);
    model.release();
    EXPECT_EQ(one.get().text(), "re: one");
    const HttpReply reloaded = reloading.get();
    EXPECT_EQ(reloaded.status, 200) << reloaded.body;
    const std::uint16_t before = ports.at("admin");
    wait_until_running();
    EXPECT_NE(ports.at("admin"), before);
    EXPECT_EQ(call("GET", "status", viewer).status, 401);
    EXPECT_EQ(call("GET", "status", olga).status, 200);
    EXPECT_EQ(call("POST", "drain", olga).status, 403) << "no token of operators";
}

TEST_F(AdminTest, D108_NoToken_NothingIsServed) {
    configure(R"(, admin: {listen: "127.0.0.1:0"})");
    start();
    EXPECT_FALSE(ports.contains("admin"));
    EXPECT_EQ(run(call_with_token(ports.at("http"), "GET", "/v1/admin/status", viewer)).status,
              404);
    const CommandResult doctor = run_command(home, {"doctor", "--offline"});
    EXPECT_NE(doctor.output.find("gateway.admin has no token"), std::string::npos) << doctor.output;
}

TEST_F(AdminTest, B27_DrainDuringCalls_AnswersThem) {
    start();
    model.hold("one");
    auto one = ask("one");
    (void)model.wait_for("one");
    std::atomic<bool> over = false;
    auto calls = std::async(std::launch::async, [this, &over] {
        int answered = 0;
        while (!over) {
            for (const char* path : {"status", "sessions", "held", "questions"}) {
                const int status = get(path).status;
                EXPECT_TRUE(status == 200 || status == 0) << status;
                answered += status == 200 ? 1 : 0;
            }
            (void)socket(JsonObject{{"command", "held"}});
        }
        return answered;
    });
    EXPECT_EQ(post("drain").status, 200);
    EXPECT_EQ(get("status").json().at("state"), "draining");
    EXPECT_EQ(post("reload").status, 409);
    model.release();
    EXPECT_EQ(one.get().text(), "re: one");
    EXPECT_EQ(gateway->wait(), 0) << gateway->output();
    over = true;
    EXPECT_GT(calls.get(), 0);
}

}  // namespace
}  // namespace cubepi::gateway_tests
