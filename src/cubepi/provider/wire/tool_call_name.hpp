#pragma once

#include <cubepi/core/shared_string.hpp>

namespace cubepi::detail {

/// Returns the name of a tool call as it is stored and shown (D73): 1 to 64 characters of A-Z, a-z, 0-9, _ and -. A
/// valid name is returned unchanged. In other names, white space at the ends is dropped and each run of other bytes
/// becomes `_`; a longer name is cut and ends in `_cut`, so that it does not match a tool.
SharedString tool_call_name(SharedString name);

}  // namespace cubepi::detail
