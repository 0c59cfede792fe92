#include <string>
#include <utility>

#include <cubepi/provider/openai/server_api.hpp>
#include <cubepi/provider/openai/server_requests.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::detail {

namespace {

constexpr std::size_t longest_text = std::size_t{64} << 20U;
constexpr std::size_t longest_id = 1024;

void read_approval(const JsonObject& item, const std::string& path, OpenAIClientRequest& request) {
    if (request.approval) throw OpenAIRequestError(path, "only one approval can be sent at a time");
    OpenAIClientApproval& approval = request.approval.emplace();
    approval.request = client_text(item, "approval_request_id", path, most_client_name);
    if (approval.request.empty())
        throw OpenAIRequestError(path + ".approval_request_id", "is required");
    const Json* const approves = item.if_contains("approve");
    if (!approves || !approves->is_bool())
        throw OpenAIRequestError(path + ".approve", "must be true or false");
    approval.approves = approves->get_bool();
    approval.reason = client_text(item, "reason", path, longest_text);
}

void read_item(const Json& value, const std::string& path, OpenAIClientRequest& request) {
    if (!value.is_object()) throw OpenAIRequestError(path, "must be an object");
    const JsonObject& item = value.get_object();
    const std::string type = client_text(item, "type", path, most_client_name);
    if (type == "mcp_approval_response") {
        read_approval(item, path, request);
        return;
    }
    // Items of earlier answers that a client returns: the session has them.
    if (type == "reasoning" || type == "mcp_approval_request") return;
    if (type == "compaction") {
        // It stands for all that precedes it.
        request.messages.clear();
        request.compaction = client_text(item, "encrypted_content", path, longest_id);
        if (request.compaction.empty())
            throw OpenAIRequestError(path + ".encrypted_content", "is required");
        return;
    }
    if (type == "function_call") {
        OpenAIClientMessage message;
        message.is_answer = true;
        message.calls.push_back(read_client_call(item, path));
        message.calls.back().id = client_call_id(item, "call_id", path);
        request.messages.push_back(std::move(message));
        return;
    }
    if (type == "function_call_output") {
        OpenAIClientMessage message;
        message.output_of = client_call_id(item, "call_id", path);
        if (!item.contains("output")) throw OpenAIRequestError(path + ".output", "is required");
        read_client_content(item, "output", path, message);
        request.messages.push_back(std::move(message));
        return;
    }
    if (!type.empty() && type != "message")
        throw OpenAIRequestError(path + ".type", "'" + type + "' is not supported");
    const std::string role = client_text(item, "role", path, most_client_name);
    OpenAIClientMessage message;
    message.is_answer = role == "assistant";
    if (!item.contains("content")) throw OpenAIRequestError(path + ".content", "is required");
    read_client_content(item, "content", path, message);
    add_client_message(request, role, std::move(message), path);
}

std::string_view word_of(OpenAIResponseStatus status) {
    switch (status) {
        case OpenAIResponseStatus::queued: return "queued";
        case OpenAIResponseStatus::in_progress: return "in_progress";
        case OpenAIResponseStatus::completed: return "completed";
        case OpenAIResponseStatus::incomplete: return "incomplete";
        case OpenAIResponseStatus::failed: return "failed";
        case OpenAIResponseStatus::cancelled: return "cancelled";
    }
    return "failed";
}

std::string event_text(std::string_view type, JsonObject members, std::int64_t sequence) {
    members["type"] = type;
    members["sequence_number"] = sequence;
    return "event: " + std::string(type) + "\ndata: " + json_text(members) + "\n\n";
}

JsonObject text_part(std::string_view text) {
    JsonObject part;
    part["type"] = "output_text";
    part["text"] = text;
    part["annotations"] = JsonArray();
    part["logprobs"] = JsonArray();
    return part;
}

JsonObject usage_json(const OpenAIReplyUsage& usage) {
    JsonObject made;
    made["input_tokens"] = usage.input;
    made["input_tokens_details"] = JsonObject{{"cached_tokens", usage.cached}};
    made["output_tokens"] = usage.output;
    made["output_tokens_details"] = JsonObject{{"reasoning_tokens", usage.reasoning}};
    made["total_tokens"] = usage.input + usage.output;
    return made;
}

/// The members of a response that clients expect, with the values that hold for an agent.
JsonObject settings() {
    JsonObject format;
    format["type"] = "text";
    JsonObject text;
    text["format"] = std::move(format);
    JsonObject made;
    for (const char* const name :
         {"completed_at", "instructions", "max_output_tokens", "max_tool_calls",
          "previous_response_id", "prompt_cache_key", "reasoning", "safety_identifier", "usage"})
        made[name] = nullptr;
    // Settings of the model have the values of a request without them; none of these may be null.
    made["temperature"] = 1;
    made["top_p"] = 1;
    for (const char* const name : {"frequency_penalty", "presence_penalty", "top_logprobs"})
        made[name] = 0;
    made["service_tier"] = "default";
    made["truncation"] = "disabled";
    made["parallel_tool_calls"] = true;
    made["text"] = std::move(text);
    made["tool_choice"] = "auto";
    made["tools"] = JsonArray();
    made["metadata"] = JsonObject();
    made["background"] = false;
    made["store"] = true;
    return made;
}

}  // namespace

