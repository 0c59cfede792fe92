#include "agui.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <set>
#include <utility>
#include <variant>

#include <bub/questions.hpp>
#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/provider/openai/server_requests.hpp>
#include <cubepi/schema/json_text.hpp>

#include "http_openai.hpp"

namespace cubepi::app {

namespace {

using detail::client_call_id;
using detail::client_object;
using detail::client_text;
using detail::most_client_name;
using detail::OpenAIClientFile;
using detail::OpenAIClientMessage;
using detail::OpenAIRequestError;

constexpr std::size_t longest_text = std::size_t{64} << 20U;
constexpr std::size_t most_answers = 100;
constexpr std::size_t most_context = 100;
constexpr std::size_t most_open_calls = 1'000;

/// Returns the elements of a list, which must be objects; none if the member is absent or null.
std::vector<const JsonObject*> objects_in(const JsonObject& from, const std::string& name,
                                          std::size_t most) {
    std::vector<const JsonObject*> objects;
    const Json* const value = from.if_contains(name);
    if (!value || value->is_null()) return objects;
    if (!value->is_array() || value->get_array().size() > most)
        throw OpenAIRequestError(name,
                                 "must be a list of at most " + std::to_string(most) + " elements");
    for (const Json& one : value->get_array()) {
        if (!one.is_object())
            throw OpenAIRequestError(name + "[" + std::to_string(objects.size()) + "]",
                                     "must be an object");
        objects.push_back(&one.get_object());
    }
    return objects;
}

std::string required_text(const JsonObject& from, std::string_view name, const std::string& path) {
    std::string text = client_text(from, name, path, most_client_name);
    if (text.empty())
        throw OpenAIRequestError((path.empty() ? "" : path + ".") + std::string(name),
                                 "is required");
    return text;
}

/// Reads the tools and the user in the form of the other protocols.
detail::OpenAIClientRequest read_settings(const JsonObject& body) {
    JsonArray tools;
    for (const JsonObject* const tool : objects_in(body, "tools", detail::most_client_tools)) {
        JsonObject function = *tool;
        function["type"] = "function";
        tools.emplace_back(std::move(function));
    }
    JsonObject settings;
    settings["model"] = gateway_agent_name;
    settings["tools"] = std::move(tools);
    const JsonObject* const forwarded = detail::object_member(body, "forwardedProps");
    const Json* const user = forwarded ? forwarded->if_contains("user") : nullptr;
    if (user && user->is_string()) settings["user"] = *user;
    return detail::read_client_settings(settings);
}

/// Returns the file of a part `{type, source: {type: "data", value, mimeType}}`.
OpenAIClientFile file_of(const JsonObject& part, std::string name, const std::string& path) {
    const JsonObject* const source = client_object(part, "source");
    if (!source || client_text(*source, "type", path + ".source", most_client_name) != "data")
        throw OpenAIRequestError(path + ".source",
                                 "must have the type 'data'; addresses are not fetched");
    OpenAIClientFile file;
    file.name = std::move(name);
    file.type = required_text(*source, "mimeType", path + ".source");
    file.content = client_text(*source, "value", path + ".source", longest_text);
    return file;
}

void read_content(const JsonObject& from, const std::string& path, OpenAIClientMessage& message) {
    const Json* const content = from.if_contains("content");
    if (!content || content->is_string()) {
        message.text = client_text(from, "content", path, longest_text);
        return;
    }
    const std::vector<const JsonObject*> parts =
        objects_in(from, "content", detail::most_client_parts);
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::string place = path + ".content[" + std::to_string(i) + "]";
        const std::string type = client_text(*parts[i], "type", place, most_client_name);
        if (type == "text") {
            message.text += client_text(*parts[i], "text", place, longest_text);
        } else if (type == "image" || type == "audio" || type == "video" || type == "document") {
            std::string name = type + "-" + std::to_string(message.files.size() + 1);
            message.files.push_back(file_of(*parts[i], std::move(name), place));
        } else {
            throw OpenAIRequestError(place + ".type", "'" + type + "' is not supported");
        }
    }
}

/// Reads a conversation as far as the session does not have it.
class Conversation {
public:
    explicit Conversation(AguiRequest& request) : request_(&request) {}

