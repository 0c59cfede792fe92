#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include <benchmark/benchmark.h>

// A fixed workload that uses no code of the project; it measures the current speed of the machine. It does what an agent
// does most (allocates and frees small blocks, holds and releases shared ones, copies and hashes short texts), so that
// it slows down when an agent does. bench/report.py has its time on a quiet machine, which must be updated when
// this file changes.

namespace cubepi::bench {
namespace {

class Yardstick {
public:
    Yardstick() {
        for (std::size_t i = 0; i < texts; ++i) shared_.push_back(std::make_shared<Text>(text(i)));
    }
    ~Yardstick() {
        for (void* block : blocks_) std::free(block);
    }
    Yardstick(const Yardstick&) = delete;
    Yardstick& operator=(const Yardstick&) = delete;

    /// 128 blocks of 24 to 520 bytes, each with the beginning of a shared text, hashed, held until 32 more were made.
    std::uint64_t lap() {
        for (int i = 0; i < 128; ++i) {
            next_ = next_ * 6364136223846793005U + 1442695040888963407U;
            const std::size_t size = 24 + 8 * ((next_ >> 33U) % 63);
            held_[at_] = shared_[(next_ >> 40U) % texts];
            std::free(blocks_[at_]);
            blocks_[at_] = std::malloc(size);
            const std::size_t words = std::min(size / 8, words_of_text);
            std::memcpy(blocks_[at_], held_[at_]->data(), words * 8);
            hash_ = hashed(static_cast<const std::uint64_t*>(blocks_[at_]), words);
            at_ = (at_ + 1) % blocks_.size();
        }
        return hash_;
    }

private:
    static constexpr std::size_t texts = 1024;
    static constexpr std::size_t words_of_text = 16;
    using Text = std::array<std::uint64_t, words_of_text>;

    static Text text(std::size_t number) {
        Text made = {};
        made.fill(0x0101010101010101U * (number % 256));
        return made;
    }

    std::uint64_t hashed(const std::uint64_t* words, std::size_t count) const {
        std::uint64_t hash = hash_;
        for (std::size_t i = 0; i < count; ++i) hash = (hash ^ words[i]) * 1099511628211U;
        return hash;
    }

    std::vector<std::shared_ptr<const Text>> shared_ = {};
    std::array<std::shared_ptr<const Text>, 32> held_ = {};
    std::array<void*, 32> blocks_ = {};
    std::size_t at_ = 0;
    std::uint64_t next_ = 1;
    std::uint64_t hash_ = 14695981039346656037U;
};

void yardstick(benchmark::State& state) {
    Yardstick stick;
    for (auto _ : state) benchmark::DoNotOptimize(stick.lap());
}
BENCHMARK(yardstick);

}  // namespace
}  // namespace cubepi::bench
