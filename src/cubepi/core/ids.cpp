#include <cubepi/core/ids.hpp>

#include <pthread.h>

#include <array>
#include <bit>
#include <random>

namespace cubepi {

namespace {

__extension__ using Wide = unsigned __int128;

/// A child process must not repeat its parent's ids.
std::atomic<unsigned> fork_generation{1};

void watch_forks() {
    [[maybe_unused]] static const int registered = pthread_atfork(
        nullptr, nullptr, [] { fork_generation.fetch_add(1, std::memory_order_relaxed); });
}

/// xoshiro256**, seeded from the system's random source.
class Generator {
public:
    std::uint64_t next() {
        const unsigned generation = fork_generation.load(std::memory_order_relaxed);
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
        watch_forks();
        std::random_device device;
        for (std::uint64_t& word : state_) word = (std::uint64_t{device()} << 32) | device();
        state_[0] |= 1;
        generation_ = generation;
    }

    std::array<std::uint64_t, 4> state_{};
    unsigned generation_ = 0;
};

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
    thread_local Generator generator;
    std::array<char, 15> text;
    write_letters<8>(text.data(), generator.next());
    write_letters<7>(text.data() + 8, generator.next());
    return std::string(text.data(), text.size());
}

}  // namespace cubepi
