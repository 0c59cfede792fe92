// A PostgreSQL server for the tests of a binary.
#pragma once

#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <libpq-fe.h>

#include <cubepi/checkpoint/store_values_test.hpp>
#include <cubepi/core/scoped_test_directory.hpp>
#include <cubepi/sql/postgres_options.hpp>
#include <cubepi/sql/postgres_tables.hpp>

namespace cubepi {

/// A server of its own in a temporary directory, reachable through a Unix socket there; in memory if that is large enough. It runs as an
/// unprivileged user if the test runs as root, and ends with the test process, however that ends.
class PostgresServer {
public:
    /// Initializes a new cluster in a subdirectory of `parent` and starts it. Throws if there is no PostgreSQL on this machine.
    explicit PostgresServer(const std::filesystem::path& parent = memory_directory());
    /// Copies another one, and becomes its synchronous replica. `directory`: that of the socket through which it follows the primary,
    /// which may be a proxy's.
    PostgresServer(PostgresServer& primary, const std::string& directory);
    ~PostgresServer();
    PostgresServer& operator=(const PostgresServer&) = delete;

    /// The server that all tests of the binary share; started at the first call.
    static PostgresServer& shared();

    /// `file_limit`: the size in bytes that no file of the server can exceed, which simulates a full disk; 0: none.
    void start(std::vector<std::string> arguments = {}, std::size_t file_limit = 0);
    /// Sends the signal to the server and waits for its end.
    void stop(int signal);
    int pid() const noexcept { return pid_; }
    /// Makes a replica the primary.
    void promote() const;
    /// Kills a process that serves a store, if there is one: the other processes of the server end, and it recovers. Waits if the
    /// server still recovers from an earlier crash.
    void crash(const std::string& database) const;

    /// Creates an empty database, one with the tables of the stores of threads, or one with these tables; returns its name.
    std::string create_empty_database();
    std::string create_database();
    std::string create_database(const PostgresTables& tables);
    /// Creates a copy of the database `original`, which `fill` fills at the first call.
    std::string create_copy(const std::string& original,
                            const std::function<void(const std::string& database)>& fill);
    /// The connection string of a database.
    std::string connection(const std::string& database, const std::string& more = {}) const;
    /// Calls `work` and returns what the server logged meanwhile: after the time and the process, each line has the virtual id of its
    /// transaction in brackets.
    std::string log_of(const std::function<void()>& work);
    std::string socket_directory() const { return directory_; }
    std::string file(const std::string& name) const { return directory_ + "/" + name; }
    /// Starts a program as the user of the server, which ends with this thread. Returns its process id.
    int spawn(const std::vector<std::string>& arguments, int output,
              std::size_t file_limit = 0) const;

private:
    void make_directory(const std::filesystem::path& parent);
    /// Runs a program of PostgreSQL until its end.
    void run_program(std::vector<std::string> arguments) const;

    std::string directory_;
    std::string programs_;
    unsigned user_ = 0;
    unsigned group_ = 0;
    int pid_ = -1;
    void read_log(int pipe);

    std::thread log_;
    std::mutex mutex_;
    std::condition_variable logged_;
    std::string text_;  ///< of the log
    int markers_ = 0;
    int databases_ = 0;
    std::set<std::string> originals_;  ///< that can be copied
};

/// Returns the transactions in the log of a server that logs all statements, each as its statements, in the order of their begins.
std::vector<std::vector<std::string>> transactions_in(const std::string& log);

/// PgBouncer before a server: it assigns another session of the server to each transaction.
class PgBouncer {
public:
    /// Starts it. Throws if it is not installed on this machine.
    explicit PgBouncer(const PostgresServer& server);
    ~PgBouncer() { stop(SIGKILL); }
    PgBouncer(const PgBouncer&) = delete;
    PgBouncer& operator=(const PgBouncer&) = delete;

    void start();
    /// Sends the signal and waits for its end.
    void stop(int signal);
    /// The connection string of a database.
    std::string connection(const std::string& database, const std::string& more = {}) const {
        return server_.connection(database, "port=" + std::to_string(port) + " " + more);
    }
    static constexpr int port = 6432;

private:
    const PostgresServer& server_;
    int pid_ = -1;
};

/// A connection of a test, which blocks.
class RawPostgres {
public:
    explicit RawPostgres(const std::string& connection);
    ~RawPostgres() { PQfinish(connection_); }
    RawPostgres(const RawPostgres&) = delete;
    RawPostgres& operator=(const RawPostgres&) = delete;

    /// All values of all rows of the last statement, in order; NULL as "NULL".
    std::vector<std::string> query(const std::string& sql);
    PGconn* get() const noexcept { return connection_; }

private:
    PGconn* connection_;
};

}  // namespace cubepi
