#include "message_form.hpp"

#include <utility>

#include <cubepi/core/message_json.hpp>

#include "reading.hpp"

namespace conformance {

namespace {

using cubepi::AssistantContent;
using cubepi::Content;

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

}  // namespace conformance
