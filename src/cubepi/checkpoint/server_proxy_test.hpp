// A proxy between a store and its server, which breaks connections where a test wants it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace cubepi {

/// Forwards connections from a Unix socket of its own to that of a server, on a thread of its own.
class ServerProxy {
public:
    enum class Direction : std::uint8_t { to_server, to_client };

    enum class Protocol : std::uint8_t { postgres, mysql };

    /// `server` is the server's socket.
    ServerProxy(Protocol protocol, std::string server);
    ~ServerProxy();
    ServerProxy(const ServerProxy&) = delete;
    ServerProxy& operator=(const ServerProxy&) = delete;

    const std::string& directory() const noexcept { return directory_; }
    /// The proxy's socket.
    std::string socket() const;

    /// Forwards `bytes` more bytes in this direction, then breaks the connection. Once.
    void cut_after(Direction direction, std::size_t bytes);
    /// Calls `hook` on the thread of the proxy before the statement with this number (1: the next one) is forwarded, then
    /// breaks the connection if `cut`. Once.
    void before_statement(int number, std::function<void()> hook, bool cut = true);
    /// Forwards nothing more on the current connections.
    void freeze();
    /// Forwards what arrives on the current connections only after deliver(), even if the client has closed them.
    void delay();
    void deliver();
    /// Forwards nothing and accepts no connection until release(), as if the network were divided.
    void hold();
    /// Forwards again what has waited. `cut`: closes the connections first.
    void release(bool cut);
    /// Returns the bytes forwarded since the last call of this function.
    std::size_t take_count(Direction direction);

private:
    /// A connection, with the position in the protocol's messages to the server.
    struct Pair {
        int client = -1;
        int server = -1;
        bool frozen = false;
        bool delayed = false;
        bool started = false;     ///< the first message has no type
        std::string header = {};  ///< of the message that begins
        bool executes = false;    ///< PostgreSQL: it is a statement; MySQL: a command
        std::size_t body = 0;     ///< bytes of the current message that are missing
    };

    void run();
    /// Does what other functions have requested. Returns false at the end.
    bool obey();
    void close_all();
    void accept_one();
    bool forward(Pair& pair, Direction direction);
    bool pass(Pair& pair, Direction direction, const char* data, std::size_t size);
    /// Returns the number of bytes before the start of the awaited statement, or `size`.
    std::size_t header_size(const Pair& pair) const;
    /// Reads the complete header.
    void begin_message(Pair& pair) const;
    std::size_t find_statement(Pair& pair, const char* data, std::size_t size);

    const Protocol protocol_;
    std::string server_;
    std::string directory_;
    int listener_ = -1;
    int wake_ = -1;
    std::mutex mutex_;
    bool stopped_ = false;
    bool freeze_ = false;
    bool delay_ = false;
    bool deliver_ = false;
    bool hold_ = false;
    bool cut_all_ = false;
    bool cuts_[2] = {false, false};
    std::size_t left_[2] = {0, 0};
    std::size_t counts_[2] = {0, 0};
    int statements_ = 0;  ///< until the hook; 0: none
    std::function<void()> hook_;
    bool hook_cuts_ = false;
    std::list<Pair> pairs_;  ///< used by the thread only
    std::thread thread_;
};

/// The proxy of a PostgreSQL server.
class PostgresProxy : public ServerProxy {
public:
    /// `server` is the directory of the server's socket.
    explicit PostgresProxy(const std::string& server)
        : ServerProxy(Protocol::postgres, server + "/.s.PGSQL.5432") {}

    std::string connection(const std::string& database, const std::string& more = {}) const {
        return "host=" + directory() + " dbname=" + database + " user=cubepi " + more;
    }
};

/// The proxy of a MySQL or MariaDB server.
class MySQLProxy : public ServerProxy {
public:
    explicit MySQLProxy(std::string server) : ServerProxy(Protocol::mysql, std::move(server)) {}

    std::string connection(const std::string& database) const {
        return "mysql://cubepi@localhost/" + database + "?socket=" + socket();
    }
};

}  // namespace cubepi
