#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>

#include <unistd.h>

#include <cubepi/core/support/json_member.hpp>
#include <cubepi/provider/cost.hpp>
#include <cubepi/schema/json_text.hpp>

#include "../process.hpp"
#include "../terminal/event_text.hpp"
#include "../terminal/terminal_stream.hpp"
#include "trace_views.hpp"

namespace cubepi::app {

namespace {

constexpr std::int64_t millisecond = 1000;
constexpr std::int64_t second = 1000 * millisecond;
constexpr std::int64_t minute = 60 * second;
constexpr std::int64_t hour = 60 * minute;
constexpr std::int64_t shortest_short_count = 10'000;

/// `value` in units of `unit`, rounded down to so many decimals.
std::string decimal(std::int64_t value, std::int64_t unit, int decimals) {
    std::array<char, 40> text = {};
    const int size = std::snprintf(text.data(), text.size(), "%.*f", decimals,
                                   static_cast<double>(value) / static_cast<double>(unit));
    return std::string(text.data(), static_cast<std::size_t>(size));
}

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

/// Adds the blocks of a list of messages of the GenAI conventions; a value of another form is one block.
void add_messages(std::vector<ContentBlock>& blocks, const Json& messages) {
    if (const JsonArray* list = messages.if_array()) {
        for (const Json& message : *list) add_message(blocks, message);
    } else if (!messages.is_null()) {
        add_message(blocks, messages);
    }
}

void add_tool_call(std::vector<ContentBlock>& blocks, const JsonObject& attributes) {
    const Json arguments = content_attribute(attributes, "gen_ai.tool.call.arguments");
    const Json result = content_attribute(attributes, "gen_ai.tool.call.result");
    if (!arguments.is_null()) blocks.push_back({"arguments", attribute_text(arguments)});
    if (result.is_null()) return;
    std::string text = result_text(result);
    const JsonObject* object = result.if_object();
    const Json* details = object ? object->if_contains("details") : nullptr;
    if (details && !details->is_null() && object->contains("content"))
        text += "\ndetails: " + json_text(*details);
    blocks.push_back({"result", std::move(text)});
}

std::size_t hash_of(const Json& message) {
    return std::hash<std::string>()(boost::json::serialize(message));
}

bool is_content(std::string_view key) noexcept {
    return std::any_of(content_keys.begin(), content_keys.end(),
                       [key](std::string_view name) { return key.ends_with(name); });
}

/// Adds the attributes of a span or an event; of content the size.
void add_attributes(std::vector<std::string>& lines, const JsonObject& holder) {
    const JsonObject* attributes = object_member(holder, "attributes");
    for (const auto& [key, value] : attributes ? *attributes : JsonObject()) {
        const std::size_t size = value.is_string() ? value.get_string().size() : 0;
        lines.push_back(std::string(key) + " = " +
                        (is_content(key) ? "(" + std::to_string(size) + " bytes of content)"
                                         : attribute_text(value)));
    }
}

}  // namespace

TraceScreen TraceScreen::standard() {
    TraceScreen screen;
    screen.style = Style::of(STDOUT_FILENO);
    screen.ascii = !screen.style.terminal || terminal_is_ascii();
    return screen;
}

std::string span_time_text(std::int64_t microseconds) {
    if (microseconds < 100) return std::to_string(microseconds) + "us";
    if (microseconds < 99'950) return decimal(microseconds, millisecond, 1) + "ms";
    if (microseconds < 999'500) return decimal(microseconds, millisecond, 0) + "ms";
    if (microseconds < minute - 5 * millisecond) return decimal(microseconds, second, 2) + "s";
    const bool is_long = microseconds >= hour;
    const std::int64_t unit = is_long ? minute : second;
    const std::string rest = std::to_string(microseconds / unit % 60);
    return std::to_string(microseconds / unit / 60) + (is_long ? "h" : "m") +
           (rest.size() < 2 ? "0" : "") + rest + (is_long ? "m" : "s");
}

std::string token_text(const std::optional<TokenCounts>& tokens) {
    if (!tokens) return {};
    return token_count_text(tokens->input) + "/" + token_count_text(tokens->output);
}

std::string token_count_text(std::int64_t count) {
    return count < shortest_short_count ? std::to_string(count) : short_count_text(count);
}

std::string cost_text(const std::optional<double>& cost) {
    return cost ? money_text(*cost) : std::string();
}

std::string sums_text(const TraceSummary& summary) {
    std::string text;
    if (summary.tokens) {
        text = std::to_string(summary.tokens->input) + " tokens in, ";
        if (summary.tokens->cache_read > 0)
            text += std::to_string(summary.tokens->cache_read) + " of them cached, ";
        text += std::to_string(summary.tokens->output) + " out";
    }
    return text + (text.empty() || !summary.cost ? "" : ", ") + cost_text(summary.cost);
}

std::string summary_text(const TraceSummary& summary) {
    const std::string sums = sums_text(summary);
    return local_time(static_cast<double>(summary.start) / 1e6) + ", " +
           span_time_text(summary.duration()) + ", " + std::to_string(summary.spans) +
           (summary.spans == 1 ? " span" : " spans") + (sums.empty() ? "" : ", ") + sums;
}

std::string identity_text(const TraceSummary& summary) {
    std::string text;
    if (!summary.session.empty()) text = "session " + summary.session;
    for (const auto& [key, value] : summary.metadata)
        text += (text.empty() ? "" : ", ") + key + "=" + value;
    return text;
}

std::string_view name_of(const TraceSpan& span) {
    return span.name.empty() ? std::string_view("(no name)") : span.name;
}

std::vector<const char*> marks_of(const TraceSpan& span) {
    std::vector<const char*> marks;
    if (span.error) marks.push_back("ERROR");
    if (span.aborted) marks.push_back("aborted");
    if (span.suspended) marks.push_back("suspended");
    if (span.orphan) marks.push_back("orphan");
    if (span.cycle) marks.push_back("cycle");
    return marks;
}

TerminalText status_text(const Style& style, TraceStatus status) {
    const TerminalView color = status == TraceStatus::ok      ? style.green()
                               : status == TraceStatus::error ? style.red()
                                                              : style.yellow();
    return color + for_terminal(status_name(status)) + style.off();
}

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
    if (!list) add_messages(blocks, messages);
    std::size_t others = 0;
    for (const Json& message : list ? *list : JsonArray()) {
        if (shown.insert(hash_of(message)).second) {
            add_message(blocks, message);
        } else {
            ++others;
        }
    }
    return others;
}

void SpanContent::add_call(std::vector<ContentBlock>& blocks, const JsonObject& attributes,
                           Hashes& shown) {
    add_new_messages(blocks, content_attribute(attributes, "gen_ai.system_instructions"), shown);
    std::vector<ContentBlock> input;
    const std::size_t before =
        add_new_messages(input, content_attribute(attributes, "gen_ai.input.messages"), shown);
    if (before > 0)
        blocks.push_back({"input", std::to_string(before) +
                                       (before == 1 ? " message" : " messages") + " shown above" +
                                       (input.empty() ? "" : ", then")});
    std::move(input.begin(), input.end(), std::back_inserter(blocks));
    const Json output = content_attribute(attributes, "gen_ai.output.messages");
    add_messages(blocks, output);
    if (const JsonArray* list = output.if_array()) {
        for (const Json& message : *list) shown.insert(hash_of(message));
    }
}

std::vector<ContentBlock> SpanContent::blocks(std::size_t span, const JsonObject& line, bool all) {
    std::vector<ContentBlock> blocks;
    const JsonObject* attributes = object_member(line, "attributes");
    if (!attributes) return blocks;
    const SpanOperation operation = trace_.spans[span].operation;
    if (operation == SpanOperation::tool || operation == SpanOperation::mcp) {
        add_tool_call(blocks, *attributes);
    } else if (operation == SpanOperation::chat) {
        add_call(blocks, *attributes, shown_[runs_[span]]);
    } else if (!has_chat_ || all) {
        for (const char* const key :
             {"gen_ai.system_instructions", "gen_ai.input.messages", "gen_ai.output.messages"})
            add_messages(blocks, content_attribute(*attributes, key));
    }
    return blocks;
}

std::vector<std::string> attribute_lines(const TraceSpan& span, const JsonObject& line) {
    std::vector<std::string> lines;
    lines.push_back("span " + span.span_id +
                    (span.parent_id.empty() ? "" : ", parent " + span.parent_id) + ", " +
                    text_member(line, "start_time"));
    add_attributes(lines, line);
    const JsonArray* events = array_member(line, "events");
    for (const Json& event : events ? *events : JsonArray()) {
        const JsonObject* object = event.if_object();
        if (!object) continue;
        lines.push_back("event " + text_member(*object, "name"));
        add_attributes(lines, *object);
    }
    const JsonArray* links = array_member(line, "links");
    for (const Json& link : links ? *links : JsonArray())
        lines.push_back("link " + json_text(link));
    return lines;
}

}  // namespace cubepi::app
