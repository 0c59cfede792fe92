#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

// Shared code of all attacks: a seed, a number of rounds, and the table of attempts and results.
//
// Without settings every run makes the same attempts. `make attack` makes more of them, from a new seed:
//
//   CUBEPI_ATTACK_SEED    the seed, which a failure prints
//   CUBEPI_ATTACK_FACTOR  multiplies the number of rounds
//   CUBEPI_ATTACK_TABLE   a file to which the table is written, in Markdown

namespace cubepi::attack {

/// `standard` times the factor: how often a random or racing attack is repeated.
std::size_t rounds(std::size_t standard);

/// A generator of its own for each attack, from the seed and the attack's name.
std::mt19937_64 generator(std::string_view attack);

/// The text with one change: a digit, a part that is missing or repeated, a byte that ends strings.
std::string altered(const std::string& text, std::mt19937_64& random);

/// One row of the table: attempts of one kind. Rows are printed when all tests have ended, sorted by area.
class Row {
public:
    /// `area` and `attack` are noun phrases: "terminal", "escape sequences in a tool's name".
    Row(std::string area, std::string attack);
    ~Row();
    Row(const Row&) = delete;
    Row& operator=(const Row&) = delete;

    /// An attempt that must be prevented. If it was not, the test fails with `what`, which describes the attempt.
    void attempt(bool held, std::string_view what);

    /// An attempt of a kind that the program does not promise to prevent. Counted, but never a failure.
    void count(bool held);

private:
    std::string area_;
    std::string attack_;
    std::size_t tried_ = 0;
    std::size_t held_ = 0;
};

}  // namespace cubepi::attack
