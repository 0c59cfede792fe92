#include <cubepi/checkpoint/mysql_checkpointer.hpp>

#include <memory>
#include <utility>

#include <cubepi/checkpoint/mysql/driver.hpp>

namespace cubepi {

namespace {

MySQLOptions options_for(std::string connection) {
    MySQLOptions options;
    options.connection = std::move(connection);
    return options;
}

}  // namespace

MySQLCheckpointer::MySQLCheckpointer(std::string connection)
    : MySQLCheckpointer(options_for(std::move(connection))) {}

MySQLCheckpointer::MySQLCheckpointer(MySQLOptions options)
    : ServerCheckpointer(options, std::make_shared<const detail::MyDriver>(options, true)) {}

}  // namespace cubepi
