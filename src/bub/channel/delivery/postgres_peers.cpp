#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/delivery/gateway_wakes.hpp>
#include <bub/channel/delivery/postgres_tables.hpp>
#include <bub/channel/gateway_peers.hpp>
#include <bub/channel/postgres_delivery_log.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/timeout.hpp>

// The gateways of an account, and the rows by which they call each other (D237).

namespace bub {

using namespace detail;
using cubepi::Outcome;
using cubepi::detail::server_write;
using cubepi::detail::SqlPlan;
using cubepi::detail::SqlView;

namespace {

/// Between looks for the answer to a request: most are answered at once, others when there is news (D254).
constexpr std::chrono::milliseconds answer_interval{50};
constexpr std::chrono::milliseconds longest_answer_interval{200};

class TablePeers final : public GatewayPeers {
public:
    TablePeers(std::shared_ptr<DeliveryTables> tables, std::shared_ptr<GatewayWakes> wakes)
        : tables_(std::move(tables)), wakes_(std::move(wakes)) {}

    Task<std::vector<GatewayPeer>> list() override;
    std::size_t count() const noexcept override { return tables_->gateways(); }
    Task<std::vector<PeerCall>> receive(std::string facts) override;
    Task<> answer(std::int64_t call, std::string result) override;
    Task<> wait() override;
    Task<PeerReply> call(std::int64_t number, std::string request,
                         std::chrono::milliseconds limit) override;

private:
    Task<std::int64_t> insert(std::int64_t number, std::string request,
                              std::chrono::milliseconds limit);
    Task<bool> is_answered(std::int64_t id);
    Task<> wait_for_answer(std::int64_t id, cubepi::Clock::time_point deadline);
    /// Removes a request, and returns how far it is.
    Task<PeerReply> take_back(std::int64_t id);

