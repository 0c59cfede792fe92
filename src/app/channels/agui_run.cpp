#include "agui_run.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>
#include <variant>

#include <bub/questions.hpp>
#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::app {

namespace {

using detail::OpenAIRequestError;
using detail::text_member;

constexpr std::string_view subagent_tool = "subagent";
constexpr std::string_view call_reason = "tool_call";

JsonObject object_schema(JsonObject properties, JsonArray required) {
    JsonObject schema;
    schema["type"] = "object";
    schema["properties"] = std::move(properties);
    if (!required.empty()) schema["required"] = std::move(required);
    return schema;
}

JsonObject schema_of(const ConfirmRequest&) { return JsonObject{{"type", "boolean"}}; }

JsonObject schema_of(const ApproveRequest&) {
    JsonObject properties;
    properties["approved"] = JsonObject{{"type", "boolean"}};
    properties["reason"] = JsonObject{{"type", "string"}, {"description", "For the model."}};
    properties["editedArgs"] =
        JsonObject{{"type", "object"}, {"description", "Replaces the arguments of the call."}};
    return object_schema(std::move(properties), {"approved"});
}

JsonObject schema_of(const AskRequest& ask) {
    JsonObject properties;
    JsonArray required;
    for (const HitlQuestion& question : ask.questions) {
        JsonObject value;
        value["type"] = "string";
        const bool has_choice = question.options && !question.options->empty();
        const bool has_input =
            has_choice && std::any_of(question.options->begin(), question.options->end(),
                                      [](const HitlOption& one) { return one.allow_input; });
        if (has_choice && !has_input) {
            JsonArray values;
            for (const HitlOption& option : *question.options) values.emplace_back(option.value);
            value["enum"] = std::move(values);
        }
        JsonObject property = std::move(value);
        if (question.multi_select)
            property = JsonObject{{"type", "array"}, {"items", std::move(property)}};
        property["description"] = question.prompt;
        properties[question.key] = std::move(property);
        if (question.required) required.emplace_back(question.key);
    }
    return object_schema(std::move(properties), std::move(required));
}

std::string_view reason_of(const HitlRequest& request) {
    if (std::holds_alternative<ConfirmRequest>(request.payload)) return "confirmation";
    if (std::holds_alternative<AskRequest>(request.payload)) return "input_required";
    // `tool_call` needs the id of a call that the client has.
    return bub::asking_agents(request).empty() ? call_reason : "cubepi:subagent_tool_call";
}

/// Returns the time as RFC 3339 has it.
std::string date_text(double seconds) {
    using namespace std::chrono;
    constexpr double last = 253'402'300'799.0;  // of the year 9999
    const sys_seconds time{
        std::chrono::seconds(static_cast<std::int64_t>(std::clamp(seconds, 0.0, last)))};
    const sys_days day = floor<days>(time);
    const year_month_day date(day);
    const hh_mm_ss clock(time - day);
    char text[32];
    const int size = std::snprintf(
        text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(date.year()),
        static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
        static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
        static_cast<int>(clock.seconds().count()));
    return std::string(text, static_cast<std::size_t>(size));
}

JsonObject usage_json(const detail::OpenAIAnswerUsage& usage) {
    JsonObject made;
    made["inputTokens"] = usage.input;
    made["outputTokens"] = usage.output;
    made["totalTokens"] = usage.input + usage.output;
    made["cachedInputTokens"] = usage.cached;
    made["reasoningTokens"] = usage.reasoning;
    return made;
}

JsonArray todos_json(const std::vector<Todo>& todos) {
    JsonArray list;
    for (const Todo& todo : todos) {
        const char* const status = todo.status == TodoStatus::completed     ? "completed"
                                   : todo.status == TodoStatus::in_progress ? "in_progress"
                                                                            : "pending";
        list.push_back(JsonObject{{"content", todo.content}, {"status", status}});
    }
    return list;
}

std::string subagent_of(const std::string& call) { return call + "_agent"; }

}  // namespace

std::string agui_call_of(const HitlRequest& request) {
    return std::string(agui_call_prefix) + bub::question_name(request);
}

