// Clients of OpenAI's protocols at the channel http (D193 to D195).

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "echo_model.hpp"
#include "openai_gateway.hpp"

namespace cubepi::gateway_tests {
namespace {

class GatewayOpenAI : public OpenAIGateway {
protected:
    EchoModel model;
};

TEST_F(GatewayOpenAI, Routes_NeedTheSetting) {
    home.configure(R"({http: {listen: "127.0.0.1:0"}})");
    start(model.flags());
    EXPECT_EQ(get("/v1/models").status, 404);
}

TEST_F(GatewayOpenAI, ChatCompletion_IsAnswered) {
    start(model.flags());
    const HttpReply refused = run(call_with_token(port, "GET", "/v1/models", ""));
    EXPECT_EQ(refused.status, 401);
    const JsonObject error = refused.json().at("error").as_object();
    EXPECT_EQ(error.at("code"), "invalid_api_key") << refused.body;
    EXPECT_TRUE(error.contains("type") && error.contains("param")) << refused.body;
    EXPECT_EQ(get("/v1/models").json().at("data").at(0).at("id"), Json("cubepi"));
    EXPECT_EQ(get("/v1/models/cubepi").status, 200);
    EXPECT_EQ(get("/v1/models/gpt-5").status, 404);
    const HttpReply answer = chat(user("hello"));
    ASSERT_EQ(answer.status, 200) << answer.body;
    const Json choice = answer.json().at("choices").at(0);
    EXPECT_EQ(choice.at("message").at("content"), Json("re: hello"));
    EXPECT_EQ(choice.at("finish_reason"), Json("stop"));
    const HttpReply other =
        call("POST", "/v1/chat/completions", {{"model", "gpt-5"}, {"messages", user("hello")}});
    EXPECT_EQ(other.status, 404);
    EXPECT_EQ(other.json().at("error").at("code"), Json("model_not_found"));
    const HttpReply tools = chat(user("hello"), {{"tools", JsonArray({JsonObject{{"a", 1}}})}});
    EXPECT_EQ(tools.status, 400);
    EXPECT_EQ(tools.json().at("error").at("param"), Json("tools[0].type"));
    EXPECT_EQ(chat(user("/stop")).status, 400);
}

TEST_F(GatewayOpenAI, Conversation_ReachesTheModel) {
    start(model.flags());
    const Json messages =
        JsonArray({JsonObject{{"role", "system"}, {"content", "Be brief."}},
                   JsonObject{{"role", "user"}, {"content", "first"}},
                   JsonObject{{"role", "assistant"}, {"content", "the first answer"}},
                   JsonObject{{"role", "user"}, {"content", "second"}}});
    EXPECT_EQ(chat(messages).status, 200);
    const std::string asked = model.wait_for("second");
    EXPECT_NE(asked.find("Be brief."), std::string::npos) << asked;
    EXPECT_NE(asked.find("the first answer"), std::string::npos) << asked;
    // A session that the client names has what precedes the message.
    const JsonObject in_session{{"metadata", JsonObject{{"session", "s1"}}}};
    EXPECT_EQ(chat(user("third"), in_session).status, 200);
    EXPECT_EQ(chat(JsonArray({JsonObject{{"role", "user"}, {"content", "not repeated"}},
                              JsonObject{{"role", "user"}, {"content", "fourth"}}}),
                   in_session)
                  .status,
              200);
    const std::string next = model.wait_for("fourth");
    EXPECT_NE(next.find("re: third"), std::string::npos) << next;
    EXPECT_EQ(next.find("not repeated"), std::string::npos) << next;
}

TEST_F(GatewayOpenAI, Streams_HaveTheWholeAnswer) {
    start(model.flags());
    const HttpReply chunks = chat(user("hello"), {{"stream", true}});
    EXPECT_TRUE(chunks.body.ends_with("data: [DONE]\n\n")) << chunks.body;
    std::string text;
    for (const JsonObject& chunk : events_of(chunks.body)) {
        const Json& delta = chunk.at("choices").at(0).at("delta");
        if (const Json* piece = delta.as_object().if_contains("content"))
            text += std::string_view(piece->as_string());
    }
    EXPECT_EQ(text, "re: hello");
    const HttpReply streamed = respond("hello", {{"stream", true}});
    const std::vector<JsonObject> events = events_of(streamed.body);
    ASSERT_FALSE(events.empty()) << streamed.body;
    std::string deltas;
    for (std::size_t i = 0; i < events.size(); ++i) {
        EXPECT_EQ(events[i].at("sequence_number").to_number<std::size_t>(), i);
        if (events[i].at("type") == Json("response.output_text.delta"))
            deltas += std::string_view(events[i].at("delta").as_string());
    }
    EXPECT_EQ(deltas, "re: hello");
    EXPECT_EQ(events.back().at("type"), Json("response.completed"));
    EXPECT_EQ(text_of(events.back().at("response").as_object()), "re: hello");
}

TEST_F(GatewayOpenAI, D193_PreviousResponse_ContinuesItsSession) {
    start(model.flags());
    const HttpReply first = respond("one", {{"instructions", "Be brief."}});
    ASSERT_EQ(first.status, 200) << first.body;
    EXPECT_EQ(first.json().at("status"), Json("completed"));
    EXPECT_EQ(text_of(first.json()), "re: one");
    const std::string id(first.json().at("id").as_string());
    const HttpReply second = respond("two", {{"previous_response_id", id}});
    EXPECT_EQ(text_of(second.json()), "re: two") << second.body;
    EXPECT_EQ(second.json().at("previous_response_id"), Json(id));
    EXPECT_NE(model.wait_for("two").find("re: one"), std::string::npos);
    // An id is bound to the token that made it.
    std::string changed = id;
    changed.back() = changed.back() == '0' ? '1' : '0';
    for (const std::string& other : {changed, std::string("resp_1"), id.substr(0, 60)}) {
        const HttpReply refused = respond("x", {{"previous_response_id", other}});
        EXPECT_EQ(refused.status, 400) << refused.body;
        EXPECT_EQ(refused.json().at("error").at("code"), Json("previous_response_not_found"));
        EXPECT_EQ(get("/v1/responses/" + other).status, 404);
        EXPECT_EQ(call("POST", "/v1/responses/" + other + "/cancel", JsonObject()).status, 404);
    }
    EXPECT_EQ(model.count("x"), 0u);
    // A response that is not stored cannot be read or continued.
    const HttpReply unstored = respond("three", {{"store", false}});
    EXPECT_EQ(text_of(unstored.json()), "re: three");
    const std::string unstored_id(unstored.json().at("id").as_string());
    EXPECT_EQ(get("/v1/responses/" + unstored_id).status, 404);
    EXPECT_EQ(respond("x", {{"previous_response_id", unstored_id}}).status, 400);
}

TEST_F(GatewayOpenAI, D194_BackgroundResponse_IsReadFromAnyEvent) {
    model.hold("slow");
    start(model.flags());
    const HttpReply created = respond("slow", {{"background", true}});
    ASSERT_EQ(created.status, 200) << created.body;
    EXPECT_EQ(created.json().at("status"), Json("in_progress"));
    const std::string path = "/v1/responses/" + std::string(created.json().at("id").as_string());
    model.wait_for("slow");
    EXPECT_EQ(get(path).json().at("status"), Json("in_progress"));
    {
        Client reader(port, "GET " + path + "?stream=true", "");
        reader.read_until("response.in_progress");
    }
    model.release();
    const HttpReply resumed = get(path + "?stream=true&starting_after=1");
    const std::vector<JsonObject> events = events_of(resumed.body);
    ASSERT_FALSE(events.empty()) << resumed.body;
    EXPECT_EQ(events.front().at("sequence_number"), Json(2));
    EXPECT_EQ(text_of(events.back().at("response").as_object()), "re: slow");
    EXPECT_EQ(text_of(get(path).json()), "re: slow");
    EXPECT_EQ(get(path + "?stream=true&starting_after=x").status, 400);
    EXPECT_EQ(events_of(get(path + "?stream=true&starting_after=1099511627776").body).size(), 0u);
    // After a restart the records have the answer.
    gateway->kill();
    start(model.flags());
    EXPECT_EQ(get(path).json().at("status"), Json("completed"));
    EXPECT_EQ(text_of(get(path).json()), "re: slow");
    const std::vector<JsonObject> last =
        events_of(get(path + "?stream=true&starting_after=7").body);
    ASSERT_EQ(last.size(), 1u);
    EXPECT_EQ(last[0].at("sequence_number"), Json(8));
    EXPECT_EQ(text_of(last[0].at("response").as_object()), "re: slow");
}

TEST_F(GatewayOpenAI, D194_DisconnectedClient_EndsItsTurnOnly) {
    for (const char* const text : {"a", "b", "c", "d"}) model.hold(text);
    start(model.flags());
    const auto ask = [&](const std::string& path, const std::string& input, const std::string& text,
                         const std::string& more) {
        const std::string body = R"({"model":"cubepi",)" + input + R"(,"metadata":{"session":")" +
                                 text + "\"}" + more + "}";
        return std::make_unique<Client>(port, "POST " + path, body);
    };
    const std::string message = R"("messages":[{"role":"user","content":")";
    auto whole = ask("/v1/chat/completions", message + "a\"}]", "a", "");
    auto chunks = ask("/v1/chat/completions", message + "b\"}]", "b", R"(,"stream":true)");
    auto events = ask("/v1/responses", R"("input":"c")", "c", R"(,"stream":true)");
    auto background =
        ask("/v1/responses", R"("input":"d")", "d", R"(,"stream":true,"background":true)");
    for (const char* const text : {"a", "b", "c", "d"}) model.wait_for(text);
    background->read_until("response.in_progress");
    for (const auto& client : {whole.get(), chunks.get(), events.get(), background.get()})
        client->close();
    for (const char* const session : {"a", "b", "c"})
        wait_until([&] { return session_state(session) == "idle"; });
    EXPECT_EQ(session_state("d"), "running");
    model.release();
    wait_until([&] { return session_state("d") == "idle"; });
    EXPECT_NE(get("/v1/sessions/d").body.find("re: d"), std::string::npos);
    EXPECT_EQ(get("/v1/sessions/a").body.find("re: a"), std::string::npos);
}

