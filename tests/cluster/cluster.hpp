#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/checkpoint/server_proxy_test.hpp>
#include <cubepi/core/task.hpp>

#include "../gateway/fake_bot_server.hpp"
#include "../gateway/gateway_process.hpp"
#include "../wire/net/raw_server.hpp"
#include "balancer.hpp"
#include "cluster_records.hpp"
#include "config/config_file.hpp"
#include "server_host.hpp"

namespace cubepi::cluster_tests {

using gateway_tests::GatewayHome;
using gateway_tests::GatewayProcess;
using gateway_tests::HttpReply;

/// A model server that answers "re: TEXT", for "effect KEY" after a call of the tool `effect`. Once it has got the number of
/// requests of hold_after(), it answers no request until release().
class CountingModel {
public:
    CountingModel();
    ~CountingModel() { release(); }

    std::vector<std::string> flags() const;
    void hold_after(std::size_t requests);
    void release();
    /// Closes connections without an answer, once for each of so many messages.
    void lose(std::size_t messages);
    /// Waits until that many requests have arrived. Returns false if end() comes first.
    bool wait_for(std::size_t requests);
    void end();
    bool is_over();

private:
    /// Returns nothing if the connection is to be closed.
    std::optional<std::string> answer_to(const std::string& request);

    std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t requests_ = 0;
    std::size_t hold_after_ = 0;  ///< 0: never
    std::size_t to_lose_ = 0;
    std::set<std::string> lost_;  ///< texts
    bool is_over_ = false;
    wire::RawServer server_;  // last: its handlers use the others
};

/// A fault of the cluster.
enum class Fault : std::uint8_t {
    kill,             ///< of a gateway, which is started again now or at the next fault
    freeze,           ///< of a gateway, until others have taken its sessions
    freeze_and_kill,  ///< as `freeze`; one that has taken its turns is killed meanwhile
    crash,            ///< of the database server, which recovers
    power_loss,       ///< of the host of the database server, whose connections have no end
    freeze_in_call,  ///< of the gateway in which the call "held" runs, which ends when it continues
    long_call,       ///< the call "held" takes longer than the lease of its gateway
    partition,       ///< of a gateway and the database, until others have taken its sessions
    unreachable,  ///< of a gateway and its clients: requests and answers are lost, until some are
    restart,      ///< of all gateways, one after the other, for a new version with newer tables
    full_disk,    ///< that of the database server, until it has refused some writes
    pooler,       ///< PgBouncer is killed and started again
    half_open,    ///< the database has lost the connections of a gateway, which is not notified
    replica_away,  ///< of the database server and its replica, until no gateway could renew its lease
    failover,      ///< the database server ends, and its replica takes its place
    no_answer,     ///< the model closes connections
    away,          ///< one of several databases cannot be used, until it was needed
};

struct PlannedFault {
    Fault fault = Fault::kill;
    std::size_t after = 0;    ///< requests to the model
    bool is_in_turns = true;  ///< the model answers no further request until it has happened
};

/// The way from the gateways to the database.
enum class Database : std::uint8_t {
    plain,       ///< a proxy of each gateway, which can separate it from the database
    direct,      ///< without proxies, whose time is not that of a cluster
    pooled,      ///< PgBouncer, which assigns a session to each transaction
    replicated,  ///< a second server as a synchronous replica
    divided,     ///< three databases
    small_disk,  ///< a server on a file system of its own, if this process may mount one
    network,     ///< TCP through a network that loses packets, if this process may make one
    files,       ///< none: one gateway with files
};

/// Seconds of a processor.
struct ProcessorTime {
    double all = 0;
    double kernel = 0;  ///< the part of it in the kernel: network, files, changes of threads

    ProcessorTime& operator+=(const ProcessorTime& other) {
        all += other.all;
        kernel += other.kernel;
        return *this;
    }
    ProcessorTime operator-(const ProcessorTime& other) const {
        return {all - other.all, kernel - other.kernel};
    }
};

/// The times of the parts of a cluster.
struct ClusterTime {
    ProcessorTime gateways;
    ProcessorTime server;   ///< that of the database
    ProcessorTime clients;  ///< of run()
    ProcessorTime model;    ///< and readers of the gateways' logs, in this process

