#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/checkpoint/postgres_options.hpp>
#include <cubepi/checkpoint/postgres_schema.hpp>
#include <cubepi/checkpoint/server/connection.hpp>
#include <cubepi/checkpoint/server/driver.hpp>

namespace cubepi::detail {

/// The parameters of a connection. Immutable.
class PgParameters {
public:
    /// Parses a connection string. Throws CheckpointerError(invalid_argument), without the text of the string, which may
    /// contain a password.
    explicit PgParameters(const std::string& connection);

    /// Returns the value that applies: of the string, else of the environment, else libpq's default. Empty if there is none.
    std::string effective(const std::string& key) const;

    /// Host names that must be resolved before libpq connects, which would block.
    std::vector<std::string> names_to_resolve() const;
    /// Returns the keywords and values for PQconnectStartParams. A host with several addresses occurs once for each; a name
    /// that is missing in `addresses` is left out.
    std::map<std::string, std::string> with_addresses(
        const std::map<std::string, std::vector<std::string>>& addresses) const;

    /// "PostgreSQL database 'NAME' on HOST:PORT", for error messages.
    const std::string& description() const noexcept { return description_; }
    /// Replaces passwords in the text.
    std::string without_secrets(std::string text) const;

private:
    struct Host {
        std::string name = {};
        std::string address = {};
        std::string port = {};
    };
    std::vector<Host> hosts() const;
    std::string describe() const;

    std::map<std::string, std::string> given_;
    std::map<std::string, std::string> defaults_;
    std::string description_;
};

class PgDriver : public SqlDriver {
public:
    /// `for_store`: its sessions require the tables of a store. Throws CheckpointerError(invalid_argument).
    PgDriver(const PostgresOptions& options, bool for_store);

    const char* name() const noexcept override { return "postgres"; }
    const std::string& description() const noexcept override { return parameters_.description(); }
    std::string without_secrets(std::string text) const override;
    const char* code_field() const noexcept override { return "sqlstate"; }
    SqlRemedy remedy(const SqlFailure& failure) const override;

    std::vector<std::string> names_to_resolve() const override;
    bool is_reachable(const SqlAddresses& addresses) const override;
    std::unique_ptr<SqlConnection> connection() const override;

    SqlBatch set_up() const override { return set_up_; }
    void check(const SqlResults& results) const override;
    void begin_read(SqlBatch& batch) const override;
    void begin_write(SqlBatch& batch, const std::vector<std::string>& threads) const override;
    void end_write(SqlBatch&, const std::vector<std::string>&) const override {}
    void write_extra(SqlBatch& batch, const std::string& thread_id,
                     const ExtraChange& change) const override;
    void write_fork_row(SqlBatch& batch, const SqlFork& fork, const JsonObject& added,
                        const JsonObject& merged) const override;
    std::string page_sql(const std::string& columns, const std::string& time) const override;
    std::string listing_sql() const override;
    std::vector<std::string> dependent_tables() const override { return {}; }

private:
    PgParameters parameters_;
    bool prepare_;
    bool for_store_;
    SqlBatch set_up_;
};

/// Returns the condition that an SQLSTATE means.
SqlCondition condition_of(std::string_view sqlstate);

/// Makes a failure with the condition that its SQLSTATE means.
SqlFailure pg_failure(SqlFailureKind kind, const std::string& reason, std::string sqlstate);

SqlRemedy pg_remedy(const SqlFailure& failure);

/// Returns the statements that prepare a session of a store and read the versions of the tables.
SqlBatch session_set_up(const PostgresOptions& options);
/// Checks their results. Throws CheckpointerError(schema_mismatch).
void check_session(const PgParameters& parameters, const SqlResults& results);

/// Returns the statements of postgres_schema_sql(), without the transaction.
std::vector<std::string> postgres_schema_statements(const SqlSchemaStatus& from);

}  // namespace cubepi::detail
