#pragma once

#include <filesystem>

#include <cubepi/checkpoint/store_report.hpp>

namespace bub {

/// Checks a directory of tapes with the files next to them (D209). Blocks. Reads only, and holds the lock of a tape for an instant, so
/// that others can use the directory. What they write meanwhile is not checked. Throws CheckpointerError for a directory that cannot
/// be read.
cubepi::StoreReport check_tape_files(const std::filesystem::path& directory);

}  // namespace bub
