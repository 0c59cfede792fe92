#pragma once

#include <memory>
#include <string>

#include <bub/tape/session_tape_store.hpp>

#include "config_file.hpp"

namespace cubepi::app {

/// Where this process keeps its sessions.
struct TapePlace {
    std::string database =
        {};               ///< postgres://...; may have a password. Empty: files in $BUB_HOME/tapes
    std::string by = {};  ///< "--db", or the configuration file
};

/// Sets the database of --db for this process, which the configuration file does not override. Empty: no flag.
void set_tape_database(std::string url);

/// Returns the place that --db names, else the key `database` of the configuration file, else the files. Throws what
/// read_config() throws.
TapePlace tape_place();

/// Returns the configured store of sessions. Does not connect. Throws Error(invalid_argument) for a database in which sessions cannot
/// be stored.
std::shared_ptr<bub::SessionTapeStore> configured_tapes();

/// Returns the store of a place: a directory, or a database as in TapePlace. Throws like configured_tapes().
std::shared_ptr<bub::SessionTapeStore> open_tapes(const std::string& place);

}  // namespace cubepi::app
