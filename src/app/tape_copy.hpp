#pragma once

#include <ostream>

#include "tape.hpp"

namespace cubepi::app {

/// `cubepi tape copy`: copies tapes with their sidecars between files and servers. A tape that cannot be copied does not keep the others
/// from it. Returns the exit status.
int copy_tapes(const TapeArguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace cubepi::app
