#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <bub/channel/delivery_log.hpp>
#include <bub/limits/usage_store.hpp>
#include <bub/schedule/schedule.hpp>
#include <bub/tape/session_tape_store.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>

#include "config_file.hpp"

namespace bub {
class AdoptingDeliveryLog;
}

namespace cubepi::app {

/// Where this process keeps its sessions.
struct TapeLocation {
    std::string database =
        {};               ///< postgres://...; may have a password. Empty: files in $BUB_HOME/tapes
    std::string by = {};  ///< "--db", or the configuration file
    /// The databases among which sessions are divided, in place of `database`; empty: they are not.
    std::vector<DatabasePart> databases = {};

    bool is_files() const noexcept { return database.empty() && databases.empty(); }
    /// Returns the URLs of the databases.
    std::vector<std::string> urls() const;

    bool operator==(const TapeLocation&) const = default;
};

/// Sets the database of --db for this process, which the configuration file does not override. Empty: no flag.
void set_tape_database(std::string url);

/// Returns the location that --db names, else the key `database` or `databases` of the configuration file, else the files. Throws what
/// read_config() throws.
TapeLocation tape_location();

/// Returns the configured store of sessions. Does not connect. Throws Error(invalid_argument) for a database in which sessions cannot
/// be stored.
std::shared_ptr<bub::SessionTapeStore> configured_tapes();

/// Returns the store of a location: a directory, or a database as in TapeLocation. Throws like configured_tapes().
std::shared_ptr<bub::SessionTapeStore> open_tapes(const std::string& location);

/// Where a gateway stores its messages until they are answered.
struct DeliveryLocation {
    std::string database = {};  ///< as TapeLocation::database
    std::vector<DatabasePart> databases =
        {};  ///< as TapeLocation::databases. Without any: files in $BUB_HOME/deliveries
    std::string account =
        {};  ///< of the gateways that share the database: `gateway.tape_namespace`
    std::string notifications = {};        ///< PostgresDeliveryLogOptions::notifications
    std::filesystem::path directory = {};  ///< of the files; empty: the default

    bool operator==(const DeliveryLocation&) const = default;
    /// Returns the database of what is not of a session; empty: files.
    std::string first_database() const;
};

/// Returns the location of the configuration, next to the sessions. Throws Error for a configuration that cannot be used.
DeliveryLocation delivery_location();

/// Returns a short digest of the values of a configuration (config_values) for the database, where other gateways compare it with theirs.
/// Values that may be secret, by their names, those of `env` and `headers`, and URLs with a password or a query, are left out: a short
/// secret can be found by trying all. So are the ports of the addresses on which a gateway listens.
std::string configuration_digest(const JsonObject& values);

/// The numbers of records that were stored in another log.
struct AdoptedRecords {
    std::size_t messages = 0;
    std::size_t answers = 0;
};
/// Stores the unfinished records of a log in a database, unless it has them. `finishes`: they are finished in the first log.
Task<AdoptedRecords> adopt_records(std::shared_ptr<bub::DeliveryLog> from,
                                   std::shared_ptr<bub::AdoptingDeliveryLog> to, bool finishes);

/// The directory of the files of messages, $BUB_HOME/deliveries.
std::filesystem::path deliveries_directory();

/// The file that `cubepi gateway import` leaves in that directory: a line that says where the records are, and from the first record to the
/// last the line `unfinished_mark` after it.
inline constexpr const char* moved_mark = "moved";
inline constexpr const char* unfinished_mark = "unfinished";
/// The content of the mark.
struct MovedFiles {
    std::string to = {};  ///< empty: there is no mark
    bool is_complete = false;
};
MovedFiles moved_files(const std::filesystem::path& directory);

/// Opens the log. Throws Error(invalid_state) for files that were moved to a database, also in part. One in a database receives the unfinished
/// records of files without a mark, which an earlier version or configuration has left; what is interrupted there, the next start continues. Throws
/// the failure of a database whose tables are missing, older or newer, or whose division differs; one that cannot be reached yet is only reported (D90).
Task<std::shared_ptr<bub::DeliveryLog>> open_deliveries(DeliveryLocation location,
                                                        bub::WarningHandler warn);

/// Opens the schedules at the same location, next to the deliveries; of several databases in the first. `are_configured`: the configuration has some. Null, with a warning: the
/// database has no tables for them yet, and none are configured; if some are, throws that failure.
Task<std::shared_ptr<bub::ScheduleStore>> open_schedules(DeliveryLocation location,
                                                         bool are_configured,
                                                         bub::WarningHandler warn);

/// Opens the counters of limits at the same location, next to the deliveries; of several databases in the first. Throws the failure of a database whose tables are missing, older or
/// newer; one that cannot be reached yet is asked again by each turn.
Task<std::shared_ptr<bub::UsageStore>> open_usage(DeliveryLocation location);

}  // namespace cubepi::app
