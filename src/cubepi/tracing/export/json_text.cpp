#include <cubepi/tracing/export/json_text.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

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

}  // namespace cubepi::detail
