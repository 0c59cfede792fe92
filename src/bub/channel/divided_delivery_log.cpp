#include <bub/channel/divided_delivery_log.hpp>

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

#include <boost/asio/post.hpp>

#include <bub/channel/account_lease.hpp>
#include <bub/channel/gateway_peers.hpp>
#include <bub/channel/manager/admission_queue.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/error_code_of.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>

namespace bub {

namespace {

using cubepi::Outcome;
using LogPtr = std::shared_ptr<PostgresDeliveryLog>;

/// The gateways of the first database, each of which is woken for a message in any.
class DividedPeers final : public GatewayPeers {
public:
    explicit DividedPeers(std::vector<LogPtr> logs)
        : logs_(std::move(logs)), first_(logs_.front()->peers()) {}

    Task<std::vector<GatewayPeer>> list() override { return first_->list(); }
    std::size_t count() const noexcept override { return first_->count(); }
    Task<std::vector<PeerCall>> receive(std::string facts) override {
        return first_->receive(std::move(facts));
    }
    Task<> answer(std::int64_t call, std::string result) override {
        return first_->answer(call, std::move(result));
    }
    Task<> wait() override;
    Task<PeerReply> call(std::int64_t number, std::string request,
                         std::chrono::milliseconds limit) override {
        return first_->call(number, std::move(request), limit);
    }

private:
    const std::vector<LogPtr> logs_;
    const std::shared_ptr<GatewayPeers> first_;
    std::shared_ptr<cubepi::AsyncEvent> woken_;
};

Task<> DividedPeers::wait() {
    if (!woken_) {
        woken_ = std::make_shared<cubepi::AsyncEvent>();
        const cubepi::Executor executor = co_await cubepi::this_executor;
        for (const LogPtr& log : logs_) log->wake(executor, woken_);
    }
    const std::shared_ptr<cubepi::AsyncEvent> woken = woken_;
    co_await woken->wait();
    woken->reset();
}

}  // namespace

/// Wakes take() when a database has answered, as long as it waits.
struct DividedDeliveryLog::Wake {
    std::mutex mutex = {};
    std::optional<cubepi::Executor> executor = {};  ///< of the call; absent: it does not wait
    cubepi::AsyncEvent event;
};

struct DividedDeliveryLog::Local {
    std::size_t database = 0;
    std::string id = {};
};

DividedDeliveryLog::DividedDeliveryLog(DividedDeliveryLogOptions options)
    : options_(std::move(options)),
      troubles_(options_.map.size()),
      wake_(std::make_shared<Wake>()) {
    (void)options_.logs.at(options_.map.size() - 1);
}

DividedDeliveryLog::~DividedDeliveryLog() = default;

std::optional<DividedDeliveryLog::Local> DividedDeliveryLog::local(const std::string& id) const {
    const std::size_t colon = id.find(':');
    if (colon == std::string::npos) return std::nullopt;
    Local found;
    found.database = map().named(std::string_view(id).substr(0, colon));
    if (found.database == map().size()) return std::nullopt;
    found.id = id.substr(colon + 1);
    return found;
}

std::string DividedDeliveryLog::id_at(std::size_t database, const std::string& id) const {
    return map().name(database) + ":" + id;
}

std::size_t DividedDeliveryLog::database_of(const Envelope& message) const {
    return map().of_session(detail::lane_key(message));
}

std::vector<DividedDeliveryLog::Ids> DividedDeliveryLog::divide(const Ids& ids) const {
    std::vector<Ids> all(map().size());
    for (const std::string& id : ids) {
        std::optional<Local> found = local(id);
        if (found) all[found->database].push_back(std::move(found->id));
    }
    return all;
}

void DividedDeliveryLog::name(StoredInbound& record, std::size_t database) const {
    record.id = id_at(database, record.id);
    if (!record.turn.empty()) record.turn = id_at(database, record.turn);
}

void DividedDeliveryLog::add(UnfinishedRecords& all, UnfinishedRecords some,
                             std::size_t database) const {
    for (StoredInbound& record : some.inbounds) {
        name(record, database);
        all.inbounds.push_back(std::move(record));
    }
    for (Delivery& answer : some.answers) {
        answer.id = id_at(database, answer.id);
        all.answers.push_back(std::move(answer));
    }
}

void DividedDeliveryLog::note(std::size_t database, const std::string& trouble) {
    const bool was_usable = is_usable(database);
    troubles_[database] = trouble;
    if (was_usable == trouble.empty()) return;
    const std::string what =
        "the database '" + map().name(database) + "' with the sessions " + map().ranges(database);
    cubepi::Runtime::standard()->log.write(
        trouble.empty() ? cubepi::LogLevel::info : cubepi::LogLevel::warning,
        trouble.empty() ? "delivery.database_recovered" : "delivery.database_failed",
        {{"database", map().name(database)}});
    if (!options_.on_warning) return;
    options_.on_warning(trouble.empty() ? what + " can be used again"
                                        : what + " cannot be used: " + trouble);
}

void DividedDeliveryLog::note(std::size_t database, const std::exception_ptr& failure) {
    note(database, failure ? cubepi::exception_text(failure) : std::string());
}

std::string DividedDeliveryLog::partial_outage() const {
    std::string text;
    std::size_t failing = 0;
    for (std::size_t at = 0; at < troubles_.size(); ++at) {
        if (is_usable(at)) continue;
        ++failing;
        text += (text.empty() ? "" : "; ") + ("the database '" + map().name(at)) +
                "' with the sessions " + map().ranges(at) + " cannot be used: " + troubles_[at];
    }
    return failing < troubles_.size() ? text : std::string();
}

std::vector<std::string> DividedDeliveryLog::unusable_databases() const {
    std::vector<std::string> names;
    for (std::size_t at = 0; at < troubles_.size(); ++at)
        if (!is_usable(at)) names.push_back(map().name(at));
    return names;
}

std::string DividedDeliveryLog::notification_problem() const {
    std::string text;
    for (std::size_t at = 0; at < options_.logs.size(); ++at) {
        const std::string problem = options_.logs[at]->notification_problem();
        // One that cannot be used at all is named by partial_outage().
        if (problem.empty() || !is_usable(at)) continue;
        text += (text.empty() ? "" : "; ") + ("the database '" + map().name(at)) + "': " + problem;
    }
    return text;
}

Task<std::string> DividedDeliveryLog::adopt(StoredInbound record, std::string turn) {
    PostgresDeliveryLog& log = *options_.logs[database_of(record.message)];
    return log.adopt(std::move(record), std::move(turn));
}

Task<> DividedDeliveryLog::adopt(Delivery answer) {
    PostgresDeliveryLog& log = *options_.logs[database_of(answer.message)];
    return log.adopt(std::move(answer));
}

Task<std::optional<std::string>> DividedDeliveryLog::receive(Envelope message) {
    const std::size_t database = database_of(message);
    Task<std::optional<std::string>> storing = options_.logs[database]->receive(std::move(message));
    Outcome<std::optional<std::string>> stored = co_await cubepi::outcome_of(std::move(storing));
    // Now, and not only at the next take(): the others are still usable.
    const cubepi::ErrorCode code = cubepi::detail::error_code_of(stored.failure());
    const bool is_full =
        code == cubepi::ErrorCode::storage_full || code == cubepi::ErrorCode::limit;
    if (!stored && !stored.cancelled() && !is_full) note(database, stored.failure());
    std::optional<std::string> id = std::move(stored).value();
    if (id) id = id_at(database, *id);
    co_return id;
}

Task<> DividedDeliveryLog::record(DeliveryNote note, Ids ids, std::string detail) {
    std::vector<Ids> all = divide(ids);
    for (std::size_t at = 0; at < all.size(); ++at) {
        if (all[at].empty()) continue;
        PostgresDeliveryLog& log = *options_.logs[at];
        std::string copy = detail;
        co_await log.record(note, std::move(all[at]), std::move(copy));
    }
}

Task<> DividedDeliveryLog::plan(std::vector<TurnOutput> outputs, Ids answers) {
    std::optional<Local> first = answers.empty() ? std::nullopt : local(answers.front());
    if (!first) co_return;
    Ids divided = std::move(divide(answers)[first->database]);
    PostgresDeliveryLog& log = *options_.logs[first->database];
    co_await log.plan(std::move(outputs), std::move(divided));
}

Task<std::string> DividedDeliveryLog::intend_output(TurnOutput output, Ids answers) {
    const std::optional<Local> first = answers.empty() ? std::nullopt : local(answers.front());
    const std::size_t database = first ? first->database : database_of(output.message);
    Ids divided = std::move(divide(answers)[database]);
    PostgresDeliveryLog& log = *options_.logs[database];
    const std::string id = co_await log.intend_output(std::move(output), std::move(divided));
    co_return id_at(database, id);
}

template <class T>
Task<std::vector<std::optional<T>>> DividedDeliveryLog::read_usable(
    std::function<Task<T>(PostgresDeliveryLog&)> read) {
    std::vector<std::optional<T>> all(map().size());
    std::vector<std::size_t> databases;
    std::vector<Task<T>> reading;
    for (std::size_t at = 0; at < map().size(); ++at) {
        if (!is_usable(at)) continue;
        databases.push_back(at);
        reading.push_back(read(*options_.logs[at]));
    }
    std::vector<Outcome<T>> found = co_await cubepi::collect_all(std::move(reading));
    std::exception_ptr failure;
    bool was_read = false;
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (found[i]) all[databases[i]] = std::move(found[i]).value();
        if (!found[i]) failure = found[i].failure();
        // As after a failure to store: the next search does not wait for this database.
        if (!found[i] && cause_of(found[i].failure()) == FailureCause::outage)
            note(databases[i], failure);
        was_read = was_read || found[i].ok();
    }
    if (failure && !was_read) std::rethrow_exception(failure);
    if (!was_read)
        throw cubepi::CheckpointerError(cubepi::ErrorCode::unavailable,
                                        "none of the databases can be used");
    co_return all;
}