namespace {

OpenAIClientRequest read_request(const JsonObject& body, bool is_compact) {
    OpenAIClientRequest request = read_client_settings(body);
    for (const char* const name : {"conversation", "prompt", "context_management"})
        refuse_client_member(body, name);
    if (const JsonObject* const format = client_object(body, "text")) {
        const JsonObject* const form = client_object(*format, "format");
        if (form && client_text(*form, "type", "text.format", most_client_name) != "text")
            throw OpenAIRequestError("text.format", "only the type 'text' is supported");
    }
    request.in_background = client_flag(body, "background", false);
    request.stores = client_flag(body, "store", true);
    if (request.in_background && !request.stores)
        throw OpenAIRequestError("background", "needs 'store': true");
    request.previous_response = client_text(body, "previous_response_id", "", longest_id);
    add_instructions(request, client_text(body, "instructions", "", longest_text));
    const Json* const input = body.if_contains("input");
    if (input && input->is_string()) {
        OpenAIClientMessage message;
        message.text = std::string(input->get_string());
        request.messages.push_back(std::move(message));
    } else if (input && input->is_array() && input->get_array().size() <= most_client_messages) {
        for (std::size_t i = 0; i < input->get_array().size(); ++i)
            read_item(input->get_array()[i], "input[" + std::to_string(i) + "]", request);
    } else if (!is_compact || (input && !input->is_null())) {
        throw OpenAIRequestError("input", "must be a string or a list of at most 4000 items");
    }
    if (!is_compact) check_last_message(request, "input");
    return request;
}

}  // namespace

OpenAIClientRequest read_openai_responses_request(std::string_view body) {
    return read_request(read_client_body(body), false);
}

OpenAIClientRequest read_openai_compact_request(std::string_view body) {
    OpenAIClientRequest request = read_request(read_client_body(body), true);
    if (request.approval) throw OpenAIRequestError("input", "has an answer to a question");
    if (request.messages.empty() && request.previous_response.empty() && request.compaction.empty())
        throw OpenAIRequestError("input", "is required without a previous response");
    return request;
}

void OpenAIResponsesWriter::event(std::string_view type, JsonObject members,
                                  std::vector<std::string>& out) {
    out.push_back(event_text(type, std::move(members), sequence_++));
}

JsonObject OpenAIResponsesWriter::response() const {
    JsonObject body = settings();
    for (const auto& one : request_) body[one.key()] = one.value();
    body["id"] = head_.id;
    body["object"] = "response";
    body["created_at"] = head_.created;
    body["model"] = head_.model;
    body["status"] = word_of(status_);
    body["error"] = nullptr;
    body["incomplete_details"] = nullptr;
    body["output"] = output_;
    if (usage_) body["usage"] = usage_json(*usage_);
    if (completed_ > 0) body["completed_at"] = completed_;
    if (status_ == OpenAIResponseStatus::failed) {
        JsonObject error;
        error["code"] = "server_error";
        error["message"] = reason_;
        body["error"] = std::move(error);
    } else if (status_ == OpenAIResponseStatus::incomplete) {
        JsonObject details;
        details["reason"] = reason_;
        body["incomplete_details"] = std::move(details);
    }
    return body;
}

std::string OpenAIResponsesWriter::state_event(std::int64_t sequence) const {
    JsonObject members;
    members["response"] = response();
    // Clients know no event for a response that was cancelled.
    const std::string_view word = status_ == OpenAIResponseStatus::cancelled
                                      ? word_of(OpenAIResponseStatus::incomplete)
                                      : word_of(status_);
    return event_text("response." + std::string(word), std::move(members), sequence);
}

