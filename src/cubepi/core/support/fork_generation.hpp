#pragma once

namespace cubepi::detail {

/// Returns a number that differs between a process and its children: objects that own a thread compare it with the number
/// of their construction, because the thread does not exist in a child. Costs one atomic read. Thread-safe.
unsigned fork_generation() noexcept;

}  // namespace cubepi::detail