TEST_F(GatewayOpenAI, D217_Key_HasItsSessionsAndLimit) {
    home.configure(
        R"({http: {listen: "127.0.0.1:0", openai: true, keys: ["ann=ANN_TOKEN", "bob=BOB_TOKEN"], key_turns: 1}})");
    start(model.flags(),
          {"ANN_TOKEN=token-of-ann-0123456789", "BOB_TOKEN=token-of-bob-0123456789"});
    const auto ask = [&](const std::string& user, JsonObject body) {
        body["model"] = "cubepi";
        return run(call_with_token(port, "POST", "/v1/responses",
                                   "token-of-" + user + "-0123456789",
                                   boost::json::serialize(body)));
    };
    const JsonObject named{{"session", "s1"}};
    const HttpReply first = ask("ann", {{"input", "one"}, {"metadata", named}});
    ASSERT_EQ(first.status, 200) << first.body;
    // The same name is a session of its own for another key, and an id is bound to its key.
    EXPECT_EQ(ask("bob", {{"input", "two"}, {"metadata", named}}).status, 200);
    EXPECT_EQ(model.wait_for("two").find("re: one"), std::string::npos);
    wait_until([&] { return session_state("ann:s1") == "idle"; });
    const JsonObject next{{"input", "three"}, {"previous_response_id", first.json().at("id")}};
    EXPECT_EQ(ask("bob", next).status, 400);
    EXPECT_EQ(text_of(ask("ann", next).json()), "re: three");
    // A key opens no other route of the channel, and names no other user.
    const HttpReply other =
        run(call_with_token(port, "GET", "/v1/sessions/ann:s1", "token-of-ann-0123456789"));
    EXPECT_EQ(other.status, 401);
    EXPECT_EQ(run(call_with_token(port, "GET", "/v1/models", "token-of-eve-0123456789")).status,
              401);
    EXPECT_EQ(get("/v1/models").status, 200);
    model.hold("slow");
    EXPECT_EQ(ask("ann", {{"input", "slow"}, {"background", true}}).status, 200);
    const HttpReply limited = ask("ann", {{"input", "four"}});
    EXPECT_EQ(limited.status, 429) << limited.body;
    EXPECT_EQ(text_of(ask("bob", {{"input", "five"}}).json()), "re: five");
    model.release();
}

