#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cubepi_fuzz {

/// Inputs derived only from a corpus and the words of a dictionary: the same with every compiler, on every machine, in every run.
/// libFuzzer's inputs differ even with a fixed seed, because they depend on addresses and on the threads and files of a target.
class FixedInputs {
public:
    static constexpr std::size_t most_bytes = 4096;

    /// `corpus` has at least one element.
    FixedInputs(std::vector<std::string> corpus, std::vector<std::string> words)
        : corpus_(std::move(corpus)), words_(std::move(words)) {}

    /// Returns the next input, valid until the next call.
    const std::string& next() {
        // Half of them are based on the previous one, so that some differ much from the corpus.
        if (steps_ == 0 || below(2) == 0) {
            current_ = corpus_[below(corpus_.size())];
            steps_ = 32;
        }
        --steps_;
        for (std::size_t left = 1 + below(below(8) == 0 ? 16 : 4); left > 0; --left) change();
        if (current_.size() > most_bytes) current_.resize(most_bytes);
        return current_;
    }

private:
    /// splitmix64, without a distribution of the standard library: those differ between implementations.
    std::uint64_t random() {
        state_ += 0x9e3779b97f4a7c15;
        std::uint64_t mixed = state_;
        mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
        mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
        return mixed ^ (mixed >> 31);
    }

    std::size_t below(std::size_t end) { return static_cast<std::size_t>(random() % end); }

    /// A part of `text`, up to 64 bytes.
    std::string_view part(std::string_view text) {
        if (text.empty()) return text;
        const std::size_t begin = below(text.size());
        return text.substr(begin, 1 + below(64));
    }

    void insert(std::string_view text) { current_.insert(below(current_.size() + 1), text); }

    void change() {
        if (current_.empty()) {
            const char byte = static_cast<char>(below(256));
            current_.push_back(byte);
            return;
        }
        const std::size_t at = below(current_.size());
        switch (below(9)) {
            case 0: current_[at] = static_cast<char>(current_[at] ^ (1 << below(8))); break;
            case 1: current_[at] = static_cast<char>(below(256)); break;
            case 2: current_.erase(at, 1 + below(below(4) == 0 ? current_.size() : 8)); break;
            case 3: insert(std::string(part(current_))); break;
            case 4: insert(part(corpus_[below(corpus_.size())])); break;
            case 5: {
                // The head of this input with the tail of another.
                const std::string& other = corpus_[below(corpus_.size())];
                current_.resize(at);
                current_ += std::string_view(other).substr(below(other.size() + 1));
                break;
            }
            case 6: {
                // Many repetitions, for deep or long inputs.
                const std::size_t count = 1 + below(below(8) == 0 ? 1024 : 16);
                insert(std::string(count, current_[at]));
                break;
            }
            case 7: number(at); break;
            default:
                if (!words_.empty()) insert(words_[below(words_.size())]);
        }
    }

    /// Replaces the first digits at or after `at` by another number.
    void number(std::size_t at) {
        static constexpr std::string_view digits = "0123456789";
        const std::size_t begin = current_.find_first_of(digits, at);
        if (begin == std::string::npos) return;
        const std::size_t end = current_.find_first_not_of(digits, begin);
        const std::size_t shift = below(64);
        const std::uint64_t drawn = random() >> shift;
        current_.replace(begin, end == std::string::npos ? end : end - begin,
                         std::to_string(drawn));
    }

    std::vector<std::string> corpus_;
    std::vector<std::string> words_;
    std::string current_;
    int steps_ = 0;
    std::uint64_t state_ = 1;
};

}  // namespace cubepi_fuzz
