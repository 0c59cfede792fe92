#pragma once

#include <string>

#include <cubepi/core/json.hpp>

namespace cubepi {

/// An action of the library that may interest the host: a retry, a repair, a request value that was changed (D39).
/// Consumers may ignore it.
struct Notice {
    std::string code = {};  ///< stable: "retry", "repair", "no_persistence", "tool_output_cut", ...
    std::string text = {};  ///< one sentence for display
    JsonObject details = {};
};

}  // namespace cubepi
