#include <cubepi/core/agent_event.hpp>

#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

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

TEST(AgentEvent, NamesOfTypesAreThoseOfTheirBodies) {
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

TEST(AgentEvent, WithoutARunItHasNoIds) {
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

TEST(AgentEvent, DeltasOfTextAndThinkingAreApart) {
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

TEST(AgentEventJson, BeginAndEnd) {
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

TEST(AgentEventJson, AMessageIsWholeInItsEndOnly) {
    const Message message = user_message("a", "m1");
    EXPECT_EQ(own_json(MessageEndEvent{message}),
              "{\"message\":" + serialize(to_json(message)) + "}");
    EXPECT_EQ(own_json(MessageStartEvent{message}), R"({"message_id":"m1","role":"user"})");
    ToolResultMessage result{"c1", "add"};
    result.id = "m4";
    EXPECT_EQ(own_json(MessageStartEvent{Message(result)}),
              R"({"message_id":"m4","role":"tool_result","tool_call_id":"c1"})");
}

TEST(AgentEventJson, MessageUpdateHasThePartialOnlyWhenAsked) {
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

TEST(AgentEventJson, ToolExecution) {
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

TEST(AgentEventJson, HumanInTheLoop) {
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

TEST(AgentEventJson, AbortAndNotice) {
    EXPECT_EQ(own_json(AgentAbortedEvent{"by the user"}), R"({"reason":"by the user"})");
    NoticeEvent notice;
    notice.notice.code = "retry";
    notice.notice.text = "Trying again.";
    notice.notice.details = {{"attempt", 2}};
    EXPECT_EQ(own_json(notice),
              R"({"code":"retry","text":"Trying again.","details":{"attempt":2}})");
}

}  // namespace
}  // namespace cubepi
