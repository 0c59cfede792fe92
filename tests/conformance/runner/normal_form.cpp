#include "normal_form.hpp"

#include <utility>

#include <cubepi/core/message_json.hpp>
#include <cubepi/schema/parse_json.hpp>

#include "support.hpp"

namespace conformance {

namespace {

using cubepi::AgentEvent;
using cubepi::AssistantContent;
using cubepi::Content;
using cubepi::StreamEvent;
using cubepi::StreamEventType;

AssistantContent parse_block(const Json& form) {
    const JsonObject& object = as_object(form, "content");
    const std::string type = text_or(object, "type", "");
    if (type == "text") {
        cubepi::TextContent block;
        block.text = text_or(object, "text", "");
        return block;
    }
    if (type == "thinking") {
        cubepi::ThinkingContent block;
        block.thinking = text_or(object, "thinking", "");
        return block;
    }
    if (type == "tool_call") {
        cubepi::ToolCall call;
        call.id = text_or(object, "id", "");
        call.name = cubepi::SharedString(text_or(object, "name", ""));
        call.arguments = as_object(object.at("arguments"), "arguments");
        return call;
    }
    throw BadFile("content: unknown block \"" + type + "\"");
}

cubepi::ContentList<Content> parse_content(const Json& form) {
    cubepi::ContentList<Content> blocks;
    for (AssistantContent& block : parse_assistant_content(form)) {
        auto* text = std::get_if<cubepi::TextContent>(&block);
        if (!text) throw BadFile("content: only text blocks are known here");
        blocks.emplace_back(std::move(*text));
    }
    return blocks;
}

Json text_form(std::string_view text) {
    JsonObject form;
    form["type"] = "text";
    form["text"] = text;
    return form;
}

/// A list of blocks, or the text of the only one.
Json shortened(JsonArray blocks) {
    if (blocks.size() == 1 && blocks[0].at("type") == "text") return blocks[0].at("text");
    return blocks;
}

void mask_texts(JsonArray& blocks, const std::set<std::string>& known) {
    for (Json& block : blocks) {
        JsonObject& object = block.get_object();
        if (object.at("type") == "text" &&
            !known.contains(std::string(object.at("text").get_string()))) {
            object["text"] = "<error>";
        }
    }
}

JsonArray blocks_of(const cubepi::ContentList<Content>& content) {
    JsonArray blocks;
    for (const Content& block : content) {
        if (const auto* text = std::get_if<cubepi::TextContent>(&block)) {
            blocks.push_back(text_form(text->text));
        } else {
            blocks.emplace_back(cubepi::to_json(block));
        }
    }
    return blocks;
}

bool failed(const cubepi::AssistantMessage& message) {
    return message.stop_reason == "error" || message.stop_reason == "aborted";
}

JsonObject assistant_form(const cubepi::AssistantMessage& message, const KnownTexts& known,
                          bool in_call) {
    JsonObject form;
    form["role"] = "assistant";
    JsonArray blocks;
    for (const Json& block : block_forms(message)) {
        const JsonObject& object = block.get_object();
        const bool empty_text =
            object.at("type") == "text" && object.at("text").get_string().empty();
        if (!empty_text || !failed(message)) blocks.push_back(block);
    }
    form["content"] = shortened(std::move(blocks));
    if (in_call) return form;
    form["stop_reason"] = message.stop_reason.str();
    if (!message.error_message.empty()) {
        const bool scripted = known.errors.contains(message.error_message.str());
        form["error_message"] = scripted ? message.error_message.str() : "<error>";
    }
    return form;
}

JsonObject tool_result_form(const cubepi::ToolResultMessage& message, const KnownTexts& known,
                            bool in_call) {
    JsonObject form;
    form["role"] = "tool_result";
    form["id"] = message.tool_call_id.str();
    form["tool"] = message.tool_name.str();
    form["content"] =
        result_content_form(message.content, message.is_error, message.tool_name.str(), known);
    if (message.is_error) form["is_error"] = true;
    if (!in_call && !message.details.is_null()) form["details"] = message.details;
    return form;
}

}  // namespace

cubepi::ContentList<AssistantContent> parse_assistant_content(const Json& form) {
    cubepi::ContentList<AssistantContent> blocks;
    if (form.is_string()) {
        cubepi::TextContent block;
        block.text = as_text(form, "content");
        blocks.emplace_back(std::move(block));
        return blocks;
    }
    for (const Json& block : as_array(form, "content")) blocks.push_back(parse_block(block));
    return blocks;
}

cubepi::Message parse_message(const Json& form) {
    const JsonObject& object = as_object(form, "message");
    only_keys(object, "message",
              {"role", "content", "stop_reason", "error_message", "id", "tool", "is_error",
               "details", "metadata", "run"});
    const std::string role = text_or(object, "role", "");
    const cubepi::SharedString run(text_or(object, "run", ""));
    JsonObject metadata;
    if (const Json* given = object.if_contains("metadata"))
        metadata = as_object(*given, "metadata");
    if (role == "user") {
        cubepi::UserMessage message;
        message.content = parse_content(object.at("content"));
        message.metadata = cubepi::LazyObject(std::move(metadata));
        message.run_id = run;
        return message;
    }
    if (role == "assistant") {
        cubepi::AssistantMessage message;
        message.content = parse_assistant_content(object.at("content"));
        message.stop_reason = cubepi::stop_reason::shared(text_or(object, "stop_reason", "stop"));
        message.error_message = cubepi::SharedString(text_or(object, "error_message", ""));
        message.metadata = cubepi::LazyObject(std::move(metadata));
        message.run_id = run;
        return message;
    }
    if (role != "tool_result") throw BadFile("message: unknown role \"" + role + "\"");
    cubepi::ToolResultMessage message;
    message.tool_call_id = text_or(object, "id", "");
    message.tool_name = cubepi::SharedString(text_or(object, "tool", ""));
    message.content = parse_content(object.at("content"));
    message.is_error = flag_or(object, "is_error", false);
    if (const Json* details = object.if_contains("details")) message.details = *details;
    message.metadata = cubepi::LazyObject(std::move(metadata));
    message.run_id = run;
    return message;
}

cubepi::Message parse_queued(const Json& form) {
    if (form.is_string()) return cubepi::user_message(as_text(form, "queued message"));
    const JsonObject& object = as_object(form, "queued message");
    only_keys(object, "queued message", {"text", "id"});
    cubepi::UserMessage message;
    cubepi::TextContent block;
    block.text = text_or(object, "text", "");
    message.content.emplace_back(std::move(block));
    if (object.if_contains("id")) message.metadata["steer_id"] = text_or(object, "id", "");
    return message;
}

JsonArray block_forms(const cubepi::AssistantMessage& message) {
    JsonArray blocks;
    for (const AssistantContent& block : message.content) {
        JsonObject form;
        if (const auto* text = std::get_if<cubepi::TextContent>(&block)) {
            blocks.push_back(text_form(text->text));
            continue;
        }
        if (const auto* thinking = std::get_if<cubepi::ThinkingContent>(&block)) {
            form["type"] = "thinking";
            form["thinking"] = thinking->thinking;
        } else if (const auto* call = std::get_if<cubepi::ToolCall>(&block)) {
            form["type"] = "tool_call";
            form["id"] = call->id.str();
            form["name"] = call->name.str();
            form["arguments"] = call->arguments;
        } else {
            form = cubepi::to_json(block);
        }
        blocks.emplace_back(std::move(form));
    }
    return blocks;
}

Json result_content_form(const cubepi::ContentList<Content>& content, bool is_error,
                         std::string_view tool, const KnownTexts& known) {
    JsonArray blocks = blocks_of(content);
    if (is_error) {
        mask_texts(blocks, known.results);
    } else if (tool == "ask_user") {
        for (Json& block : blocks) {
            if (block.at("type") == "text") block.get_object()["text"] = "<answers>";
        }
    }
    return shortened(std::move(blocks));
}

JsonObject message_form(const cubepi::Message& message, const KnownTexts& known, Place place,
                        RunNames* runs) {
    const bool in_call = place == Place::call;
    JsonObject form;
    if (const auto* user = message.user()) {
        form["role"] = "user";
        form["content"] = shortened(blocks_of(user->content));
        const Json* source = user->metadata.find("synthetic_source");
        if (in_call && source) form["synthetic"] = *source;
    } else if (const auto* assistant = message.assistant()) {
        form = assistant_form(*assistant, known, in_call);
    } else {
        form = tool_result_form(*message.tool_result(), known, in_call);
    }
    if (in_call) return form;
    if (!message.metadata().empty()) form["metadata"] = message.metadata().get();
    if (place == Place::history && runs && !message.run_id().empty()) {
        form["run"] = runs->name_of(message.run_id().str());
    }
    return form;
}

JsonArray message_forms(const cubepi::MessageList& messages, const KnownTexts& known, Place place,
                        RunNames* runs) {
    JsonArray forms;
    for (const cubepi::Message& message : messages) {
        JsonObject form = message_form(message, known, place, runs);
        const bool empty_answer = form.at("role") == "assistant" && form.at("content").is_array() &&
                                  form.at("content").get_array().empty();
        if (place == Place::call && empty_answer) continue;
        forms.emplace_back(std::move(form));
    }
    return forms;
}

std::string RunNames::name_of(const std::string& run_id) {
    const auto found = names_.find(run_id);
    if (found != names_.end()) return found->second;
    std::string name = "r" + std::to_string(++count_);
    names_.emplace(run_id, name);
    return name;
}

bool is_legal_request(const cubepi::MessageList& messages) {
    std::size_t at = 0;
    while (at < messages.size()) {
        const cubepi::Message& message = messages[at++];
        if (message.tool_result()) return false;
        if (!message.assistant()) continue;
        std::multiset<std::string> open;
        for (const cubepi::ToolCall* call : message.assistant()->tool_calls())
            open.insert(call->id);
        while (!open.empty()) {
            const cubepi::ToolResultMessage* result =
                at < messages.size() ? messages[at++].tool_result() : nullptr;
            const auto found = result ? open.find(result->tool_call_id) : open.end();
            if (found == open.end()) return false;
            open.erase(found);
        }
    }
    return true;
}

namespace {

JsonObject execution_end_form(const cubepi::ToolExecutionEndEvent& event, const KnownTexts& known) {
    JsonObject form;
    form["id"] = event.tool_call_id.str();
    form["tool"] = event.tool_name.str();
    form["content"] =
        result_content_form(event.result.content, event.is_error, event.tool_name.str(), known);
    Json details = event.result.details;
    if (!details.is_null()) form["details"] = std::move(details);
    if (event.is_error) form["is_error"] = true;
    if (event.terminate) form["terminate"] = true;
    if (event.blocked_by_hook) form["blocked"] = true;
    if (!event.block_reason.empty()) {
        form["reason"] =
            known.results.contains(event.block_reason) ? event.block_reason : "<error>";
    }
    return form;
}

JsonObject without_nulls(const JsonObject& object) {
    JsonObject present;
    for (const auto& [key, value] : object) {
        if (!value.is_null()) present[key] = value;
    }
    return present;
}

JsonArray role_forms(const cubepi::MessageList& messages) {
    JsonArray roles;
    for (const cubepi::Message& message : messages)
        roles.emplace_back(cubepi::to_string(message.role()));
    return roles;
}

}  // namespace

void put_request(JsonObject& form, const cubepi::HitlRequest& request) {
    if (const auto* approve = std::get_if<cubepi::ApproveRequest>(&request.payload)) {
        form["kind"] = "approve";
        form["tool"] = approve->tool_name;
        form["id"] = approve->tool_call_id;
        form["args"] = approve->args;
    } else if (const auto* ask = std::get_if<cubepi::AskRequest>(&request.payload)) {
        form["kind"] = "ask";
        JsonArray keys;
        for (const cubepi::HitlQuestion& question : ask->questions) keys.emplace_back(question.key);
        form["keys"] = std::move(keys);
    } else {
        form["kind"] = "confirm";
    }
}

std::string Recorder::question_name(const std::string& id) const {
    const auto found = questions_.find(id);
    return found == questions_.end() ? "unknown question" : found->second;
}

void Recorder::follow(const StreamEvent& event) {
    const auto index = static_cast<std::size_t>(event.content_index);
    const auto own_call = [&]() -> JsonObject {
        const JsonArray blocks = block_forms(event.partial.get());
        if (index >= blocks.size() || blocks[index].at("type") != "tool_call") return JsonObject();
        return blocks[index].get_object();
    };
    if (answer_.size() <= index) answer_.resize(index + 1);
    Json& block = answer_[index];
    JsonObject begun;
    switch (event.type) {
        case StreamEventType::text_start:
        case StreamEventType::thinking_start: {
            const bool text = event.type == StreamEventType::text_start;
            begun["type"] = text ? "text" : "thinking";
            begun[text ? "text" : "thinking"] = "";
            block = std::move(begun);
            break;
        }
        case StreamEventType::text_delta: block.at("text").get_string().append(event.delta); break;
        case StreamEventType::thinking_delta:
            block.at("thinking").get_string().append(event.delta);
            break;
        case StreamEventType::toolcall_start:
            begun = own_call();
            begun["arguments"] = JsonObject();
            block = std::move(begun);
            break;
        case StreamEventType::toolcall_end: {
            const JsonObject call = own_call();
            if (const Json* arguments = call.if_contains("arguments"))
                block.get_object()["arguments"] = *arguments;
            break;
        }
        default: break;
    }
}

void Recorder::record_update(const StreamEvent& event) {
    follow(event);
    updates_.push_back(Update{event, answer_});

    const bool piece = event.type == StreamEventType::toolcall_delta;
    if (piece && !pieces_.empty() && pieces_.back().entry + 1 == events_.size() &&
        events_.back().at("index") == event.content_index) {
        pieces_.back().json += event.delta;
        return;
    }
    JsonObject form;
    form["type"] = "message_update";
    form["stream"] = cubepi::to_string(event.type);
    form["index"] = event.content_index;
    if (event.type == StreamEventType::text_delta ||
        event.type == StreamEventType::thinking_delta) {
        form["delta"] = event.delta;
    }
    if (piece) pieces_.push_back(Pieces{events_.size(), std::string(event.delta)});
    events_.emplace_back(std::move(form));
}

JsonObject Recorder::form(const AgentEvent& event) {
    JsonObject form;
    form["type"] = cubepi::to_string(event.type());
    if (const auto* start = event.get_if<cubepi::MessageStartEvent>()) {
        form["role"] = cubepi::to_string(start->message.role());
        if (const auto* result = start->message.tool_result())
            form["id"] = result->tool_call_id.str();
        if (start->message.assistant()) answer_.clear();
    } else if (const auto* end = event.get_if<cubepi::MessageEndEvent>()) {
        if (!end->message.run_id().empty()) (void)runs_.name_of(end->message.run_id().str());
        form["message"] = message_form(end->message, known_, Place::event);
    } else if (const auto* begun = event.get_if<cubepi::ToolExecutionStartEvent>()) {
        form["id"] = begun->tool_call_id.str();
        form["tool"] = begun->tool_name.str();
        form["args"] = begun->args;
    } else if (const auto* update = event.get_if<cubepi::ToolExecutionUpdateEvent>()) {
        form["id"] = update->tool_call_id.str();
        form["update"] = update->partial_result;
    } else if (const auto* done = event.get_if<cubepi::ToolExecutionEndEvent>()) {
        JsonObject rest = execution_end_form(*done, known_);
        for (auto& [key, value] : rest) form[key] = std::move(value);
    } else if (const auto* turn = event.get_if<cubepi::TurnEndEvent>()) {
        form["stop_reason"] =
            turn->message.assistant() ? turn->message.assistant()->stop_reason.str() : "";
        JsonArray ids;
        for (const cubepi::Message& result : turn->tool_results)
            ids.emplace_back(result.tool_result()->tool_call_id.str());
        form["results"] = std::move(ids);
    } else if (const auto* over = event.get_if<cubepi::AgentEndEvent>()) {
        form["messages"] = role_forms(over->messages);
    } else if (const auto* asked = event.get_if<cubepi::HitlRequestEvent>()) {
        questions_[asked->request.question_id] = "q" + std::to_string(++question_count_);
        form["question"] = question_name(asked->request.question_id);
        put_request(form, asked->request);
    } else if (const auto* answered = event.get_if<cubepi::HitlAnswerEvent>()) {
        form["question"] = question_name(answered->question_id);
        if (answered->cancelled) {
            form["cancelled"] = true;
        } else if (answered->answer.is_object()) {
            form["answer"] = without_nulls(answered->answer.get_object());
        } else {
            form["answer"] = answered->answer;
        }
    } else if (const auto* suspended = event.get_if<cubepi::AgentSuspendedEvent>()) {
        if (!suspended->pending_requests.empty()) {
            form["question"] = question_name(suspended->pending_requests.front().question_id);
        }
    } else if (const auto* aborted = event.get_if<cubepi::AgentAbortedEvent>()) {
        form["reason"] = aborted->reason;
    }
    return form;
}

void Recorder::on_event(const AgentEvent& event) {
    if (event.type() == cubepi::AgentEventType::notice) return;
    ++counts_[std::string(cubepi::to_string(event.type()))];
    if (const auto* update = event.get_if<cubepi::MessageUpdateEvent>()) {
        record_update(update->stream_event);
        return;
    }
    JsonObject entry = form(event);
    events_.emplace_back(std::move(entry));
}

JsonArray Recorder::events() const {
    JsonArray events = events_;
    for (const Pieces& pieces : pieces_) {
        cubepi::JsonTextError error;
        Json parsed = cubepi::parse_json(pieces.json, error);
        if (!error) events[pieces.entry].get_object()["json"] = std::move(parsed);
    }
    return events;
}

Json Recorder::partials() const {
    JsonArray wrong;
    for (std::size_t i = 0; i < updates_.size(); ++i) {
        if (block_forms(updates_[i].event.partial.get()) != updates_[i].expected)
            wrong.emplace_back(i);
    }
    if (wrong.empty()) return "ok";
    return wrong;
}

JsonObject Recorder::counts(const std::vector<std::string>& types) const {
    JsonObject counts;
    for (const std::string& type : types) {
        const auto found = counts_.find(type);
        counts[type] = found == counts_.end() ? 0 : found->second;
    }
    return counts;
}

}  // namespace conformance
