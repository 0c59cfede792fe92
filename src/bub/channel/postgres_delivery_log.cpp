#include <bub/channel/postgres_delivery_log.hpp>

#include <mutex>
#include <set>
#include <utility>

#include <bub/channel/delivery/delivery_records.hpp>
#include <bub/channel/delivery/gateway_wakes.hpp>
#include <bub/channel/delivery/postgres_tables.hpp>
#include <bub/channel/manager/manager_context.hpp>
#include <bub/questions.hpp>
#include <bub/tape/support/encoding.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/schema/python_json.hpp>

namespace bub {

using namespace detail;

namespace {

constexpr const char* inbound = "bub_delivery_inbound";
constexpr const char* outbound = "bub_delivery_outbound";

using Texts = std::vector<std::string>;

std::string json_of(const JsonObject& object) {
    std::string text;
    append_json_text(text, object);
    return text;
}

std::string json_of(const Envelope& message) { return json_of(stored_form(message)); }

/// Returns the value by which a message without an id of its platform is found.
std::string unnamed_key(const std::string& account, const std::string& mark) {
    return cubepi::detail::sha256_hex(account + "\n" + mark);
}

/// Returns the name of a channel as it is stored.
std::string channel_name(std::string name) {
    for (char& c : name)
        if (c < ' ' || c > '~') c = '?';
    return name;
}

std::string destination_of(const Envelope& output) {
    return output.output_channel ? *output.output_channel : output.channel.value_or("");
}

/// The part of a finished message that find() returns.
std::string address_of(const Envelope& message) {
    Envelope address;
    address.channel = message.channel;
    address.chat_id = message.chat_id;
    address.inbound_id = message.inbound_id;
    if (const std::string sender = sender_of(message); !sender.empty())
        address.context["sender_id"] = sender;
    if (message.rest.contains(stop_key)) address.rest[stop_key] = true;
    if (message.answer) address.answer.emplace();
    return json_of(address);
}

/// An SQL condition: i is an answer to a question, by what address_of() returns, in whose texts each quote follows a backslash.
constexpr const char* is_answer_sql = "i.address LIKE '%\"answer\": _\"action\"%'";

/// Returns how many messages of its session may wait before this one is refused, as AdmissionQueue::is_full() does. Of answers, only those
/// count.
std::int64_t limit_of(const Envelope& message, std::size_t max_waiting) {
    if (message.held || message.rest.contains(stop_key) || message.rest.contains(task_results_key))
        return std::numeric_limits<std::int64_t>::max();
    return message.answer ? max_waiting_answers : static_cast<std::int64_t>(max_waiting);
}

bool is_stop_result(std::string_view text) {
    return text == stop_succeeded || text == stop_was_refused;
}

/// Returns the state of a finished message whose value of stop_key is this one.
std::string finished_state(std::string_view stop) {
    return std::string(is_stop_result(stop) ? stop : "done");
}

/// The expression of begun_by without the gateway $3 and the marks of its turns (DeliveryTables::next_mark()).
std::string others_sql() {
    return "ARRAY(SELECT b FROM unnest(begun_by) AS b WHERE b <> $3 AND b / " +
           std::to_string(marks_of_gateway) + " + $3 <> 0)";
}

/// An SQL condition: b is the mark of a turn of the gateway $3 that has begun after the one with the mark $5, which is stored late.
std::string is_later_sql() {
    const std::string all = std::to_string(marks_of_gateway);
    const std::string half = std::to_string(marks_of_gateway / 2);
    return "b / " + all + " + $3 = 0 AND (b - $5 + " + all + ") % " + all + " >= " + half;
}

/// Returns the statement of a note about records with the ids $1 and the fences $2. $3 is the number of this gateway, or the reason of
/// failed answers; $4 is the id of the first message of a turn, whose mark is $5, or the marks of the turns that have begun.
std::string statement_of(DeliveryNote note, const std::string& detail) {
    const char* const table = note >= DeliveryNote::answer_held ? outbound : inbound;
    const std::string all_hold = std::string(" AND ") + all_hold_sql;
    const auto changed = [&](const std::string& changes, const std::string& condition = {}) {
        return ", changed AS (UPDATE " + std::string(table) + " AS r SET " + changes +
               " FROM mine WHERE r.id = ANY($1::text[]::bigint[]) AND r.id = mine.id AND "
               "mine.is_open" +
               all_hold + condition + ")";
    };
    // Not of messages that are finished.
    const auto answered = [&](const std::string& changes) {
        return ", answered AS (UPDATE bub_delivery_inbound AS i SET " + changes +
               " WHERE i.id = ANY(ARRAY(SELECT unnest(answers) FROM mine)) AND i.state IN "
               "('waiting',"
               " 'working')" +
               all_hold + ")";
    };
    const std::string settled = ", settled_at = now(), message = NULL";
    // A session without unfinished messages belongs to no gateway; the negative number is that of the last one.
    const std::string freed =
        ", freed AS (UPDATE bub_delivery_sessions AS s SET owner = -owner WHERE s.key ="
        " ANY(ARRAY(SELECT session FROM mine)) AND s.owner > 0" +
        all_hold +
        " AND NOT EXISTS (SELECT 1 FROM bub_delivery_inbound AS i WHERE i.session = s.key AND"
        " i.finished_at IS NULL AND i.owner = s.owner AND NOT i.id ="
        " ANY($1::text[]::bigint[])))";
    std::string changes;
    switch (note) {
        case DeliveryNote::begun:
            // `begun` counts those of earlier programs, too, which do not know begun_by.
            changes = changed(
                "state = 'working', begun = begun + CASE WHEN $3 = ANY(begun_by) THEN 0 ELSE 1"
                " END, begun_by = " +
                    others_sql() + " || ARRAY[$3, $5], turn = $4",
                " AND NOT EXISTS (SELECT 1 FROM unnest(begun_by) AS b WHERE " + is_later_sql() +
                    ")");
            break;
        case DeliveryNote::put_back:
            // Of a message that another gateway has taken, removes this one from those whose turns have begun; not a later turn here,
            // which has another fence, or another mark: the statement may be executed late.
            return mine_sql(table) +
                   ", marked AS (SELECT mine.*, ($4::text[])[array_position($1::text[],"
                   " id::text)]::bigint AS mark FROM mine), changed AS (UPDATE"
                   " bub_delivery_inbound AS r SET begun = CASE WHEN $3 = ANY(begun_by) THEN"
                   " greatest(begun - 1, 0) ELSE begun END, begun_by = " +
                   others_sql() +
                   ", state = CASE WHEN owner = $3 THEN 'waiting' ELSE state END FROM marked AS m"
                   " WHERE r.id = ANY($1::text[]::bigint[]) AND r.id = m.id AND m.is_open AND "
                   "(m.holds OR r.owner <> $3) AND (m.mark ="
                   " 0 OR m.mark = ANY(begun_by))) SELECT true FROM mine";
        case DeliveryNote::held:
            // As many as for a message that has ended processes: see needs_decision().
            changes = changed(
                "begun = greatest(begun, 2 + (SELECT count(*) FROM unnest(begun_by) AS b WHERE b > "
                "0))");
            break;
        case DeliveryNote::finished:
            changes = changed("state = '" + finished_state(detail) +
                              "', finished_at = now(), message = NULL, planned = NULL") +
                      freed;
            break;
        case DeliveryNote::left: changes = changed("owner = 0") + freed; break;
        case DeliveryNote::answer_held: changes = changed("state = 'held'") + freed; break;
        case DeliveryNote::waiting: changes = changed("state = 'waiting'"); break;
        case DeliveryNote::trying: changes = changed("state = 'intended'"); break;
        case DeliveryNote::resent:
            // If it is executed again, the answer is held sooner.
            changes = changed("state = 'intended', resent = resent + 1");
            break;
        case DeliveryNote::sent:
            changes = answered("answered = true") + changed("state = 'sent'" + settled) + freed;
            break;
        case DeliveryNote::failed:
            // The last part was not sent after all.
            changes = answered("all_sent = false") +
                      changed(
                          "state = 'failed', reason = CASE WHEN reason LIKE 'moved %' THEN"
                          " reason ELSE $3 END" +
                          settled) +
                      freed;
            break;
    }
    // With the id of an answer to the turn.
    const bool is_begin = note == DeliveryNote::begun;
    return mine_sql(table) + changes +
           (is_begin ? " SELECT holds, nextval('bub_delivery_ids') FROM mine" : select_holds_sql);
}

/// The caller of a take() must not get messages of a session before those of other callers that precede them in it: so messages that are received
/// meanwhile are stored behind them.
std::shared_ptr<DeliveryTables::Barrier> barrier_of(const std::shared_ptr<DeliveryTables>& tables) {
    return std::make_shared<DeliveryTables::Barrier>(tables);
}

}  // namespace

struct PostgresDeliveryLog::Taking {
    std::mutex mutex = {};
    bool is_running = false;
    std::int64_t number = 0;  ///< of the gateway that has the records of the result
    std::optional<cubepi::Outcome<UnfinishedRecords>> result = {};
};

PostgresDeliveryLog::PostgresDeliveryLog(PostgresDeliveryLogOptions options)
    : tables_(std::make_shared<DeliveryTables>(std::move(options))),
      ends_(std::make_shared<EndWaits>()),
      taking_(std::make_shared<Taking>()),
      thread_(1, "cubepi-deliver") {
    prepare_tls();
    if (tables_->options().notifications.empty()) return;
    cubepi::PostgresOptions database;
    database.connection = tables_->options().notifications;
    database.runtime = tables_->options().database.runtime;
    const std::string digest = cubepi::detail::sha256_hex(tables_->options().account).substr(0, 32);
    wakes_ = std::make_shared<GatewayWakes>(
        std::move(database), "bub_delivery_" + digest,
        [tables = tables_] { return tables->number(); }, ends_);
}

PostgresDeliveryLog::~PostgresDeliveryLog() = default;

Task<> PostgresDeliveryLog::open() {
    SqlBatch nothing;
    (void)co_await tables_->store()->read(std::move(nothing));
}

Task<> PostgresDeliveryLog::perform(DeliveryWritePtr write) {
    const std::shared_ptr<DeliveryTables> tables = tables_;
    if (!write) co_return;
    tables->enqueue(write);
    co_await complete(std::move(write));
}

Task<> PostgresDeliveryLog::complete(DeliveryWritePtr write) {
    auto work = [tables = tables_, write] { tables->complete(write); };
    co_await cubepi::offload(thread_, std::move(work));
}

Task<std::optional<std::string>> PostgresDeliveryLog::receive(Envelope message) {
    const std::shared_ptr<DeliveryTables> tables = tables_;
    tables->check_limit();
    const std::shared_ptr<GatewayWakes> wakes = wakes_;
    auto id = std::make_shared<std::optional<std::string>>();
    auto owner = std::make_shared<std::int64_t>(
        0);  // another gateway that is to process it, or was the last one of the session
    auto step = std::make_shared<DeliveryWrite>();
    const std::string session = tables->session_key(message);
    step->sessions = {session};
    step->message_key = message_key(tables->options().account, message.channel.value_or(""),
                                    message.inbound_id.value_or(""));
    // One without an id of its platform is found by a key of its own, if it is stored twice.
    const std::string key = step->message_key;
    if (key.empty())
        step->message_key =
            unnamed_key(tables->options().account, tables->store()->options().runtime->ids->next());
    step->write = [tables, session, key = step->message_key, body = json_of(message),
                   address = address_of(message), is_stop = message.rest.contains(stop_key),
                   is_held = message.held != nullptr, limit = limit_of(message, max_waiting_),
                   is_answer = message.answer.has_value(),
                   channel = channel_name(message.channel.value_or(""))](SqlBatch& batch) {
        // A session in which others have unfinished messages, or answers that are not sent yet, is theirs, or is taken with these, in
        // their order. So are those of this gateway of which it may not know. A request to stop has no order among the messages: the owner of the session stops its turn at
        // once. If the last turns were of this gateway, the end of one of them may still be written (D227), and the fence stays. The
        // owner is written also if it was this gateway: finish() of its last message, in the same transaction, has released the session. A
        // gateway that takes no records stores other messages for those that do (D293). Too many that wait for another one are refused here,
        // because the gateway that takes them cannot reject them (B14); one that is known is not.
        batch
            .add(
                "WITH s AS (SELECT owner, fence, $7 <> 0 AND owner = $2 OR $10 <> 0 AND NOT EXISTS"
                " (SELECT 1 FROM bub_delivery_inbound AS i WHERE i.session = $1 AND i.finished_at"
                " IS NULL AND (i.owner <> $2 OR $8 <> 0)) AND NOT EXISTS (SELECT 1 FROM"
                " bub_delivery_outbound AS o WHERE o.session = $1 AND " +
                std::string(is_being_sent_sql) +
                " AND (o.owner <> $2 OR $8 <> 0)) AS is_ours FROM bub_delivery_sessions WHERE key ="
                " $1), refused AS (SELECT 1 FROM s WHERE NOT is_ours AND $12 <= (SELECT count(*)"
                " FROM bub_delivery_inbound AS i WHERE i.session = $1 AND i.finished_at IS NULL AND"
                " i.state = 'waiting' AND ($13 = 0 OR " +
                std::string(is_answer_sql) +
                ")) AND NOT EXISTS (SELECT 1 FROM bub_delivery_inbound WHERE message_key = $6)),"
                " added AS (INSERT INTO bub_delivery_inbound (id, account, "
                "channel, session,"
                " owner, fence, state, message, message_key, address) SELECT"
                " nextval('bub_delivery_ids'), $3, $4, $1, CASE WHEN is_ours THEN $2 ELSE 0 END,"
                " CASE WHEN is_ours AND abs(owner) <> $2 THEN fence + 1 ELSE fence END, $11,"
                " $5, $6, $9 FROM s WHERE NOT EXISTS (SELECT 1 FROM refused) ON CONFLICT"
                " (message_key) DO NOTHING RETURNING id, owner,"
                " fence), taken AS (UPDATE bub_delivery_sessions AS t SET owner = a.owner, fence ="
                " a.fence FROM added AS a WHERE t.key = $1 AND a.owner <> 0 AND t.owner <> a.owner)"
                " SELECT a.id, a.fence, a.owner, s.owner, true FROM added AS a, s UNION ALL SELECT"
                " id, fence, owner, 0, false FROM bub_delivery_inbound WHERE message_key = $6 AND"
                " owner = $2 AND state IN ('expected', 'waiting', 'working') UNION ALL SELECT 0, 0,"
                " 0, 0, true FROM refused")
            .text(session)
            .integer(tables->number())
            .text(tables->options().account)
            .text(channel)
            .text(body)
            .text(key)
            .integer(is_stop ? 1 : 0)
            .integer(tables->may_have_lost() ? 1 : 0)
            .text(address)
            .integer(tables->takes_records() ? 1 : 0)
            .text(is_held ? "expected" : "waiting")
            .integer(limit)
            .integer(is_answer ? 1 : 0);
    };
    step->read = [id, owner, tables](const SqlResult& row) {
        if (row.rows() == 0) return;
        if (row.integer(0, 0) == 0)
            throw cubepi::Error(cubepi::ErrorCode::limit,
                                "too many messages of the session wait for another gateway");
        const std::string record = text_of({row.integer(0, 0), row.integer(0, 1)});
        const bool is_ours = row.integer(0, 2) != 0;
        // A record of this gateway that it does not know was stored by an earlier execution of the statement, or by a call that has
        // failed, whose records take() returns in their order.
        const bool is_new = row.boolean(0, 4) || (!tables->has_failed() && !tables->knows(record));
        if (is_ours && is_new) *id = record;
        if (!is_ours) *owner = std::abs(row.integer(0, 3));
    };
    step->stored = [id, owner, wakes, tables, session, key] {
        if (*id) tables->note(**id, session, key);
        // After the commit: in the transaction it would serialize those of all gateways.
        if (wakes && *owner > 0) wakes->wake(*owner);
    };
    co_await perform(step);
    co_return *id;
}

Task<std::string> PostgresDeliveryLog::adopt(StoredInbound record, std::string turn) {
    const std::shared_ptr<DeliveryTables> tables = tables_;
    auto id = std::make_shared<std::string>();
    auto step = std::make_shared<DeliveryWrite>();
    const Envelope& message = record.message;
    const std::string session = tables->session_key(message);
    step->sessions = {session};
    const std::string body = json_of(message);
    step->message_key = message_key(tables->options().account, message.channel.value_or(""),
                                    message.inbound_id.value_or(""));
    // One without an id of its platform is found by what another log has of it, if it is moved twice.
    if (step->message_key.empty())
        step->message_key = unnamed_key(tables->options().account,
                                        "moved\n" + record.id + "\n" + record.date + "\n" + body);
    std::string planned;
    if (!record.planned.empty()) planned = json_of(DeliveryRecords::planned(record.planned, {}));
    const std::string state = record.begun > 0 ? "working" : "waiting";
    const std::optional<RecordId> first = record_id(turn + ".0");
    step->write = [session, key = step->message_key, body, address = address_of(message),
                   channel = channel_name(message.channel.value_or("")),
                   account = tables->options().account, planned, state,
                   turn = first ? first->id : 0, begun = static_cast<std::int64_t>(record.begun),
                   answered = std::int64_t{record.answered},
                   all_sent = std::int64_t{record.all_sent}](SqlBatch& batch) {
        // It belongs to no gateway: the next one that takes the session takes it.
        batch
            .add(
                "WITH new AS (SELECT nextval('bub_delivery_ids') AS id), added AS (INSERT INTO"
                " bub_delivery_inbound (id, account, channel, session, owner, fence, state,"
                " message, message_key, address, begun, turn, answered, planned, all_sent) SELECT"
                " new.id, $2, $3, $1, 0, s.fence, $4, $5, $6, $7, $8, CASE WHEN $8 = 0 THEN 0 WHEN"
                " $9 <> 0 THEN $9 ELSE new.id END, $10 = 1, $11, $12 = 1 FROM new,"
                " bub_delivery_sessions AS s WHERE s.key = $1 ON CONFLICT (message_key) DO NOTHING"
                " RETURNING id) SELECT id FROM added UNION ALL SELECT id FROM bub_delivery_inbound"
                " WHERE message_key = $6")
            .text(session)
            .text(account)
            .text(channel)
            .text(state)
            .text(body)
            .text(key)
            .text(address)
            .integer(begun)
            .integer(turn)
            .integer(answered)
            .text_or_null(planned)
            .integer(all_sent);
    };
    step->read = [id](const SqlResult& row) {
        if (row.rows() > 0) *id = std::to_string(row.integer(0, 0));
    };
    co_await perform(step);
    co_return *id;
}

Task<> PostgresDeliveryLog::adopt(Delivery answer) {
    const std::shared_ptr<DeliveryTables> tables = tables_;
    auto step = std::make_shared<DeliveryWrite>();
    const std::string session = tables->session_key(answer.message);
    step->sessions = {session};
    const std::string body = json_of(answer.message);
    // Ids are unique in one log only. The mark stays when the answer is settled.
    const std::string origin =
        "moved " + cubepi::detail::sha256_hex(answer.id + "\n" + answer.date + "\n" + body);
    step->write = [session, body, origin, account = tables->options().account,
                   channel = channel_name(destination_of(answer.message)),
                   state = answer.is_held ? "held"
                           : answer.waits ? "waiting"
                                          : "intended",
                   resent = static_cast<std::int64_t>(answer.resent)](SqlBatch& batch) {
        batch
            .add(
                "INSERT INTO bub_delivery_outbound (id, account, channel, session, owner, fence,"
                " state, message, answers, resent, reason) SELECT nextval('bub_delivery_ids'), $2,"
                " $3, $1, 0, 0, $4, $5, '{}', $6, $7 WHERE NOT EXISTS (SELECT 1 FROM"
                " bub_delivery_outbound WHERE session = $1 AND reason = $7)")
            .text(session)
            .text(account)
            .text(channel)
            .text(state)
            .text(body)
            .integer(resent)
            .text(origin);
    };
    co_await perform(step);
}

Task<> PostgresDeliveryLog::adopt_finished(std::vector<Envelope> messages) {
    constexpr std::size_t most_together = 500;
    const std::shared_ptr<DeliveryTables> tables = tables_;
    for (std::size_t at = 0; at < messages.size(); at += most_together) {
        auto step = std::make_shared<DeliveryWrite>();
        std::vector<std::string> keys;
        std::vector<std::string> channels;
        std::vector<std::string> sessions;
        std::vector<std::string> addresses;
        std::vector<std::string> states;
        const std::size_t end = std::min(messages.size(), at + most_together);
        for (std::size_t i = at; i < end; ++i) {
            const Envelope& message = messages[i];
            keys.push_back(message_key(tables->options().account, message.channel.value_or(""),
                                       message.inbound_id.value_or("")));
            channels.push_back(channel_name(message.channel.value_or("")));
            sessions.push_back(tables->session_key(message));
            addresses.push_back(address_of(message));
            states.push_back(finished_state(cubepi::detail::text_member(message.rest, stop_key)));
        }
        // A transaction locks at least one session.
        step->sessions = {sessions.front()};
        step->write = [account = tables->options().account, keys, channels, sessions, addresses,
                       states](SqlBatch& batch) {
            batch
                .add(
                    "INSERT INTO bub_delivery_inbound (id, account, channel, session, owner, fence,"
                    " state, message_key, address, finished_at) SELECT"
                    " nextval('bub_delivery_ids'), $1, m.channel, m.session, 0, 0, m.state, m.key,"
                    " m.address, now() FROM unnest($2::text[], $3::text[], $4::text[], $5::text[],"
                    " $6::text[]) AS m (key, channel, session, address, state) WHERE m.key <> '' "
                    "ON CONFLICT"
                    " (message_key) DO NOTHING")
                .text(account)
                .texts(keys)
                .texts(channels)
                .texts(sessions)
                .texts(addresses)
                .texts(states);
        };
        co_await perform(step);
    }
}

/// Returns the call that records the note; null if this gateway has none of the records.
DeliveryWritePtr PostgresDeliveryLog::note(DeliveryNote note, const std::vector<std::string>& ids,
                                           const std::string& detail) {
    const std::shared_ptr<DeliveryTables> tables = tables_;
    const std::int64_t here = tables->number();
    RecordIds known;
    DeliveryWritePtr step = tables->write_about(ids, known);
    if (!step) return step;
    const bool is_of_turn = note == DeliveryNote::begun;
    const bool has_number = is_of_turn || note == DeliveryNote::put_back;
    const std::optional<RecordId> first = record_id(ids.front());
    std::string text;
    if (note == DeliveryNote::failed) append_json_string(text, detail);
    const std::int64_t mark = is_of_turn ? tables->next_mark(here, ids) : 0;
    Texts marks = note == DeliveryNote::put_back ? tables->marks_of(known.records) : Texts();
    step->write = [known, sql = statement_of(note, detail), has_number, is_of_turn, here, mark,
                   marks = std::move(marks), turn = first ? first->id : 0,
                   text = std::move(text)](SqlBatch& batch) {
        cubepi::detail::SqlQuery& change = batch.add(sql).texts(known.ids).texts(known.fences);
        if (has_number) change.integer(here);
        if (is_of_turn) change.integer(turn).integer(mark);
        if (!marks.empty()) change.texts(marks);
        if (!text.empty()) change.text(text);
    };
    step->read = check_fence;
    if (is_of_turn) {
        step->read = [tables, mark, session = step->sessions.front(), ids](const SqlResult& row) {
            check_fence(row);
            if (row.rows() > 0) tables->note_turn(session, ids, mark, row.integer(0, 1));
        };
    }
    // Its message may be finished with it, and needs no note of the answer then.
    step->is_last = note == DeliveryNote::sent;
    const bool is_end = note == DeliveryNote::finished || note == DeliveryNote::left ||
                        note == DeliveryNote::sent || note == DeliveryNote::failed;
    if (!is_end) return step;
    step->stored = [tables, ids, ends = ends_, wakes = wakes_,
                    keys = tables->keys_of(ids, note == DeliveryNote::finished)] {
        tables->forget(ids);
        for (const std::string& key : keys) {
            ends->end(key);
            // After the commit, as in receive().
            if (wakes) wakes->announce_end(key);
        }
    };
    return step;
}

Task<> PostgresDeliveryLog::record(DeliveryNote note, std::vector<std::string> ids,
                                   std::string detail) {
    return perform(this->note(note, ids, detail));
}

/// The end of the turn, or its next output, is recorded after it, in the same transaction (D272).
Task<> PostgresDeliveryLog::sent_soon(std::string id) {
    const std::vector<std::string> ids(1, std::move(id));
    DeliveryWritePtr step = note(DeliveryNote::sent, ids, {});
    if (step) tables_->enqueue(step);
    return complete_soon(std::move(step));
}

Task<> PostgresDeliveryLog::complete_soon(DeliveryWritePtr write) {
    const std::shared_ptr<DeliveryTables> tables = tables_;
    if (!write) co_return;
    const std::chrono::nanoseconds longest_wait = tables->options().poll / 10;
    co_await tables->store()->options().runtime->clock->sleep_for(longest_wait);
    co_await complete(std::move(write));
}

void PostgresDeliveryLog::announce_end(const Envelope& address) {
    const std::string key = message_key(tables_->options().account, address.channel.value_or(""),
                                        address.inbound_id.value_or(""));
    ends_->end(key);
    if (wakes_ && !key.empty()) wakes_->announce_end(key);
}

Task<bool> PostgresDeliveryLog::wait_finished(Envelope address, std::chrono::milliseconds limit) {
    const std::shared_ptr<DeliveryTables> tables = tables_;
    const std::shared_ptr<EndWaits> ends = ends_;
    cubepi::Clock& clock = *tables->store()->options().runtime->clock;
    const std::string key = message_key(tables->options().account, address.channel.value_or(""),
                                        address.inbound_id.value_or(""));
    const cubepi::Executor executor = co_await cubepi::this_executor;
    const std::shared_ptr<cubepi::AsyncEvent> event = ends->begin(key, executor, clock.now());
    const std::shared_ptr<const void> waiting(nullptr,
                                              [ends, key](const void*) { ends->leave(key); });
    const auto end = cubepi::deadline_after(clock.now(), limit);
    (void)co_await cubepi::detail::run_until(clock, end, event->wait());
    bool is_over = ends->has_ended(key);
    const auto keys = is_over ? std::nullopt : ends->due(clock.now(), tables->options().poll);
    if (keys) {
        SqlBatch reads;
        reads
            .add(
                "SELECT message_key FROM bub_delivery_inbound WHERE message_key = ANY($1::text[])"
                " AND finished_at IS NULL")
            .texts(*keys);
        const SqlResults results = co_await tables->store()->read(std::move(reads));
        std::set<std::string> over(keys->begin(), keys->end());
        for (int row = 0; row < results[0].rows(); ++row) over.erase(results[0].string(row, 0));
        for (const std::string& one : over) ends->end(one);
        is_over = over.contains(key);
    }
    // If its state is not the last one, the next wait looks for it from scratch.
    if (is_over) ends->forget(key);
    co_return is_over;
}

Task<std::vector<StoredInbound>> PostgresDeliveryLog::unfinished() {
    const std::shared_ptr<DeliveryTables> tables = tables_;
    SqlBatch reads;
    tables->select_inbounds(reads);
    const SqlResults results = co_await tables->store()->read(std::move(reads));
    co_return read_inbounds(results[0], nullptr);
}

Task<std::optional<KnownInbound>> PostgresDeliveryLog::find(std::string channel,
                                                            std::string inbound_id) {
    const std::shared_ptr<DeliveryTables> tables = tables_;
    std::optional<KnownInbound> found;
    SqlBatch reads;
    reads
        .add(
            "SELECT id, fence, coalesce(message, address), finished_at IS NOT NULL, state ="
            " 'working' AND owner > 0 AND owner <> $2, state, coalesce(finished_at > now() -"
            " interval '5 seconds', false) FROM bub_delivery_inbound WHERE message_key = $1")
        .text_or_null(message_key(tables->options().account, channel, inbound_id))
        .integer(tables->number());
    const SqlResults results = co_await tables->store()->read(std::move(reads));
    const SqlResult& row = results[0];
    if (row.rows() == 0) co_return found;
    found.emplace();
    if (!row.boolean(0, 3)) found->id = text_of({row.integer(0, 0), row.integer(0, 1)});
    found->runs_elsewhere = row.boolean(0, 4);
    const Json json = cubepi::parse_lenient(row.text(0, 2));
    if (json.is_object()) found->message = from_stored_form(json.get_object());
    const std::string state = row.string(0, 5);
    JsonObject& rest = found->message.rest;
    if (is_stop_result(state) && rest.contains(stop_key)) {
        rest[stop_key] = state;
    } else if (state == stop_succeeded) {
        rest[turn_stopped_key] = row.boolean(0, 6);
    }
    co_return found;
}

Task<bool> PostgresDeliveryLog::has_unfinished(Envelope address) {
    const std::shared_ptr<DeliveryTables> tables = tables_;
    SqlBatch reads;
    reads
        .add(
            // Those that wait for a decision are not processed: see needs_decision(). Nor are those whose turns are held back.
            "SELECT EXISTS (SELECT 1 FROM bub_delivery_inbound AS i WHERE session = $1 AND"
            " finished_at IS NULL AND state <> 'expected' AND begun < 2 + (SELECT count(*) FROM"
            " bub_delivery_gateways AS g WHERE g.number = ANY(i.begun_by) AND g.lease_until >"
            " clock_timestamp()))")
        .text(tables->session_key(address));
    const SqlResults results = co_await tables->store()->read(std::move(reads));
    co_return results[0].boolean(0, 0);
}

Task<> PostgresDeliveryLog::plan(std::vector<TurnOutput> outputs,
                                 std::vector<std::string> answers) {
    if (answers.size() > 1) answers.resize(1);
    RecordIds known;
    DeliveryWritePtr step = tables_->write_about(answers, known);
    if (step) {
        step->write = [known,
                       plan = json_of(DeliveryRecords::planned(outputs, {}))](SqlBatch& batch) {
            batch
                .add(mine_sql(inbound) +
                     ", changed AS (UPDATE bub_delivery_inbound AS r SET planned = $3, next_output"
                     " = 0 FROM mine WHERE r.id = ANY($1::text[]::bigint[]) AND r.id = mine.id AND"
                     " mine.is_open AND " +
                     all_hold_sql + ")" + select_holds_sql)
                .texts(known.ids)
                .texts(known.fences)
                .text(plan);
        };
        step->read = check_fence;
    }
    return perform(std::move(step));
}

Task<std::string> PostgresDeliveryLog::intend_output(TurnOutput output,
                                                     std::vector<std::string> answers) {
    const std::shared_ptr<DeliveryTables> tables = tables_;
    RecordIds known;
    DeliveryWritePtr step = tables->write_about(answers, known);
    if (!step) {
        step = std::make_shared<DeliveryWrite>();
        step->sessions = {tables->session_key(output.message)};
    }
    const std::string session = step->sessions.front();
    auto id = std::make_shared<std::string>();
    step->stores_answer = true;
    if (!answers.empty()) step->answered = answers.front();
    // The step outlives the call of its function.
    step->write = [id, tables, session, known, body = json_of(output.message),
                   is_answer = is_answer(output.message) && !known.ids.empty(),
                   channel = channel_name(destination_of(output.message)), index = output.index,
                   count = output.count, call = step.get()](SqlBatch& batch) {
        const RecordId record{call->answer, 0};
        *id = text_of(record);
        const bool is_output = is_answer && count > 0;
        const std::string outputs =
            ", noted AS (UPDATE bub_delivery_inbound AS r SET next_output = greatest(next_output,"
            " $9), all_sent = $10 <> 0 FROM mine WHERE r.id = mine.id AND r.id ="
            " ($1::text[])[1]::bigint AND mine.is_open AND " +
            std::string(all_hold_sql) + ")";
        cubepi::detail::SqlQuery& insertion =
            batch
                .add(mine_sql(inbound) +
                     ", added AS (INSERT INTO bub_delivery_outbound (id, account, channel, session,"
                     " owner, fence, state, message, answers) SELECT $3, $4, $5, $6, $7, 0,"
                     " 'intended', $8, " +
                     (is_answer ? "$1::text[]::bigint[]" : "'{}'") + " WHERE " + all_hold_sql +
                     " ON CONFLICT (id) DO NOTHING)" + (is_output ? outputs : "") +
                     select_holds_sql)
                .texts(known.ids)
                .texts(known.fences)
                .integer(record.id)
                .text(tables->options().account)
                .text(channel)
                .text(session)
                .integer(tables->number())
                .text(body);
        if (!is_output) return;
        insertion.integer(static_cast<std::int64_t>(index) + 1).integer(index + 1 == count ? 1 : 0);
    };
    step->read = check_fence;
    step->stored = [id, tables, session] { tables->note(*id, session); };
    Task<> writing = perform(step);
    const cubepi::Outcome<> written = co_await cubepi::outcome_of(std::move(writing));
    if (written.cancelled()) {
        // The caller no longer waits for the answer to be recorded, so it will not be sent.
        auto withdrawal = std::make_shared<DeliveryWrite>();
        withdrawal->sessions = {session};
        withdrawal->write = [step](SqlBatch& batch) {
            batch
                .add(
                    "UPDATE bub_delivery_outbound SET state = 'failed', settled_at = now(), message"
                    " = NULL WHERE id = $1 AND settled_at IS NULL")
                .integer(step->answer);
        };
        withdrawal->stored = [id, tables] { tables->forget({*id}); };
        tables->enqueue(withdrawal);
        thread_.post([tables] { tables->flush(); });
    }
    written.rethrow();
    co_return *id;
}

std::optional<TurnLease> PostgresDeliveryLog::lease(const std::vector<std::string>& ids) const {
    return tables_->lease(ids);
}

Task<std::vector<Delivery>> PostgresDeliveryLog::unsettled() {
    const std::shared_ptr<DeliveryTables> tables = tables_;
    SqlBatch reads;
    tables->select_answers(reads);
    const SqlResults results = co_await tables->store()->read(std::move(reads));
    co_return read_answers(results[0], nullptr);
}

void PostgresDeliveryLog::serve(std::vector<std::string> channels) {
    for (std::string& name : channels) name = channel_name(std::move(name));
    tables_->serve(std::move(channels));
}

Task<UnfinishedRecords> PostgresDeliveryLog::take() {
    const std::shared_ptr<DeliveryTables> tables = tables_;
    auto work = [tables, barrier = barrier_of(tables)] {
        return tables->exclusively(barrier, [tables] { return tables->take(); });
    };
    Task<UnfinishedRecords> taking = cubepi::offload(thread_, std::move(work));
    UnfinishedRecords records = co_await std::move(taking);
    check_notifications();
    co_return records;
}

void PostgresDeliveryLog::begin_take(std::function<void()> ended) {
    const std::shared_ptr<Taking> taking = taking_;
    {
        const std::lock_guard lock(taking->mutex);
        // After release() they belong to no gateway, and are taken once more.
        if (taking->number != tables_->number()) taking->result.reset();
        if (taking->is_running || taking->result) return;
        taking->is_running = true;
    }
    thread_.post(
        [tables = tables_, taking, barrier = barrier_of(tables_), ended = std::move(ended)] {
            cubepi::Outcome<UnfinishedRecords> outcome{std::exception_ptr()};
            try {
                UnfinishedRecords records = tables->exclusively(barrier, [&tables] {
                    tables->set_handing_over(true);
                    return tables->take();
                });
                outcome = cubepi::Outcome<UnfinishedRecords>(std::move(records));
            } catch (...) {
                outcome = cubepi::Outcome<UnfinishedRecords>(std::current_exception());
            }
            {
                const std::lock_guard lock(taking->mutex);
                taking->result.emplace(std::move(outcome));
                taking->number = tables->number();
                taking->is_running = false;
            }
            ended();
        });
    check_notifications();
}

void PostgresDeliveryLog::check_notifications() {
    if (!wakes_) return;
    thread_.post([tables = tables_, wakes = wakes_] {
        wakes->check(*tables->store(), tables->options().poll);
    });
}

std::string PostgresDeliveryLog::notification_problem() const {
    return wakes_ ? wakes_->problem() : std::string();
}

std::optional<cubepi::Outcome<UnfinishedRecords>> PostgresDeliveryLog::taken() {
    const std::lock_guard lock(taking_->mutex);
    return std::exchange(taking_->result, std::nullopt);
}

void PostgresDeliveryLog::handed_over() { tables_->set_handing_over(false); }

void PostgresDeliveryLog::wake(cubepi::Executor executor,
                               const std::shared_ptr<cubepi::AsyncEvent>& event) {
    if (wakes_) wakes_->add(std::move(executor), event);
}

std::optional<std::chrono::nanoseconds> PostgresDeliveryLog::poll_interval() const {
    return tables_->options().poll;
}

Task<> PostgresDeliveryLog::release() {
    const std::shared_ptr<DeliveryTables> tables = tables_;
    auto work = [tables, barrier = barrier_of(tables)] {
        tables->exclusively(barrier, [tables] { tables->release(); });
    };
    co_await cubepi::offload(thread_, std::move(work));
}

}  // namespace bub