JsonObject agui_interrupt(const HitlRequest& request) {
    JsonObject interrupt;
    interrupt["id"] = bub::question_name(request);
    interrupt["reason"] = reason_of(request);
    if (reason_of(request) == call_reason) interrupt["toolCallId"] = agui_call_of(request);
    interrupt["message"] = bub::question_summary(request);
    interrupt["responseSchema"] =
        std::visit([](const auto& payload) { return schema_of(payload); }, request.payload);
    if (request.timeout_seconds && *request.timeout_seconds > 0)
        interrupt["expiresAt"] = date_text(request.created_at + *request.timeout_seconds);
    interrupt["metadata"] = JsonObject{{"question", to_json(request).at("payload")}};
    return interrupt;
}

JsonObject agui_answer(const AguiAnswer& given, const HitlRequest& request) {
    JsonObject body;
    const std::string name = bub::question_name(request);
    const bool approves = std::holds_alternative<ApproveRequest>(request.payload);
    if (given.is_cancelled && !approves) {
        body["text"] = ",abandon " + name;
        return body;
    }
    Json answer = given.payload;
    if (approves) {
        const JsonObject* const payload = given.payload.if_object();
        const Json* const approved = payload ? payload->if_contains("approved") : nullptr;
        if (!given.is_cancelled && (!approved || !approved->is_bool()))
            throw OpenAIRequestError("resume", "the payload must have 'approved', true or false");
        ApproveAnswer decision;
        const JsonObject* const edited =
            payload ? detail::object_member(*payload, "editedArgs") : nullptr;
        const std::string reason = payload ? text_member(*payload, "reason") : std::string();
        if (given.is_cancelled || !approved->get_bool()) {
            decision = ApproveAnswer::deny(
                given.is_cancelled ? "The user has left the question without an answer." : reason);
        } else if (edited) {
            decision = ApproveAnswer::edit(*edited);
        }
        answer = to_json(decision);
    }
    body["answer_to"] = name;
    body["answer"] = std::move(answer);
    return body;
}

AguiRun::AguiRun(std::shared_ptr<bub::HttpReply> reply, CallId call_id, AguiRunHead head)
    : OpenAIRun(std::move(reply), std::move(call_id)), head_(std::move(head)) {
    write("RUN_STARTED",
          {{"threadId", head_.thread}, {"runId", head_.run}, {"protocolVersion", "1.0"}});
}

HttpServerResponse AguiRun::response() const {
    std::string all;
    for (const std::string& event : events_) all += event;
    return HttpServerResponse(200, std::move(all), "text/event-stream");
}

void AguiRun::write(std::string_view type, JsonObject members) {
    members["type"] = type;
    events_.push_back(server_sent_event({}, json_text(members)));
}

std::string AguiRun::next_id(std::string_view prefix) {
    return std::string(prefix) + head_.mark + "_" + std::to_string(++ids_);
}

void AguiRun::end_reasoning() {
    if (reasoning_.empty()) return;
    for (const char* const type : {"REASONING_MESSAGE_END", "REASONING_END"})
        write(type, {{"messageId", reasoning_}});
    reasoning_.clear();
}

void AguiRun::reasoning(std::string_view text) {
    end_message();
    if (reasoning_.empty()) {
        reasoning_ = next_id("reasoning_");
        write("REASONING_START", {{"messageId", reasoning_}});
        write("REASONING_MESSAGE_START", {{"messageId", reasoning_}, {"role", "reasoning"}});
    }
    write("REASONING_MESSAGE_CONTENT", {{"messageId", reasoning_}, {"delta", text}});
}

void AguiRun::text(std::string_view text) {
    end_reasoning();
    // The texts of the steps of a turn are separated in its output.
    if (message_.empty() && has_text_ && text.starts_with("\n\n")) text.remove_prefix(2);
    if (text.empty()) return;
    if (message_.empty()) {
        message_ = next_id("message_");
        last_message_ = message_;
        has_text_ = true;
        write("TEXT_MESSAGE_START", {{"messageId", message_}, {"role", "assistant"}});
    }
    write("TEXT_MESSAGE_CONTENT", {{"messageId", message_}, {"delta", text}});
}

void AguiRun::end_message() {
    end_reasoning();
    if (!message_.empty()) write("TEXT_MESSAGE_END", {{"messageId", message_}});
    message_.clear();
}

