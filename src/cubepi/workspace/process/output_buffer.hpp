#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cubepi::detail {

/// The beginning and the end of a text that may be endless, in bounded memory. Offsets are bytes from its beginning.
class OutputBuffer {
public:
    OutputBuffer(std::size_t head_limit, std::size_t tail_limit)
        : head_limit_(head_limit), tail_limit_(tail_limit) {}

    void append(std::string_view text);

    std::uint64_t size() const noexcept { return head_.size() + middle_ + tail_.size(); }

    /// True when from(0) would still be the whole text after `more` bytes were appended.
    bool holds_all(std::size_t more) const noexcept;

    /// The text from `offset` on, cut at characters. Where something is missing it says how much; `elsewhere` is added
    /// to that ("the whole output is in ...").
    std::string from(std::uint64_t offset, std::string_view elsewhere) const;

    /// The last `bytes` of it, at most.
    std::string_view last(std::size_t bytes) const noexcept;

private:
    const std::size_t head_limit_;
    const std::size_t tail_limit_;
    std::string head_;
    std::uint64_t middle_ = 0;  ///< bytes between head and tail that are gone
    std::string tail_;
};

}  // namespace cubepi::detail
