#pragma once

#include <filesystem>

#include <cubepi/checkpoint/store_report.hpp>

namespace bub {

/// Checks the delivery log in a directory (D209). Blocks. Reads only, without the lock of the log, so that a gateway can use it and be
/// started: a line that is being written looks like one that was cut off. Throws CheckpointerError if there is no log, or it cannot be
/// read.
cubepi::StoreReport check_delivery_log(const std::filesystem::path& directory);

}  // namespace bub
