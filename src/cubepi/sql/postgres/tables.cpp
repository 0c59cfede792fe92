#include <cubepi/sql/postgres_tables.hpp>

#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/sql/support/migration.hpp>
#include <cubepi/sql/support/postgres.hpp>

namespace cubepi {

namespace {

Task<std::optional<FormatVersion>> only_version(Task<detail::SqlVersions> task) {
    const detail::SqlVersions versions = co_await std::move(task);
    co_return versions.front();
}

}  // namespace

PostgresTables::PostgresTables(Description description)
    : given_(std::move(description)),
      missing_("the tables of " + given_.content + " (" + given_.names +
               ") are missing: create them with " + given_.create + ", and check the search_path") {
}

std::optional<PostgresTables::Problem> PostgresTables::problem(
    std::optional<FormatVersion> found) const {
    std::optional<Problem> problem;
    if (is_usable(found, given_.version)) return problem;
    problem.emplace();
    if (!found) {
        problem->what = "there are none";
        problem->remedy = "create them with " + given_.create;
    } else if (found->is_refused_by(given_.version)) {
        problem->what = "they are " + refusal_text(*found, given_.version);
    } else {
        problem->what = "they are of version " + std::to_string(found->version) + " and not " +
                        std::to_string(given_.version);
        problem->remedy = "migrate them with " + given_.migrate;
    }
    return problem;
}

void PostgresTables::check(const std::string& where, std::optional<FormatVersion> found) const {
    const std::optional<Problem> problem = this->problem(found);
    if (!problem) return;
    throw CheckpointerError(ErrorCode::schema_mismatch,
                            where + ": the tables of " + given_.content + " (" + given_.names +
                                "): " + problem->what + (problem->remedy.empty() ? "" : "; ") +
                                problem->remedy);
}

std::string PostgresTables::sql() const {
    std::string text = "BEGIN;\n";
    for (const std::string& statement : given_.statements) text += statement + ";\n";
    return text + "COMMIT;\n";
}

Task<std::optional<FormatVersion>> PostgresTables::status(PostgresOptions options) const {
    return only_version(
        detail::read_versions(options, detail::postgres_driver(options), {given_.version_table}));
}

Task<std::optional<FormatVersion>> PostgresTables::apply(PostgresOptions options) const {
    auto driver = detail::postgres_driver(options);
    detail::SqlMigration migration;
    migration.lock = given_.version_table;
    migration.version_tables = {given_.version_table};
    migration.statements = [given = given_,
                            where = driver->description()](const detail::SqlVersions& found) {
        detail::refuse_newer_tables(where, given.names, found.front(), given.version);
        // Those of a later version that this library can use stay as they are.
        const bool is_newer = found.front() && found.front()->version > given.version;
        return is_newer ? std::vector<std::string>() : given.statements;
    };
    return only_version(detail::migrate(options, std::move(driver), std::move(migration)));
}

namespace detail {

SqlBatch PostgresSchema::session() const {
    SqlBatch batch;
    select_version(batch, tables_.version_table());
    return batch;
}

void PostgresSchema::check(const std::string& where, const SqlResults& results) const {
    tables_.check(where, version_of(results.back()));
}

void PostgresSchema::lock(SqlBatch& batch, const std::vector<std::string>& names) const {
    if (names.empty()) return;
    batch
        .add("INSERT INTO " + locks_ + " (" + key_ +
             ") SELECT DISTINCT name FROM unnest($1::text[]) AS name ORDER BY name ON CONFLICT DO"
             " NOTHING")
        .texts(names);
    batch
        .add("SELECT " + key_ + " FROM " + locks_ + " WHERE " + key_ +
             " = ANY($1::text[]) ORDER BY " + key_ + " FOR UPDATE")
        .texts(names);
}

SqlWriteIds PostgresSchema::write_ids() const {
    SqlWriteIds ids;
    const std::string where = " WHERE " + key_ + " = $1";
    ids.current = "SELECT write_id FROM " + locks_ + where;
    ids.before = "(" + ids.current + ")";
    ids.store = "UPDATE " + locks_ + " SET write_id = $2" + where;
    ids.replace = ids.store + " AND write_id = $3";
    return ids;
}

SqlRemedy PostgresSchema::remedy(const SqlFailure& failure, SqlRemedy general) const {
    if (general.code == ErrorCode::schema_mismatch) {
        general.text = tables_.missing_text();
    } else if (general.code == ErrorCode::permission_denied && !failure.is_read_only()) {
        general.text = tables_.grant_text();
    }
    return general;
}

}  // namespace detail

}  // namespace cubepi
