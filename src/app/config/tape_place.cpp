#include "tape_place.hpp"

#include <mutex>
#include <utility>
#include <vector>

#include <bub/tape/divided_tape_store.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/postgres_tape_store.hpp>
#include <cubepi/core/error.hpp>

#include "config_file.hpp"
#include "paths.hpp"

namespace cubepi::app {

namespace {

std::string& database_flag() {
    static std::string flag;
    return flag;
}

/// `division`: the record that it must have; empty: none, because it is not one of several.
std::shared_ptr<bub::SessionTapeStore> open_database(const std::string& url,
                                                     std::string division = {}) {
    PostgresOptions options;
    options.connection = url;
    return std::make_shared<bub::PostgresTapeStore>(std::move(options), std::move(division));
}

std::shared_ptr<bub::SessionTapeStore> open_divided(const std::vector<DatabasePart>& databases) {
    bub::DatabaseMap map = database_map(databases);
    std::vector<std::shared_ptr<bub::SessionTapeStore>> stores;
    for (std::size_t at = 0; at < databases.size(); ++at)
        stores.push_back(open_database(databases[at].url, map.record(at)));
    return std::make_shared<bub::DividedTapeStore>(std::move(map), std::move(stores));
}

}  // namespace

void set_tape_database(std::string url) { database_flag() = std::move(url); }

TapePlace tape_place() {
    TapePlace place;
    place.database = database_flag();
    place.by = "--db";
    if (!place.database.empty()) return place;
    ConfigFile config = read_config(config_path());
    place.database = std::move(config.database);
    place.databases = std::move(config.databases);
    place.by = config_origin;
    return place;
}

std::vector<std::string> TapePlace::urls() const {
    std::vector<std::string> urls;
    if (!database.empty()) urls.push_back(database);
    for (const DatabasePart& one : databases) urls.push_back(one.url);
    return urls;
}

std::shared_ptr<bub::SessionTapeStore> open_tapes(const std::string& place) {
    if (is_postgres_url(place)) return open_database(place);
    const std::size_t scheme = place.find("://");
    if (scheme != std::string::npos) {
        // Not the rest of it, which may have a password.
        throw Error(ErrorCode::invalid_argument,
                    "sessions cannot be stored in a database of '" + place.substr(0, scheme) +
                        "'; use a PostgreSQL database (postgres://...)");
    }
    return std::make_shared<bub::FileTapeStore>(place.empty() ? bub::default_tape_directory()
                                                              : std::filesystem::path(place));
}

std::shared_ptr<bub::SessionTapeStore> configured_tapes() {
    // The parts of a command share the connections.
    static std::mutex mutex;
    static std::weak_ptr<bub::SessionTapeStore> last;
    static TapePlace opened;
    const TapePlace place = tape_place();
    if (place.is_files()) return open_tapes({});
    if (place.databases.empty() && !is_postgres_url(place.database) &&
        place.database.find("://") == std::string::npos) {
        throw Error(ErrorCode::invalid_argument, place.by +
                                                     " does not name a database; use a URL, e.g. "
                                                     "postgres://me@localhost/agents");
    }
    const std::lock_guard lock(mutex);
    std::shared_ptr<bub::SessionTapeStore> store = last.lock();
    if (store && opened == place) return store;
    store = place.databases.empty() ? open_tapes(place.database) : open_divided(place.databases);
    last = store;
    opened = place;
    return store;
}

}  // namespace cubepi::app