void AguiRun::write_call(const std::string& id, std::string_view name,
                         const std::string& arguments) {
    end_message();
    JsonObject start;
    start["toolCallId"] = id;
    start["toolCallName"] = name;
    if (!last_message_.empty()) start["parentMessageId"] = last_message_;
    write("TOOL_CALL_START", std::move(start));
    write("TOOL_CALL_ARGS", {{"toolCallId", id}, {"delta", arguments}});
    write("TOOL_CALL_END", {{"toolCallId", id}});
}

void AguiRun::write_result(const std::string& id, std::string_view text) {
    end_message();
    write("TOOL_CALL_RESULT",
          {{"messageId", id + "_result"}, {"toolCallId", id}, {"content", text}, {"role", "tool"}});
    last_message_.clear();
}

void AguiRun::begin_call(const ToolExecutionStartEvent& start) {
    const std::string name = start.tool_name.str();
    // Its call follows with the id of its question.
    if (head_.client_tools.contains(name)) return;
    // An endpoint may repeat an id.
    if (const auto same = calls_.extract(start.tool_call_id.str())) abandon_call(same.mapped());
    Call made;
    std::vector<AguiOpenCall>& open = head_.open_calls;
    auto known = std::find_if(open.begin(), open.end(), [&](const AguiOpenCall& one) {
        return one.name == name && one.arguments == Json(start.args);
    });
    if (known == open.end()) {
        known = std::find_if(open.begin(), open.end(), [&](const AguiOpenCall& one) {
            return one.name == name && one.is_asked;
        });
    }
    if (known != open.end()) {
        made.id = known->id;
        open.erase(known);
    } else {
        made.id = next_id(agui_call_prefix);
        write_call(made.id, name, json_text(start.args));
    }
    // One in the background outlives its call.
    made.is_subagent =
        name == subagent_tool && !detail::flag_member(start.args, "run_in_background");
    if (made.is_subagent) {
        const std::string given = text_member(start.args, "name");
        write("SUBAGENT_STARTED", {{"subagentRunId", subagent_of(made.id)},
                                   {"name", given.empty() ? std::string(subagent_tool) : given},
                                   {"parentToolCallId", made.id}});
    }
    calls_.insert_or_assign(start.tool_call_id.str(), std::move(made));
}

void AguiRun::end_call(const ToolExecutionEndEvent& end) {
    const auto found = calls_.find(end.tool_call_id.str());
    if (found == calls_.end()) return;
    const Call call = std::move(found->second);
    calls_.erase(found);
    const std::string text = end.result.text();
    if (call.is_subagent && end.is_error) {
        write("SUBAGENT_ERROR", {{"subagentRunId", subagent_of(call.id)}, {"message", text}});
    } else if (call.is_subagent) {
        write("SUBAGENT_FINISHED", {{"subagentRunId", subagent_of(call.id)}, {"result", text}});
    }
    write_result(call.id, text);
    if (const std::optional<std::vector<Todo>> todos = todos_set_by(end)) show_todos(*todos);
}

void AguiRun::show_progress(const ToolExecutionUpdateEvent& update) {
    const auto found = calls_.find(update.tool_call_id.str());
    const JsonObject* const progress = update.partial_result.if_object();
    const JsonObject* const work =
        progress ? detail::object_member(*progress, subagent_tool) : nullptr;
    if (!work || found == calls_.end() || !found->second.is_subagent) return;
    const std::string agent = subagent_of(found->second.id);
    write("ACTIVITY_SNAPSHOT", {{"messageId", agent + "_work"},
                                {"activityType", "subagent"},
                                {"content", *work},
                                {"subagentRunId", agent}});
}

void AguiRun::show_todos(const std::vector<Todo>& todos) {
    JsonArray list = todos_json(todos);
    if (std::exchange(has_state_, true)) {
        JsonArray delta;
        delta.push_back(
            JsonObject{{"op", "replace"}, {"path", "/todos"}, {"value", std::move(list)}});
        write("STATE_DELTA", {{"delta", std::move(delta)}});
        return;
    }
    // A snapshot replaces all of the state: the other members are the client's.
    head_.state["todos"] = std::move(list);
    write("STATE_SNAPSHOT", {{"snapshot", head_.state}});
}

