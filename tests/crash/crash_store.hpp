#pragma once

#include <filesystem>
#include <memory>

#include <cubepi/agent/checkpointer.hpp>

namespace cubepi::crash_tests {

/// Opens the store of a run in its directory, which derives from RunStore and MessageIndex too. Not synchronised: that protects against a
/// power failure and makes no difference to a killed process. crash_store.cpp has SQLite; tests/fifth_database has another.
std::shared_ptr<Checkpointer> open_crash_store(const std::filesystem::path& directory);

}  // namespace cubepi::crash_tests
