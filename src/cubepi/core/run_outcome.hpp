#pragma once

#include <cstdint>
#include <string_view>

namespace cubepi {

/// The outcome of a run (D40).
enum class RunOutcome : std::uint8_t {
    completed,
    suspended,  ///< waiting for the user; respond() resumes it
    aborted,
    failed,   ///< the model, the network or a hook failed
    limited,  ///< a configured limit was reached
};
std::string_view to_string(RunOutcome outcome) noexcept;

}  // namespace cubepi