    void add(const JsonObject& from, const std::string& path) {
        const std::string role = client_text(from, "role", path, most_client_name);
        if (role == "assistant") {
            request_->client.messages.clear();
            read_calls(from, path);
        } else if (role == "tool") {
            add_output(from, path);
        } else if (role == "user" || role == "system" || role == "developer") {
            OpenAIClientMessage message;
            read_content(from, path, message);
            detail::add_client_message(request_->client, role, std::move(message), path);
        } else if (role != "reasoning" && role != "activity") {
            throw OpenAIRequestError(path + ".role", "'" + role + "' is not supported");
        }
    }

    /// Keeps the newest calls without a result.
    void finish() {
        std::vector<AguiOpenCall>& open = request_->open_calls;
        std::erase_if(open, [this](const AguiOpenCall& call) { return ended_.contains(call.id); });
        const std::size_t excess = open.size() - std::min(open.size(), most_open_calls);
        open.erase(open.begin(), open.begin() + static_cast<std::ptrdiff_t>(excess));
    }

private:
    void read_calls(const JsonObject& from, const std::string& path) {
        const std::string place = path + ".toolCalls";
        const std::vector<const JsonObject*> calls =
            objects_in(from, "toolCalls", detail::most_client_messages);
        // They continue with the answers to questions only.
        if (request_->answers.empty()) return;
        for (const JsonObject* const call : calls) {
            AguiOpenCall made;
            made.id = client_call_id(*call, "id", place);
            const JsonObject* const function = client_object(*call, "function");
            if (!function || !made.id.starts_with(agui_call_prefix)) continue;
            made.name = client_text(*function, "name", place, most_client_name);
            boost::system::error_code failed;
            made.arguments = boost::json::parse(
                client_text(*function, "arguments", place, longest_text), failed);
            request_->open_calls.push_back(std::move(made));
        }
    }

    void add_output(const JsonObject& from, const std::string& path) {
        OpenAIClientMessage message;
        message.output_of = client_call_id(from, "toolCallId", path);
        if (message.output_of.starts_with(agui_call_prefix)) {
            // The session has the results of its own tools.
            ended_.insert(std::move(message.output_of));
            return;
        }
        read_content(from, path, message);
        if (message.text.empty()) message.text = client_text(from, "error", path, longest_text);
        request_->client.messages.push_back(std::move(message));
    }

    AguiRequest* request_;
    std::set<std::string> ended_;  // ids of calls
};

void read_answers(const JsonObject& body, AguiRequest& request) {
    std::set<std::string> names;
    for (const JsonObject* const entry : objects_in(body, "resume", most_answers)) {
        const std::string path = "resume[" + std::to_string(request.answers.size()) + "]";
        AguiAnswer& answer = request.answers.emplace_back();
        answer.question = required_text(*entry, "interruptId", path);
        if (!names.insert(answer.question).second)
            throw OpenAIRequestError(path, "there is another answer to this interrupt");
        const std::string status = client_text(*entry, "status", path, most_client_name);
        if (status != "resolved" && status != "cancelled")
            throw OpenAIRequestError(path + ".status", "must be resolved or cancelled");
        answer.is_cancelled = status == "cancelled";
        if (const Json* const payload = entry->if_contains("payload")) answer.payload = *payload;
    }
}

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

JsonObject usage_json(const detail::OpenAIReplyUsage& usage) {
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

AguiRequest read_agui_request(std::string_view body) {
    const JsonObject input = detail::read_client_body(body);
    AguiRequest request;
    request.thread = required_text(input, "threadId", "");
    request.run = required_text(input, "runId", "");
    request.client = read_settings(input);
    if (const JsonObject* const state = detail::object_member(input, "state"))
        request.state = *state;
    for (const JsonObject* const one : objects_in(input, "context", most_context)) {
        JsonObject fact;
        for (const char* const name : {"description", "value"})
            fact[name] = client_text(*one, name, "context", longest_text);
        request.context.emplace_back(std::move(fact));
    }
    read_answers(input, request);
    Conversation conversation(request);
    const std::vector<const JsonObject*> messages =
        objects_in(input, "messages", detail::most_client_messages);
    for (std::size_t i = 0; i < messages.size(); ++i)
        conversation.add(*messages[i], "messages[" + std::to_string(i) + "]");
    conversation.finish();
    if (!request.answers.empty()) {
        // The messages of the user were sent with an earlier run.
        std::erase_if(request.client.messages,
                      [](const OpenAIClientMessage& one) { return one.output_of.empty(); });
    } else {
        detail::check_last_message(request.client, "messages");
    }
    return request;
}

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

void AguiRun::end(const OpenAIReplyEnd& end) {
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
