#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include <simdjson.h>

namespace cubepi::detail {

/// The text that is being parsed, with the room behind it that simdjson wants to read. Used over and over.
class PaddedText {
public:
    /// A copy of `text`; it holds until the next call.
    simdjson::padded_string_view hold(std::string_view text) {
        const std::size_t needed = text.size() + simdjson::SIMDJSON_PADDING;
        if (needed > capacity_) {
            capacity_ = 2 * needed;
            bytes_ = std::make_unique<char[]>(capacity_);
        }
        text.copy(bytes_.get(), text.size());
        return simdjson::padded_string_view(bytes_.get(), text.size(), capacity_);
    }

private:
    std::unique_ptr<char[]> bytes_;
    std::size_t capacity_ = 0;
};

}  // namespace cubepi::detail