Task<std::vector<StoredInbound>> DividedDeliveryLog::unfinished() {
    using Records = std::vector<StoredInbound>;
    std::function<Task<Records>(PostgresDeliveryLog&)> read = [](PostgresDeliveryLog& log) {
        return log.unfinished();
    };
    std::vector<std::optional<Records>> found = co_await read_usable<Records>(std::move(read));
    Records all;
    for (std::size_t at = 0; at < found.size(); ++at) {
        if (!found[at]) continue;
        for (StoredInbound& record : *found[at]) {
            name(record, at);
            all.push_back(std::move(record));
        }
    }
    co_return all;
}

Task<std::vector<StoredInbound>> DividedDeliveryLog::unfinished_of(Ids ids) {
    std::vector<Ids> divided = divide(ids);
    std::vector<StoredInbound> all;
    for (std::size_t at = 0; at < divided.size(); ++at) {
        if (divided[at].empty()) continue;
        PostgresDeliveryLog& log = *options_.logs[at];
        std::vector<StoredInbound> some = co_await log.unfinished_of(std::move(divided[at]));
        for (StoredInbound& record : some) {
            name(record, at);
            all.push_back(std::move(record));
        }
    }
    co_return all;
}

Task<std::vector<Delivery>> DividedDeliveryLog::unsettled() {
    using Records = std::vector<Delivery>;
    std::function<Task<Records>(PostgresDeliveryLog&)> read = [](PostgresDeliveryLog& log) {
        return log.unsettled();
    };
    std::vector<std::optional<Records>> found = co_await read_usable<Records>(std::move(read));
    UnfinishedRecords all;
    for (std::size_t at = 0; at < found.size(); ++at) {
        if (!found[at]) continue;
        UnfinishedRecords some;
        some.answers = std::move(*found[at]);
        add(all, std::move(some), at);
    }
    co_return std::move(all.answers);
}

