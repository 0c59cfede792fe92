#include "store_locations.hpp"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include <bub/channel/divided_delivery_log.hpp>
#include <bub/channel/file_delivery_log.hpp>
#include <bub/channel/postgres_delivery_log.hpp>
#include <bub/limits/file_usage_store.hpp>
#include <bub/limits/postgres_usage_store.hpp>
#include <bub/schedule/file_schedule_store.hpp>
#include <bub/schedule/postgres_schedule_store.hpp>
#include <bub/tape/divided_tape_store.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/postgres_tape_store.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/log.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/process/environment.hpp>

#include "config_file.hpp"
#include "gateway_settings.hpp"
#include "paths.hpp"

namespace cubepi::app {

namespace {

std::string& database_flag() {
    static std::string flag;
    return flag;
}

/// `division`: the record that it must have; empty: none, because it is not one of several.
std::shared_ptr<bub::SessionTapeStore> open_database_tapes(const std::string& url,
                                                           std::string division = {}) {
    PostgresOptions options;
    options.connection = url;
    return std::make_shared<bub::PostgresTapeStore>(std::move(options), std::move(division));
}

std::shared_ptr<bub::SessionTapeStore> open_divided_tapes(
    const std::vector<DatabasePart>& databases) {
    bub::DatabaseMap map = database_map(databases);
    std::vector<std::shared_ptr<bub::SessionTapeStore>> stores;
    for (std::size_t at = 0; at < databases.size(); ++at)
        stores.push_back(open_database_tapes(databases[at].url, map.record(at)));
    return std::make_shared<bub::DividedTapeStore>(std::move(map), std::move(stores));
}

using LogPtr = std::shared_ptr<bub::DeliveryLog>;
using TablesPtr = std::shared_ptr<bub::AdoptingDeliveryLog>;
using Ids = std::vector<std::string>;

LogPtr open_files(const bub::WarningHandler& warn, std::filesystem::path directory = {}) {
    bub::FileDeliveryLogOptions options;
    options.directory = std::move(directory);
    options.on_warning = warn;
    return std::make_shared<bub::FileDeliveryLog>(std::move(options));
}

bool has_files() {
    std::error_code unknown;
    return std::filesystem::exists(deliveries_directory() / "deliveries.jsonl", unknown) &&
           moved_files(deliveries_directory()).to.empty();
}

Task<> adopt_message(LogPtr from, TablesPtr to, bub::StoredInbound inbound, bool finishes,
                     std::map<std::string, std::string>& turns) {
    Ids old(1, inbound.id);
    std::string& first = turns[inbound.turn.empty() ? inbound.id : inbound.turn];
    std::string turn = first;
    const std::string id = co_await to->adopt(std::move(inbound), std::move(turn));
    if (first.empty()) first = id;
    if (finishes) co_await from->finish(std::move(old));
}

Task<> adopt_answer(LogPtr from, TablesPtr to, bub::Delivery delivery, bool finishes) {
    std::string id = delivery.id;
    co_await to->adopt(std::move(delivery));
    std::string reason = "moved to the database";
    if (finishes) co_await from->failed(std::move(id), std::move(reason));
}

/// Reports a trouble that prevents no start. In the log too: with one of JSON records, the operator reads nothing else.
void report(const bub::WarningHandler& warn, std::string_view event, std::string_view error,
            std::string text) {
    Runtime::standard()->log.write(LogLevel::warning, event, {{"error", error}});
    if (warn) warn(std::move(text));
}

/// Moves the records that an earlier version or configuration has left in files.
Task<> move_from_files(LogPtr files, TablesPtr log, bub::WarningHandler warn) {
    Task<AdoptedRecords> moving = adopt_records(files, log, true);
    const Outcome<AdoptedRecords> done = co_await outcome_of(std::move(moving));
    // Also after a failure: what was moved is for the manager that takes it.
    Task<> releasing = log->release();
    (void)co_await outcome_of(std::move(releasing));
    if (done.cancelled()) done.rethrow();
    if (!done)
        report(warn, "delivery.move_failed", logged_error(done.failure()),
               "the messages and answers in " + deliveries_directory().string() +
                   " could not be moved to the database, which is tried again at the next start: " +
                   exception_text(done.failure()));
}

/// Throws the failure of a database whose tables this gateway must not use; one that cannot be reached yet is only reported (D90).
void check_opened(const Outcome<>& opened, const std::string& what,
                  const bub::WarningHandler& warn) {
    if (opened) return;
    if (opened.cancelled()) opened.rethrow();
    if (logged_error(opened.failure()) == to_string(ErrorCode::schema_mismatch)) opened.rethrow();
    report(warn, "delivery.open_failed", logged_error(opened.failure()),
           what + " cannot be used yet: " + exception_text(opened.failure()));
}

std::shared_ptr<bub::PostgresDeliveryLog> make_log(std::string url, std::string account,
                                                   std::string notifications,
                                                   std::string division) {
    bub::PostgresDeliveryLogOptions options;
    options.database.connection = std::move(url);
    options.account = std::move(account);
    options.notifications = std::move(notifications);
    options.division = std::move(division);
    return std::make_shared<bub::PostgresDeliveryLog>(std::move(options));
}

Task<LogPtr> open_divided_log(DeliveryLocation location, LogPtr files, bub::WarningHandler warn) {
    bub::DividedDeliveryLogOptions options{database_map(location.databases), {}, warn};
    std::vector<Task<>> opening;
    for (std::size_t at = 0; at < location.databases.size(); ++at) {
        const DatabasePart& part = location.databases[at];
        std::string notify = part.notify.empty() ? part.url : part.notify;
        auto log = make_log(part.url, location.account, std::move(notify), options.map.record(at));
        opening.push_back(log->open());
        options.logs.push_back(std::move(log));
    }
    const std::vector<Outcome<>> opened = co_await collect_all(std::move(opening));
    for (std::size_t at = 0; at < opened.size(); ++at)
        check_opened(opened[at],
                     "the database '" + location.databases[at].name + "' of the messages", warn);
    const bool are_open =
        std::all_of(opened.begin(), opened.end(), [](const Outcome<>& one) { return one.ok(); });
    auto log = std::make_shared<bub::DividedDeliveryLog>(std::move(options));
    if (files && are_open) co_await move_from_files(files, log, warn);
    co_return log;
}

}  // namespace

void set_tape_database(std::string url) { database_flag() = std::move(url); }

TapeLocation tape_location() {
    TapeLocation location;
    location.database = database_flag();
    location.by = "--db";
    if (!location.database.empty()) return location;
    ConfigFile config = read_config(config_path());
    location.database = std::move(config.database);
    location.databases = std::move(config.databases);
    location.by = config_origin;
    return location;
}

std::vector<std::string> TapeLocation::urls() const {
    std::vector<std::string> urls;
    if (!database.empty()) urls.push_back(database);
    for (const DatabasePart& one : databases) urls.push_back(one.url);
    return urls;
}

std::shared_ptr<bub::SessionTapeStore> open_tapes(const std::string& location) {
    if (is_postgres_url(location)) return open_database_tapes(location);
    const std::size_t scheme = location.find("://");
    if (scheme != std::string::npos) {
        // Not the rest of it, which may have a password.
        throw Error(ErrorCode::invalid_argument,
                    "sessions cannot be stored in a database of '" + location.substr(0, scheme) +
                        "'; use a PostgreSQL database (postgres://...)");
    }
    return std::make_shared<bub::FileTapeStore>(location.empty() ? bub::default_tape_directory()
                                                                 : std::filesystem::path(location));
}

std::shared_ptr<bub::SessionTapeStore> configured_tapes() {
    // The parts of a command share the connections.
    static std::mutex mutex;
    static std::weak_ptr<bub::SessionTapeStore> last;
    static TapeLocation opened;
    const TapeLocation location = tape_location();
    if (location.is_files()) return open_tapes({});
    if (location.databases.empty() && !is_postgres_url(location.database) &&
        location.database.find("://") == std::string::npos) {
        throw Error(ErrorCode::invalid_argument, location.by +
                                                     " does not name a database; use a URL, e.g. "
                                                     "postgres://me@localhost/agents");
    }
    const std::lock_guard lock(mutex);
    std::shared_ptr<bub::SessionTapeStore> store = last.lock();
    if (store && opened == location) return store;
    store = location.databases.empty() ? open_tapes(location.database)
                                       : open_divided_tapes(location.databases);
    last = store;
    opened = location;
    return store;
}

namespace {

/// Gateways on one host have the same addresses with other ports.
std::string_view without_port(std::string_view address) {
    return address.substr(0, address.rfind(':'));
}

/// `is_secret`: all values in it are.
Json without_secrets(const Json& value, bool is_secret) {
    if (const JsonArray* const list = value.if_array()) {
        JsonArray shown;
        for (const Json& one : *list) shown.push_back(without_secrets(one, is_secret));
        return shown;
    }
    if (const JsonObject* const object = value.if_object()) {
        JsonObject shown;
        for (const auto& member : *object) {
            const std::string_view name = member.key();
            // A name of a variable is not its value: "api_key_env".
            const bool names_secret = is_secret_variable(name) && !name.ends_with("_env");
            const bool is_hidden = names_secret || name == "env" || name == "headers";
            const bool is_address =
                (name == "listen" || name == "status") && member.value().is_string();
            Json one = member.value();
            if (is_address) one = without_port(member.value().get_string());
            shown[name] = without_secrets(one, is_secret || is_hidden);
        }
        return shown;
    }
    const std::string text = value.is_string() ? std::string(value.get_string()) : std::string();
    // The query of an address may have a key.
    const bool has_query = text.find("://") != text.npos && text.find('?') != text.npos;
    return is_secret || has_query || has_password(text) ? Json() : value;
}

}  // namespace

std::string configuration_digest(const JsonObject& values) {
    constexpr std::size_t digits = 12;
    const Json shown = without_secrets(values, false);
    return detail::sha256_hex(boost::json::serialize(shown)).substr(0, digits);
}

std::filesystem::path deliveries_directory() {
    return bub::default_tape_directory().parent_path() / "deliveries";
}

MovedFiles moved_files(const std::filesystem::path& directory) {
    constexpr std::size_t longest = 4096;
    MovedFiles moved;
    std::ifstream file(directory / moved_mark, std::ios::binary);
    if (!file.is_open()) return moved;
    std::string text(longest, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
    const std::size_t end = std::min(text.size(), text.find('\n'));
    moved.is_complete =
        text.compare(end, text.npos, std::string("\n") + unfinished_mark + "\n") != 0;
    text.resize(end);
    moved.to = text.empty() ? std::string("a database") : text;
    return moved;
}

namespace {

/// Throws Error(invalid_state) if the files were moved and would be used; reports a move that is not complete.
void check_moved(bool uses_files, const bub::WarningHandler& warn) {
    const MovedFiles moved = moved_files(deliveries_directory());
    if (moved.to.empty() || (moved.is_complete && !uses_files)) return;
    std::string text = moved.is_complete
                           ? "the sessions and messages of this gateway were moved to " + moved.to +
                                 ": set the key 'database' in " + config_path().string()
                           : "the import of the sessions and messages of this gateway to " +
                                 moved.to + " is not complete: repeat 'cubepi gateway import'";
    if (uses_files)
        throw Error(ErrorCode::invalid_state,
                    text + ", or remove " + (deliveries_directory() / moved_mark).string() +
                        " to use the files again, whose unfinished messages both have then");
    report(warn, "delivery.import_unfinished", to_string(ErrorCode::invalid_state),
           std::move(text));
}

}  // namespace

Task<AdoptedRecords> adopt_records(LogPtr from, TablesPtr to, bool finishes) {
    bub::UnfinishedRecords records = co_await from->take();
    AdoptedRecords adopted{records.inbounds.size(), records.answers.size()};
    std::map<std::string, std::string> turns;
    for (bub::StoredInbound& inbound : records.inbounds)
        co_await adopt_message(from, to, std::move(inbound), finishes, turns);
    for (bub::Delivery& answer : records.answers)
        co_await adopt_answer(from, to, std::move(answer), finishes);
    co_return adopted;
}

std::string DeliveryLocation::first_database() const {
    return databases.empty() ? database : databases.front().url;
}

DeliveryLocation delivery_location() {
    DeliveryLocation location;
    TapeLocation tapes = tape_location();
    if (tapes.is_files()) return location;
    location.database = std::move(tapes.database);
    location.databases = std::move(tapes.databases);
    GatewaySettings settings = gateway_settings(config_values(config_path()), TimeZones::ignored);
    location.account = std::move(settings.tape_namespace);
    if (!location.databases.empty()) {
        if (settings.notify_database.empty()) return location;
        throw Error(ErrorCode::invalid_argument,
                    config_path().string() +
                        ": with several databases, notify_database is a key of each of them in "
                        "'databases', not of 'gateway'");
    }
    location.notifications =
        settings.notify_database.empty() ? location.database : std::move(settings.notify_database);
    return location;
}

Task<LogPtr> open_deliveries(DeliveryLocation location, bub::WarningHandler warn) {
    LogPtr files;
    if (!location.directory.empty()) {
        files = open_files(warn, std::move(location.directory));
        co_return files;
    }
    const bool is_in_files = location.database.empty() && location.databases.empty();
    check_moved(is_in_files, warn);
    if (is_in_files || has_files()) files = open_files(warn);
    if (is_in_files) co_return files;
    if (!location.databases.empty()) {
        Task<LogPtr> opening =
            open_divided_log(std::move(location), std::move(files), std::move(warn));
        LogPtr divided = co_await std::move(opening);
        co_return divided;
    }
    auto log = make_log(std::move(location.database), std::move(location.account),
                        std::move(location.notifications), std::string());
    Task<> opening = log->open();
    const Outcome<> opened = co_await outcome_of(std::move(opening));
    check_opened(opened, "the database of the messages", warn);
    if (opened && files) co_await move_from_files(files, log, warn);
    co_return log;
}

namespace {

/// A store next to the deliveries, or the reason why the tables of its database must not be used.
template <class Store>
struct OpenedStore {
    std::shared_ptr<Store> store;
    std::exception_ptr mismatch;
};

template <class Files, class Database, class Options, class Store>
Task<OpenedStore<Store>> open_store(DeliveryLocation location) {
    OpenedStore<Store> result;
    Options options;
    options.database.connection = location.first_database();
    if (options.database.connection.empty()) {
        result.store = std::make_shared<Files>(
            location.directory.empty() ? deliveries_directory() : std::move(location.directory));
        co_return result;
    }
    options.account = std::move(location.account);
    auto store = std::make_shared<Database>(std::move(options));
    Task<> opening = store->open();
    const Outcome<> opened = co_await outcome_of(std::move(opening));
    if (opened.cancelled()) opened.rethrow();
    // One that cannot be reached yet is asked again by each poll and each turn.
    if (!opened && logged_error(opened.failure()) == to_string(ErrorCode::schema_mismatch))
        result.mismatch = opened.failure();
    else
        result.store = std::move(store);
    co_return result;
}

}  // namespace

Task<std::shared_ptr<bub::ScheduleStore>> open_schedules(DeliveryLocation location,
                                                         bool are_configured,
                                                         bub::WarningHandler warn) {
    Task<OpenedStore<bub::ScheduleStore>> opening =
        open_store<bub::FileScheduleStore, bub::PostgresScheduleStore,
                   bub::PostgresScheduleStoreOptions, bub::ScheduleStore>(std::move(location));
    OpenedStore<bub::ScheduleStore> opened = co_await std::move(opening);
    if (opened.store) co_return opened.store;
    if (are_configured) std::rethrow_exception(opened.mismatch);
    Runtime::standard()->log.write(LogLevel::warning, "schedule.switched_off",
                                   {{"error", logged_error(opened.mismatch)}});
    warn("schedules are switched off: " + exception_text(opened.mismatch));
    co_return nullptr;
}

Task<std::shared_ptr<bub::UsageStore>> open_usage(DeliveryLocation location) {
    Task<OpenedStore<bub::UsageStore>> opening =
        open_store<bub::FileUsageStore, bub::PostgresUsageStore, bub::PostgresUsageStoreOptions,
                   bub::UsageStore>(std::move(location));
    OpenedStore<bub::UsageStore> opened = co_await std::move(opening);
    if (!opened.store) std::rethrow_exception(opened.mismatch);
    co_return opened.store;
}

}  // namespace cubepi::app
