#include "agui.hpp"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace cubepi::app {

namespace {

using bub::HttpReplyPart;

JsonObject approval(const std::string& call) {
    JsonObject payload;
    payload["kind"] = "approve";
    payload["tool_name"] = "shell";
    payload["tool_call_id"] = call;
    payload["args"] = JsonObject{{"command", "ls"}};
    payload["details"] = nullptr;
    JsonObject request;
    request["question_id"] = call;
    request["request_id"] = "3f09c2a71b";
    request["payload"] = std::move(payload);
    request["created_at"] = 1'700'000'000.0;
    request["timeout_seconds"] = 60.0;
    return request;
}

std::string input_with(const std::string& members) {
    return R"({"threadId":"t","runId":"r","messages":[{"id":"1","role":"user","content":"hi"}])" +
           members + "}";
}

/// Returns the member of a request that its refusal names; "accepted".
std::string refused_member(const std::string& body) {
    try {
        (void)read_agui_request(body);
    } catch (const detail::OpenAIRequestError& error) {
        return error.member();
    }
    return "accepted";
}

TEST(AguiRequest, History_IsNotTaken) {
    const std::string messages = R"("messages":[
        {"id":"1","role":"system","content":"Be brief."},
        {"id":"2","role":"user","content":"old"},
        {"id":"3","role":"assistant","content":"x","toolCalls":[
            {"id":"tool_1","type":"function","function":{"name":"shell","arguments":"{\"a\":1}"}},
            {"id":"tool_2","type":"function","function":{"name":"read","arguments":"{}"}},
            {"id":"call_9","type":"function","function":{"name":"clock","arguments":"{}"}}]},
        {"id":"4","role":"tool","toolCallId":"tool_2","content":"invented"},
        {"id":"5","role":"reasoning","content":"..."},
        {"id":"6","role":"tool","toolCallId":"call_9","content":"noon"},
        {"id":"7","role":"user","content":[{"type":"text","text":"new"}]}]})";
    const AguiRequest request = read_agui_request(R"({"threadId":"t","runId":"r",)" + messages);
    ASSERT_EQ(request.client.messages.size(), 2U);
    EXPECT_EQ(request.client.messages[0].output_of, "call_9");
    EXPECT_EQ(request.client.messages[1].text, "new");
    EXPECT_EQ(request.client.instructions, "Be brief.");
    EXPECT_TRUE(request.open_calls.empty());
    const AguiRequest resumed = read_agui_request(
        R"({"threadId":"t","runId":"r","resume":[{"interruptId":"q","status":"resolved"}],)" +
        messages);
    ASSERT_EQ(resumed.open_calls.size(), 1U);
    EXPECT_EQ(resumed.open_calls[0].id, "tool_1");
    EXPECT_EQ(resumed.open_calls[0].arguments, Json(JsonObject{{"a", 1}}));
}

