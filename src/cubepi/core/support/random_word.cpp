#include <cubepi/core/support/random_word.hpp>

#include <array>
#include <bit>
#include <random>

#include <cubepi/core/support/fork_generation.hpp>

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
