#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include <bub/tape/tape_store.hpp>
#include <cubepi/core/task.hpp>

namespace bub {

/// The arguments of `,reasoning_effort`. `default` leaves the effort to the model.
inline constexpr std::array<std::string_view, 6> reasoning_efforts{"default", "minimal", "low",
                                                                   "medium",  "high",    "max"};

/// Returns the effort that `,reasoning_effort` has stored on a tape; `default` if there is none.
cubepi::Task<std::string> stored_effort(std::shared_ptr<TapeStore> store, std::string tape);

}  // namespace bub
