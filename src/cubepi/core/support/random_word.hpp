#pragma once

#include <cstdint>

namespace cubepi::detail {

/// Returns 64 random bits: unpredictable enough for ids, not for secrets. Thread-safe; safe after fork(): a child process does
/// not repeat the words of its parent.
std::uint64_t random_word();

}  // namespace cubepi::detail