TEST(AguiRequest, OpenCalls_AreLimited) {
    JsonArray calls;
    JsonArray messages;
    for (int i = 0; i < 3'000; ++i) {
        const std::string id = "tool_" + std::to_string(i);
        calls.push_back(JsonObject{{"id", id}, {"function", JsonObject{{"name", "read"}}}});
    }
    messages.push_back(JsonObject{{"role", "assistant"}, {"toolCalls", std::move(calls)}});
    for (int i = 2'990; i < 3'000; ++i)
        messages.push_back(
            JsonObject{{"role", "tool"}, {"toolCallId", "tool_" + std::to_string(i)}});
    const JsonObject answer{{"interruptId", "q"}, {"status", "resolved"}};
    JsonObject body{{"threadId", "t"}, {"runId", "r"}, {"messages", std::move(messages)}};
    body["resume"] = JsonArray({Json(answer)});
    const AguiRequest request = read_agui_request(boost::json::serialize(body));
    ASSERT_EQ(request.open_calls.size(), 1'000U);
    EXPECT_EQ(request.open_calls.front().id, "tool_1990");
    EXPECT_EQ(request.open_calls.back().id, "tool_2989");
}

TEST(AguiRequest, InvalidMember_IsNamed) {
    EXPECT_EQ(refused_member("[]"), "");
    EXPECT_EQ(refused_member(R"({"runId":"r","messages":[]})"), "threadId");
    EXPECT_EQ(refused_member(R"({"threadId":"t","messages":[]})"), "runId");
    EXPECT_EQ(refused_member(R"({"threadId":"t","runId":"r","messages":{}})"), "messages");
    EXPECT_EQ(refused_member(R"({"threadId":"t","runId":"r","messages":[1]})"), "messages[0]");
    EXPECT_EQ(refused_member(R"({"threadId":"t","runId":"r","messages":[]})"), "messages");
    EXPECT_EQ(refused_member(R"({"threadId":"t","runId":"r","messages":[{"role":"root"}]})"),
              "messages[0].role");
    EXPECT_EQ(refused_member(input_with(R"(,"tools":[{"name":"x y"}])")), "tools[0].name");
    EXPECT_EQ(refused_member(input_with(R"(,"tools":[{"name":"x","parameters":[]}])")),
              "tools[0].parameters");
    EXPECT_EQ(refused_member(input_with(R"(,"resume":[{"status":"resolved"}])")),
              "resume[0].interruptId");
    EXPECT_EQ(refused_member(input_with(R"(,"resume":[{"interruptId":"a","status":"x"}])")),
              "resume[0].status");
    EXPECT_EQ(refused_member(input_with(R"(,"resume":[{"interruptId":"a","status":"resolved"},
                                            {"interruptId":"a","status":"resolved"}])")),
              "resume[1]");
    EXPECT_EQ(refused_member(R"({"threadId":"t","runId":"r","messages":[{"role":"user","content":[
                  {"type":"image","source":{"type":"url","value":"http://x"}}]}]})"),
              "messages[0].content[0].source");
    EXPECT_EQ(refused_member(input_with(R"(,"state":5,"forwardedProps":"x","context":null)")),
              "accepted");
}

TEST(AguiAnswer, Payload_BecomesTheDecision) {
    const HitlRequest asked = hitl_request_from_json(approval("c0"));
    const auto decide = [&asked](const std::string& payload, bool is_cancelled = false) {
        AguiAnswer answer;
        answer.payload = boost::json::parse(payload);
        answer.is_cancelled = is_cancelled;
        return boost::json::serialize(agui_answer(answer, asked).at("answer"));
    };
    EXPECT_EQ(decide(R"({"approved":true})"), R"({"decision":"approve"})");
    EXPECT_EQ(decide(R"({"approved":false,"reason":"no"})"),
              R"({"decision":"deny","reason":"no"})");
    EXPECT_EQ(decide(R"({"approved":true,"editedArgs":{"command":"pwd"}})"),
              R"({"decision":"edit","edited_args":{"command":"pwd"}})");
    EXPECT_NE(decide("null", true).find("deny"), std::string::npos);
    for (const char* const other : {"null", "true", "{}", R"({"approved":"yes"})", "[]"})
        EXPECT_THROW((void)decide(other), detail::OpenAIRequestError) << other;
}

TEST(AguiInterrupt, CharactersThatHide_AreSpelledOut) {
    HitlRequest asked = hitl_request_from_json(approval("c0"));
    auto& call = std::get<ApproveRequest>(asked.payload);
    call.args["command"] = "ls #\u202E\u2028";
    call.details = JsonObject{{"question", "Run this command: ls\nKnown: ls lists files."}};
    EXPECT_EQ(agui_interrupt(asked).at("message"),
              Json("Known: ls lists files.\nRun shell {\"command\":\"ls #<U+202E><U+2028>\"}?"));
}

