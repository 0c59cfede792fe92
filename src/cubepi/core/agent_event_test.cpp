#include <cubepi/core/agent_event.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/hitl_request.hpp>
#include <cubepi/core/message_json.hpp>

namespace cubepi {
namespace {

using boost::json::parse;
using boost::json::serialize;

AgentEvent event_of(AgentEvent::Body body) {
    RunInfo run;
    run.run_id = "r1";
    run.attempt_id = "a1";
    run.thread_id = "t1";
    run.created = std::chrono::steady_clock::time_point(std::chrono::seconds(100));
    run.created_wall = std::chrono::system_clock::time_point(std::chrono::seconds(1'700'000'000));
    AgentEvent event;
    event.timestamp = run.created + std::chrono::milliseconds(1500);
    event.body = std::move(body);
    event.run = std::make_shared<const RunInfo>(std::move(run));
    event.turn = 2;
    event.seq = 9;
    return event;
}

/// Returns the event's own keys; removes and checks the keys common to all events (D8).
std::string own_json(AgentEvent::Body body, bool with_partial = false) {
    const AgentEvent event = event_of(std::move(body));
    JsonObject json = to_json(event, with_partial);
    const JsonObject common{{"type", to_string(event.type())},
                            {"run_id", "r1"},
                            {"attempt_id", "a1"},
                            {"thread_id", "t1"},
                            {"turn", 2},
                            {"seq", 9},
                            {"time", 1'700'000'001.5}};
    auto place = json.begin();
    for (const auto& [key, value] : common) {
        EXPECT_EQ(place->key(), key);
        EXPECT_EQ(serialize(place->value()), serialize(value));
        ++place;
    }
    JsonObject own;
    for (; place != json.end(); ++place) own.emplace(place->key(), place->value());
    return serialize(own);
}

HitlRequest question() {
    ConfirmRequest confirm;
    confirm.prompt = "Sure?";
    HitlRequest request;
    request.question_id = "q";
    request.payload = confirm;
    return request;
}

TEST(AgentEvent, TypeNames_MatchTheirBodies) {
    EXPECT_EQ(to_string(event_of(AgentStartEvent()).type()), "agent_start");
    EXPECT_EQ(to_string(event_of(AgentEndEvent()).type()), "agent_end");
    EXPECT_EQ(to_string(event_of(TurnStartEvent()).type()), "turn_start");
    EXPECT_EQ(to_string(event_of(TurnEndEvent()).type()), "turn_end");
    EXPECT_EQ(to_string(event_of(MessageStartEvent()).type()), "message_start");
    EXPECT_EQ(to_string(event_of(MessageUpdateEvent()).type()), "message_update");
    EXPECT_EQ(to_string(event_of(MessageEndEvent()).type()), "message_end");
    EXPECT_EQ(to_string(event_of(ToolExecutionStartEvent()).type()), "tool_execution_start");
    EXPECT_EQ(to_string(event_of(ToolExecutionUpdateEvent()).type()), "tool_execution_update");
    EXPECT_EQ(to_string(event_of(ToolExecutionEndEvent()).type()), "tool_execution_end");
    EXPECT_EQ(to_string(event_of(HitlRequestEvent()).type()), "hitl_request");
    EXPECT_EQ(to_string(event_of(HitlAnswerEvent()).type()), "hitl_answer");
    EXPECT_EQ(to_string(event_of(AgentSuspendedEvent()).type()), "agent_suspended");
    EXPECT_EQ(to_string(event_of(AgentAbortedEvent()).type()), "agent_aborted");
    EXPECT_EQ(to_string(event_of(NoticeEvent()).type()), "notice");
}

TEST(AgentEvent, EventWithoutRun_HasNoIds) {
    AgentEvent event;
    EXPECT_EQ(event.run_id(), "");
    EXPECT_EQ(event.thread_id(), "");
    EXPECT_EQ(serialize(to_json(event)),
              R"({"type":"agent_start","run_id":"","attempt_id":"","turn":0,"seq":0,"time":0E0})");
    event = event_of(TurnStartEvent());
    EXPECT_EQ(event.run_id(), "r1");
    EXPECT_EQ(event.thread_id(), "t1");
    EXPECT_NE(event.get_if<TurnStartEvent>(), nullptr);
    EXPECT_EQ(event.get_if<TurnEndEvent>(), nullptr);
}

TEST(AgentEvent, TextAndThinkingDeltas_AreSeparate) {
    MessageUpdateEvent update;
    update.stream_event.type = StreamEventType::text_delta;
    update.stream_event.delta = "hi";
    const AgentEvent text = event_of(update);
    ASSERT_NE(text.text_delta(), nullptr);
    EXPECT_EQ(*text.text_delta(), "hi");
    EXPECT_EQ(text.text(), "hi");
    EXPECT_EQ(text.thinking_delta(), nullptr);
    update.stream_event.type = StreamEventType::thinking_delta;
    const AgentEvent thinking = event_of(update);
    EXPECT_EQ(thinking.text_delta(), nullptr);
    EXPECT_TRUE(thinking.text().empty());
    EXPECT_EQ(*thinking.thinking_delta(), "hi");
    EXPECT_EQ(thinking.stream_event()->type, StreamEventType::thinking_delta);
    EXPECT_EQ(event_of(AgentEndEvent()).stream_event(), nullptr);
    EXPECT_EQ(event_of(AgentEndEvent()).text_delta(), nullptr);
}

TEST(AgentEventJson, BeginAndEndEvents_HaveTheirJson) {
    EXPECT_EQ(own_json(AgentStartEvent()), "{}");
    EXPECT_EQ(own_json(TurnStartEvent()), "{}");
    EXPECT_EQ(own_json(AgentEndEvent()), R"({"message_ids":[]})");
    AgentEndEvent end;
    end.messages = {user_message("a", "m1"), user_message("b", "m2")};
    EXPECT_EQ(own_json(end), R"({"message_ids":["m1","m2"]})");
    AssistantMessage answer;
    answer.id = "m3";
    ToolResultMessage result{"c1", "add"};
    result.id = "m4";
    TurnEndEvent turn;
    turn.message = answer;
    turn.tool_results = {result};
    EXPECT_EQ(own_json(turn), R"({"message_id":"m3","tool_result_ids":["m4"]})");
}

TEST(AgentEventJson, Message_IsWholeOnlyInItsEnd) {
    const Message message = user_message("a", "m1");
    EXPECT_EQ(own_json(MessageEndEvent{message}),
              "{\"message\":" + serialize(to_json(message)) + "}");
    EXPECT_EQ(own_json(MessageStartEvent{message}), R"({"message_id":"m1","role":"user"})");
    ToolResultMessage result{"c1", "add"};
    result.id = "m4";
    EXPECT_EQ(own_json(MessageStartEvent{Message(result)}),
              R"({"message_id":"m4","role":"tool_result","tool_call_id":"c1"})");
}

TEST(AgentEventJson, MessageUpdate_HasThePartialOnlyOnRequest) {
    AssistantMessage so_far;
    so_far.content.emplace_back(TextContent{"o"});
    MessageUpdateEvent update;
    update.stream_event.type = StreamEventType::text_delta;
    update.stream_event.content_index = 0;
    update.stream_event.delta = "o";
    update.stream_event.partial = PartialMessage(Message(so_far));
    EXPECT_EQ(own_json(update),
              R"({"stream_event":{"type":"text_delta","content_index":0,"delta":"o"}})");
    EXPECT_EQ(own_json(update, true),
              R"({"stream_event":{"type":"text_delta","content_index":0,"delta":"o","partial":)" +
                  serialize(to_json(so_far)) + "}}");
    update.stream_event.type = StreamEventType::text_end;
    EXPECT_EQ(own_json(update), R"({"stream_event":{"type":"text_end","content_index":0}})");
}

TEST(AgentEventJson, ToolExecutionEvents_HaveTheirJson) {
    ToolExecutionStartEvent start;
    start.tool_call_id = "c1";
    start.tool_name = "add";
    start.args = {{"a", 1}};
    EXPECT_EQ(own_json(start), R"({"tool_call_id":"c1","tool_name":"add","args":{"a":1}})");
    ToolExecutionUpdateEvent update;
    update.tool_call_id = "c1";
    update.tool_name = "add";
    update.args = {{"a", 1}};
    update.partial_result = "half";
    EXPECT_EQ(own_json(update),
              R"({"tool_call_id":"c1","tool_name":"add","args":{"a":1},"partial_result":"half"})");
    ToolExecutionEndEvent end;
    end.tool_call_id = "c1";
    end.tool_name = "add";
    end.result = AgentToolResult("2");
    EXPECT_EQ(own_json(end),
              R"({"tool_call_id":"c1","tool_name":"add","is_error":false,"terminate":false,)"
              R"("blocked_by_hook":false,"block_reason":null})");
    end.is_error = true;
    end.blocked_by_hook = true;
    end.block_reason = "not allowed";
    const Json blocked = parse(own_json(end));
    EXPECT_EQ(blocked.at("is_error"), true);
    EXPECT_EQ(blocked.at("blocked_by_hook"), true);
    EXPECT_EQ(blocked.at("block_reason"), "not allowed");
}

TEST(AgentEventJson, HitlEvents_HaveTheirJson) {
    const std::string request = serialize(to_json(question()));
    EXPECT_EQ(own_json(HitlRequestEvent{question()}), "{\"request\":" + request + "}");
    AgentSuspendedEvent suspended;
    suspended.pending_requests = {question(), question()};
    EXPECT_EQ(own_json(suspended), "{\"pending_requests\":[" + request + "," + request + "]}");
    HitlAnswerEvent answer;
    answer.question_id = "q";
    answer.answer = JsonObject{{"decision", "approve"}};
    EXPECT_EQ(own_json(answer),
              R"({"question_id":"q","answer":{"decision":"approve"},"cancelled":false})");
}

TEST(AgentEventJson, AbortAndNoticeEvents_HaveTheirJson) {
    EXPECT_EQ(own_json(AgentAbortedEvent{"by the user"}), R"({"reason":"by the user"})");
    NoticeEvent notice;
    notice.notice.code = "retry";
    notice.notice.text = "Trying again.";
    notice.notice.details = {{"attempt", 2}};
    EXPECT_EQ(own_json(notice),
              R"({"code":"retry","text":"Trying again.","details":{"attempt":2}})");
}

HitlRequest same_again(std::string_view stored) {
    HitlRequest request = hitl_request_from_json(parse(stored));
    EXPECT_EQ(serialize(to_json(request)), stored);
    return request;
}

TEST(HitlRequest, ApproveRequest_RoundTrips) {
    const HitlRequest request = same_again(
        R"({"question_id":"c1","thread_id":"t1","payload":{"kind":"approve","tool_name":"rm",)"
        R"("tool_call_id":"c1","args":{"p":"/"},"details":null},"created_at":1.700000003E9,)"
        R"("timeout_seconds":null})");
    EXPECT_EQ(request.question_id, "c1");
    EXPECT_EQ(request.thread_id, "t1");
    EXPECT_EQ(request.created_at, 1700000003.0);
    EXPECT_EQ(request.timeout_seconds, std::nullopt);
    const auto& approve = std::get<ApproveRequest>(request.payload);
    EXPECT_EQ(approve.tool_name, "rm");
    EXPECT_EQ(approve.tool_call_id, "c1");
    EXPECT_EQ(approve.args, JsonObject({{"p", "/"}}));
}

TEST(HitlRequest, AskRequest_RoundTrips) {
    const HitlRequest request = same_again(
        R"({"question_id":"q.0","thread_id":null,"payload":{"kind":"ask","questions":[)"
        R"({"key":"k","prompt":"P?","options":[{"label":"L","value":"v","description":null,)"
        R"("allow_input":false},{"label":"M","value":"w","description":"why","allow_input":true}],)"
        R"("multi_select":true,"required":false},{"key":"n","prompt":"Name?","options":null,)"
        R"("multi_select":false,"required":true}]},"created_at":1E0,"timeout_seconds":6E1})");
    EXPECT_EQ(request.thread_id, std::nullopt);
    EXPECT_EQ(request.timeout_seconds, 60.0);
    const auto& ask = std::get<AskRequest>(request.payload);
    ASSERT_EQ(ask.questions.size(), 2u);
    EXPECT_TRUE(ask.questions[0].multi_select);
    EXPECT_FALSE(ask.questions[0].required);
    EXPECT_EQ(ask.questions[0].options->at(1).description, "why");
    EXPECT_TRUE(ask.questions[0].options->at(1).allow_input);
    EXPECT_FALSE(ask.questions[1].options.has_value());
}

TEST(HitlRequest, ConfirmRequest_RoundTripsWithUnknownKeys) {
    const HitlRequest request = same_again(
        R"({"question_id":"q","thread_id":"t","payload":{"kind":"confirm","prompt":"Sure?",)"
        R"("details":{"n":1}},"created_at":0E0,"timeout_seconds":null,"run":{"batch":[1]}})");
    EXPECT_EQ(std::get<ConfirmRequest>(request.payload).prompt, "Sure?");
    EXPECT_EQ(request.extra, JsonObject({{"run", JsonObject{{"batch", JsonArray{1}}}}}));
}

TEST(HitlRequest, D41_UnknownPayloadKeys_SurviveAtEveryDepth) {
    const HitlRequest confirm = same_again(
        R"({"question_id":"q","thread_id":"t","payload":{"kind":"confirm","prompt":"Sure?",)"
        R"("details":null,"tone":{"of":["voice"]}},"created_at":0E0,"timeout_seconds":null})");
    EXPECT_EQ(std::get<ConfirmRequest>(confirm.payload).extra,
              JsonObject({{"tone", JsonObject{{"of", JsonArray{"voice"}}}}}));
    same_again(
        R"({"question_id":"c","thread_id":null,"payload":{"kind":"approve","tool_name":"rm",)"
        R"("tool_call_id":"c","args":{},"details":null,"batch":7,"digest":"d"},"created_at":0E0,)"
        R"("timeout_seconds":null,"more":true})");
    const HitlRequest ask = same_again(
        R"({"question_id":"q","thread_id":null,"payload":{"kind":"ask","questions":[)"
        R"({"key":"k","prompt":"P?","options":[{"label":"L","value":"v","description":null,)"
        R"("allow_input":false,"icon":"x"}],"multi_select":false,"required":true,"hint":null}],)"
        R"("title":"T"},"created_at":0E0,"timeout_seconds":null})");
    const HitlQuestion& question = std::get<AskRequest>(ask.payload).questions.at(0);
    EXPECT_EQ(question.extra, JsonObject({{"hint", nullptr}}));
    EXPECT_EQ(question.options->at(0).extra, JsonObject({{"icon", "x"}}));
}

TEST(HitlRequest, MissingKeys_HaveDefaults) {
    const HitlRequest request = hitl_request_from_json(parse(
        R"({"question_id":"q","payload":{"kind":"ask","questions":[{"key":"k","prompt":"p"}]}})"));
    const HitlQuestion& question = std::get<AskRequest>(request.payload).questions.at(0);
    EXPECT_FALSE(question.options.has_value());
    EXPECT_FALSE(question.multi_select);
    EXPECT_TRUE(question.required);
}

TEST(HitlRequest, Refusal_NamesTheKey) {
    const auto expect_refused = [](std::string_view stored, std::string_view key) {
        try {
            hitl_request_from_json(parse(stored));
            ADD_FAILURE() << "read: " << stored;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::validation);
            const std::string why = error.what();
            EXPECT_NE(why.find("'" + std::string(key) + "'"), std::string::npos) << why;
        }
    };
    expect_refused("7", "request");
    expect_refused("{}", "question_id");
    expect_refused(R"({"question_id":5})", "question_id");
    expect_refused(R"({"question_id":"q"})", "payload");
    expect_refused(R"({"question_id":"q","payload":{}})", "kind");
    expect_refused(R"({"question_id":"q","payload":{"kind":"vote"}})", "kind");
    expect_refused(R"({"question_id":"q","payload":{"kind":"confirm"}})", "prompt");
    expect_refused(R"({"question_id":"q","payload":{"kind":"approve","tool_name":"t"}})",
                   "tool_call_id");
    expect_refused(
        R"({"question_id":"q","payload":{"kind":"approve","tool_name":"t","tool_call_id":"c"}})",
        "args");
    expect_refused(R"({"question_id":"q","payload":{"kind":"ask"}})", "questions");
    expect_refused(R"({"question_id":"q","payload":{"kind":"ask","questions":[1]}})", "questions");
    expect_refused(R"({"question_id":"q","payload":{"kind":"ask","questions":[{"key":"k"}]}})",
                   "prompt");
}

}  // namespace
}  // namespace cubepi