Task<std::optional<KnownInbound>> DividedDeliveryLog::find(std::string channel,
                                                           std::string inbound_id) {
    using Known = std::optional<KnownInbound>;
    std::function<Task<Known>(PostgresDeliveryLog&)> read =
        [channel, inbound_id](PostgresDeliveryLog& log) { return log.find(channel, inbound_id); };
    std::vector<std::optional<Known>> found = co_await read_usable<Known>(std::move(read));
    std::vector<bool> was_read(found.size());
    for (std::size_t at = 0; at < found.size(); ++at) {
        was_read[at] = found[at].has_value();
        if (!found[at] || !*found[at]) continue;
        KnownInbound known = std::move(**found[at]);
        if (!known.id.empty()) known.id = id_at(at, known.id);
        co_return known;
    }
    if (std::find(was_read.begin(), was_read.end(), false) != was_read.end())
        throw MessageUnreadError(
            "the message may be in a database that cannot be used: " + partial_outage(), map(),
            was_read);
    co_return std::nullopt;
}

Task<bool> DividedDeliveryLog::has_unfinished(Envelope address) {
    PostgresDeliveryLog& log = *options_.logs[database_of(address)];
    return log.has_unfinished(std::move(address));
}

Task<bool> DividedDeliveryLog::wait_finished(Envelope address, std::chrono::milliseconds limit) {
    PostgresDeliveryLog& log = *options_.logs[database_of(address)];
    return log.wait_finished(std::move(address), limit);
}