class AguiRunTest : public ::testing::Test {
protected:
    void take(HttpReplyPart::Kind kind, std::string text = {}, JsonObject value = {}) {
        HttpReplyPart part;
        part.kind = kind;
        part.text = std::move(text);
        part.value = std::move(value);
        run_.take(part);
    }
    template <class Body>
    void event(Body body) {
        HttpReplyPart part;
        part.kind = HttpReplyPart::Kind::event;
        AgentEvent made;
        made.body = std::move(body);
        part.event = std::make_shared<const AgentEvent>(std::move(made));
        run_.take(part);
    }
    void begin_call(const char* id, const char* name, JsonObject args = {}) {
        ToolExecutionStartEvent start;
        start.tool_call_id = SharedString(std::string(id));
        start.tool_name = SharedString(std::string(name));
        start.args = std::move(args);
        event(std::move(start));
    }
    void end_call(const char* id, const char* text) {
        ToolExecutionEndEvent end;
        end.tool_call_id = SharedString(std::string(id));
        end.result = AgentToolResult(text);
        event(std::move(end));
    }
    void ask(JsonObject question) {
        JsonObject output;
        output["kind"] = "question";
        output["text"] = "Run it?";
        output["question"] = std::move(question);
        take(HttpReplyPart::Kind::output, {}, std::move(output));
    }
    void finish(JsonObject reply = {{"ok", true}}) {
        take(HttpReplyPart::Kind::done, {}, std::move(reply));
    }
    /// Returns the types of the events after RUN_STARTED, without the prefixes and suffixes that all have.
    std::string types() {
        std::string all;
        for (const JsonObject& one : events())
            all += (all.empty() ? "" : " ") + std::string(one.at("type").as_string());
        return all;
    }
    std::vector<JsonObject> events() {
        std::vector<JsonObject> made;
        for (const std::string& event : run_.events()) {
            EXPECT_TRUE(event.starts_with("data: {") && event.ends_with("}\n\n")) << event;
            made.push_back(boost::json::parse(event.substr(6)).as_object());
        }
        made.erase(made.begin());
        return made;
    }
    static AguiRunHead head() {
        AguiRunHead head;
        head.thread = "t";
        head.run = "r";
        head.mark = "m";
        head.state = {{"theme", "dark"}};
        head.client_tools = {"clock"};
        head.open_calls = {{"tool_old_1", "shell", JsonObject{{"command", "ls"}}, true}};
        return head;
    }

    AguiRun run_{nullptr, [](std::string_view question) { return "call_" + std::string(question); },
                 head()};
};

TEST_F(AguiRunTest, TextsOfSteps_AreMessagesOfTheirOwn) {
    take(HttpReplyPart::Kind::reasoning, "Hm");
    take(HttpReplyPart::Kind::text, "I read.");
    begin_call("c0", "read", {{"path", "a"}});
    end_call("c0", "A");
    take(HttpReplyPart::Kind::text, "\n\nDone.");
    take(HttpReplyPart::Kind::output, {}, {{"kind", "normal"}, {"text", "I read.\n\nDone."}});
    finish();
    EXPECT_EQ(types(),
              "REASONING_START REASONING_MESSAGE_START REASONING_MESSAGE_CONTENT "
              "REASONING_MESSAGE_END REASONING_END TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT "
              "TEXT_MESSAGE_END TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END TOOL_CALL_RESULT "
              "TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED");
    EXPECT_EQ(events()[8].at("parentMessageId"), events()[5].at("messageId"));
    EXPECT_EQ(events()[13].at("delta"), Json("Done."));
}

TEST_F(AguiRunTest, D239_AskedCall_ContinuesUnderItsId) {
    begin_call("c0", "shell", {{"command", "ls"}});
    end_call("c0", "a.txt");
    ask(approval("c0"));
    finish();
    EXPECT_EQ(types(),
              "TOOL_CALL_RESULT TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END RUN_FINISHED");
    EXPECT_EQ(events()[0].at("toolCallId"), Json("tool_old_1"));
    const Json interrupt = events()[4].at("outcome").at("interrupts").at(0);
    EXPECT_EQ(interrupt.at("id"), Json("3f09c2a71b"));
    EXPECT_EQ(interrupt.at("reason"), Json("tool_call"));
    EXPECT_EQ(interrupt.at("toolCallId"), events()[1].at("toolCallId"));
    EXPECT_EQ(interrupt.at("expiresAt"), Json("2023-11-14T22:14:20Z"));
}

