#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cubepi {

/// How many bytes of `text` can be handed on without cutting a character: its size, less a sequence at its
/// end that is right so far and not yet whole (at most 3 bytes). Broken bytes elsewhere are not looked for.
std::size_t complete_utf8_prefix(std::string_view text) noexcept;

/// True when `text` is well-formed UTF-8 (Unicode 15, table 3-7).
bool is_utf8(std::string_view text) noexcept;

/// `text` with each maximal broken part replaced by U+FFFD, as WHATWG Encoding has it.
std::string replace_broken_utf8(std::string_view text);

/// Makes well-formed UTF-8 of bytes that come in pieces: a character that is cut by a piece's end waits for
/// the next piece, broken bytes become U+FFFD. Not thread-safe.
class Utf8Splitter {
public:
    /// Appends to `out` what can be handed on.
    void push(std::string_view bytes, std::string& out);
    /// The end of the bytes: a character that was never completed becomes U+FFFD.
    void finish(std::string& out);

private:
    std::string held_;
};

}  // namespace cubepi