TEST_F(GatewayOpenAI, D217_RequestsAtOnce_HoldTheLimit) {
    home.configure(
        R"({http: {listen: "127.0.0.1:0", openai: true, keys: ["ann=ANN_TOKEN"], key_turns: 2}})");
    const std::string token = "token-of-ann-0123456789";
    model.hold("slow");
    start(model.flags(), {"ANN_TOKEN=" + token});
    const auto ask = [&](const std::string& path) {
        return run(call_with_token(port, "POST", path, token,
                                   R"({"model":"cubepi","input":"slow"})"))
            .status;
    };
    std::vector<std::future<int>> asked;
    for (int i = 0; i < 8; ++i)
        asked.push_back(std::async(std::launch::async, ask, std::string("/v1/responses")));
    const auto answered = [&] {
        return std::count_if(asked.begin(), asked.end(), [](const std::future<int>& one) {
            return one.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
        });
    };
    // The model answers the two others later.
    wait_until([&] { return answered() == 6; });
    EXPECT_EQ(ask("/v1/responses/compact"), 429);
    model.wait_for("slow", 2);
    model.release();
    std::vector<int> statuses;
    for (std::future<int>& one : asked) statuses.push_back(one.get());
    EXPECT_EQ(std::count(statuses.begin(), statuses.end(), 200), 2);
    EXPECT_EQ(std::count(statuses.begin(), statuses.end(), 429), 6);
    EXPECT_EQ(ask("/v1/responses"), 200);
    EXPECT_EQ(model.count("slow"), 3u);
}

