#include "db_check.hpp"

#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include <bub/channel/file_delivery_log.hpp>
#include <bub/channel/postgres_delivery_schema.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/postgres_tape_schema.hpp>
#include <bub/tape/tape_check.hpp>
#include <cubepi/checkpoint/mysql_schema.hpp>
#include <cubepi/checkpoint/postgres_schema.hpp>
#include <cubepi/checkpoint/sqlite_schema.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/run.hpp>

#include "config/store_locations.hpp"
#include "failure.hpp"
#include "terminal/terminal_stream.hpp"
#include "terminal/terminal_text.hpp"

namespace cubepi::app {

namespace fs = std::filesystem;

namespace {

constexpr const char* log_file = "deliveries.jsonl";

bool is_there(const fs::path& path) {
    std::error_code failed;
    return fs::exists(path, failed);
}

/// A directory of tapes, that of a delivery log, or $BUB_HOME, which has both.
std::vector<StoreReport> check_directory(const fs::path& directory) {
    std::vector<StoreReport> reports;
    if (is_there(directory / log_file)) {
        reports.push_back(bub::check_delivery_log(directory));
        return reports;
    }
    const bool has_tapes = is_there(directory / "tapes");
    const bool has_deliveries = is_there(directory / "deliveries" / log_file);
    if (has_tapes || !has_deliveries)
        reports.push_back(bub::check_tape_files(has_tapes ? directory / "tapes" : directory));
    if (has_deliveries) reports.push_back(bub::check_delivery_log(directory / "deliveries"));
    return reports;
}

/// Returns whether a PostgreSQL database has tables of tapes or of the messages of gateways.
bool has_tape_tables(const PostgresOptions& options) {
    return run(bub::postgres_tape_tables().status(options)) ||
           run(bub::postgres_delivery_tables().status(options));
}

/// The tables that there are; those of threads if there are none. `tapes`: only those of tapes and of the messages of gateways.
std::vector<StoreReport> check_server(const std::string& url, bool tapes) {
    std::vector<StoreReport> reports;
    if (url.starts_with("mysql://")) {
        MySQLOptions options;
        options.connection = url;
        reports.push_back(run(check_mysql(std::move(options))));
        return reports;
    }
    PostgresOptions options;
    options.connection = url;
    const bool has_tapes = tapes || has_tape_tables(options);
    bool has_threads = !has_tapes;
    if (!tapes) {
        const SqlSchemaStatus threads = run(postgres_schema_status(options));
        has_threads = has_threads || threads.version || threads.native_version;
    }
    if (has_tapes) {
        reports.push_back(run(bub::check_postgres_tapes(options)));
        reports.push_back(run(bub::check_postgres_deliveries(options)));
    }
    if (has_threads) reports.push_back(run(check_postgres(std::move(options))));
    return reports;
}

std::vector<StoreReport> check_path(const std::string& path) {
    std::error_code failed;
    if (fs::is_directory(path, failed)) return check_directory(path);
    if (fs::path(path).filename() == log_file) return check_directory(fs::path(path).parent_path());
    if (path.ends_with(".jsonl"))
        throw Error(ErrorCode::invalid_argument,
                    "'" + path + "' is not a database; name the directory of the tapes");
    std::vector<StoreReport> reports;
    reports.push_back(run(check_sqlite(path)));
    return reports;
}

/// The configured database or files of the sessions, and the messages of a gateway.
std::vector<StoreReport> check_configured() {
    const fs::path tapes = bub::default_tape_directory();
    const fs::path deliveries = tapes.parent_path() / "deliveries";
    const TapeLocation place = tape_location();
    std::vector<StoreReport> reports;
    for (const std::string& database : place.urls()) {
        std::vector<StoreReport> some = check_server(database, true);
        std::move(some.begin(), some.end(), std::back_inserter(reports));
    }
    if (!place.is_files()) {
        // Its tapes are in databases.
    } else if (is_there(tapes)) {
        reports.push_back(bub::check_tape_files(tapes));
    }
    if (is_there(deliveries / log_file)) reports.push_back(bub::check_delivery_log(deliveries));
    return reports;
}

const char* kind_name(StoreFinding::Kind kind) {
    switch (kind) {
        case StoreFinding::Kind::note: return "note";
        case StoreFinding::Kind::repair: return "repair";
        case StoreFinding::Kind::damage: break;
    }
    return "damage";
}

JsonObject to_json(const StoreReport& report) {
    JsonObject counts;
    for (const auto& [name, number] : report.counts()) counts[name] = number;
    JsonArray findings;
    for (const StoreFinding& one : report.findings()) {
        JsonObject finding;
        finding["kind"] = kind_name(one.kind);
        finding["where"] = one.where;
        finding["what"] = one.what;
        finding["remedy"] = one.remedy;
        findings.push_back(std::move(finding));
    }
    JsonObject object;
    object["store"] = report.store();
    object["sound"] = report.is_sound();
    object["counts"] = std::move(counts);
    object["damages"] = report.damages();
    object["repairs"] = report.repairs();
    object["findings"] = std::move(findings);
    object["omitted"] = report.omitted();
    return object;
}

void show(const StoreReport& report, TerminalStream& out) {
    out << for_terminal(report.store()) << "\n";
    std::string counts;
    for (const auto& [name, number] : report.counts())
        counts += (counts.empty() ? "" : ", ") + name + ": " + std::to_string(number);
    if (!counts.empty()) out << "  " << for_terminal(counts) << "\n";
    for (const StoreFinding& one : report.findings()) {
        out << "  " << for_terminal(std::string(kind_name(one.kind))) << "\t"
            << for_terminal(one.where) << ": " << for_terminal(one.what) << "\n";
        if (!one.remedy.empty()) out << "  \t" << for_terminal(one.remedy) << "\n";
    }
    if (report.omitted() > 0)
        out << "  " << for_terminal(std::to_string(report.omitted())) << " more\n";
}

}  // namespace

std::vector<StoreReport> check_stores(const std::string& target, bool tapes) {
    if (target.empty()) return check_configured();
    constexpr std::string_view sqlite = "sqlite:///";
    if (target.starts_with(sqlite)) return check_path(target.substr(sqlite.size()));
    const std::size_t scheme = target.find("://");
    if (scheme == std::string::npos) return check_path(target);
    const std::string kind = target.substr(0, scheme);
    if (kind != "postgres" && kind != "postgresql" && kind != "mysql")
        // Not the rest of it, which may have a password.
        throw Error(ErrorCode::invalid_argument,
                    "databases of '" + kind +
                        "' are not supported; use postgres://..., mysql://..., an SQLite file or "
                        "a directory");
    if (tapes && kind == "mysql")
        throw Error(ErrorCode::invalid_argument,
                    "--tapes needs a PostgreSQL database (postgres://...)");
    return check_server(target, tapes);
}

int show_checks(const std::vector<StoreReport>& reports, bool json, std::ostream& data,
                TerminalStream& err) {
    std::size_t damages = 0;
    std::size_t repairs = 0;
    JsonArray stores;
    TerminalStream out(data);
    for (const StoreReport& report : reports) {
        damages += report.damages();
        repairs += report.repairs();
        if (json) {
            stores.push_back(to_json(report));
        } else {
            show(report, out);
        }
    }
    if (json) {
        JsonObject object;
        object["sound"] = damages == 0;
        object["stores"] = std::move(stores);
        data_output(data, safe_json(object) + "\n");
    }
    if (reports.empty()) {
        err << "There are no sessions yet.\n";
    } else if (damages > 0) {
        err << "Damaged: see above. Nothing was changed.\n";
    } else if (repairs > 0) {
        err << "Sound. The next use makes the repairs above; nothing was changed.\n";
    } else {
        err << "Sound.\n";
    }
    return damages > 0 ? exit_failed : exit_ok;
}

}  // namespace cubepi::app
