#include "span.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include <boost/json/monotonic_resource.hpp>

#include <bub/tape/entry/encoding.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi::app {

namespace {

using detail::object_member;
using detail::string_member;

constexpr std::array<std::string_view, 2> own_prefixes = {"cubepi.", "cubeloop."};
constexpr std::size_t longest_input = 400;
constexpr std::size_t longest_error = 4000;
constexpr std::size_t line_memory = std::size_t{64} << 10U;

/// The boost::json parser is several times faster than parse_lenient(), which reads what only Python writes.
Json parse_line(std::string_view line, const boost::json::storage_ptr& memory) {
    boost::system::error_code failed;
    Json value = boost::json::parse(line, failed, memory);
    return failed ? parse_lenient(line) : std::move(value);
}

std::string cut(std::string_view text, std::size_t bytes) {
    if (text.size() <= bytes) return std::string(text);
    while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0U) == 0x80) --bytes;
    return std::string(text.substr(0, bytes));
}

std::string_view without_0x(std::string_view id) {
    if (id.starts_with("0x")) id.remove_prefix(2);
    return id;
}

bool is_true(const Json* value) { return value && value->is_bool() && value->get_bool(); }

std::optional<std::int64_t> count_of(const JsonObject& attributes, std::string_view key) {
    const Json* value = attributes.if_contains(key);
    if (!value || !value->is_number()) return std::nullopt;
    const double number = value->to_number<double>();
    if (!(number >= 0) || number > 1e15) return std::nullopt;
    return static_cast<std::int64_t>(number);
}

std::optional<TokenCounts> tokens_of(const JsonObject& attributes) {
    const auto input = count_of(attributes, "gen_ai.usage.input_tokens");
    const auto output = count_of(attributes, "gen_ai.usage.output_tokens");
    if (!input && !output) return std::nullopt;
    TokenCounts counts;
    counts.input = input.value_or(0);
    counts.output = output.value_or(0);
    counts.cache_read = count_of(attributes, "gen_ai.usage.cache_read.input_tokens").value_or(0);
    counts.cache_write =
        count_of(attributes, "gen_ai.usage.cache_creation.input_tokens").value_or(0);
    return counts;
}

SpanOperation operation_of(const JsonObject& attributes, std::string_view name) {
    // An MCP client's span has the operation of the tool call that it belongs to.
    if (attributes.contains("mcp.method.name")) return SpanOperation::mcp;
    const std::string_view operation = string_member(attributes, "gen_ai.operation.name");
    if (operation == "invoke_agent") return SpanOperation::agent;
    if (operation == "chat") return SpanOperation::chat;
    if (operation == "execute_tool") return SpanOperation::tool;
    const bool is_turn = name == "cubepi.turn" || name == "cubeloop.turn";
    return is_turn ? SpanOperation::turn : SpanOperation::other;
}

/// The last text of a user among messages of the form of the GenAI conventions.
std::string last_user_text(const Json& messages) {
    const JsonArray* list = messages.if_array();
    for (std::size_t i = list ? list->size() : 0; i-- > 0;) {
        const JsonObject* message = (*list)[i].if_object();
        if (!message || string_member(*message, "role") != "user") continue;
        const JsonArray* parts = detail::array_member(*message, "parts");
        std::string text;
        for (const Json& part : parts ? *parts : JsonArray()) {
            const JsonObject* object = part.if_object();
            if (!object || string_member(*object, "type") != "text") continue;
            if (!text.empty()) text += ' ';
            text += string_member(*object, "content");
        }
        if (!text.empty()) return cut(text, longest_input);
    }
    return {};
}

std::string exception_of(const JsonObject& line) {
    const JsonArray* events = detail::array_member(line, "events");
    for (const Json& event : events ? *events : JsonArray()) {
        const JsonObject* object = event.if_object();
        const JsonObject* attributes = object ? object_member(*object, "attributes") : nullptr;
        if (!attributes) continue;
        const std::string_view text = string_member(*attributes, "exception.message");
        if (!text.empty()) return cut(text, longest_error);
    }
    return {};
}

/// The text of a recorded tool result, whose form is that of CubePi's tool results.
std::string result_text(const JsonObject& attributes) {
    const Json result = content_attribute(attributes, "gen_ai.tool.call.result");
    const JsonObject* object = result.if_object();
    const JsonArray* content = object ? detail::array_member(*object, "content") : nullptr;
    std::string text;
    for (const Json& block : content ? *content : JsonArray()) {
        if (block.is_object()) text += string_member(block.get_object(), "text");
    }
    return cut(text, longest_error);
}

std::string error_text_of(const JsonObject& line, const JsonObject& attributes,
                          SpanOperation operation) {
    std::string text = exception_of(line);
    if (text.empty()) {
        if (const JsonObject* status = object_member(line, "status"))
            text = cut(string_member(*status, "description"), longest_error);
    }
    if (operation == SpanOperation::tool) {
        std::string reason;
        if (const Json* blocked = own_attribute(attributes, "tool.block_reason"))
            reason = attribute_text(*blocked);
        if (reason.empty()) reason = result_text(attributes);
        if (!reason.empty() && reason != text) text += (text.empty() ? "" : ": ") + reason;
    }
    if (text.empty()) text = string_member(attributes, "error.type");
    return text;
}

