#pragma once

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/usage.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/json/simdjson_walk.hpp>

// Shared by the decoders of all vendors: the JSON of events, text and JSON that arrive in pieces, counts of tokens.

namespace cubepi::detail {

/// Characters around the data of a server-sent event that are not part of it.
inline constexpr std::string_view event_data_blanks = " \r\n";

/// Returns the members that `known` does not name, without those that are null.
JsonObject unknown_members(const JsonObject& object, std::initializer_list<std::string_view> known);

[[noreturn]] void throw_not_json(std::string_view data);

/// Calls `parse` with the data, and after a failure again with invalid UTF-8 replaced. Returns the text that was parsed, which
/// may be in `sanitized`. Throws Error(protocol) if neither is a JSON object.
template <class Parse>
std::string_view parse_event(std::string_view data, std::string& sanitized, Parse&& parse) {
    if (parse(data)) return data;
    sanitized = replace_broken_utf8(data);
    if (!parse(sanitized)) throw_not_json(sanitized);
    return sanitized;
}

/// Reads the JSON of one event after the other. Reuses its memory.
class EventReader {
public:
    /// Calls `read` with the object in `data`, whose strings are valid until the next call. Returns false if `data` is not a
    /// JSON object.
    template <class Read>
    bool walk(std::string_view data, Read&& read) {
        od::document document;
        if (parser_.iterate(padded_.hold(data)).get(document) != simdjson::SUCCESS) return false;
        od::object root;
        if (document.get_object().get(root) != simdjson::SUCCESS) return false;
        try {
            read(root);
        } catch (const simdjson::simdjson_error&) {
            return false;
        } catch (const Error& error) {
            if (error.code() != ErrorCode::parse) throw;
            return false;
        }
        return true;
    }

private:
    od::parser parser_;
    PaddedText padded_;
};

/// Calls `read(key, value)` for each member until it returns true. Invalid input ends the walk with a protocol error.
template <class Read>
void each_until(od::object& object, Read&& read) {
    for (auto member : object) {
        od::field field;
        if (std::move(member).get(field) != simdjson::SUCCESS)
            throw simdjson::simdjson_error(simdjson::TAPE_ERROR);
        if (read(field.key(), field.value())) return;
    }
}

/// Unescapes JSON strings, of which two consecutive ones may share a surrogate pair: servers that split their text
/// anywhere send "\ud83d" in one chunk and "\ude00" in the next.
class SplitText {
public:
    /// A first half waits for its second.
    bool holds_back() const noexcept { return high_ != 0; }
    /// `token` is the string with its quotes. The result lives until the next call.
    std::string_view unescape(std::string_view token);
    /// Returns U+FFFD for a first half without a second.
    std::string_view give_up() noexcept;

    std::string scratch;
    /// Texts that must outlive the next unescape.
    std::deque<std::string> keep;

private:
    void unit(unsigned code_unit);

    unsigned high_ = 0;
};

/// Returns a string of an event. A \u escape whose other half comes in the next event is held back until then.
std::string_view piece_of(od::value& value, SplitText& split);

/// Finds where a JSON object or array that arrives in pieces ends, with constant work per byte. It counts brackets outside of
/// strings and checks nothing else: text that `is_closed()` still has to be parsed, text that is not cannot be complete JSON.
class JsonExtent {
public:
    void add(std::string_view piece) noexcept {
        for (const char c : piece) add(c);
    }
    /// True if the text so far ends at the end of its first value, white space aside.
    bool is_closed() const noexcept { return state_ == State::closed; }

private:
    enum class State : std::uint8_t { before, open, string, escape, closed, invalid };

    void add(char c) noexcept {
        switch (state_) {
            case State::string:
                if (c == '\\') state_ = State::escape;
                if (c == '"') state_ = State::open;
                return;
            case State::escape: state_ = State::string; return;
            case State::open:
                if (c == '"') state_ = State::string;
                if (c == '{' || c == '[') ++depth_;
                if ((c == '}' || c == ']') && --depth_ == 0) state_ = State::closed;
                return;
            case State::before:
            case State::closed:
                if (c == ' ' || c == '\n' || c == '\r' || c == '\t') return;
                if (state_ == State::before && (c == '{' || c == '[')) {
                    depth_ = 1;
                    state_ = State::open;
                } else {
                    state_ = State::invalid;
                }
                return;
            case State::invalid: return;
        }
    }

    State state_ = State::before;
    std::uint64_t depth_ = 0;
};

}  // namespace cubepi::detail