    const std::shared_ptr<DeliveryTables> tables_;
    const std::shared_ptr<GatewayWakes> wakes_;  ///< null: only calls of the caller
    std::shared_ptr<cubepi::AsyncEvent> woken_;
};

Task<> TablePeers::wait() {
    if (!woken_) {
        woken_ = std::make_shared<cubepi::AsyncEvent>();
        const cubepi::Executor executor = co_await cubepi::this_executor;
        if (wakes_) wakes_->add(executor, woken_);
    }
    const std::shared_ptr<cubepi::AsyncEvent> woken = woken_;
    co_await woken->wait();
    woken->reset();
}

Task<std::vector<GatewayPeer>> TablePeers::list() {
    const std::shared_ptr<DeliveryTables> tables = tables_;
    SqlBatch reads;
    reads
        .add(
            "SELECT number, host, pid, facts FROM bub_delivery_gateways WHERE account = $1 AND"
            " lease_until > clock_timestamp() ORDER BY number")
        .text(tables->options().account);
    const SqlResults results = co_await tables->store()->read(std::move(reads));
    const SqlResult& rows = results[0];
    std::vector<GatewayPeer> peers;
    for (int row = 0; row < rows.rows(); ++row) {
        GatewayPeer& peer = peers.emplace_back();
        peer.number = rows.integer(row, 0);
        peer.host = rows.string(row, 1);
        peer.pid = rows.integer(row, 2);
        peer.is_here = peer.number == tables->number();
        peer.facts = rows.string(row, 3);
    }
    co_return peers;
}

Task<std::vector<PeerCall>> TablePeers::receive(std::string facts) {
    const std::shared_ptr<DeliveryTables> tables = tables_;
    const std::int64_t here = tables->number();
    std::vector<PeerCall> calls;
    if (here == 0) co_return calls;
    SqlBatch writes;
    // Also removes the requests of gateways that have ended before they could read the answer. If a lost connection has it executed again,
    // the requests that were begun are not returned: their callers do not know how far these are.
    writes
        .add(
            "WITH reported AS (UPDATE bub_delivery_gateways SET facts = $2 WHERE number = $1 AND"
            " facts IS DISTINCT FROM $2), removed AS (DELETE FROM bub_delivery_calls WHERE"
            " expires_at < clock_timestamp() - interval '1 hour') UPDATE bub_delivery_calls SET"
            " begun = true WHERE gateway = $1 AND NOT begun AND expires_at > clock_timestamp()"
            " RETURNING id, request")
        .integer(here)
        .text(facts);
    const SqlResults results = co_await tables->store()->execute(std::move(writes));
    const SqlResult& rows = results[0];
    for (int row = 0; row < rows.rows(); ++row)
        calls.push_back({rows.integer(row, 0), rows.string(row, 1)});
    co_return calls;
}

Task<> TablePeers::answer(std::int64_t call, std::string result) {
    SqlPlan plan;
    auto decide = [call, result = std::move(result)](const SqlView&, SqlBatch& writes) {
        writes.add("UPDATE bub_delivery_calls SET result = $2 WHERE id = $1")
            .integer(call)
            .text(result);
    };
    return server_write(tables_->store(), std::move(plan), std::move(decide));
}

Task<std::int64_t> TablePeers::insert(std::int64_t number, std::string request,
                                      std::chrono::milliseconds limit) {
    SqlPlan plan;
    plan.reads.add("SELECT nextval('bub_delivery_ids')");
    auto decide = [number, request = std::move(request), time = static_cast<double>(limit.count())](
                      const SqlView& view, SqlBatch& writes) {
        const std::int64_t id = view.results[0].integer(0, 0);
        writes
            .add(
                "INSERT INTO bub_delivery_calls (id, gateway, request, expires_at) VALUES ($1, $2,"
                " $3, clock_timestamp() + $4 * interval '1 millisecond')")
            .integer(id)
            .integer(number)
            .text(request)
            .number(time);
        return id;
    };
    return server_write(tables_->store(), std::move(plan), std::move(decide));
}

Task<bool> TablePeers::is_answered(std::int64_t id) {
    SqlBatch reads;
    reads.add("SELECT result IS NOT NULL FROM bub_delivery_calls WHERE id = $1").integer(id);
    const SqlResults results = co_await tables_->store()->read(std::move(reads));
    co_return results[0].rows() == 0 || results[0].boolean(0, 0);
}

Task<PeerReply> TablePeers::take_back(std::int64_t id) {
    SqlPlan plan;
    // With a lock: a request that it has not begun does not begin.
    plan.reads.add("SELECT begun, result FROM bub_delivery_calls WHERE id = $1 FOR UPDATE")
        .integer(id);
    auto decide = [id](const SqlView& view, SqlBatch& writes) {
        PeerReply reply;
        const SqlResult& row = view.results[0];
        if (row.rows() > 0 && !row.is_null(0, 1)) {
            reply.state = PeerReply::State::answered;
            reply.result = row.string(0, 1);
        } else if (row.rows() == 0 || row.boolean(0, 0)) {
            reply.state = PeerReply::State::unknown;
        }
        writes.add("DELETE FROM bub_delivery_calls WHERE id = $1").integer(id);
        return reply;
    };
    return server_write(tables_->store(), std::move(plan), std::move(decide));
}

Task<PeerReply> TablePeers::call(std::int64_t number, std::string request,
                                 std::chrono::milliseconds limit) {
    const std::shared_ptr<DeliveryTables> tables = tables_;
    cubepi::Clock& clock = *tables->store()->options().runtime->clock;
    const cubepi::Clock::time_point deadline = cubepi::deadline_after(clock.now(), limit);
    const std::int64_t id = co_await insert(number, std::move(request), limit);
    if (wakes_) wakes_->wake(number);
    Task<> waiting = wait_for_answer(id, deadline);
    const Outcome<> waited = co_await cubepi::outcome_of(std::move(waiting));
    if (waited.cancelled()) {
        // Otherwise it could begin later, when its answer is not read. The row expires if the database does not answer.
        constexpr std::chrono::seconds longest{1};
        co_await cubepi::shield();
        Task<PeerReply> taking =
            cubepi::with_timeout(clock, longest, take_back(id), "end of a request");
        (void)co_await cubepi::outcome_of(std::move(taking));
    }
    waited.rethrow();
    co_return co_await take_back(id);
}

Task<> TablePeers::wait_for_answer(std::int64_t id, cubepi::Clock::time_point deadline) {
    const std::shared_ptr<DeliveryTables> tables = tables_;
    cubepi::Clock& clock = *tables->store()->options().runtime->clock;
    bool answered = false;
    std::chrono::milliseconds interval = answer_interval;
    while (!answered && clock.now() < deadline) {
        co_await clock.sleep_for(interval);
        interval = std::min(longest_answer_interval, interval * 5 / 4);
        answered = co_await is_answered(id);
    }
}

}  // namespace

std::shared_ptr<GatewayPeers> PostgresDeliveryLog::peers() {
    return std::make_shared<TablePeers>(tables_, wakes_);
}

}  // namespace bub
