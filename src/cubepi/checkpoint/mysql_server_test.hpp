// A MariaDB server for the tests of a binary.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <mysql.h>

#include <cubepi/checkpoint/store_values_test.hpp>
#include <cubepi/sql/mysql_options.hpp>

namespace cubepi {

/// A server of its own in a temporary directory, reachable through a Unix socket there. It runs as an unprivileged user if
/// the test runs as root, and ends with the test process, however that ends.
class MySQLServer {
public:
    /// Initializes a new data directory and starts the server. Throws if there is no MariaDB on this machine.
    MySQLServer();
    ~MySQLServer();
    MySQLServer(const MySQLServer&) = delete;
    MySQLServer& operator=(const MySQLServer&) = delete;

    /// The server that all tests of the binary share; started at the first call.
    static MySQLServer& shared();

    /// `file_limit`: the size in bytes that no file of the server can exceed, which simulates a full disk; 0: none.
    void start(std::size_t file_limit = 0);
    /// Sends the signal to the server and waits for its end.
    void stop(int signal);

    /// Creates a database with the tables of this library, or an empty one.
    std::string create_database();
    std::string create_empty_database();
    /// The connection string of a database; `login` is USER or USER:PASSWORD.
    std::string connection(const std::string& database, const std::string& login = "cubepi") const;
    std::string socket() const { return directory_ + "/socket"; }
    /// Feeds a file to the command line client.
    void load(const std::string& database, const std::string& file) const;

private:
    int spawn(const std::vector<std::string>& arguments, std::size_t file_limit = 0) const;
    std::string log() const;

    std::string directory_;
    unsigned user_ = 0;
    unsigned group_ = 0;
    int pid_ = -1;
    int databases_ = 0;
};

/// A connection of a test, which blocks.
class RawMySQL {
public:
    explicit RawMySQL(const std::string& database = {},
                      const MySQLServer& server = MySQLServer::shared());
    ~RawMySQL() { mysql_close(connection_); }
    RawMySQL(const RawMySQL&) = delete;
    RawMySQL& operator=(const RawMySQL&) = delete;

    /// All values of all rows of the last statement, in order; NULL as "NULL".
    std::vector<std::string> query(const std::string& sql);

private:
    MYSQL* connection_;
};

}  // namespace cubepi