void OpenAIResponsesWriter::begin(std::vector<std::string>& out) {
    for (const char* const type : {"response.created", "response.in_progress"}) {
        JsonObject members;
        members["response"] = response();
        event(type, std::move(members), out);
    }
}

JsonObject OpenAIResponsesWriter::message_item(std::string_view status) const {
    JsonObject item;
    item["id"] = "msg_" + head_.id + "_" + std::to_string(output_.size());
    item["type"] = "message";
    item["role"] = "assistant";
    item["status"] = status;
    item["content"] = JsonArray();
    if (status != "in_progress") item["content"].as_array().push_back(text_part(text_));
    return item;
}

/// The members that say where a text is.
JsonObject OpenAIResponsesWriter::at_text() const {
    JsonObject members;
    members["item_id"] = "msg_" + head_.id + "_" + std::to_string(output_.size());
    members["output_index"] = static_cast<std::int64_t>(output_.size());
    members["content_index"] = 0;
    return members;
}

void OpenAIResponsesWriter::add_text(std::string_view text, std::vector<std::string>& out) {
    if (text.empty()) return;
    if (!std::exchange(is_open_, true)) {
        item_event("response.output_item.added", message_item("in_progress"), out);
        JsonObject part = at_text();
        part["part"] = text_part("");
        event("response.content_part.added", std::move(part), out);
    }
    text_ += text;
    JsonObject delta = at_text();
    delta["delta"] = text;
    delta["logprobs"] = JsonArray();
    event("response.output_text.delta", std::move(delta), out);
}

void OpenAIResponsesWriter::end_message(std::vector<std::string>& out) {
    if (!is_open_) return;
    JsonObject text = at_text();
    text["text"] = text_;
    text["logprobs"] = JsonArray();
    event("response.output_text.done", std::move(text), out);
    JsonObject part = at_text();
    part["part"] = text_part(text_);
    event("response.content_part.done", std::move(part), out);
    JsonObject item = message_item("completed");
    item_event("response.output_item.done", item, out);
    output_.push_back(std::move(item));
    text_.clear();
    is_open_ = false;
}

void OpenAIResponsesWriter::item_event(std::string_view type, const JsonObject& item,
                                       std::vector<std::string>& out) {
    JsonObject members;
    members["output_index"] = static_cast<std::int64_t>(output_.size());
    members["item"] = item;
    event(type, std::move(members), out);
}

void OpenAIResponsesWriter::add_approval(std::string_view id, std::string_view tool,
                                         const JsonObject& arguments,
                                         std::vector<std::string>& out) {
    end_message(out);
    JsonObject item;
    item["id"] = id;
    item["type"] = "mcp_approval_request";
    item["name"] = tool;
    item["arguments"] = json_text(arguments);
    item["server_label"] = head_.model;
    item_event("response.output_item.added", item, out);
    item_event("response.output_item.done", item, out);
    output_.push_back(std::move(item));
}

void OpenAIResponsesWriter::add_call(const OpenAIClientCall& call, std::vector<std::string>& out) {
    end_message(out);
    JsonObject item;
    item["id"] = "fc_" + head_.id + "_" + std::to_string(output_.size());
    item["type"] = "function_call";
    item["status"] = "in_progress";
    item["call_id"] = call.id;
    item["name"] = call.name;
    item["arguments"] = "";
    item_event("response.output_item.added", item, out);
    JsonObject delta;
    delta["item_id"] = item["id"];
    delta["output_index"] = static_cast<std::int64_t>(output_.size());
    JsonObject done = delta;
    delta["delta"] = call.arguments;
    event("response.function_call_arguments.delta", std::move(delta), out);
    done["name"] = call.name;
    done["arguments"] = call.arguments;
    event("response.function_call_arguments.done", std::move(done), out);
    item["status"] = "completed";
    item["arguments"] = call.arguments;
    item_event("response.output_item.done", item, out);
    output_.push_back(std::move(item));
}

void OpenAIResponsesWriter::finish(OpenAIResponseStatus status, std::string_view reason,
                                   std::vector<std::string>& out) {
    end_message(out);
    status_ = status;
    reason_ = reason;
    out.push_back(state_event(sequence_++));
}

}  // namespace cubepi::detail
