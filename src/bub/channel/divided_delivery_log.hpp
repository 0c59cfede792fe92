#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/delivery_log.hpp>
#include <bub/channel/postgres_delivery_log.hpp>
#include <bub/tape/database_map.hpp>
#include <bub/turn_error.hpp>

namespace bub {

struct DividedDeliveryLogOptions {
    DatabaseMap map;
    /// One for each database, all with the same account.
    std::vector<std::shared_ptr<PostgresDeliveryLog>> logs = {};
    WarningHandler on_warning = {};
};

/// Delivery logs of several databases as one (D258). A message is in the database of its session as it is before any hook chooses another
/// one: Envelope::session_id, else channel:chat. So the ids of a platform are unique within a session. The id of a record begins with the
/// name of its database: "b:17.1".
///
/// A database that fails or does not answer delays and fails only what is about its sessions: take() returns the records of the others,
/// and partial_outage() names it. The leases of accounts, and the gateways with their calls, are in the first database. Used on one executor.
class DividedDeliveryLog final : public AdoptingDeliveryLog {
public:
    explicit DividedDeliveryLog(DividedDeliveryLogOptions options);
    ~DividedDeliveryLog() override;

    const DatabaseMap& map() const noexcept { return options_.map; }
    Task<std::string> adopt(StoredInbound record, std::string turn) override;
    Task<> adopt(Delivery answer) override;

    Task<std::optional<std::string>> receive(Envelope message) override;
    Task<> record(DeliveryNote note, std::vector<std::string> ids, std::string detail) override;
    Task<std::vector<StoredInbound>> unfinished() override;
    Task<std::vector<StoredInbound>> unfinished_of(std::vector<std::string> ids) override;
    /// Throws MessageUnreadError if the message may be in a database that cannot be used.
    Task<std::optional<KnownInbound>> find(std::string channel, std::string inbound_id) override;
    Task<bool> has_unfinished(Envelope address) override;
    Task<> plan(std::vector<TurnOutput> outputs, std::vector<std::string> answers) override;
    Task<std::string> intend_output(TurnOutput output, std::vector<std::string> answers) override;
    Task<bool> wait_finished(Envelope address, std::chrono::milliseconds limit) override;
    void announce_end(const Envelope& address) override;
    Task<> sent_soon(std::string id) override;
    Task<std::vector<Delivery>> unsettled() override;
    /// Returns the lease of a session, and its database. Thread-safe.
    std::optional<TurnLease> lease(const std::vector<std::string>& ids,
                                   std::size_t& database) const;
    void serve(std::vector<std::string> channels) override;
    void limit_waiting(std::size_t messages) override;
    Task<UnfinishedRecords> take() override;
    std::optional<std::chrono::nanoseconds> poll_interval() const override;
    Task<> release() override;
    std::shared_ptr<AccountLease> account_lease(std::string name) override;
    std::shared_ptr<GatewayPeers> peers() override;
    std::string partial_outage() const override;
    std::vector<std::string> unusable_databases() const override;
    std::string notification_problem() const override;

private:
    using Ids = std::vector<std::string>;
    struct Local;
    struct Wake;

    /// Splits an id; absent: it is not one of this log.
    std::optional<Local> local(const std::string& id) const;
    std::string id_at(std::size_t database, const std::string& id) const;
    std::size_t database_of(const Envelope& message) const;
    /// Returns the ids in their databases.
    std::vector<Ids> divide(const Ids& ids) const;
    void name(StoredInbound& record, std::size_t database) const;
    void add(UnfinishedRecords& all, UnfinishedRecords some, std::size_t database) const;
    void note(std::size_t database, const std::string& trouble);
    void note(std::size_t database, const std::exception_ptr& failure);
    bool is_usable(std::size_t database) const { return troubles_[database].empty(); }
    /// Reads from the databases that can be used. Throws if none can be read.
    template <class T>
    Task<std::vector<std::optional<T>>> read_usable(
        std::function<Task<T>(PostgresDeliveryLog&)> read);

    const DividedDeliveryLogOptions options_;
    std::vector<std::string> troubles_;  ///< of each database; empty: none
    const std::shared_ptr<Wake> wake_;   ///< of take()
    UnfinishedRecords taken_;            ///< that take() has not returned yet: it may be aborted
};

}  // namespace bub