void DividedDeliveryLog::announce_end(const Envelope& address) {
    options_.logs[database_of(address)]->announce_end(address);
}

Task<> DividedDeliveryLog::sent_soon(std::string id) {
    std::optional<Local> found = local(id);
    if (!found) return DeliveryLog::sent_soon({});
    PostgresDeliveryLog& log = *options_.logs[found->database];
    return log.sent_soon(std::move(found->id));
}

std::optional<TurnLease> DividedDeliveryLog::lease(const Ids& ids, std::size_t& database) const {
    const std::optional<Local> first = ids.empty() ? std::nullopt : local(ids.front());
    if (!first) return std::nullopt;
    database = first->database;
    return options_.logs[database]->lease(divide(ids)[database]);
}

void DividedDeliveryLog::serve(std::vector<std::string> channels) {
    for (const LogPtr& log : options_.logs) log->serve(channels);
}

void DividedDeliveryLog::limit_waiting(std::size_t messages) {
    for (const LogPtr& log : options_.logs) log->limit_waiting(messages);
}

Task<UnfinishedRecords> DividedDeliveryLog::take() {
    cubepi::Clock& clock = *cubepi::Runtime::standard()->clock;
    const std::shared_ptr<Wake> wake = wake_;
    const cubepi::Executor executor = co_await cubepi::this_executor;
    const auto set_executor = [wake](std::optional<cubepi::Executor> value) {
        const std::lock_guard lock(wake->mutex);
        wake->executor = std::move(value);
    };
    set_executor(executor);
    const std::shared_ptr<const void> over(
        nullptr, [set_executor](const void*) { set_executor(std::nullopt); });
    // A database that does not answer must not delay the renewal of the leases in the others.
    const auto deadline = cubepi::deadline_after(clock.now(), *poll_interval());
    for (const LogPtr& log : options_.logs) {
        log->begin_take([wake] {
            const std::lock_guard lock(wake->mutex);
            if (wake->executor) boost::asio::post(*wake->executor, [wake] { wake->event.set(); });
        });
    }
    std::vector<bool> ended(map().size());
    std::exception_ptr failure;
    bool was_read = false;
    for (bool waits = true; waits;) {
        wake->event.reset();
        waits = false;
        for (std::size_t at = 0; at < map().size(); ++at) {
            if (ended[at]) continue;
            std::optional<Outcome<UnfinishedRecords>> taken = options_.logs[at]->taken();
            // One that has not answered before is not waited for.
            waits = waits || (!taken && is_usable(at));
            if (!taken) continue;
            ended[at] = true;
            note(at, taken->failure());
            was_read = was_read || taken->ok();
            if (!*taken) failure = taken->failure();
            if (*taken) add(taken_, std::move(*taken).value(), at);
        }
        if (!waits) break;
        Task<> waiting = wake->event.wait();
        waits = co_await cubepi::detail::run_until(clock, deadline, std::move(waiting));
    }
    for (std::size_t at = 0; at < map().size(); ++at) {
        if (ended[at]) options_.logs[at]->handed_over();
        if (!ended[at] && is_usable(at)) note(at, std::string("it does not answer"));
    }
    if (failure && !was_read) std::rethrow_exception(failure);
    if (!was_read)
        throw cubepi::CheckpointerError(cubepi::ErrorCode::unavailable,
                                        "none of the databases answers");
    co_return std::exchange(taken_, UnfinishedRecords());
}

std::optional<std::chrono::nanoseconds> DividedDeliveryLog::poll_interval() const {
    return options_.logs.front()->poll_interval();
}

Task<> DividedDeliveryLog::release() {
    taken_ = UnfinishedRecords();
    std::vector<Task<>> releasing;
    for (const LogPtr& log : options_.logs) releasing.push_back(log->release());
    const std::vector<Outcome<>> released = co_await cubepi::collect_all(std::move(releasing));
    for (const Outcome<>& one : released) one.rethrow();
}

std::shared_ptr<AccountLease> DividedDeliveryLog::account_lease(std::string name) {
    return options_.logs.front()->account_lease(std::move(name));
}

std::shared_ptr<GatewayPeers> DividedDeliveryLog::peers() {
    return std::make_shared<DividedPeers>(options_.logs);
}

}  // namespace bub
