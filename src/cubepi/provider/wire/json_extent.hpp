#pragma once

#include <cstdint>
#include <string_view>

namespace cubepi::detail {

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
