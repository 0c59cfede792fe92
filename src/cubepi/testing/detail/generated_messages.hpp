#pragma once

#include <cstddef>
#include <cstdint>

#include <cubepi/core/message_list.hpp>

namespace cubepi::testing::detail {

/// Messages of all roles with all fields, texts that formats stumble over and numbers at the edges of their types. The
/// same for the same `seed`.
MessageList generated_messages(std::uint64_t seed, std::size_t count);

}  // namespace cubepi::testing::detail
