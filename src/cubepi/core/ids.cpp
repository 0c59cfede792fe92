#include <cubepi/core/ids.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <random>

#include <cubepi/core/support/fork_generation.hpp>
#include <cubepi/core/support/random_word.hpp>

namespace cubepi {

namespace {

constexpr char alphabet[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
constexpr std::uint64_t letters = sizeof alphabet - 1;

/// Appends `count` letters of one draw; with at most 8 of 10 possible ones the bias is below 2^-16.
void append_letters(std::string& text, int count, std::uint64_t draw) {
    for (; count > 0; --count, draw /= letters) text += alphabet[draw % letters];
}

}  // namespace

std::string RandomIds::next() {
    std::string text;
    append_letters(text, 8, detail::random_word());
    append_letters(text, 7, detail::random_word());
    return text;
}

}  // namespace cubepi

namespace cubepi::detail {

std::uint64_t random_word() {
    thread_local std::mt19937_64 generator;
    thread_local unsigned seeded = 0;
    // A child process must not repeat its parent's ids.
    if (const unsigned generation = fork_generation(); generation != seeded) {
        std::random_device device;
        std::array<unsigned, 16> seed;
        std::generate(seed.begin(), seed.end(), std::ref(device));
        std::seed_seq sequence(seed.begin(), seed.end());
        generator.seed(sequence);
        seeded = generation;
    }
    return generator();
}

}  // namespace cubepi::detail
