#include "span_content.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>

#include <cubepi/core/support/json_member.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::app {

namespace {

using detail::array_member;
using detail::object_member;
using detail::string_member;
using detail::text_member;

constexpr std::array<std::string_view, 8> content_keys = {"gen_ai.system_instructions",
                                                          "gen_ai.input.messages",
                                                          "gen_ai.output.messages",
                                                          "gen_ai.tool.definitions",
                                                          "gen_ai.tool.call.arguments",
                                                          "gen_ai.tool.call.result",
                                                          "llm.raw_request",
                                                          "llm.raw_response"};

std::string member_text(const JsonObject& object, std::string_view key) {
    const Json* value = object.if_contains(key);
    return value ? attribute_text(*value) : std::string();
}

ContentBlock part_block(const std::string& role, const JsonObject& part) {
    const std::string_view type = string_member(part, "type");
    if (type == "text") return {role, member_text(part, "content")};
    if (type == "reasoning") return {role + " (reasoning)", member_text(part, "content")};
    if (type == "tool_call")
        return {"call " + text_member(part, "name"), member_text(part, "arguments")};
    if (type == "tool_call_response")
        return {"result of " + text_member(part, "id"), member_text(part, "result")};
    return {role, "[" + (type.empty() ? json_text(part) : std::string(type)) + "]"};
}

void add_message(std::vector<ContentBlock>& blocks, const Json& message) {
    const JsonObject* object = message.if_object();
    if (!object) {
        blocks.push_back({"message", attribute_text(message)});
        return;
    }
    const std::string role = text_member(*object, "role");
    const JsonArray* parts = array_member(*object, "parts");
    if (!parts) {
        // System instructions may be a list of parts without a message around them.
        blocks.push_back(part_block(role.empty() ? "system" : role, *object));
        return;
    }
    for (const Json& part : *parts) {
        const JsonObject* one = part.if_object();
        blocks.push_back(one ? part_block(role, *one) : ContentBlock{role, attribute_text(part)});
    }
}

/// The blocks of a list of messages of the GenAI conventions; a value of another form is one block.
std::vector<ContentBlock> message_blocks(const Json& messages) {
    std::vector<ContentBlock> blocks;
    if (messages.is_null()) return blocks;
    if (const JsonArray* list = messages.if_array()) {
        for (const Json& message : *list) add_message(blocks, message);
    } else {
        add_message(blocks, messages);
    }
    return blocks;
}

/// The result of a tool: the text of its content, else everything.
std::string result_text(const Json& result) {
    const JsonObject* object = result.if_object();
    const JsonArray* content = object ? array_member(*object, "content") : nullptr;
    if (!content) return attribute_text(result);
    std::string text;
    for (const Json& block : *content) {
        const JsonObject* one = block.if_object();
        if (!one) continue;
        if (!text.empty()) text += '\n';
        text += string_member(*one, "type") == "text" ? text_member(*one, "text")
                                                      : "[" + text_member(*one, "type") + "]";
    }
    const Json* details = object->if_contains("details");
    if (details && !details->is_null()) text += "\ndetails: " + json_text(*details);
    return text;
}

void add_tool_call(std::vector<ContentBlock>& blocks, const JsonObject& attributes) {
    const Json arguments = content_attribute(attributes, "gen_ai.tool.call.arguments");
    const Json result = content_attribute(attributes, "gen_ai.tool.call.result");
    if (!arguments.is_null()) blocks.push_back({"arguments", attribute_text(arguments)});
    if (!result.is_null()) blocks.push_back({"result", result_text(result)});
}

void append(std::vector<ContentBlock>& blocks, std::vector<ContentBlock> more) {
    blocks.insert(blocks.end(), std::make_move_iterator(more.begin()),
                  std::make_move_iterator(more.end()));
}

std::size_t hash_of(const Json& message) {
    return std::hash<std::string>()(boost::json::serialize(message));
}

std::string counted_messages(std::size_t count) {
    return std::to_string(count) + (count == 1 ? " message" : " messages");
}

bool is_content(std::string_view key) noexcept {
    return std::any_of(content_keys.begin(), content_keys.end(),
                       [key](std::string_view name) { return key.ends_with(name); });
}

void add_attributes(std::vector<std::string>& lines, const JsonObject& attributes) {
    for (const auto& [key, value] : attributes) {
        if (is_content(key)) {
            const std::size_t size = value.is_string() ? value.get_string().size() : 0;
            lines.push_back(std::string(key) + " = (" + std::to_string(size) +
                            " bytes of content)");
        } else {
            lines.push_back(std::string(key) + " = " + attribute_text(value));
        }
    }
}

}  // namespace

