#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include <simdjson.h>

namespace cubepi::detail {

/// The text to parse, followed by the padding that simdjson requires. Reusable.
class PaddedText {
public:
    /// Returns a copy of `text`, valid until the next call.
    simdjson::padded_string_view hold(std::string_view text) {
        const std::size_t needed = text.size() + simdjson::SIMDJSON_PADDING;
        if (needed > capacity_) {
            capacity_ = 2 * needed;
            bytes_ = std::make_unique<char[]>(capacity_);
        }
        text.copy(bytes_.get(), text.size());
        // The parser reads the byte after the last token: if brackets are missing, it must not find one of an earlier
        // text.
        bytes_[text.size()] = '\0';
        return simdjson::padded_string_view(bytes_.get(), text.size(), capacity_);
    }

private:
    std::unique_ptr<char[]> bytes_;
    std::size_t capacity_ = 0;
};

}  // namespace cubepi::detail
