#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cubepi::app {

/// The decision of the user to trust a project (D155).
struct TrustRecord {
    std::filesystem::path directory = {};  ///< the canonical root of the project
    /// The digests (SHA-256) of the files that are bound by their content, by name relative to the root.
    std::map<std::string, std::string> files = {};
    std::chrono::system_clock::time_point made = {};
};

// The records are files of mode 0600, one per project, so that processes which write at once do not overwrite each other's. All
// functions block.

/// Returns the record of a root; nothing if there is none, or if another user could have written it.
std::optional<TrustRecord> find_trust(const std::filesystem::path& root);
/// Creates or replaces the record of a root atomically. Throws Error: storage, io.
void save_trust(const TrustRecord& record);
/// Returns false if there is no record of this root. Throws Error(io).
bool remove_trust(const std::filesystem::path& root);
/// Returns all records, by directory.
std::vector<TrustRecord> trust_records();

}  // namespace cubepi::app
