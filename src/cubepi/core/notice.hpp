#pragma once

#include <string>

#include <cubepi/core/json.hpp>

namespace cubepi {

/// Something the library did on its own account that a host may want to see: a retry, a repair, a request
/// value that was changed (D39). Consumers may ignore it.
struct Notice {
    std::string code = {};  ///< stable: "retry", "repair", "no_persistence", "tool_output_cut", ...
    std::string text = {};  ///< one sentence for a person
    JsonObject details = {};
};

}  // namespace cubepi
