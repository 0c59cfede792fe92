#pragma once

#include <cstddef>
#include <cstdint>

#include <cubepi/core/message_list.hpp>

namespace cubepi::testing::detail {

/// Returns messages of all roles with all fields, texts that are difficult for formats, and numbers at the limits of
/// their types. Deterministic for a given `seed`.
MessageList generated_messages(std::uint64_t seed, std::size_t count);

}  // namespace cubepi::testing::detail
