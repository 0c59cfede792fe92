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
        // The parser looks at the byte behind the last token: where brackets are missing, it must not find one that an
        // earlier text left there.
        bytes_[text.size()] = '\0';
        return simdjson::padded_string_view(bytes_.get(), text.size(), capacity_);
    }

private:
    std::unique_ptr<char[]> bytes_;
    std::size_t capacity_ = 0;
};

}  // namespace cubepi::detail