void AguiRun::event(const AgentEvent& event) {
    if (const auto* const start = event.get_if<ToolExecutionStartEvent>()) {
        begin_call(*start);
    } else if (const auto* const end = event.get_if<ToolExecutionEndEvent>()) {
        end_call(*end);
    } else if (const auto* const update = event.get_if<ToolExecutionUpdateEvent>()) {
        show_progress(*update);
    }
}

bool AguiRun::question(const JsonObject& request) {
    const HitlRequest asked = hitl_request_from_json(Json(request));
    JsonObject interrupt = agui_interrupt(asked);
    const auto* const approve = std::get_if<ApproveRequest>(&asked.payload);
    const bool is_own = bub::asking_agents(asked).empty();
    if (is_own && approve) {
        // The call begins when it is approved.
        write_call(agui_call_of(asked), approve->tool_name, json_text(approve->args));
    } else if (!is_own) {
        std::vector<std::string> agents;
        for (const auto& [id, one] : calls_)
            if (one.is_subagent) agents.push_back(subagent_of(one.id));
        if (agents.size() == 1) interrupt["subagentRunId"] = agents.front();
    }
    interrupts_.push_back(std::move(interrupt));
    return true;
}

void AguiRun::call(std::string_view question, const bub::ClientCall& call) {
    const detail::OpenAIClientCall made = client_call(question, call);
    write_call(made.id, made.name, made.arguments);
    pending_.emplace_back(made.id);
}

void AguiRun::abandon_call(const Call& call) {
    if (call.is_subagent) {
        write("SUBAGENT_ERROR",
              {{"subagentRunId", subagent_of(call.id)}, {"message", "It was ended."}});
    }
    write_result(call.id, "The call has no result.");
}

void AguiRun::abandon_calls() {
    for (const auto& [id, call] : std::exchange(calls_, {})) abandon_call(call);
}

void AguiRun::suspend_subagents() {
    for (const auto& [id, call] : calls_) {
        if (!call.is_subagent) continue;
        write("SUBAGENT_FINISHED", {{"subagentRunId", subagent_of(call.id)},
                                    {"outcome", JsonObject{{"type", "suspended"}}}});
    }
}

void AguiRun::restarted() {
    end_message();
    abandon_calls();
    interrupts_.clear();
    pending_.clear();
    has_text_ = false;
}

void AguiRun::fail(std::string_view message, std::string_view code) {
    write("RUN_ERROR", {{"message", message}, {"code", code}});
}

void AguiRun::end(const OpenAIAnswerEnd& end) {
    using Status = detail::OpenAIResponseStatus;
    end_message();
    // The events remain in memory, what a client has sent does not.
    head_.state.clear();
    head_.open_calls.clear();
    if (end.status == Status::failed) {
        // Nothing follows an error, so what is open stays open.
        fail(end.reason.empty() ? "the turn has failed" : end.reason, "failed");
        return;
    }
    const bool is_interrupted = !interrupts_.empty();
    if (is_interrupted || !pending_.empty()) {
        // Calls of the same answer continue with the next run.
        suspend_subagents();
    } else {
        abandon_calls();
    }
    JsonObject outcome;
    if (is_interrupted) {
        outcome["type"] = "interrupt";
        outcome["interrupts"] = std::move(interrupts_);
    } else if (end.status == Status::cancelled) {
        outcome["type"] = "cancelled";
    } else {
        outcome["type"] = "success";
        if (!pending_.empty()) outcome["pendingToolCallIds"] = std::move(pending_);
    }
    JsonObject finished;
    finished["threadId"] = head_.thread;
    finished["runId"] = head_.run;
    finished["outcome"] = std::move(outcome);
    if (end.status == Status::incomplete)
        finished["result"] = JsonObject{{"incomplete", end.reason}};
    if (end.usage) finished["usage"] = JsonArray{usage_json(*end.usage)};
    write("RUN_FINISHED", std::move(finished));
}

void AguiRun::postponed() {
    OpenAIRun::postponed();
    end_message();
    fail("the gateway ends before the answer is complete; the message is stored", "postponed");
}

void AguiRun::refuse(const std::vector<HitlRequest>& open, std::string_view text) {
    JsonArray interrupts;
    for (const HitlRequest& one : open) interrupts.push_back(agui_interrupt(one));
    write("CUSTOM", {{"name", "cubepi:interrupts"}, {"value", std::move(interrupts)}});
    fail(text, "interrupts_open");
}

}  // namespace cubepi::app