    ClusterTime operator-(const ClusterTime& other) const {
        return {gateways - other.gateways, server - other.server, clients - other.clients,
                model - other.model};
    }
};

/// Sends the request of a message, once or several times, and returns the replies.
using SendCopies = std::function<Task<std::vector<HttpReply>>()>;

/// Sends a message until a reply is final, with pauses of `interval`. Adds what is wrong about the final replies to `wrong`, and counts the replies
/// with the status 503.
Task<> post_until_final(SendCopies send, Posted message, std::chrono::milliseconds interval,
                        std::vector<std::string>& wrong, std::atomic<std::size_t>& refused);

/// Gateways that share one database of the test's own server, their model, and the clients. The clocks of the gateways are an hour
/// apart.
class Cluster {
public:
    static constexpr std::size_t size = 3;

    /// `chats`: the gateways have a bot with so many groups, whose service posts the messages as updates to their webhooks; 0: clients
    /// post them to the channel http.
    explicit Cluster(std::uint32_t seed, Database database = Database::plain,
                     std::size_t chats = 0);
    ~Cluster();

    const std::string& database() const noexcept { return database_; }
    std::size_t clients() const noexcept { return clients_; }
    /// Returns all databases.
    std::vector<std::string> databases() const;
    CountingModel& model() noexcept { return model_; }
    GatewayProcess& gateway(std::size_t index) { return *gateways_.at(index); }
    void start(std::size_t index);

    /// Makes messages of `sessions` sessions; each third one has an effect.
    std::vector<Posted> messages(std::size_t count, std::size_t sessions) const;
    /// Posts the messages at random gateways or the balancer, some of them at two at once, until each is answered or known as finished, while the
    /// faults happen in order. Returns what clients have received that is wrong. An update is posted until a gateway has stored it.
    std::vector<std::string> run(const std::vector<Posted>& messages,
                                 const std::vector<PlannedFault>& faults);
    /// The number of messages that run() has posted: not all of them if the time was over (is_time_over()).
    std::size_t posted() const noexcept { return posted_; }
    /// The number of faults that have happened: not all of them if the last message was answered before.
    std::size_t faults() const noexcept { return happened_; }
    /// Decides as an operator about what is held: releases messages, discards answers. Returns when nothing waits.
    void wait_until_answered();
    ClusterRecords records() const;

    /// Stops a gateway, waits until its lease has ended and others have taken its sessions, and lets it continue. `meanwhile` is
    /// called when it is stopped.
    void freeze(std::size_t index, const std::function<void()>& meanwhile);
    /// The sum of unfinished messages and answers without a receipt.
    std::size_t waiting() const;

    // For what is measured.
    /// Adds sessions without work, each with a tape of two entries, a finished message and its answer.
    void add_idle_sessions(std::size_t count) const;
    /// Ends the gateways. Returns the name of the table of which the server has read the most rows since add_idle_sessions(), and
    /// their number.
    std::vector<std::string> most_read_table() const;
    ClusterTime time() const;
    /// Returns lines about the memory of the gateways and the tables.
    std::string sizes() const;
    /// Seconds from faults to the work of other gateways, by a description.
    const std::map<std::string, std::vector<double>>& delays() const noexcept { return delays_; }

private:
    class Client;
    /// A fault after which messages wait for another gateway or server.
    struct Outage {
        std::string description = {};
        double begin = 0;            ///< seconds since 1970, by the clock of this host
        std::string condition = {};  ///< SQL: the rows of received messages that it has delayed
    };