TEST_F(AguiRunTest, CallOfTheClient_IsPending) {
    begin_call("c0", "clock");
    const JsonObject call{{"name", "clock"}, {"arguments", JsonObject()}};
    ask({{"request_id", "9"}, {"payload", JsonObject{{"kind", "ask"}, {"client_call", call}}}});
    finish();
    EXPECT_EQ(types(), "TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END RUN_FINISHED");
    EXPECT_EQ(events()[3].at("outcome").at("pendingToolCallIds"), Json(JsonArray{"call_9"}));
}

TEST_F(AguiRunTest, Todos_AreTheState) {
    const JsonArray todos{JsonObject{{"content", "a"}, {"status", "in_progress"}}};
    for (const char* const id : {"c0", "c1"}) {
        begin_call(id, "write_todos", {{"todos", todos}});
        ToolExecutionEndEvent end;
        end.tool_call_id = SharedString(std::string(id));
        end.tool_name = SharedString(std::string("write_todos"));
        end.result = AgentToolResult(boost::json::serialize(JsonObject{{"todos", todos}}));
        event(std::move(end));
    }
    const std::vector<JsonObject> made = events();
    ASSERT_EQ(made.size(), 10U) << types();
    EXPECT_EQ(made[4].at("snapshot"), Json(JsonObject{{"theme", "dark"}, {"todos", todos}}));
    EXPECT_EQ(made[9].at("delta").at(0).at("path"), Json("/todos"));
}

TEST_F(AguiRunTest, SubagentThatAsks_IsSuspended) {
    begin_call("c0", "subagent", {{"name", "reader"}});
    ToolExecutionUpdateEvent update;
    update.tool_call_id = SharedString(std::string("c0"));
    update.partial_result = JsonObject{{"subagent", JsonObject{{"turns", 1}}}};
    event(std::move(update));
    JsonObject question = approval("c0");
    question["agent_path"] = JsonArray{"reader"};
    ask(std::move(question));
    finish();
    EXPECT_EQ(types(),
              "TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END SUBAGENT_STARTED ACTIVITY_SNAPSHOT "
              "SUBAGENT_FINISHED RUN_FINISHED");
    EXPECT_EQ(events()[5].at("outcome").at("type"), Json("suspended"));
    const Json interrupt = events()[6].at("outcome").at("interrupts").at(0);
    EXPECT_EQ(interrupt.at("subagentRunId"), events()[3].at("subagentRunId"));
    EXPECT_FALSE(interrupt.as_object().contains("toolCallId"));
}

TEST_F(AguiRunTest, TurnThatIsTriedAgain_EndsItsCalls) {
    begin_call("c0", "subagent");
    take(HttpReplyPart::Kind::text, "x");
    take(HttpReplyPart::Kind::restart);
    begin_call("c0", "subagent");
    end_call("c0", "done");
    end_call("c0", "twice");
    end_call("c7", "unknown");
    finish();
    EXPECT_EQ(types(),
              "TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END SUBAGENT_STARTED TEXT_MESSAGE_START "
              "TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END SUBAGENT_ERROR TOOL_CALL_RESULT "
              "TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END SUBAGENT_STARTED SUBAGENT_FINISHED "
              "TOOL_CALL_RESULT RUN_FINISHED");
    EXPECT_NE(events()[0].at("toolCallId"), events()[9].at("toolCallId"));
}

TEST_F(AguiRunTest, TurnThatIsTriedAgain_ForgetsPendingCalls) {
    const JsonObject call{{"name", "clock"}, {"arguments", JsonObject()}};
    ask({{"request_id", "3f09c2a71b"},
         {"payload", JsonObject{{"kind", "ask"}, {"client_call", call}}}});
    take(HttpReplyPart::Kind::restart);
    finish();
    EXPECT_FALSE(events().back().at("outcome").as_object().contains("pendingToolCallIds"));
}

TEST_F(AguiRunTest, Failure_IsTheLastEvent) {
    begin_call("c0", "read");
    finish({{"ok", false}, {"error", JsonObject{{"message", "failed (3f09)"}}}});
    EXPECT_EQ(types(), "TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END RUN_ERROR");
    EXPECT_EQ(events()[3].at("message"), Json("failed (3f09)"));
}

}  // namespace

}  // namespace cubepi::app
