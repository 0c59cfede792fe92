#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <bub/tape/detail/descriptor.hpp>

namespace bub::detail {

/// One line of a file, without its line feed. Valid until the reader's next call.
struct FileLine {
    std::string_view text = {};
    std::uint64_t offset = 0;  ///< of its first byte
    std::uint64_t end = 0;     ///< behind its line feed
    bool ended = true;         ///< false: the last one, which has no line feed
};

/// Reads the lines of a part of a file in order. Holds one block and the longest line.
class LineReader {
public:
    LineReader(const Descriptor& file, std::uint64_t from, std::uint64_t to);
    /// False at the end.
    bool next(FileLine& line);

private:
    bool fill();

    const Descriptor& file_;
    std::uint64_t at_;    ///< offset of buffer_[start_]
    std::uint64_t read_;  ///< offset of what is read next
    std::uint64_t to_;
    std::string buffer_;
    std::size_t start_ = 0;
    std::size_t searched_ = 0;
};

/// Reads the lines of a file from the end (`to`) to the beginning (`from`, the start of a line).
class BackwardLineReader {
public:
    BackwardLineReader(const Descriptor& file, std::uint64_t from, std::uint64_t to);
    /// False at the beginning.
    bool next(FileLine& line);

private:
    bool fill();

    const Descriptor& file_;
    std::uint64_t from_;
    std::uint64_t start_;  ///< offset of buffer_[0]
    std::string buffer_;   ///< bytes [start_, start_ + size) that were not handed out
    std::uint64_t size_;   ///< how many of buffer_ are not handed out
    std::uint64_t searched_ =
        0;  ///< from buffer_[searched_] on there is no line feed (but the last line's own)
    std::string line_;
};

}  // namespace bub::detail
