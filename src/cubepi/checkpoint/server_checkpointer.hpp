#pragma once

#include <memory>

#include <cubepi/checkpoint/stored_threads.hpp>
#include <cubepi/sql/options.hpp>

namespace cubepi {

namespace detail {
class SqlDriver;
class SqlThreadStore;
class ThreadSchema;
}  // namespace detail

/// The abilities of the stores on a database server. Use PostgresCheckpointer or MySQLCheckpointer, which describe the errors
/// and the thread rules.
class SqlCheckpointer : public StoredThreads {
public:
    ~SqlCheckpointer() override;
    SqlCheckpointer(const SqlCheckpointer&) = delete;
    SqlCheckpointer& operator=(const SqlCheckpointer&) = delete;

    /// Connects and checks the tables now, to detect errors early. Optional.
    Task<void> open();

protected:
    SqlCheckpointer(SqlOptions options, std::shared_ptr<const detail::SqlDriver> driver,
                    std::shared_ptr<const detail::ThreadSchema> schema);

private:
    explicit SqlCheckpointer(std::shared_ptr<detail::SqlThreadStore> store);

    std::shared_ptr<detail::SqlThreadStore> store_;
};

}  // namespace cubepi
