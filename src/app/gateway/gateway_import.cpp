#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>

#include <bub/channel/file_delivery_log.hpp>
#include <bub/channel/postgres_delivery_log.hpp>
#include <bub/schedule/file_schedule_store.hpp>
#include <bub/schedule/postgres_schedule_store.hpp>
#include <bub/tape/copy_tape.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape_entry.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/posix_file.hpp>

#include "../config/paths.hpp"
#include "../config/store_locations.hpp"
#include "../failure.hpp"
#include "../process.hpp"
#include "../program.hpp"
#include "../terminal/terminal_stream.hpp"
#include "gateway_command.hpp"

namespace cubepi::app {

namespace {

using StorePtr = std::shared_ptr<bub::SessionTapeStore>;

void print_count(std::size_t count, TerminalView what) {
    out() << for_terminal(std::to_string(count)) << "\t" << what << "\n";
}

/// Returns true if the tape was copied before, and was continued there.
Task<bool> was_continued(StorePtr from, StorePtr to, std::string tape) {
    const std::vector<bub::TapeEntry> ours = co_await from->fetch(tape, bub::TapeQuery());
    const std::vector<bub::TapeEntry> theirs = co_await to->fetch(tape, bub::TapeQuery());
    co_return ours.size() < theirs.size() && std::equal(ours.begin(), ours.end(), theirs.begin());
}

/// Copies the tapes. Returns the number of those that could not be copied, which are named.
Task<std::size_t> import_tapes(StorePtr from, StorePtr to, std::vector<std::string> tapes) {
    std::size_t changed = 0;
    std::size_t failed = 0;
    for (const std::string& tape : tapes) {
        Task<bub::CopiedTape> copying = bub::copy_tape(from, to, tape);
        Outcome<bub::CopiedTape> copied = co_await outcome_of(std::move(copying));
        if (copied.cancelled()) copied.rethrow();
        if (copied) {
            changed += copied.value().entries > 0 || copied.value().state ? 1 : 0;
            continue;
        }
        const std::string code(logged_error(copied.failure()));
        bool is_done = false;
        if (code == to_string(ErrorCode::invalid_state))
            is_done = co_await was_continued(from, to, tape);
        if (is_done) continue;
        ++failed;
        err() << "cubepi: " << for_terminal(exception_text(copied.failure())) << "\n";
        // Each further one would wait for the same server.
        if (code != to_string(ErrorCode::invalid_state) &&
            code != to_string(ErrorCode::storage_locked))
            copied.rethrow();
    }
    print_count(tapes.size(), "tapes of sessions and sub-agents");
    print_count(changed, "of them with entries or questions that were new");
    co_return failed;
}

Task<std::shared_ptr<bub::PostgresDeliveryLog>> open_log(DeliveryLocation place) {
    bub::PostgresDeliveryLogOptions options;
    options.database.connection = std::move(place.database);
    options.account = std::move(place.account);
    auto log = std::make_shared<bub::PostgresDeliveryLog>(std::move(options));
    co_await log->open();
    co_return log;
}

Task<std::shared_ptr<bub::PostgresScheduleStore>> open_schedule_store(DeliveryLocation place) {
    bub::PostgresScheduleStoreOptions options;
    options.database.connection = std::move(place.database);
    options.account = std::move(place.account);
    auto store = std::make_shared<bub::PostgresScheduleStore>(std::move(options));
    co_await store->open();
    co_return store;
}

Task<> import_deliveries(std::shared_ptr<bub::FileDeliveryLog> files,
                         std::shared_ptr<bub::PostgresDeliveryLog> log) {
    Task<AdoptedRecords> adopting = adopt_records(files, log, false);
    const AdoptedRecords adopted = co_await std::move(adopting);
    std::vector<bub::Envelope> finished = co_await files->finished();
    const std::size_t ids = finished.size();
    co_await log->adopt_finished(std::move(finished));
    co_await log->release();
    print_count(adopted.messages, "unfinished messages");
    print_count(adopted.answers, "answers that were not sent");
    print_count(ids, "ids of finished messages");
}

Task<> import_schedules(std::filesystem::path directory,
                        std::shared_ptr<bub::PostgresScheduleStore> store) {
    bub::FileScheduleStore files(std::move(directory));
    std::vector<bub::Schedule> schedules = co_await files.list(std::string());
    const std::size_t count = schedules.size();
    for (bub::Schedule& schedule : schedules) (void)co_await store->adopt(std::move(schedule));
    print_count(count, "schedules");
}

/// Marks the files as moved, or as being moved. From now on no gateway uses them.
void mark(const std::filesystem::path& directory, const std::string& where, bool is_complete) {
    const std::string text =
        where + "\n" + (is_complete ? "" : unfinished_mark + std::string("\n"));
    const std::filesystem::path path = directory / moved_mark;
    const std::filesystem::path temporary = path.string() + ".new";
    detail::ReplacementFile file(detail::open_file(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC),
                                 temporary);
    const detail::UniqueFd parent = detail::open_file(directory.c_str(), O_RDONLY | O_DIRECTORY);
    if (!file || !parent || !detail::write_all(file.get(), text) ||
        !detail::sync_file(file.get()) || !file.replace(path) || !detail::sync_file(parent.get()))
        throw Error(ErrorCode::io,
                    "cannot write " + path.string() + ": " + detail::errno_text(errno));
}

Task<int> import_all() {
    DeliveryLocation place = delivery_location();
    if (!place.databases.empty())
        throw Error(ErrorCode::unsupported,
                    "the files can be imported to one database: name the first of the key "
                    "'databases' (cubepi gateway --db DATABASE import), before it is divided; then "
                    "divide the sessions: cubepi db divide --move");
    if (place.database.empty())
        throw Error(ErrorCode::invalid_argument,
                    "there is no database to import to: set the key 'database' in " +
                        config_path().string() +
                        ", or name one: cubepi gateway --db DATABASE "
                        "import");
    const std::filesystem::path directory = deliveries_directory();
    PostgresOptions database;
    database.connection = place.database;
    const std::string where = postgres_description(database) + ", namespace " + place.account;
    const MovedFiles moved = moved_files(directory);
    if (moved.to == where && moved.is_complete) {
        out() << "The files were moved to " << for_terminal(where) << " before.\n";
        co_return exit_ok;
    }
    if (!moved.to.empty() && moved.to != where)
        throw Error(ErrorCode::invalid_state, "the files were moved to " + moved.to +
                                                  "; to move them to another database, "
                                                  "remove " +
                                                  (directory / moved_mark).string() + " first");
    bub::FileDeliveryLogOptions options;
    options.directory = directory;
    options.on_warning = [](const std::string& text) { warn_operator(text); };
    // Holds the lock of the files to the end, so that no gateway uses them meanwhile.
    auto files = std::make_shared<bub::FileDeliveryLog>(std::move(options));
    (void)co_await files->unfinished();
    const StorePtr from = open_tapes(bub::default_tape_directory().string());
    const StorePtr to = open_tapes(place.database);
    std::vector<std::string> tapes = co_await from->all_tapes();
    const std::size_t failed = co_await import_tapes(from, to, std::move(tapes));
    if (failed > 0) {
        err() << "cubepi: " << for_terminal(std::to_string(failed))
              << " tapes were not copied, so nothing else was moved. Repeat the command when that "
                 "is resolved.\n";
        co_return exit_storage;
    }
    // A failure to open them comes before the mark, because no record is copied yet.
    Task<std::shared_ptr<bub::PostgresDeliveryLog>> opening_log = open_log(place);
    const auto log = co_await std::move(opening_log);
    Task<std::shared_ptr<bub::PostgresScheduleStore>> opening_store = open_schedule_store(place);
    const auto store = co_await std::move(opening_store);
    // A message that was copied is the database's: a gateway with files would process it too (D256).
    mark(directory, where, false);
    co_await import_deliveries(files, log);
    co_await import_schedules(directory, store);
    mark(directory, where, true);
    out() << "The files are marked as moved to " << for_terminal(where)
          << "; they can be removed.\n";
    co_return exit_ok;
}

}  // namespace

int import_command() { return run(import_all()); }

}  // namespace cubepi::app
