#include "fixed_inputs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

using cubepi_fuzz::FixedInputs;

namespace {

FixedInputs inputs() {
    return FixedInputs({"", R"({"a":[1,22,"x"]})", "data: hello\n\n"}, {"event: ", "[["});
}

}  // namespace

TEST(FixedInputs, Inputs_AreReproducible) {
    FixedInputs made = inputs();
    std::uint64_t sum = 14695981039346656037U;
    for (int i = 0; i < 2000; ++i) {
        for (const char byte : made.next() + '\n') {
            sum = (sum ^ static_cast<unsigned char>(byte)) * 1099511628211U;
        }
    }
    // It changes only if FixedInputs changes.
    EXPECT_EQ(sum, 651068867160618091U);
}

TEST(FixedInputs, Inputs_AreDifferentAndBounded) {
    FixedInputs made = inputs();
    std::set<std::string> seen;
    std::size_t longest = 0;
    for (int i = 0; i < 2000; ++i) {
        const std::string& input = made.next();
        longest = std::max(longest, input.size());
        seen.insert(input);
    }
    EXPECT_GT(seen.size(), 1500U);
    EXPECT_GT(longest, 1000U);
    EXPECT_LE(longest, FixedInputs::most_bytes);
}
