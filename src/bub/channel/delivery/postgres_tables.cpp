#include <bub/channel/delivery/postgres_tables.hpp>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <set>
#include <utility>

#include <bub/channel/delivery/delivery_records.hpp>
#include <bub/channel/manager/admission_queue.hpp>
#include <bub/tape/postgres/division.hpp>
#include <bub/tape/tape_entry.hpp>
#include <cubepi/agent/claim_owner.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/schema/python_json.hpp>
#include <cubepi/sql/support/postgres.hpp>

// Rows of the tables of deliveries, and the transactions of a gateway on them.

namespace bub::detail {

using cubepi::detail::server_write;
using cubepi::detail::SqlPlan;
using cubepi::detail::SqlView;

namespace {

/// The number of calls that are written together.
constexpr std::size_t most_together = 64;
/// The number of rows of a table that one take() removes because of their age. If there are more, the next one removes them too.
constexpr std::int64_t most_removed = 5'000;
constexpr std::chrono::minutes removal_interval{10};
/// The interval while more rows are old than one take() removes.
constexpr std::chrono::seconds short_removal_interval{1};

/// An SQL condition: the gateway with the channels $3 (all if $4 is not 0) serves this one.
std::string is_served_sql(const std::string& channel) {
    return "($4 <> 0 OR " + channel + " = ANY($3::text[]))";
}

/// An SQL condition: no gateway with this number is alive.
std::string is_ended_sql(const std::string& owner) {
    return owner +
           " NOT IN (SELECT number FROM bub_delivery_gateways WHERE lease_until > "
           "clock_timestamp())";
}

constexpr const char* inbound_columns =
    "i.id, i.fence, i.session, i.message, {epoch i.received_at}, i.begun, i.turn,"
    " i.answered OR EXISTS (SELECT 1 FROM bub_delivery_outbound AS o WHERE o.session = i.session"
    " AND o.settled_at IS NULL AND i.id = ANY(o.answers)), i.planned, i.next_output, i.all_sent,"
    " (SELECT count(*) FROM bub_delivery_gateways AS g WHERE g.number = ANY(i.begun_by) AND"
    " g.lease_until > clock_timestamp())";
constexpr const char* outbound_columns =
    "o.id, o.fence, o.session, o.message, {epoch o.intended_at}, o.resent, o.state = 'waiting',"
    " o.state = 'held'";

JsonObject object_of(std::string_view text) {
    try {
        Json json = cubepi::parse_lenient(text);
        if (JsonObject* const object = json.if_object()) return std::move(*object);
    } catch (const cubepi::Error&) {
        // An operator has changed the row.
        return {};
    }
    return {};
}

std::string date_of(double seconds) {
    const auto since = std::chrono::duration_cast<std::chrono::system_clock::duration>(
        std::chrono::duration<double>(seconds));
    return tape_date(std::chrono::system_clock::time_point(since));
}

/// The outputs that are left of a plan.
std::vector<TurnOutput> outputs_of(std::string_view planned, std::size_t next) {
    std::vector<TurnOutput> outputs;
    const JsonObject plan = object_of(planned);
    const Json* const list = plan.if_contains("plan");
    if (!list || !list->is_array()) return outputs;
    const JsonArray& all = list->get_array();
    for (std::size_t at = next; at < all.size(); ++at) {
        const JsonObject* const message = all[at].if_object();
        if (message) outputs.emplace_back(from_stored_form(*message), at, all.size());
    }
    return outputs;
}

template <class Record>
void sort_by_id(std::vector<Record>& records) {
    std::sort(records.begin(), records.end(), [](const Record& a, const Record& b) {
        return record_id(a.id)->id < record_id(b.id)->id;
    });
}

/// The row of this gateway was removed, because it was frozen for long.
struct GatewayRemoved {};

}  // namespace

std::string text_of(const RecordId& id) {
    return std::to_string(id.id) + "." + std::to_string(id.fence);
}

std::optional<RecordId> record_id(const std::string& text) {
    RecordId id;
    const char* const end = text.data() + text.size();
    const auto [dot, first] = std::from_chars(text.data(), end, id.id);
    if (first != std::errc() || dot == end || *dot != '.') return std::nullopt;
    const auto [stop, second] = std::from_chars(dot + 1, end, id.fence);
    if (second != std::errc() || stop != end) return std::nullopt;
    return id;
}

std::string mine_sql(const char* table) {
    const std::string name = table;
    const bool is_inbound = name == "bub_delivery_inbound";
    return "WITH mine AS (SELECT r.id, r.session, " +
           std::string(is_inbound ? "r.finished_at" : "r.answers, r.settled_at") +
           " IS NULL AS is_open, r.fence = ($2::text[])[array_position($1::text[], r.id::text)]"
           "::bigint AS holds FROM " +
           name + " AS r WHERE r.id = ANY($1::text[]::bigint[]))";
}

void check_fence(const SqlResult& holds) {
    for (int row = 0; row < holds.rows(); ++row) {
        if (holds.boolean(row, 0)) continue;
        throw SessionTakenError(
            "another gateway has taken the session: this one had not renewed its lease in time");
    }
}

namespace {

/// Locks sessions, and creates those that are missing, all in the order of their keys: a transaction that knows a session and one that
/// creates it would wait for each other otherwise. The condition leaves the row as it is, locked. In a statement of its own: the next
/// one sees what others have written under the locks.
void lock_sessions(SqlBatch& batch, const std::set<std::string>& sessions) {
    batch
        .add(
            "INSERT INTO bub_delivery_sessions (key) SELECT k FROM unnest($1::text[]) AS k ORDER BY"
            " k ON CONFLICT (key) DO UPDATE SET key = excluded.key WHERE false")
        .texts(std::vector<std::string>(sessions.begin(), sessions.end()));
}

}  // namespace

DeliveryTables::DeliveryTables(PostgresDeliveryLogOptions options)
    : options_(std::move(options)),
      store_(std::make_shared<cubepi::detail::SqlStore>(
          options_.database, cubepi::detail::postgres_driver(options_.database),
          std::make_shared<const DeliverySchema>(options_.lease, options_.division))) {}

std::string DeliveryTables::session_key(const Envelope& message) const {
    constexpr std::size_t digits = 32;  // 128 bits
    std::string name = options_.account;
    name += '\0';
    name += lane_key(message);
    return cubepi::detail::sha256_hex(name).substr(0, digits);
}

std::string message_key(const std::string& account, const std::string& channel,
                        const std::string& inbound_id) {
    if (inbound_id.empty()) return {};
    // With their lengths, so that no two have the same text.
    std::string name;
    for (const std::string* part : {&account, &channel, &inbound_id})
        name += std::to_string(part->size()) + ":" + *part;
    return cubepi::detail::sha256_hex(name);
}

void DeliveryTables::check_limit() const {
    if (open_ < options_.max_open) return;
    throw cubepi::Error(
        cubepi::ErrorCode::storage_full,
        "the delivery log holds " + std::to_string(open_) +
            " unfinished messages and answers; release or discard those that are held");
}

void DeliveryTables::note(const std::string& id, const std::string& session,
                          const std::string& key) {
    const std::lock_guard guard(mutex_);
    sessions_[id] = session;
    if (!key.empty()) keys_[id] = key;
}

void DeliveryTables::forget(const std::vector<std::string>& ids) {
    const std::lock_guard guard(mutex_);
    for (const std::string& id : ids) {
        const auto session = sessions_.extract(id);
        keys_.erase(id);
        marks_.erase(id);
        const auto reserved = session ? reserved_.find(session.mapped()) : reserved_.end();
        if (reserved != reserved_.end() && reserved->second.message == id)
            reserved_.erase(reserved);
    }
}

std::vector<std::string> DeliveryTables::keys_of(const std::vector<std::string>& ids,
                                                 bool wanted) const {
    std::vector<std::string> keys;
    if (!wanted) return keys;
    const std::lock_guard guard(mutex_);
    for (const std::string& id : ids) {
        const auto found = keys_.find(id);
        if (found != keys_.end()) keys.push_back(found->second);
    }
    return keys;
}

bool DeliveryTables::knows(const std::string& id) const {
    const std::lock_guard guard(mutex_);
    return sessions_.contains(id);
}

std::int64_t DeliveryTables::next_mark(std::int64_t number, const std::vector<std::string>& ids) {
    const std::lock_guard guard(mutex_);
    for (const std::string& id : ids) marks_.erase(id);
    return -(number * marks_of_gateway + ++turns_ % marks_of_gateway);
}

void DeliveryTables::note_turn(const std::string& session, const std::vector<std::string>& ids,
                               std::int64_t mark, std::int64_t answer) {
    const std::lock_guard guard(mutex_);
    for (const std::string& id : ids)
        if (sessions_.contains(id)) marks_[id] = mark;
    reserved_.insert_or_assign(session, Reserved{ids.front(), answer});
}

std::vector<std::string> DeliveryTables::marks_of(const std::vector<std::string>& ids) const {
    std::vector<std::string> marks;
    const std::lock_guard guard(mutex_);
    for (const std::string& id : ids) {
        const auto found = marks_.find(id);
        marks.push_back(std::to_string(found == marks_.end() ? 0 : found->second));
    }
    return marks;
}

/// An id that was reserved is lower than that of any answer which the session has got since: it is of no use after one.
std::int64_t DeliveryTables::take_reserved(const DeliveryWrite& step) {
    const std::lock_guard guard(mutex_);
    const auto found = reserved_.extract(step.sessions.front());
    return found && found.mapped().message == step.answered ? found.mapped().id : 0;
}

DeliveryWritePtr DeliveryTables::write_about(const std::vector<std::string>& ids,
                                             RecordIds& known) const {
    auto step = std::make_shared<DeliveryWrite>();
    std::set<std::string> sessions;
    const std::lock_guard guard(mutex_);
    for (const std::string& text : ids) {
        const std::optional<RecordId> id = record_id(text);
        const auto found = sessions_.find(text);
        if (!id || found == sessions_.end()) continue;
        known.records.push_back(text);
        known.ids.push_back(std::to_string(id->id));
        known.fences.push_back(std::to_string(id->fence));
        sessions.insert(found->second);
    }
    if (sessions.empty()) return nullptr;
    step->sessions.assign(sessions.begin(), sessions.end());
    return step;
}

std::optional<TurnLease> DeliveryTables::lease(const std::vector<std::string>& ids) const {
    const std::lock_guard guard(mutex_);
    for (const std::string& text : ids) {
        const std::optional<RecordId> id = record_id(text);
        const auto found = sessions_.find(text);
        if (id && found != sessions_.end()) return TurnLease{found->second, id->fence};
    }
    return std::nullopt;
}

void DeliveryTables::enter() {
    if (number_ != 0) return;
    SqlPlan plan;
    // A connection from before does not know that the division has been changed.
    cubepi::detail::take_advisory_locks(plan.reads, {division_lock});
    const std::size_t own = plan.reads.size();
    select_division(plan.reads);
    plan.reads
        .add(
            "SELECT number, host, boot_id, pid, process_start FROM bub_delivery_gateways WHERE"
            " account = $1 AND lease_until > clock_timestamp()")
        .text(options_.account);
    plan.reads.add("SELECT nextval('bub_delivery_ids')");
    const auto lease = static_cast<double>(options_.lease.count());
    const std::string where = store_->driver().description();
    auto decide = [account = options_.account, lease, own, where, division = options_.division](
                      const SqlView& view, SqlBatch& writes) {
        check_division(where, division, view.results[own]);
        const SqlResult& gateways = view.results[own + 1];
        for (int row = 0; row < gateways.rows(); ++row) {
            cubepi::ClaimOwner owner;
            owner.host = gateways.string(row, 1);
            owner.boot_id = gateways.string(row, 2);
            owner.pid = gateways.integer(row, 3);
            owner.process_start = gateways.integer(row, 4);
            if (!cubepi::is_dead_owner(owner)) continue;
            writes
                .add(
                    "UPDATE bub_delivery_gateways SET lease_until = clock_timestamp()"
                    " WHERE number = $1")
                .integer(gateways.integer(row, 0));
        }
        const std::int64_t number = view.results[own + 2].integer(0, 0);
        const cubepi::ClaimOwner here = cubepi::current_process_owner();
        writes
            .add(
                "INSERT INTO bub_delivery_gateways (number, account, host, boot_id, pid,"
                " process_start, lease_until) VALUES ($1, $2, $3, $4, $5, $6,"
                " clock_timestamp() + $7 * interval '1 millisecond')")
            .integer(number)
            .text(account)
            .text(here.host)
            .text(here.boot_id)
            .integer(here.pid)
            .integer(here.process_start)
            .number(lease);
        return number;
    };
    number_ = cubepi::run(server_write(store_, std::move(plan), std::move(decide)));
}

void DeliveryTables::write(const std::vector<DeliveryWritePtr>& steps) {
    for (std::size_t at = 0; at < steps.size(); at += most_together) {
        const std::size_t end = std::min(steps.size(), at + most_together);
        const std::vector<DeliveryWritePtr> some(steps.begin() + static_cast<std::ptrdiff_t>(at),
                                                 steps.begin() + static_cast<std::ptrdiff_t>(end));
        try {
            enter();
            write_together(some);
        } catch (...) {
            note_failure(std::current_exception());
            for (const DeliveryWritePtr& step : some) step->failure = std::current_exception();
        }
        for (const DeliveryWritePtr& step : some) {
            if (!step->failure && step->stored) step->stored();
            step->over = true;
        }
    }
}

void DeliveryTables::note_failure(const std::exception_ptr& failure) {
    may_have_lost_ = true;
    try {
        std::rethrow_exception(failure);
    } catch (const cubepi::Error& error) {
        if (error.code() != cubepi::ErrorCode::disconnected) return;
        // The server may execute it after the next take(): it has the statements, and waits for locks, or the network delays them.
        lost_until_ = store_->options().runtime->clock->now() + store_->options().lock_timeout +
                      options_.lease;
    } catch (...) {
        return;
    }
}

void DeliveryTables::write_together(const std::vector<DeliveryWritePtr>& steps) {
    reserve_ids(steps);
    std::set<std::string> sessions;
    std::map<std::string, DeliveryWritePtr> received;
    std::vector<std::pair<DeliveryWritePtr, DeliveryWritePtr>> repeated;
    std::vector<DeliveryWritePtr> written;
    SqlBatch writes;
    for (const bool last : {false, true}) {
        for (const DeliveryWritePtr& step : steps) {
            if (step->is_last != last) continue;
            // Two calls of this transaction receive the same message.
            if (!step->message_key.empty()) {
                const auto [first, is_first] = received.emplace(step->message_key, step);
                if (!is_first) repeated.emplace_back(step, first->second);
                if (!is_first) continue;
            }
            sessions.insert(step->sessions.begin(), step->sessions.end());
            step->write(writes);
            written.push_back(step);
        }
    }
    SqlBatch batch;
    lock_sessions(batch, sessions);
    const std::size_t own = batch.size();
    batch.add_all(writes);
    const SqlResults results = cubepi::run(store_->execute(std::move(batch)));
    for (std::size_t at = 0; at < written.size(); ++at) {
        try {
            if (written[at]->read) written[at]->read(results[own + at]);
        } catch (...) {
            written[at]->failure = std::current_exception();
        }
    }
    for (const auto& [step, first] : repeated) step->failure = first->failure;
}

/// The ids of answers are known before they are stored, so that a statement that is executed again stores an answer once. That of the first
/// answer of a turn was reserved when the turn began.
void DeliveryTables::reserve_ids(const std::vector<DeliveryWritePtr>& steps) {
    std::vector<DeliveryWritePtr> answers;
    for (const DeliveryWritePtr& step : steps) {
        if (!step->stores_answer) continue;
        step->answer = take_reserved(*step);
        if (step->answer == 0) answers.push_back(step);
    }
    if (answers.empty()) return;
    SqlBatch batch;
    batch.add("SELECT nextval('bub_delivery_ids') FROM generate_series(1, $1)")
        .integer(static_cast<std::int64_t>(answers.size()));
    const SqlResults results = cubepi::run(store_->execute(std::move(batch)));
    for (std::size_t at = 0; at < answers.size(); ++at)
        answers[at]->answer = results[0].integer(static_cast<int>(at), 0);
}

struct DeliveryTables::Taken {
    UnfinishedRecords records;
    RecordSessions sessions;
};

UnfinishedRecords DeliveryTables::take() {
    const bool checks = may_have_lost_.exchange(true);
    const cubepi::Clock::time_point begin = store_->options().runtime->clock->now();
    std::optional<Taken> taken;
    while (!taken) {
        enter();
        taken = try_take();
        if (!taken) number_ = 0;
    }
    if (checks) add_lost(*taken);
    may_have_lost_ = lost_until_ && begin < *lost_until_;
    const std::lock_guard guard(mutex_);
    sessions_.merge(taken->sessions);
    for (const StoredInbound& inbound : taken->records.inbounds) {
        const Envelope& message = inbound.message;
        std::string key = message_key(options_.account, message.channel.value_or(""),
                                      message.inbound_id.value_or(""));
        if (!key.empty()) keys_[inbound.id] = std::move(key);
    }
    return std::move(taken->records);
}

/// Adds the records of this gateway that no caller knows of, because the call that stored or took them has failed.
void DeliveryTables::add_lost(Taken& taken) {
    SqlBatch reads;
    select_inbounds(reads);
    select_answers(reads);
    const SqlResults results = cubepi::run(store_->read(std::move(reads)));
    const auto add = [this](auto& all, auto found, const RecordSessions& sessions,
                            RecordSessions& added) {
        const std::lock_guard guard(mutex_);
        for (auto& record : found) {
            if (sessions_.contains(record.id) || added.contains(record.id)) continue;
            added[record.id] = sessions.at(record.id);
            all.push_back(std::move(record));
        }
    };
    RecordSessions sessions;
    auto inbounds = read_inbounds(results[0], &sessions);
    auto answers = read_answers(results[1], &sessions);
    add(taken.records.inbounds, std::move(inbounds), sessions, taken.sessions);
    add(taken.records.answers, std::move(answers), sessions, taken.sessions);
    sort_by_id(taken.records.inbounds);
    sort_by_id(taken.records.answers);
}

void DeliveryTables::serve(std::vector<std::string> channels) {
    const std::lock_guard guard(mutex_);
    channels_ = std::move(channels);
}

bool DeliveryTables::takes_records() const {
    const std::lock_guard guard(mutex_);
    return !channels_ || !channels_->empty();
}

std::optional<DeliveryTables::Taken> DeliveryTables::try_take() {
    const std::int64_t number = number_;
    std::vector<std::string> channels;
    std::int64_t all_channels = 1;
    {
        const std::lock_guard guard(mutex_);
        if (channels_) {
            channels = *channels_;
            all_channels = 0;
        }
    }
    SqlPlan plan;
    plan.reads
        .add(
            "UPDATE bub_delivery_gateways SET lease_until = clock_timestamp() + $2 * interval '1 "
            "millisecond' WHERE number = $1 RETURNING number")
        .integer(number)
        .number(static_cast<double>(options_.lease.count()));
    // Sessions that another gateway locks are left to the next call, those whose answers one is still sending to that one. Arrays and subqueries that return one value, in place of joins: each
    // statement reads what is unfinished first, whatever the planner knows of the tables, and never all sessions.
    plan.reads
        .add(
            "UPDATE bub_delivery_sessions SET owner = $2, fence = fence + CASE WHEN owner ="
            " -$2::bigint THEN 0 ELSE 1 END WHERE key = ANY(ARRAY(SELECT key FROM"
            " bub_delivery_sessions WHERE key = ANY(ARRAY(SELECT session FROM bub_delivery_inbound"
            " WHERE account = $1 AND finished_at IS NULL AND " +
            is_ended_sql("owner") + " AND " + is_served_sql("channel") +
            " UNION SELECT session FROM bub_delivery_outbound WHERE account = $1 AND"
            " settled_at IS NULL AND " +
            is_ended_sql("owner") + " AND " + is_served_sql("channel") + ")) AND owner <> $2 AND " +
            is_ended_sql("owner") +
            " AND NOT EXISTS (SELECT 1 FROM bub_delivery_outbound AS o WHERE o.session = key AND " +
            std::string(is_being_sent_sql) + " AND o.owner <> $2 AND NOT " +
            is_ended_sql("o.owner") + ") ORDER BY key FOR UPDATE SKIP LOCKED))")
        .text(options_.account)
        .integer(number)
        .texts(channels)
        .integer(all_channels);
    plan.reads
        .add(
            "UPDATE bub_delivery_outbound AS o SET owner = $2, fence = o.fence + 1 WHERE o.account"
            " = $1 AND o.settled_at IS NULL AND o.owner <> $2 AND " +
            is_ended_sql("o.owner") + " AND " + is_served_sql("o.channel") +
            " AND (SELECT s.owner FROM bub_delivery_sessions AS s WHERE s.key = o.session) = $2"
            " RETURNING " +
            outbound_columns)
        .text(options_.account)
        .integer(number)
        .texts(channels)
        .integer(all_channels);
    // A gateway may have renewed its lease after the statement that has taken its session. Its messages are taken all the same: their
    // fences are lower than that of the session, so it cannot process them.
    plan.reads
        .add(
            "UPDATE bub_delivery_inbound AS i SET owner = $2, fence = (SELECT s.fence FROM"
            " bub_delivery_sessions AS s WHERE s.key = i.session) WHERE i.account = $1 AND"
            " i.finished_at IS NULL AND " +
            is_served_sql("i.channel") +
            " AND (SELECT s.owner = $2 AND (i.fence < s.fence OR i.owner <> $2 AND " +
            is_ended_sql("i.owner") +
            ") FROM bub_delivery_sessions AS s WHERE s.key = i.session) RETURNING " +
            inbound_columns)
        .text(options_.account)
        .integer(number)
        .texts(channels)
        .integer(all_channels);
    plan.reads
        .add(
            "SELECT (SELECT count(*) FROM bub_delivery_inbound WHERE account = $1 AND finished_at"
            " IS NULL) + (SELECT count(*) FROM bub_delivery_outbound WHERE account = $1 AND"
            " settled_at IS NULL), (SELECT count(*) FROM bub_delivery_gateways WHERE account = $1 "
            "AND"
            " lease_until > clock_timestamp())")
        .text(options_.account);
    const cubepi::Clock::time_point now = store_->options().runtime->clock->now();
    const bool removes = !removal_at_ || now >= *removal_at_;
    if (removes) add_removals(plan.reads);
    auto decide = [this, now, removes](const SqlView& view, SqlBatch& writes) {
        if (view.results[0].rows() == 0) throw GatewayRemoved();
        Taken taken;
        taken.records.answers = read_answers(view.results[1 + 1], &taken.sessions);
        taken.records.inbounds = read_inbounds(view.results[1 + 2], &taken.sessions);
        open_ = static_cast<std::size_t>(view.results[1 + 3].integer(0, 0));
        gateways_ = static_cast<std::size_t>(view.results[1 + 3].integer(0, 1));
        if (removes) {
            const std::int64_t most =
                std::max(view.results[1 + 4].integer(0, 0), view.results[1 + 5].integer(0, 0));
            removal_at_ = now;
            *removal_at_ += most < most_removed ? removal_interval : short_removal_interval;
        }
        writes.add(
            "DELETE FROM bub_delivery_gateways WHERE lease_until < clock_timestamp() - interval '1 "
            "hour'");
        return taken;
    };
    try {
        return cubepi::run(server_write(store_, std::move(plan), std::move(decide)));
    } catch (const GatewayRemoved&) {
        return std::nullopt;
    }
}

void DeliveryTables::add_removals(SqlBatch& batch) const {
    const auto hours = static_cast<double>(options_.retention.count());
    for (const auto& [table, time] : {std::pair("bub_delivery_inbound", "finished_at"),
                                      std::pair("bub_delivery_outbound", "settled_at")}) {
        const std::string name = table;
        batch
            .add("WITH removed AS (DELETE FROM " + name + " WHERE id = ANY(ARRAY(SELECT id FROM " +
                 name + " WHERE account = $1 AND " + time +
                 " < now() - $2 * interval '1 hour' LIMIT $3 FOR UPDATE SKIP LOCKED)) RETURNING "
                 "id) SELECT"
                 " count(*) FROM removed")
            .text(options_.account)
            .number(hours)
            .integer(most_removed);
    }
}

void DeliveryTables::release() {
    const std::int64_t number = number_.exchange(0);
    if (number == 0) return;
    SqlPlan plan;
    auto decide = [number](const SqlView&, SqlBatch& writes) {
        writes
            .add(
                "UPDATE bub_delivery_gateways SET lease_until = clock_timestamp() WHERE number ="
                " $1")
            .integer(number);
    };
    cubepi::run(server_write(store_, std::move(plan), std::move(decide)));
}

std::vector<StoredInbound> read_inbounds(const SqlResult& rows, RecordSessions* sessions) {
    std::vector<StoredInbound> found;
    for (int row = 0; row < rows.rows(); ++row) {
        StoredInbound& stored = found.emplace_back();
        const std::int64_t fence = rows.integer(row, 1);
        stored.id = text_of({rows.integer(row, 0), fence});
        if (sessions) (*sessions)[stored.id] = rows.string(row, 2);
        stored.message = inbound_from_stored_form(object_of(rows.text(row, 3)));
        stored.date = date_of(rows.number(row, 4));
        stored.begun = static_cast<std::uint64_t>(rows.integer(row, 5));
        // The messages of a turn are of one session, and so is their fence.
        const std::int64_t turn = rows.integer(row, 6);
        if (turn > 0) stored.turn = text_of({turn, fence});
        stored.answered = rows.boolean(row, 7);
        stored.planned =
            outputs_of(rows.text(row, 8), static_cast<std::size_t>(rows.integer(row, 9)));
        stored.all_sent = rows.boolean(row, 10);
        stored.outlived = static_cast<std::uint64_t>(rows.integer(row, 11));
    }
    sort_by_id(found);
    return found;
}

std::vector<Delivery> read_answers(const SqlResult& rows, RecordSessions* sessions) {
    std::vector<Delivery> found;
    for (int row = 0; row < rows.rows(); ++row) {
        Delivery& delivery = found.emplace_back();
        delivery.id = text_of({rows.integer(row, 0), rows.integer(row, 1)});
        if (sessions) (*sessions)[delivery.id] = rows.string(row, 2);
        delivery.message = from_stored_form(object_of(rows.text(row, 3)));
        delivery.date = date_of(rows.number(row, 4));
        delivery.resent = static_cast<std::uint64_t>(rows.integer(row, 5));
        delivery.waits = rows.boolean(row, 6);
        delivery.is_held = rows.boolean(row, 7);
    }
    sort_by_id(found);
    return found;
}

void DeliveryTables::select_inbounds(SqlBatch& batch) const {
    batch
        .add("SELECT " + std::string(inbound_columns) +
             " FROM bub_delivery_inbound AS i WHERE i.owner = $1 AND i.finished_at IS NULL")
        .integer(owner());
}

void DeliveryTables::select_answers(SqlBatch& batch) const {
    batch
        .add("SELECT " + std::string(outbound_columns) +
             " FROM bub_delivery_outbound AS o WHERE o.owner = $1 AND o.settled_at IS NULL")
        .integer(owner());
}

}  // namespace bub::detail
