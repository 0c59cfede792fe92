#include "recorder.hpp"

#include <utility>

#include <cubepi/schema/parse_json.hpp>

namespace conformance {

namespace {

using cubepi::AgentEvent;
using cubepi::StreamEvent;
using cubepi::StreamEventType;

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