SpanContent::SpanContent(const Trace& trace) : trace_(trace) {
    runs_.reserve(trace.spans.size());
    for (const TraceSpan& span : trace.spans) {
        has_chat_ = has_chat_ || span.operation == SpanOperation::chat;
        const bool begins = span.operation == SpanOperation::agent || !span.parent;
        runs_.push_back(begins ? runs_.size() : runs_[*span.parent]);
    }
}

std::size_t SpanContent::add_new_messages(std::vector<ContentBlock>& blocks, const Json& messages,
                                          Hashes& shown) {
    const JsonArray* list = messages.if_array();
    if (!list) {
        append(blocks, message_blocks(messages));
        return 0;
    }
    std::size_t others = 0;
    for (const Json& message : *list) {
        if (shown.insert(hash_of(message)).second) {
            add_message(blocks, message);
        } else {
            ++others;
        }
    }
    return others;
}

std::vector<ContentBlock> SpanContent::call_blocks(std::size_t span, const JsonObject& attributes) {
    Hashes& shown = shown_[runs_[span]];
    std::vector<ContentBlock> blocks;
    add_new_messages(blocks, content_attribute(attributes, "gen_ai.system_instructions"), shown);
    std::vector<ContentBlock> input;
    const std::size_t before =
        add_new_messages(input, content_attribute(attributes, "gen_ai.input.messages"), shown);
    if (before > 0)
        blocks.push_back(
            {"input", counted_messages(before) + " shown above" + (input.empty() ? "" : ", then")});
    append(blocks, std::move(input));
    const Json output = content_attribute(attributes, "gen_ai.output.messages");
    append(blocks, message_blocks(output));
    if (const JsonArray* list = output.if_array()) {
        for (const Json& message : *list) shown.insert(hash_of(message));
    }
    return blocks;
}

std::vector<ContentBlock> SpanContent::blocks(std::size_t span, const JsonObject& line, bool all) {
    std::vector<ContentBlock> blocks;
    const JsonObject* attributes = object_member(line, "attributes");
    if (!attributes) return blocks;
    const SpanOperation operation = trace_.spans[span].operation;
    if (operation == SpanOperation::tool || operation == SpanOperation::mcp) {
        add_tool_call(blocks, *attributes);
    } else if (operation == SpanOperation::chat) {
        return call_blocks(span, *attributes);
    } else if (!has_chat_ || all) {
        for (const std::string_view key :
             {"gen_ai.system_instructions", "gen_ai.input.messages", "gen_ai.output.messages"})
            append(blocks, message_blocks(content_attribute(*attributes, key)));
    }
    return blocks;
}

std::vector<std::string> attribute_lines(const TraceSpan& span, const JsonObject& line) {
    std::vector<std::string> lines;
    lines.push_back("span " + span.span_id +
                    (span.parent_id.empty() ? "" : ", parent " + span.parent_id) + ", " +
                    text_member(line, "start_time"));
    if (const JsonObject* attributes = object_member(line, "attributes"))
        add_attributes(lines, *attributes);
    const JsonArray* events = array_member(line, "events");
    for (const Json& event : events ? *events : JsonArray()) {
        const JsonObject* object = event.if_object();
        if (!object) continue;
        lines.push_back("event " + text_member(*object, "name"));
        if (const JsonObject* attributes = object_member(*object, "attributes"))
            add_attributes(lines, *attributes);
    }
    const JsonArray* links = array_member(line, "links");
    for (const Json& link : links ? *links : JsonArray())
        lines.push_back("link " + json_text(link));
    return lines;
}

}  // namespace cubepi::app
