#include <cubepi/tracing/export/span_json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <type_traits>
#include <variant>

#include <sys/stat.h>

#include <cubepi/core/number_text.hpp>
#include <cubepi/net/utf8.hpp>

namespace cubepi::detail {

namespace {

bool needs_escape(char c) noexcept {
    return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\';
}

void append_escape(std::string& out, char c) {
    switch (c) {
        case '"': out += "\\\""; return;
        case '\\': out += "\\\\"; return;
        case '\n': out += "\\n"; return;
        case '\r': out += "\\r"; return;
        case '\t': out += "\\t"; return;
        default: break;
    }
    std::array<char, 8> text{};
    const int size =
        std::snprintf(text.data(), text.size(), "\\u%04x", static_cast<unsigned char>(c));
    out.append(text.data(), static_cast<std::size_t>(size));
}

void append_valid(std::string& out, std::string_view text) {
    while (!text.empty()) {
        const auto* const stop = std::find_if(text.begin(), text.end(), needs_escape);
        const auto plain = static_cast<std::size_t>(stop - text.begin());
        out.append(text.substr(0, plain));
        text.remove_prefix(plain);
        if (text.empty()) return;
        append_escape(out, text.front());
        text.remove_prefix(1);
    }
}

const char* kind_name(SpanKind kind) noexcept {
    switch (kind) {
        case SpanKind::internal: return "INTERNAL";
        case SpanKind::server: return "SERVER";
        case SpanKind::client: return "CLIENT";
        case SpanKind::producer: return "PRODUCER";
        case SpanKind::consumer: return "CONSUMER";
    }
    return "INTERNAL";
}

const char* status_name(SpanStatus status) noexcept {
    switch (status) {
        case SpanStatus::unset: return "UNSET";
        case SpanStatus::ok: return "OK";
        case SpanStatus::error: return "ERROR";
    }
    return "UNSET";
}

void append_value(std::string& out, const AttributeValue& value) {
    if (const auto text = value.if_text()) {
        append_json_string(out, *text);
    } else if (const bool* truth = value.if_boolean()) {
        out += *truth ? "true" : "false";
    } else if (const std::int64_t* integer = value.if_integer()) {
        append_integer(out, *integer);
    } else if (const double* number = value.if_number()) {
        append_json_double(out, *number);
    } else {
        const char* separator = "[";
        for (const SharedString& text : *value.if_list()) {
            out += separator;
            append_json_string(out, text);
            separator = ", ";
        }
        out += *separator == '[' ? "[]" : "]";
    }
}

void append_context(std::string& out, const SpanContext& context) {
    out += R"({"trace_id": "0x)" + context.trace_id.hex() + R"(", "span_id": "0x)" +
           context.span_id.hex() + R"(", "trace_state": "[]"})";
}

void append_quoted_time(std::string& out, std::chrono::system_clock::time_point time) {
    out.push_back('"');
    append_iso_time(out, time);
    out.push_back('"');
}

void append_status(std::string& out, const SpanData& span) {
    out += R"({"status_code": ")";
    out += status_name(span.status);
    out.push_back('"');
    if (span.status == SpanStatus::error && !span.status_description.empty()) {
        out += R"(, "description": )";
        append_json_string(out, span.status_description);
    }
    out.push_back('}');
}

void append_events(std::string& out, const std::vector<SpanEvent>& events) {
    out.push_back('[');
    for (const SpanEvent& event : events) {
        if (out.back() != '[') out += ", ";
        out += R"({"name": )";
        append_json_string(out, event.name);
        out += R"(, "timestamp": )";
        append_quoted_time(out, event.time);
        out += R"(, "attributes": )";
        append_attributes(out, event.attributes);
        out.push_back('}');
    }
    out.push_back(']');
}

void append_links(std::string& out, const std::vector<SpanLink>& links) {
    out.push_back('[');
    for (const SpanLink& link : links) {
        if (out.back() != '[') out += ", ";
        out += R"({"context": )";
        append_context(out, link.context);
        out += R"(, "attributes": )";
        append_attributes(out, link.attributes);
        out.push_back('}');
    }
    out.push_back(']');
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
    out.push_back('"');
    if (is_utf8(text)) {
        append_valid(out, text);
    } else {
        append_valid(out, replace_broken_utf8(text));
    }
    out.push_back('"');
}

void append_json_double(std::string& out, double value) {
    if (std::isnan(value)) {
        out += "\"NaN\"";
    } else if (std::isinf(value)) {
        out += value < 0 ? "\"-Infinity\"" : "\"Infinity\"";
    } else {
        const std::string text = number_text(value);
        out += text;
        if (text.find_first_of(".e") == std::string::npos) out += ".0";
    }
}

void append_integer(std::string& out, std::int64_t value) {
    std::array<char, 24> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
    out.append(text.data(), end.ptr);
}

void append_iso_time(std::string& out, std::chrono::system_clock::time_point time) {
    using namespace std::chrono;
    constexpr sys_time<microseconds> last =
        sys_days(year(9999) / December / 31) + days(1) - microseconds(1);
    const auto exact = std::clamp(sys_time<microseconds>(floor<microseconds>(time)),
                                  sys_time<microseconds>(), last);
    const sys_days day = floor<days>(exact);
    const year_month_day date(day);
    const hh_mm_ss clock(exact - day);
    std::array<char, 40> text{};
    const int size = std::snprintf(
        text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%06dZ", int(date.year()),
        unsigned(date.month()), unsigned(date.day()), static_cast<int>(clock.hours().count()),
        static_cast<int>(clock.minutes().count()), static_cast<int>(clock.seconds().count()),
        static_cast<int>(clock.subseconds().count()));
    out.append(text.data(), static_cast<std::size_t>(size));
}

void append_attributes(std::string& out, const Attributes& attributes) {
    out.push_back('{');
    for (const Attribute& one : attributes) {
        if (out.back() != '{') out += ", ";
        append_json_string(out, one.key);
        out += ": ";
        append_value(out, one.value);
    }
    out.push_back('}');
}

void append_span_line(std::string& out, const SpanData& span, const std::string& resource) {
    out += R"({"name": )";
    append_json_string(out, span.name);
    out += R"(, "context": )";
    append_context(out, span.context);
    out += R"(, "kind": "SpanKind.)";
    out += kind_name(span.kind);
    out += R"(", "parent_id": )";
    out += span.parent.valid() ? "\"0x" + span.parent.hex() + "\"" : "null";
    out += R"(, "start_time": )";
    append_quoted_time(out, span.start);
    out += R"(, "end_time": )";
    append_quoted_time(out, span.end);
    out += R"(, "status": )";
    append_status(out, span);
    out += R"(, "attributes": )";
    append_attributes(out, span.attributes);
    out += R"(, "events": )";
    append_events(out, span.events);
    out += R"(, "links": )";
    append_links(out, span.links);
    out += R"(, "resource": )";
    out += resource;
    out += "}\n";
}

std::string resource_json(const Resource& resource) {
    std::string out = R"({"attributes": )";
    append_attributes(out, resource.attributes);
    out += R"(, "schema_url": )";
    append_json_string(out, resource.schema_url);
    out.push_back('}');
    return out;
}

void make_private_directories(const std::filesystem::path& path) {
    std::filesystem::path built;
    for (const auto& part : path) {
        built /= part;
        ::mkdir(built.c_str(), 0700);
    }
}

}  // namespace cubepi::detail
