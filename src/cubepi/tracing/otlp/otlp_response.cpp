#include <cubepi/tracing/otlp/otlp_messages.hpp>

#include <algorithm>
#include <charconv>
#include <optional>

#include <cubepi/core/json.hpp>
#include <cubepi/net/utf8.hpp>

namespace cubepi::detail {

namespace {

/// Reads the fields of a protobuf message, skipping those that are not asked for.
class ProtobufReader {
public:
    explicit ProtobufReader(std::string_view bytes) : rest_(bytes) {}

    /// Moves to the next field. Returns false at the end, and if the bytes are not a message.
    bool next() {
        bytes_ = {};
        varint_ = 0;
        const std::optional<std::uint64_t> tag = read_varint();
        if (!tag) return false;
        field_ = *tag >> 3U;
        switch (*tag & 7U) {
            case 0: return store(read_varint());
            case 1: return skip(8);
            case 2: return read_bytes();
            case 5: return skip(4);
            default: return false;
        }
    }
    std::uint64_t field() const { return field_; }
    std::uint64_t varint() const { return varint_; }
    std::string_view bytes() const { return bytes_; }

private:
    std::optional<std::uint64_t> read_varint() {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
            const auto byte = static_cast<unsigned char>(rest_.front());
            rest_.remove_prefix(1);
            value |= std::uint64_t{byte & 0x7fU} << shift;
            if (byte < 0x80) return value;
        }
        return std::nullopt;
    }
    bool store(std::optional<std::uint64_t> value) {
        varint_ = value.value_or(0);
        return value.has_value();
    }
    bool skip(std::size_t size) {
        if (rest_.size() < size) return false;
        rest_.remove_prefix(size);
        return true;
    }
    bool read_bytes() {
        const std::optional<std::uint64_t> size = read_varint();
        if (!size || *size > rest_.size()) return false;
        bytes_ = rest_.substr(0, *size);
        return skip(*size);
    }

    std::string_view rest_;
    std::string_view bytes_;
    std::uint64_t field_ = 0;
    std::uint64_t varint_ = 0;
};

bool is_json_content(std::string_view content_type) {
    return content_type.find("json") != std::string_view::npos;
}

std::optional<JsonObject> parse_object(std::string_view body) {
    boost::system::error_code error;
    Json json = boost::json::parse(body, error);
    if (error || !json.is_object()) return std::nullopt;
    return std::move(json.as_object());
}

std::string string_member(const JsonObject& object, std::string_view key) {
    const Json* value = object.if_contains(key);
    return value != nullptr && value->is_string() ? std::string(value->as_string()) : std::string();
}

/// A 64-bit integer, which is a string in protobuf's JSON, but a number in that of some collectors.
std::uint64_t count_member(const JsonObject& object, std::string_view key) {
    const Json* value = object.if_contains(key);
    if (value == nullptr) return 0;
    std::uint64_t count = 0;
    if (value->is_int64())
        return static_cast<std::uint64_t>(std::max<std::int64_t>(value->as_int64(), 0));
    if (value->is_uint64()) return value->as_uint64();
    if (!value->is_string()) return 0;
    const std::string_view text = value->as_string();
    std::from_chars(text.data(), text.data() + text.size(), count);
    return count;
}

PartialSuccess read_partial_json(std::string_view body) {
    PartialSuccess partial;
    const std::optional<JsonObject> response = parse_object(body);
    const Json* part = response ? response->if_contains("partialSuccess") : nullptr;
    if (part == nullptr || !part->is_object()) return partial;
    const JsonObject& object = part->as_object();
    partial.rejected =
        std::max(count_member(object, "rejectedSpans"), count_member(object, "rejectedDataPoints"));
    partial.message = string_member(object, "errorMessage");
    return partial;
}

void replace_all(std::string& text, std::string_view what) {
    // Shorter values are not secrets, and would replace parts of words.
    if (what.size() < 4) return;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 3))
        text.replace(at, what.size(), "***");
}

}  // namespace

PartialSuccess read_partial_success(std::string_view body, std::string_view content_type) {
    if (is_json_content(content_type)) return read_partial_json(body);
    PartialSuccess partial;
    for (ProtobufReader response(body); response.next();) {
        if (response.field() != 1) continue;
        for (ProtobufReader part(response.bytes()); part.next();) {
            if (part.field() == 1) partial.rejected = part.varint();
            if (part.field() == 2) partial.message = std::string(part.bytes());
        }
    }
    return partial;
}

bool is_html(std::string_view body, std::string_view content_type) {
    if (content_type.find("html") != std::string_view::npos) return true;
    const std::size_t first = body.find_first_not_of(" \t\r\n");
    return first != std::string_view::npos && body[first] == '<';
}

std::string read_error_message(std::string_view body, std::string_view content_type) {
    if (is_html(body, content_type)) return "an HTML page; check the URL of the collector";
    if (is_json_content(content_type)) {
        const std::optional<JsonObject> status = parse_object(body);
        return status ? string_member(*status, "message") : std::string();
    }
    if (content_type.find("protobuf") == std::string_view::npos) return std::string(body);
    std::string message;
    for (ProtobufReader status(body); status.next();) {
        if (status.field() == 2) message = std::string(status.bytes());
    }
    return message;
}

std::string safe_server_text(std::string text, const std::vector<HttpHeader>& headers) {
    for (const HttpHeader& header : headers) {
        replace_all(text, header.value);
        // The token without "Bearer".
        replace_all(text, std::string_view(header.value).substr(header.value.find(' ') + 1));
    }
    constexpr std::size_t longest = 300;
    if (text.size() > longest) {
        text.resize(longest);
        text.resize(complete_utf8_prefix(text));
    }
    text = replace_broken_utf8(text);
    for (char& c : text) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
    }
    return text;
}

}  // namespace cubepi::detail