void read_metadata(TraceSpan& span, const JsonObject& attributes) {
    for (const auto& [key, value] : attributes) {
        for (const std::string_view prefix : {"cubepi.metadata.", "cubeloop.metadata."}) {
            const std::string_view name = key;
            if (name.starts_with(prefix))
                span.metadata.emplace_back(name.substr(prefix.size()), attribute_text(value));
        }
    }
}

void read_identity(TraceSpan& span, const JsonObject& attributes) {
    if (const Json* thread = own_attribute(attributes, "thread_id"))
        span.thread = attribute_text(*thread);
    if (const Json* session = own_attribute(attributes, "session_id"))
        span.session = attribute_text(*session);
    if (span.session.empty()) span.session = span.thread;
    if (span.session.empty()) span.session = string_member(attributes, "gen_ai.conversation.id");
}

void read_attributes(TraceSpan& span, const JsonObject& line, const JsonObject& attributes) {
    span.operation = operation_of(attributes, span.name);
    span.aborted = is_true(own_attribute(attributes, "aborted"));
    span.has_remote_parent = is_true(own_attribute(attributes, "remote_parent"));
    const Json* outcome = own_attribute(attributes, "run.outcome");
    span.suspended = outcome && outcome->is_string() && outcome->get_string() == "suspended";
    span.model = string_member(attributes, "gen_ai.request.model");
    span.tool = string_member(attributes, "gen_ai.tool.name");
    span.tokens = tokens_of(attributes);
    const Json* cost = own_attribute(attributes, "usage.cost");
    if (cost && cost->is_number() && cost->to_number<double>() >= 0)
        span.cost = cost->to_number<double>();
    read_identity(span, attributes);
    if (span.error) span.error_text = error_text_of(line, attributes, span.operation);
    if (span.operation == SpanOperation::agent)
        span.input = last_user_text(content_attribute(attributes, "gen_ai.input.messages"));
    read_metadata(span, attributes);
}

/// Empty if the line is not a span.
std::optional<TraceSpan> read_span(const Json& value) {
    const JsonObject* object = value.if_object();
    const JsonObject* context = object ? object_member(*object, "context") : nullptr;
    if (!context) return std::nullopt;
    std::optional<TraceSpan> read(std::in_place);
    TraceSpan& span = *read;
    span.name = string_member(*object, "name");
    span.trace_id = without_0x(string_member(*context, "trace_id"));
    span.span_id = without_0x(string_member(*context, "span_id"));
    span.parent_id = without_0x(string_member(*object, "parent_id"));
    const auto start = bub::detail::parse_date(string_member(*object, "start_time"));
    if (span.trace_id.empty() || span.span_id.empty() || !start) return std::nullopt;
    span.start = *start;
    span.end = std::max(
        span.start, bub::detail::parse_date(string_member(*object, "end_time")).value_or(*start));
    if (const JsonObject* status = object_member(*object, "status"))
        span.error = string_member(*status, "status_code") == "ERROR";
    const JsonObject none;
    const JsonObject* attributes = object_member(*object, "attributes");
    read_attributes(span, *object, attributes ? *attributes : none);
    return read;
}

}  // namespace

TokenCounts& TokenCounts::operator+=(const TokenCounts& other) noexcept {
    input += other.input;
    output += other.output;
    cache_read += other.cache_read;
    cache_write += other.cache_write;
    return *this;
}

const Json* own_attribute(const JsonObject& attributes, std::string_view name) {
    for (const std::string_view prefix : own_prefixes) {
        // Compares the parts of the key: joining them would allocate memory for each attribute that a span does not have.
        const auto found = std::find_if(attributes.begin(), attributes.end(), [&](const auto& one) {
            const std::string_view key = one.key();
            return key.size() == prefix.size() + name.size() && key.starts_with(prefix) &&
                   key.ends_with(name);
        });
        if (found != attributes.end()) return &found->value();
    }
    return nullptr;
}

Json content_attribute(const JsonObject& attributes, std::string_view name) {
    const Json* value = attributes.if_contains(name);
    if (!value) return {};
    if (!value->is_string()) return *value;
    try {
        return parse_lenient(value->get_string());
    } catch (const Error&) {
        return *value;
    }
}

std::string attribute_text(const Json& value) {
    return value.is_string() ? std::string(value.get_string()) : json_text(value);
}

std::optional<TraceSpan> parse_span(std::string_view line) {
    std::array<unsigned char, line_memory> buffer = {};
    boost::json::monotonic_resource memory(buffer.data(), buffer.size());
    try {
        return read_span(parse_line(line, &memory));
    } catch (const Error&) {
        return std::nullopt;
    }
}

}  // namespace cubepi::app
