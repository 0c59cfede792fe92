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
#include "../terminal/text_layout.hpp"
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

std::string two_digits(std::int64_t number) {
    return (number < 10 ? "0" : "") + std::to_string(number);
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
    if (microseconds < hour)
        return std::to_string(microseconds / minute) + "m" +
               two_digits(microseconds % minute / second) + "s";
    return std::to_string(microseconds / hour) + "h" + two_digits(microseconds % hour / minute) +
           "m";
}

std::string token_text(const std::optional<TokenCounts>& tokens) {
    if (!tokens) return {};
    return token_count_text(tokens->input) + "/" + token_count_text(tokens->output);
}

std::string token_count_text(std::int64_t count) {
    return count < shortest_short_count ? std::to_string(count) : short_count_text(count);
}

TerminalText token_sums(const std::optional<TokenCounts>& tokens) {
    if (!tokens) return {};
    TerminalText text = TerminalText::number(tokens->input) + " tokens in";
    if (tokens->cache_read > 0)
        text += ", " + TerminalText::number(tokens->cache_read) + " of them cached";
    return text + ", " + TerminalText::number(tokens->output) + " out";
}

std::string cost_text(const std::optional<double>& cost) {
    return cost ? money_text(*cost) : std::string();
}

std::string facts_text(const TraceSummary& summary) {
    std::string text = local_time(static_cast<double>(summary.start) / 1e6) + ", " +
                       span_time_text(summary.duration()) + ", " + std::to_string(summary.spans) +
                       (summary.spans == 1 ? " span" : " spans");
    for (const std::string& fact : {token_sums(summary.tokens).str(), cost_text(summary.cost)}) {
        if (!fact.empty()) text += ", " + fact;
    }
    return text;
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

TerminalView status_color(const Style& style, TraceStatus status) {
    switch (status) {
        case TraceStatus::ok: return style.green();
        case TraceStatus::error: return style.red();
        default: return style.yellow();
    }
}

TerminalText fitted(const TerminalText& text, std::size_t columns, bool ascii) {
    if (columns == 0 || display_width(text) <= columns) return text;
    if (!ascii) return shortened(text, columns);
    constexpr std::size_t sign = 3;
    if (columns <= sign) return cut_to_width(text, columns);
    return cut_to_width(text, columns - sign) + "...";
}

TerminalText padded_right(TerminalView text, std::size_t columns) {
    const std::size_t width = display_width(text.str());
    return width < columns ? text + TerminalText::blanks(columns - width) : TerminalText(text);
}

TerminalText padded_left(TerminalView text, std::size_t columns) {
    const std::size_t width = display_width(text.str());
    return width < columns ? TerminalText::blanks(columns - width) + text : TerminalText(text);
}

void TextTable::add_column(TerminalView title, Align align, int omitted) {
    columns_.push_back(Column{title, align, omitted});
}

void TextTable::add(std::vector<TerminalText> row, TerminalView color, std::size_t colored) {
    rows_.push_back(Row{std::move(row), TerminalText(color), colored});
}

std::vector<std::size_t> TextTable::widths() const {
    std::vector<std::size_t> widths(columns_.size(), 0);
    for (const Row& row : rows_) {
        for (std::size_t i = 0; i < widths.size(); ++i)
            widths[i] = std::max(widths[i], display_width(row.cells[i]));
    }
    for (std::size_t i = 0; i < widths.size(); ++i) {
        if (widths[i] > 0) widths[i] = std::max(widths[i], display_width(columns_[i].title));
    }
    return widths;
}

void TextTable::omit_columns(std::vector<std::size_t>& widths, std::size_t columns) const {
    static constexpr std::size_t least_last = 12;
    const auto used = [&widths] {
        std::size_t sum = 0;
        for (std::size_t i = 0; i + 1 < widths.size(); ++i)
            sum += widths[i] > 0 ? widths[i] + 2 : 0;
        return sum + std::min(widths.back(), least_last);
    };
    for (int place = 1; columns > 0 && used() > columns; ++place) {
        const auto next =
            std::find_if(columns_.begin(), columns_.end(),
                         [place](const Column& column) { return column.omitted == place; });
        if (next == columns_.end()) return;
        widths[static_cast<std::size_t>(next - columns_.begin())] = 0;
    }
}

TerminalText TextTable::text(const TraceScreen& screen) const {
    std::vector<std::size_t> all = widths();
    omit_columns(all, screen.columns());
    std::size_t last = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i] > 0) last = i;
    }
    const auto line = [&](const std::vector<TerminalText>& cells, const Row* row) {
        TerminalText text;
        std::size_t used = 0;
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (all[i] == 0) continue;
            if (!text.empty()) text += "  ";
            TerminalText cell = cells[i];
            const std::size_t columns = screen.columns();
            if (columns > 0 && i == last)
                cell = fitted(cell, columns > used + 8 ? columns - used : 8, screen.ascii);
            if (columns_[i].align == Align::right) {
                cell = padded_left(cell, all[i]);
            } else if (i != last) {
                cell = padded_right(cell, all[i]);
            }
            const bool colored = row && i == row->colored && !row->color.empty();
            if (colored) text += row->color;
            text += cell;
            if (colored) text += screen.style.off();
            used += all[i] + 2;
        }
        text += "\n";
        return text;
    };
    std::vector<TerminalText> titles;
    titles.reserve(columns_.size());
    for (const Column& column : columns_) titles.push_back(column.title);
    TerminalText text(screen.style.dim());
    text += line(titles, nullptr);
    text += screen.style.off();
    for (const Row& row : rows_) text += line(row.cells, &row);
    return text;
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
