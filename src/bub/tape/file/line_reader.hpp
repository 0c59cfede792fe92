#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <bub/tape/file/descriptor.hpp>

namespace bub::detail {

/// One line of a file, without its line feed. Valid until the reader's next call.
struct FileLine {
    std::string_view text = {};
    std::uint64_t offset = 0;  ///< of its first byte
    std::uint64_t end = 0;     ///< after its line feed
    bool ended = true;         ///< false: the last line, without a line feed
};

/// A reader of the lines of a part of a file, in order. Memory: one block and the longest line.
class LineReader {
public:
    LineReader(const Descriptor& file, std::uint64_t from, std::uint64_t to);
    /// Returns false at the end.
    bool next(FileLine& line);

private:
    bool fill();

    const Descriptor& file_;
    std::uint64_t at_;    ///< offset of buffer_[start_]
    std::uint64_t read_;  ///< offset of the next read
    std::uint64_t to_;
    std::string buffer_;
    std::size_t start_ = 0;
    std::size_t searched_ = 0;
};

/// A reader of the lines of a file from the end (`to`) to the beginning (`from`, the start of a line).
class BackwardLineReader {
public:
    BackwardLineReader(const Descriptor& file, std::uint64_t from, std::uint64_t to);
    /// Returns false at the beginning.
    bool next(FileLine& line);

private:
    bool fill();

    const Descriptor& file_;
    std::uint64_t from_;
    std::uint64_t start_;  ///< offset of buffer_[0]
    std::string buffer_;   ///< bytes [start_, start_ + size) that were not returned yet
    std::uint64_t size_;   ///< number of bytes of buffer_ not returned yet
    std::uint64_t searched_ =
        0;  ///< no line feed from buffer_[searched_] on (except the last line's own)
    std::string line_;
};

}  // namespace bub::detail
