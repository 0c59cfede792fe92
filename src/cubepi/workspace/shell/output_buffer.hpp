#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cubepi::detail {

/// Holds the beginning and the end of a text of unlimited length in bounded memory. Offsets are bytes from its beginning.
class OutputBuffer {
public:
    OutputBuffer(std::size_t head_limit, std::size_t tail_limit)
        : head_limit_(head_limit), tail_limit_(tail_limit) {}

    void append(std::string_view text);

    std::uint64_t size() const noexcept { return head_.size() + middle_ + tail_.size(); }

    /// True if from(0) would still return the whole text after `more` further bytes.
    bool holds_all(std::size_t more) const noexcept;

    /// Returns the text from `offset` on, cut at character boundaries. A notice replaces missing text and states its size;
    /// `elsewhere` is appended to the notice ("the whole output is in ...").
    std::string from(std::uint64_t offset, std::string_view elsewhere) const;

    /// Returns at most the last `bytes`.
    std::string_view last(std::size_t bytes) const noexcept;

private:
    const std::size_t head_limit_;
    const std::size_t tail_limit_;
    std::string head_;
    std::uint64_t middle_ = 0;  ///< discarded bytes between head and tail
    std::string tail_;
};

}  // namespace cubepi::detail
