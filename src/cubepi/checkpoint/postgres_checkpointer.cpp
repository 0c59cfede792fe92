#include <cubepi/checkpoint/postgres_checkpointer.hpp>

#include <memory>
#include <utility>

#include <cubepi/checkpoint/postgres/driver.hpp>

namespace cubepi {

namespace {

PostgresOptions options_for(std::string connection) {
    PostgresOptions options;
    options.connection = std::move(connection);
    return options;
}

}  // namespace

PostgresCheckpointer::PostgresCheckpointer(std::string connection)
    : PostgresCheckpointer(options_for(std::move(connection))) {}

PostgresCheckpointer::PostgresCheckpointer(PostgresOptions options)
    : ServerCheckpointer(options, std::make_shared<const detail::PgDriver>(options, true)) {}

}  // namespace cubepi
