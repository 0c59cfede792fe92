#include <cubepi/schema/json/visible_text.hpp>

#include <array>
#include <cstdint>

namespace cubepi::detail {

namespace {

struct Range {
    char32_t first;
    char32_t last;
};

// Unicode 15: Bidi_Control.
constexpr std::array bidi_controls{Range{0x61C, 0x61C}, Range{0x200E, 0x200F},
                                   Range{0x202A, 0x202E}, Range{0x2066, 0x2069}};

// Unicode 15: Default_Ignorable_Code_Point, less the ones above; and the interlinear annotations (U+FFF9), which hide text.
constexpr std::array ignorable{
    Range{0xAD, 0xAD},      Range{0x34F, 0x34F},     Range{0x115F, 0x1160},
    Range{0x17B4, 0x17B5},  Range{0x180B, 0x180F},   Range{0x200B, 0x200D},
    Range{0x2060, 0x2065},  Range{0x206A, 0x206F},   Range{0x3164, 0x3164},
    Range{0xFE00, 0xFE0F},  Range{0xFEFF, 0xFEFF},   Range{0xFFA0, 0xFFA0},
    Range{0xFFF0, 0xFFFB},  Range{0x1BCA0, 0x1BCA3}, Range{0x1D173, 0x1D17A},
    Range{0xE0000, 0xE0FFF}};

// Spaces other than U+0020, and characters that look like one.
constexpr std::array blanks{Range{0xA0, 0xA0},     Range{0x1680, 0x1680}, Range{0x2000, 0x200A},
                            Range{0x2028, 0x2029}, Range{0x202F, 0x202F}, Range{0x205F, 0x205F},
                            Range{0x2800, 0x2800}, Range{0x3000, 0x3000}};

template <std::size_t size>
bool has(const std::array<Range, size>& ranges, char32_t character) {
    const auto found =
        std::lower_bound(ranges.begin(), ranges.end(), character,
                         [](const Range& range, char32_t wanted) { return range.last < wanted; });
    return found != ranges.end() && found->first <= character;
}

std::string hexadecimal(std::uint32_t value, std::size_t digits) {
    constexpr std::string_view characters = "0123456789ABCDEF";
    std::string text;
    for (; value > 0 || text.size() < digits; value >>= 4U) text += characters[value & 0xFU];
    std::reverse(text.begin(), text.end());
    return text;
}

void add_spelled(std::string& out, const Utf8Char& character, std::string_view rest) {
    const char32_t code = character.code;
    if (!character.valid) {
        out += "<" + hexadecimal(static_cast<unsigned char>(rest.front()), 2) + ">";
    } else if ((code < 0x20 && code != '\t') || code == 0x7F) {
        out += '^';
        out += static_cast<char>(code ^ 0x40U);
    } else if (is_deceptive(code)) {
        out += "<U+" + hexadecimal(code, 4) + ">";
    } else {
        out += rest.substr(0, character.length);
    }
}

}  // namespace

bool is_bidi_control(char32_t character) noexcept { return has(bidi_controls, character); }

bool is_ignorable(char32_t character) noexcept { return has(ignorable, character); }

bool is_deceptive(char32_t character) noexcept {
    return (character >= 0x80 && character <= 0x9F) || is_bidi_control(character) ||
           is_ignorable(character) || has(blanks, character);
}

std::string visible(std::string_view text) { return with_characters(text, add_spelled); }

}  // namespace cubepi::detail
