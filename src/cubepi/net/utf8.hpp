#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cubepi {

/// Returns the length of the longest prefix of `text` that does not end inside a character: its size, less an
/// incomplete valid sequence at its end (at most 3 bytes). Invalid UTF-8 elsewhere is not detected.
std::size_t complete_utf8_prefix(std::string_view text) noexcept;

/// Returns true if `text` is well-formed UTF-8 (Unicode 15, table 3-7).
bool is_utf8(std::string_view text) noexcept;

/// Returns `text` with each maximal ill-formed subsequence replaced by U+FFFD, as specified by WHATWG Encoding.
std::string replace_broken_utf8(std::string_view text);

/// A converter of bytes that arrive in pieces to well-formed UTF-8: a character split at a piece's end is completed by
/// the next piece, invalid UTF-8 becomes U+FFFD. Not thread-safe.
class Utf8Splitter {
public:
    /// Appends the complete characters to `out`.
    void push(std::string_view bytes, std::string& out);
    /// Marks the end of the bytes: an incomplete character becomes U+FFFD.
    void finish(std::string& out);

private:
    std::string held_;
};

}  // namespace cubepi
