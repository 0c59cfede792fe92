#pragma once

#include <memory>
#include <string>
#include <vector>

#include <bub/tape/session_tape_store.hpp>

#include "config_file.hpp"

namespace cubepi::app {

/// Where this process keeps its sessions.
struct TapePlace {
    std::string database =
        {};               ///< postgres://...; may have a password. Empty: files in $BUB_HOME/tapes
    std::string by = {};  ///< "--db", or the configuration file
    /// The databases among which sessions are divided, in place of `database`; empty: they are not.
    std::vector<DatabasePart> databases = {};

    bool is_files() const noexcept { return database.empty() && databases.empty(); }
    /// Returns the URLs of the databases.
    std::vector<std::string> urls() const;

    bool operator==(const TapePlace&) const = default;
};

/// Sets the database of --db for this process, which the configuration file does not override. Empty: no flag.
void set_tape_database(std::string url);

/// Returns the place that --db names, else the key `database` or `databases` of the configuration file, else the files. Throws what
/// read_config() throws.
TapePlace tape_place();

/// Returns the configured store of sessions. Does not connect. Throws Error(invalid_argument) for a database in which sessions cannot
/// be stored.
std::shared_ptr<bub::SessionTapeStore> configured_tapes();

/// Returns the store of a place: a directory, or a database as in TapePlace. Throws like configured_tapes().
std::shared_ptr<bub::SessionTapeStore> open_tapes(const std::string& place);

}  // namespace cubepi::app
