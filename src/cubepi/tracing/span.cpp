#include <cubepi/tracing/span.hpp>

#include <algorithm>
#include <bit>
#include <cstring>

#include <cubepi/core/support/random_word.hpp>

namespace cubepi {

namespace {

constexpr char digits[] = "0123456789abcdef";

template <std::size_t size>
void append_hex(std::string& out, const std::array<std::uint8_t, size>& bytes) {
    for (const std::uint8_t byte : bytes) {
        out.push_back(digits[byte >> 4U]);
        out.push_back(digits[byte & 15U]);
    }
}

template <std::size_t size>
std::string hex_of(const std::array<std::uint8_t, size>& bytes) {
    std::string text;
    text.reserve(2 * size);
    append_hex(text, bytes);
    return text;
}

/// The value of a lower-case hexadecimal digit, which the header requires; -1 for other characters.
int digit_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

template <std::size_t size>
bool read_hex(std::string_view text, std::array<std::uint8_t, size>& bytes) {
    if (text.size() != 2 * size) return false;
    for (std::size_t i = 0; i < size; ++i) {
        const int high = digit_value(text[2 * i]);
        const int low = digit_value(text[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
    }
    return true;
}

template <std::size_t size>
void fill_random(std::array<std::uint8_t, size>& bytes) {
    static_assert(size % sizeof(std::uint64_t) == 0);
    do {
        for (std::size_t i = 0; i < size; i += sizeof(std::uint64_t)) {
            const std::uint64_t word = detail::random_word();
            std::memcpy(bytes.data() + i, &word, sizeof word);
        }
    } while (bytes == std::array<std::uint8_t, size>{});
}

}  // namespace

AttributeValue::Kind AttributeValue::kind() const noexcept {
    constexpr Kind kinds[] = {Kind::text,   Kind::boolean, Kind::integer,
                              Kind::number, Kind::text,    Kind::list};
    return kinds[value_.index()];
}

std::size_t AttributeValue::memory() const noexcept {
    std::size_t bytes = 0;
    if (const auto* text = std::get_if<SharedString>(&value_)) bytes = text->size();
    if (const TextList* list = if_list()) {
        for (const SharedString& text : *list) bytes += sizeof text + text.size();
    }
    return bytes;
}

bool operator==(const AttributeValue& a, const AttributeValue& b) noexcept {
    const auto text = a.if_text();
    return text ? text == b.if_text() : a.value_ == b.value_;
}

void Attributes::set(AttributeKey key, AttributeValue value) {
    for (Attribute& one : all_) {
        if (!(one.key == key)) continue;
        one.value = std::move(value);
        return;
    }
    add(std::move(key), std::move(value));
}

const AttributeValue* Attributes::find(std::string_view key) const noexcept {
    const auto found = std::find_if(all_.begin(), all_.end(),
                                    [key](const Attribute& one) { return one.key == key; });
    return found == all_.end() ? nullptr : &found->value;
}

std::size_t Attributes::memory() const noexcept {
    std::size_t bytes = all_.size() * sizeof(Attribute);
    for (const Attribute& one : all_) bytes += one.value.memory();
    return bytes;
}

std::string TraceId::hex() const { return hex_of(bytes); }

TraceId TraceId::random() {
    TraceId id;
    fill_random(id.bytes);
    return id;
}

std::string SpanId::hex() const { return hex_of(bytes); }

SpanId SpanId::random() {
    SpanId id;
    fill_random(id.bytes);
    return id;
}

std::string SpanContext::traceparent() const {
    std::string text = "00-";
    append_hex(text, trace_id.bytes);
    text.push_back('-');
    append_hex(text, span_id.bytes);
    text += sampled ? "-01" : "-00";
    return text;
}

std::optional<SpanContext> SpanContext::parse(std::string_view traceparent) {
    constexpr std::size_t length = 55;
    std::array<std::uint8_t, 1> version{};
    std::array<std::uint8_t, 1> flags{};
    SpanContext context;
    if (traceparent.size() < length || !read_hex(traceparent.substr(0, 2), version)) return {};
    // Later versions may append fields; version 00 may not, and ff is not a version.
    if (version[0] == 0xff || (version[0] == 0 && traceparent.size() != length)) return {};
    if (traceparent.size() > length && traceparent[length] != '-') return {};
    const bool separated =
        traceparent[2] == '-' && traceparent[35] == '-' && traceparent[52] == '-';
    if (!separated || !read_hex(traceparent.substr(3, 32), context.trace_id.bytes) ||
        !read_hex(traceparent.substr(36, 16), context.span_id.bytes) ||
        !read_hex(traceparent.substr(53, 2), flags)) {
        return {};
    }
    context.sampled = (flags[0] & 1U) != 0;
    if (!context.valid()) return {};
    return context;
}

std::size_t SpanData::memory() const noexcept {
    std::size_t bytes = sizeof *this + status_description.size() + attributes.memory();
    for (const SpanEvent& event : events) bytes += sizeof event + event.attributes.memory();
    for (const SpanLink& link : links) bytes += sizeof link + link.attributes.memory();
    return bytes;
}

}  // namespace cubepi
