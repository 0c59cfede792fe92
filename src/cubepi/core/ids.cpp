#include <cubepi/core/ids.hpp>

#include <array>

#include <cubepi/core/support/random_word.hpp>

namespace cubepi {

namespace {

__extension__ using Wide = unsigned __int128;

constexpr char alphabet[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
constexpr std::uint64_t letters = sizeof alphabet - 1;

/// Writes `count` letters of one draw, interpreted as a fraction; with at most 8 of 10 possible ones the bias is below
/// 2^-16.
template <unsigned count>
void write_letters(char* out, std::uint64_t fraction) {
    for (unsigned i = 0; i < count; ++i) {
        const Wide scaled = static_cast<Wide>(fraction) * letters;
        out[i] = alphabet[static_cast<std::size_t>(scaled >> 64)];
        fraction = static_cast<std::uint64_t>(scaled);
    }
}

}  // namespace

std::string RandomIds::next() {
    std::array<char, 15> text;
    write_letters<8>(text.data(), detail::random_word());
    write_letters<7>(text.data() + 8, detail::random_word());
    return std::string(text.data(), text.size());
}

}  // namespace cubepi