    /// Returns the configuration of the channel.
    std::string channel() const;
    /// Closes the connection after some messages of the bot were received, so that it does not know whether they were.
    void lose_answers_of_service();
    /// Returns an update with a message.
    std::string update_of(const Posted& message);
    /// Reads, at most once in `pause_of_bot`, which updates are neither processed nor held for the operator.
    const std::set<std::string>& waiting_updates();
    /// Returns a gateway, or `size` for the balancer.
    std::size_t any_gateway(std::mt19937& random) const;
    /// Returns the gateway that has a session.
    std::size_t busy() const;
    void apply(const PlannedFault& fault);
    void start_all();
    /// Prints why the gateway has left messages to the operator, and its errors.
    void print_held(std::size_t index) const;
    void restart_all();
    /// Changes the tables as the next version of the program may: by additions (D208).
    void extend_tables() const;
    /// Waits until others have taken the sessions of a gateway.
    void wait_until_taken(std::size_t index);
    /// Returns true if a gateway has the turn of a message that so many gateways have begun, and that is not answered yet.
    bool is_in_turns(std::size_t index, std::size_t begun) const;
    /// Returns such a gateway. Waits until there is one.
    std::size_t in_turns(std::size_t begun) const;
    /// Kills a gateway in turns that it has taken from this one, and waits until the messages after these have been answered.
    void kill_successor(std::size_t index);
    /// A gateway and the database, until others have taken its sessions.
    void separate_from_database(std::size_t index);
    void separate_from_clients(std::size_t index);
    void fill_disk();
    /// As a full disk, for a process that may not mount one: an error for each new row.
    void refuse_rows();
    /// Waits until the model is not asked any more, or `refused` returns that enough was refused.
    void wait_for_refusals(const std::function<std::size_t()>& refused);
    void start_server_again();
    void take_database_away();
    /// Waits in the call "held" until its gateway would have lost its session without renewals of the lease.
    void outlast_lease() const;
    /// Commits wait for the replica (synchronous_standby_names), and reads do not.
    void separate_replica();
    /// Creates two more databases, for a part of the sessions each.
    void divide();
    /// Returns the configuration by which a gateway uses the databases through the socket in a directory.
    std::string databases_at(const std::string& directory) const;
    void fail_over();
    void lose_power();
    /// An SQL condition: the gateway has the message, which is not finished.
    std::string messages_of(std::size_t index) const;
    /// Decides about what a gateway holds. Throws Error if it cannot answer.
    void decide_held(const GatewayHome& home);
    /// Adds the delays of the outages of this run, by the times that the database has recorded.
    void measure_outages();
    PostgresServer& server() const { return primary_ ? *primary_ : PostgresServer::shared(); }

    const std::unique_ptr<ServerNetwork> network_;  ///< null: none
    std::mt19937 random_;
    const std::size_t clients_;  ///< the number of messages that are on their way at once
    const std::size_t count_;    ///< of gateways
    const std::size_t chats_;    ///< of the bot
    std::unique_ptr<gateway_tests::FakeBotServer> bot_;  ///< null: none
    std::set<std::string> waiting_updates_;
    std::chrono::steady_clock::time_point waiting_updates_read_{};
    std::map<std::string, std::vector<double>> delays_;
    std::vector<Outage> outages_;
    std::set<std::int64_t> released_;  ///< messages that wait_until_answered() has released
    std::size_t posted_ = 0;
    ProcessorTime clients_time_;
    std::size_t happened_ = 0;
    std::array<GatewayHome, size> homes_;
    const std::filesystem::path effects_;
    std::unique_ptr<SmallDisk> disk_;          ///< that of primary_; null: none
    std::unique_ptr<PostgresServer> primary_;  ///< null: PostgresServer::shared()
    std::unique_ptr<ServerProxy>
        replication_;  ///< from the replica to the primary; null: there is none
    std::unique_ptr<PostgresServer> replica_;
    std::string database_;
    std::vector<app::DatabasePart> parts_;  ///< all databases; empty: there is only one
    std::unique_ptr<PgBouncer> pooler_;
    std::array<std::unique_ptr<ServerProxy>, size>
        links_;  ///< from a gateway to the database; null: none
    CountingModel model_;
    std::unique_ptr<Balancer> balancer_;  ///< null: none
    std::array<std::unique_ptr<GatewayProcess>, size> gateways_;
    std::array<std::atomic<std::uint16_t>, size + 1>
        ports_{};  ///< the last one: of the balancer; 0: it does not run
    std::array<std::atomic<bool>, size + 1> unreachable_{};  ///< by clients
    std::atomic<std::size_t> lost_{0};                       ///< their requests and answers
    std::atomic<std::size_t> refused_{0};                    ///< requests, for now
};

}  // namespace cubepi::cluster_tests