TEST_F(GatewayOpenAI, D216_Compaction_IsASession) {
    start(model.flags());
    const auto compact = [&](JsonObject body) {
        body["model"] = "cubepi";
        return call("POST", "/v1/responses/compact", body);
    };
    const HttpReply first = respond("one");
    const HttpReply of_session = compact({{"previous_response_id", first.json().at("id")}});
    ASSERT_EQ(of_session.status, 200) << of_session.body;
    EXPECT_EQ(of_session.json().at("usage").at("total_tokens"), Json(0));
    JsonArray input = of_session.json().at("output").as_array();
    input.push_back(user("two").at(0));
    EXPECT_EQ(text_of(respond(input).json()), "re: two");
    EXPECT_NE(model.wait_for("two").find("re: one"), std::string::npos);
    const HttpReply of_input = compact({{"input", user("three")}});
    ASSERT_EQ(of_input.status, 200) << of_input.body;
    input = of_input.json().at("output").as_array();
    input.push_back(user("four").at(0));
    EXPECT_EQ(text_of(respond(input).json()), "re: four");
    EXPECT_NE(model.wait_for("four").find("three"), std::string::npos);
    input[0].as_object()["encrypted_content"] = "resp_1";
    EXPECT_EQ(respond(input).status, 400);
    EXPECT_EQ(compact({{"previous_response_id", "resp_1"}}).status, 400);
    EXPECT_EQ(compact({}).status, 400);
}

TEST_F(GatewayOpenAI, D215_RepeatedStreams_ShareTheirTurn) {
    model.hold("a");
    model.hold("b");
    start(model.flags());
    const auto ask = [&](const std::string& path, const std::string& input,
                         const std::string& text) {
        const std::string body = R"({"model":"cubepi","stream":true,)" + input +
                                 R"(,"metadata":{"session":")" + text + "\"}}";
        return std::make_unique<Client>(port, "POST " + path, body,
                                        "Idempotency-Key: " + text + "\r\n");
    };
    const auto chat_a = [&] {
        return ask("/v1/chat/completions", R"("messages":[{"role":"user","content":"a"}])", "a");
    };
    const auto response_b = [&] { return ask("/v1/responses", R"("input":"b")", "b"); };
    auto first = chat_a();
    auto other = response_b();
    other->read_until("response.in_progress");
    model.wait_for("a");
    auto second = chat_a();
    auto third = response_b();
    third->read_until("response.in_progress");
    // The response of the second chat begins when it reads the turn of the first.
    second->read_until("\r\n\r\n");
    first->close();
    other->close();
    // A message of the same session is answered after the turn, which was not ended.
    model.release();
    second->read_until("[DONE]");
    third->read_until("response.completed");
    EXPECT_NE(second->text().find("re: a"), std::string::npos) << second->text();
    EXPECT_NE(third->text().find("re: b"), std::string::npos) << third->text();
    EXPECT_EQ(model.count("a"), 1u);
    EXPECT_EQ(model.count("b"), 1u);
}

