#include <memory>
#include <string>
#include <utility>

#include <cubepi/checkpoint/server/schema.hpp>
#include <cubepi/checkpoint/tables/check.hpp>

namespace cubepi::detail {

namespace {

/// Reports tables that a store refuses. Returns true if it can use them.
bool check_versions(const SqlSchemaStatus& found, StoreReport& report) {
    if (found.is_current()) return true;
    const std::optional<FormatVersion> native = found.native();
    if (!found.version && !native) {
        report.damage("tables", "there are none", "create them with 'cubepi db init'");
    } else if (found.version.value_or(0) > sql_schema_version) {
        report.damage(
            "tables cubepi_*", "of version " + std::to_string(*found.version),
            "update the program, which knows version " + std::to_string(sql_schema_version));
    } else if (native && native->is_refused_by(sql_native_version)) {
        report.damage("tables cubepi_native_*", refusal_text(*native, sql_native_version), {});
    } else {
        report.damage("tables", "they are older than this program",
                      "back the database up, then migrate it with 'cubepi db migrate'");
    }
    return false;
}

}  // namespace

Task<StoreReport> check_thread_store(SqlOptions options, std::shared_ptr<const SqlDriver> driver,
                                     std::shared_ptr<const ThreadSchema> schema,
                                     std::shared_ptr<SqlCheckpointer> store) {
    const auto report = std::make_shared<StoreReport>(driver->description());
    const SqlSchemaStatus found = co_await thread_schema_status(options, driver);
    if (!check_versions(found, *report)) co_return std::move(*report);
    CheckedStore checked;
    checked.has_orphans = !schema->dependent_tables().empty();
    checked.tables =
        std::make_shared<SqlThreadStore>(std::move(options), std::move(driver), std::move(schema));
    checked.threads = store;
    checked.messages = std::move(store);
    checked.json_columns.emplace_back("cubepi_native_exact.json");
    co_await check_store(std::move(checked), report);
    co_return std::move(*report);
}

}  // namespace cubepi::detail
