#pragma once

#include <cstdint>

#include <cubepi/core/ids.hpp>

namespace cubepi::detail {

/// Returns 64 random bits: unpredictable enough for ids, not for secrets. Thread-safe; safe after fork(): a child process does
/// not repeat the words of its parent.
std::uint64_t random_word();

/// Returns a number in [0, 1) from the runtime's ids, so that it is reproducible in tests.
inline double random_fraction(IdSource& ids) {
    std::uint64_t hash = 14695981039346656037u;
    for (const char c : ids.next()) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    return static_cast<double>(hash >> 11) * 0x1.0p-53;
}

}  // namespace cubepi::detail
