#include <cubepi/core/ids.hpp>

#include <array>
#include <bit>
#include <random>

#include <cubepi/core/support/fork_generation.hpp>
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

namespace cubepi::detail {

namespace {

/// xoshiro256**, seeded from the system's random source.
class Generator {
public:
    std::uint64_t next() {
        // A child process must not repeat its parent's ids.
        const unsigned generation = fork_generation();
        if (generation != generation_) seed(generation);
        const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
        const std::uint64_t shifted = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= shifted;
        state_[3] = std::rotl(state_[3], 45);
        return result;
    }

private:
    void seed(unsigned generation) {
        std::random_device device;
        for (std::uint64_t& word : state_) word = (std::uint64_t{device()} << 32) | device();
        state_[0] |= 1;
        generation_ = generation;
    }

    std::array<std::uint64_t, 4> state_{};
    unsigned generation_ = 0;
};

}  // namespace

std::uint64_t random_word() {
    thread_local Generator generator;
    return generator.next();
}

}  // namespace cubepi::detail
