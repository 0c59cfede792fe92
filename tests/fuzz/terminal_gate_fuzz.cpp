// Any text: the output of the gate is UTF-8 without control characters and characters that change the direction of text, its size
// is bounded by that of the input, and passing the gate twice changes nothing.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <cubepi/net/utf8.hpp>

#include "fuzz_check.hpp"
#include "terminal/terminal_text.hpp"
#include "terminal/text_layout.hpp"

namespace {

using namespace cubepi;
using namespace cubepi::app;

bool is_harmless(std::string_view text) {
    while (!text.empty()) {
        const FirstCharacter character = first_character(text);
        const char32_t code = character.code;
        if ((code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7F && code <= 0x9F))
            return false;
        if (code == 0x61C || code == 0x200E || code == 0x200F ||
            (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069))
            return false;
        text.remove_prefix(character.bytes);
    }
    return true;
}

void check(const std::string& shown, std::size_t most) {
    CUBEPI_FUZZ_CHECK(is_utf8(shown));
    CUBEPI_FUZZ_CHECK(is_harmless(shown));
    CUBEPI_FUZZ_CHECK(shown.size() <= most);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const std::string readable = for_terminal(text).str();
    check(readable, 3 * size);  // U+FFFD for a byte
    CUBEPI_FUZZ_CHECK(for_terminal(readable).str() == readable);
    const std::string spelled = spelled_out(text).str();
    check(spelled, 4 * size);  // <9B> for a byte
    CUBEPI_FUZZ_CHECK(spelled.find('\n') == std::string::npos);
    CUBEPI_FUZZ_CHECK(spelled_out(spelled).str() == spelled);
    check(line_for_terminal(text, 20).str(), 3 * size + 3);
    const std::size_t columns = 20 + (size > 0 ? data[0] : 0);
    const std::string rows = framed(text, columns).str();
    check(rows, 16 * size + 16);
    for (std::size_t at = 0; at < rows.size(); at = rows.find('\n', at) + 1) {
        const std::string_view row = std::string_view(rows).substr(at, rows.find('\n', at) - at);
        CUBEPI_FUZZ_CHECK(row.starts_with("  │ ") || row.starts_with("  ┊ "));
        CUBEPI_FUZZ_CHECK(display_width(row) < columns);
    }
    return 0;
}