TEST_F(GatewayOpenAI, D215_MessageOfAClosedClient_IsTakenBack) {
    model.hold("a");
    start(model.flags());
    const auto ask = [&](const std::string& text) {
        return std::make_unique<Client>(
            port, "POST /v1/responses",
            R"({"model":"cubepi","metadata":{"session":"s"},"input":")" + text + "\"}");
    };
    const auto pending = [&] {
        return get("/v1/sessions/s").json().at("pending").to_number<std::size_t>();
    };
    auto running = ask("a");
    model.wait_for("a");
    auto waiting = ask("b");
    wait_until([&] { return pending() == 1; });
    waiting->close();
    wait_until([&] { return pending() == 0; });
    EXPECT_EQ(session_state("s"), "running");
    model.release();
    running->read_until("re: a");
    EXPECT_EQ(text_of(respond("c", {{"metadata", JsonObject{{"session", "s"}}}}).json()), "re: c");
    EXPECT_EQ(model.count("b"), 0u);
}

TEST_F(GatewayOpenAI, D194_Cancel_EndsABackgroundResponse) {
    model.hold("slow");
    start(model.flags());
    const HttpReply created = respond("slow", {{"background", true}});
    const std::string path = "/v1/responses/" + std::string(created.json().at("id").as_string());
    model.wait_for("slow");
    const HttpReply cancelled = call("POST", path + "/cancel", JsonObject());
    EXPECT_EQ(cancelled.json().at("status"), Json("cancelled")) << cancelled.body;
    EXPECT_EQ(get(path).json().at("status"), Json("cancelled"));
    const HttpReply again = call("POST", path + "/cancel", JsonObject());
    EXPECT_EQ(again.json().at("status"), Json("cancelled")) << again.body;
}

TEST_F(GatewayOpenAI, TextsOfQuestion_HideNothing) {
    start({"--script", home.script(R"({"tokens_per_second": 100000, "answers": [
        {"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1", "name": "write",
            "arguments": {"path": "AGENTS.md", "content": "a\u202Eb\u2028"}}]}]})")});
    const HttpReply asked =
        call("POST", "/v1/chat/completions", {{"model", "cubepi"}, {"messages", user("write it")}});
    ASSERT_EQ(asked.status, 200) << asked.body;
    const std::string call_text =
        "Run write {\"path\":\"AGENTS.md\",\"content\":\"a<U+202E>b<U+2028>\"}?";
    const Json answer = asked.json();
    const std::string_view text =
        answer.at("choices").at(0).at("message").at("content").as_string();
    EXPECT_TRUE(text.starts_with("Always needs approval: ")) << text;
    EXPECT_NE(text.find("\n" + call_text), text.npos) << text;
    const std::string listed = run_command(home, {"inbox", "--gateway"}).output;
    EXPECT_NE(listed.find("\tAlways needs approval: "), std::string::npos) << listed;
    EXPECT_NE(listed.find(call_text), std::string::npos) << listed;
}

TEST_F(GatewayOpenAI, D195_Approval_IsAnItemWithItsAnswer) {
    start({"--script", home.script(R"({"tokens_per_second": 100000, "answers": [
        {"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1", "name": "write",
            "arguments": {"path": "new.txt", "content": "hello"}}]}, "Done."]})")});
    const HttpReply asked = respond("write it", {{"user", "ann"}});
    ASSERT_EQ(asked.status, 200) << asked.body;
    const Json item = asked.json().at("output").at(0);
    EXPECT_EQ(item.at("type"), Json("mcp_approval_request")) << asked.body;
    EXPECT_EQ(item.at("name"), Json("write"));
    const auto answer = [&](const std::string& by, bool with_previous) {
        JsonObject more{{"user", by}};
        if (with_previous) more["previous_response_id"] = asked.json().at("id");
        return respond(JsonArray({JsonObject{{"type", "mcp_approval_response"},
                                             {"approval_request_id", item.at("id")},
                                             {"approve", true}}}),
                       more);
    };
    EXPECT_EQ(answer("olga", false).status, 400);
    // The rules of the channel say who may answer.
    const HttpReply refused = answer("ann", true);
    EXPECT_EQ(refused.json().at("status"), Json("failed")) << refused.body;
    const HttpReply allowed = answer("olga", true);
    EXPECT_EQ(text_of(allowed.json()), "Done.") << allowed.body;
    bool is_written = false;
    for (const auto& entry : std::filesystem::directory_iterator(home.workspaces()))
        is_written = is_written || std::filesystem::exists(entry.path() / "new.txt");
    EXPECT_TRUE(is_written);
}

}  // namespace
}  // namespace cubepi::gateway_tests
