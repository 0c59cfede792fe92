#include "cluster_records.hpp"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include <bub/channel/http/http_exchange.hpp>
#include <bub/channel/telegram/message_sender.hpp>
#include <bub/tape/postgres_tape_store.hpp>
#include <bub/tape/tape_context.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/core/run.hpp>

namespace cubepi::cluster_tests {

namespace {

std::string last_line(const std::string& text) { return text.substr(text.rfind('\n') + 1); }

std::vector<TapeText> texts_of(const std::vector<bub::TapeEntry>& entries) {
    std::vector<TapeText> texts;
    const MessageList messages = bub::agent_messages(entries);
    std::size_t last_of_user = 0;
    for (const Message& message : messages) {
        const std::string text = message.text();
        if (message.role() == Role::tool_result) {
            const bool is_unknown = text.find(interrupted_call_text) != std::string::npos;
            if (is_unknown && last_of_user < texts.size()) texts[last_of_user].is_unknown = true;
            continue;
        }
        // The text that was shown of an interrupted answer is not an answer.
        const AssistantMessage* const answer = message.assistant();
        if (text.empty() || (answer && answer->stop_reason == stop_reason::aborted)) continue;
        TapeText& one = texts.emplace_back();
        one.is_of_user = message.role() == Role::user;
        one.text = last_line(text);
        one.is_late = text.find("[This message is late") != std::string::npos;
        if (one.is_of_user) last_of_user = texts.size() - 1;
    }
    return texts;
}

std::vector<std::int64_t> numbers_of(const std::string& list) {
    std::vector<std::int64_t> numbers;
    std::istringstream words(list);
    std::string word;
    while (std::getline(words, word, ',')) numbers.push_back(std::stoll(word));
    return numbers;
}

/// Returns the rows of each message, by its key.
std::map<std::string, std::vector<const InboundRow*>> rows_by_key(const std::vector<Posted>& posted,
                                                                  const ClusterRecords& records) {
    std::map<std::string, std::string> keys;  // by id
    for (const Posted& message : posted)
        keys[bub::detail::message_id(message.user, message.key)] = message.key;
    std::map<std::string, std::vector<const InboundRow*>> rows;
    for (const InboundRow& row : records.inbound) rows[keys[row.message]].push_back(&row);
    return rows;
}

/// The findings about one cluster.
class Check {
public:
    Check(const std::vector<Posted>& posted, const ClusterRecords& records)
        : posted_(posted), records_(records), rows_(rows_by_key(posted, records)) {
        for (const Posted& message : posted) by_text_[message.text] = &message;
        for (const OutboundRow& row : records.outbound) {
            for (const std::int64_t id : row.answers) ++answers_[id];
        }
    }

    std::vector<std::string> run() {
        check_tapes();
        if (records_.chats) check_chats(*records_.chats);
        for (const Posted& message : posted_) check_message(message);
        for (const OutboundRow& row : records_.outbound) {
            if (row.state != "sent" && row.state != "failed")
                add("the answer " + std::to_string(row.id) + " is " + row.state +
                    " and has no receipt");
        }
        return std::move(findings_);
    }

private:
    void add(std::string finding) { findings_.push_back(std::move(finding)); }

    void check_tapes() {
        for (const auto& [name, texts] : records_.tapes) {
            std::set<std::string> sessions;
            std::int64_t last = 0;
            for (const TapeText& one : texts) {
                const auto found = by_text_.find(one.text);
                if (!one.is_late || found == by_text_.end() || !was_held(*found->second))
                    ++counts_[one.text];
                if (!one.is_of_user || found == by_text_.end()) continue;
                sessions.insert(found->second->session);
                if (one.is_unknown) unknown_.insert(found->second->key);
                if (one.is_late) late_.insert(found->second->key);
                const auto row = rows_.find(found->second->key);
                // One that is held may have been held before its turn was on the tape.
                if (one.is_late || row == rows_.end() || was_held(*found->second)) continue;
                const std::int64_t id = row->second.front()->id;
                if (id < last) add(found->second->key + " is not in the order of arrival");
                last = id;
            }
            if (sessions.size() > 1) add("the tape " + name + " has several sessions");
        }
    }

    /// Returns the message that a text of a bot answers, null for other texts: notices, and what was shown of an answer.
    const Posted* answered_by(const std::string& text, bool& is_marked) const {
        constexpr std::string_view mark = bub::telegram::resent_mark;
        constexpr std::string_view answer = "re: ";
        is_marked = text.starts_with(mark);
        const std::string plain = is_marked ? text.substr(mark.size()) : text;
        const auto found =
            plain.starts_with(answer) ? by_text_.find(plain.substr(answer.size())) : by_text_.end();
        return found == by_text_.end() ? nullptr : found->second;
    }

    void check_chats(const std::map<std::string, std::vector<std::string>>& chats) {
        std::map<std::string, std::size_t> plain;   // by key
        std::map<std::string, std::size_t> marked;  // by key
        bool is_marked = false;
        for (const auto& [session, texts] : chats) {
            for (const std::string& text : texts) {
                const Posted* const message = answered_by(text, is_marked);
                if (!message) continue;
                ++(is_marked ? marked : plain)[message->key];
                if (message->session != session)
                    add(message->key + " is answered in the chat " + session);
            }
        }
        for (const auto& [session, texts] : chats) {
            std::int64_t last = 0;
            for (const std::string& text : texts) {
                const Posted* const message = answered_by(text, is_marked);
                if (!message || marked[message->key] > 0 || late_.contains(message->key)) continue;
                const auto row = rows_.find(message->key);
                if (row == rows_.end() || was_held(*message)) continue;
                const std::int64_t id = row->second.front()->id;
                if (id < last) add(message->key + " is not answered in the order of arrival");
                last = id;
            }
        }
        for (const Posted& message : posted_) {
            const std::size_t unmarked = plain[message.key];
            if (unmarked > 1)
                add(message.key + " is answered " + std::to_string(unmarked) +
                    " times without a mark");
            if (unmarked + marked[message.key] == 0)
                add(message.key + " has no answer in its chat");
        }
    }

    bool was_held(const Posted& message) const {
        const auto rows = rows_.find(message.key);
        if (rows == rows_.end()) return false;
        const InboundRow& row = *rows->second.front();
        return row.is_held || records_.released.contains(row.id);
    }

    void check_message(const Posted& message) {
        const auto rows = rows_.find(message.key);
        const std::size_t count = rows == rows_.end() ? 0 : rows->second.size();
        expect(count, message.key, "records");
        for (std::size_t at = 0; at < count; ++at) {
            const InboundRow& row = *rows->second[at];
            if (!row.is_finished) add(message.key + " waits");
            expect(answers_[row.id], message.key, "answers with a receipt of their own");
        }
        expect(counts_[message.text], message.key, "turns on its tape");
        expect(counts_["re: " + message.text], message.key, "answers on its tape");
        const auto found = records_.effects.find(message.key);
        const int effects = found == records_.effects.end() ? 0 : found->second;
        if (effects > 1) add(message.key + " had its effect " + std::to_string(effects) + " times");
        if (message.has_effect && effects == 0 && !unknown_.contains(message.key))
            add(message.key + " had no effect, and the tape does not say that it is unknown");
    }

    void expect(std::size_t count, const std::string& key, std::string_view what) {
        if (count != 1)
            add(key + " has " + std::to_string(count) + " " + std::string(what) + " and not 1");
    }

    const std::vector<Posted>& posted_;
    const ClusterRecords& records_;
    std::map<std::string, const Posted*> by_text_;
    std::map<std::string, std::vector<const InboundRow*>> rows_;  // by key
    std::map<std::int64_t, std::size_t> answers_;                 // by id of a received message
    std::map<std::string, std::size_t> counts_;                   // of texts on all tapes
    std::set<std::string> unknown_;                               // keys
    std::set<std::string> late_;                                  // keys
    std::vector<std::string> findings_;
};

}  // namespace

namespace {

/// Adds the records of a database, to whose ids `first` is added.
void read_database(const std::string& database, std::int64_t first, ClusterRecords& records) {
    RawPostgres server(database);
    const std::vector<std::string> inbound = server.query(
        std::string("SELECT id, address::json ->> 'inbound_id', finished_at IS NOT NULL, ") +
        is_held_sql +
        ", format('%s, owner %s, fence %s, begun %s by %s, received %s, finished %s', state, owner,"
        " fence, begun, begun_by, received_at::time, finished_at::time) || coalesce((SELECT"
        " string_agg(format('; taken by %s at %s with fence %s, begun %s by %s, of which %s live',"
        " t.owner, t.at::time, t.fence, t.begun, t.begun_by, t.outlived), '' ORDER BY t.at) FROM"
        " judge_takes AS t WHERE t.id = i.id), '') FROM bub_delivery_inbound AS i ORDER BY id");
    for (std::size_t at = 0; at + 4 < inbound.size(); at += 5) {
        InboundRow& row = records.inbound.emplace_back();
        row.id = first + std::stoll(inbound[at]);
        row.message = inbound[at + 1];
        row.is_finished = inbound[at + 2] == "t";
        row.is_held = inbound[at + 3] == "t";
        row.details = inbound[at + 4];
    }
    const std::vector<std::string> outbound = server.query(
        "SELECT id, array_to_string(answers, ','), state FROM bub_delivery_outbound ORDER BY id");
    for (std::size_t at = 0; at + 2 < outbound.size(); at += 3) {
        OutboundRow& row = records.outbound.emplace_back();
        row.id = first + std::stoll(outbound[at]);
        row.answers = numbers_of(outbound[at + 1]);
        for (std::int64_t& answered : row.answers) answered += first;
        row.state = outbound[at + 2];
    }
    PostgresOptions options;
    options.connection = database;
    bub::PostgresTapeStore tapes(std::move(options));
    const std::vector<std::string> names = cubepi::run(tapes.all_tapes());
    for (const std::string& name : names) {
        if (name.starts_with("idle__")) continue;
        const std::vector<bub::TapeEntry> entries =
            cubepi::run(tapes.fetch(name, bub::TapeQuery()));
        // Also a tape that is in two databases counts twice.
        records.tapes[name + "@" + std::to_string(first)] = texts_of(entries);
    }
}

}  // namespace

void record_takes(const std::string& database) {
    RawPostgres server(database);
    (void)server.query(
        "CREATE TABLE judge_takes (id bigint, owner bigint, fence bigint, begun bigint, begun_by"
        " bigint[], outlived bigint, at timestamptz)");
    (void)server.query(
        "CREATE FUNCTION judge_take() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO"
        " judge_takes SELECT NEW.id, NEW.owner, NEW.fence, NEW.begun, NEW.begun_by, (SELECT"
        " count(*) FROM bub_delivery_gateways WHERE number = ANY(NEW.begun_by) AND lease_until >"
        " clock_timestamp()), clock_timestamp(); RETURN NULL; END $$");
    // Only a statement that takes messages changes their fences.
    (void)server.query(
        "CREATE TRIGGER judge_take AFTER UPDATE OF fence ON bub_delivery_inbound FOR EACH ROW"
        " EXECUTE FUNCTION judge_take()");
}

ClusterRecords read_records(const std::vector<std::string>& databases,
                            const std::filesystem::path& effects) {
    ClusterRecords records;
    std::int64_t first = 0;
    for (const std::string& database : databases) {
        read_database(database, first, records);
        first += distance_of_ids;
    }
    std::ifstream file(effects);
    std::string key;
    while (std::getline(file, key)) ++records.effects[key];
    return records;
}

std::vector<std::string> findings(const std::vector<Posted>& posted,
                                  const ClusterRecords& records) {
    return Check(posted, records).run();
}

std::string details_of(const std::vector<std::string>& found, const std::vector<Posted>& posted,
                       const ClusterRecords& records) {
    std::set<std::string> keys;
    for (const std::string& finding : found) keys.insert(finding.substr(0, finding.find(' ')));
    std::map<std::string, std::string> key_of;  // by text
    for (const Posted& message : posted) key_of[message.text] = message.key;
    std::string details;
    std::set<std::string> shown;  // keys
    for (const auto& [name, texts] : records.tapes) {
        std::string lines;
        std::set<std::string> on_tape;
        for (const TapeText& one : texts) {
            lines += "  " + std::string(one.is_of_user ? "user: " : "model: ") + one.text +
                     (one.is_late ? " (late)" : "") + (one.is_unknown ? " (unknown)" : "") + "\n";
            const auto key = key_of.find(one.text);
            if (key != key_of.end()) on_tape.insert(key->second);
        }
        const bool is_found = std::any_of(on_tape.begin(), on_tape.end(),
                                          [&](const auto& key) { return keys.contains(key); });
        if (!is_found) continue;
        details += "tape " + name + "\n" + lines;
        shown.merge(on_tape);
    }
    shown.merge(keys);
    for (const auto& [key, rows] : rows_by_key(posted, records))
        for (const InboundRow* const row : rows)
            if (shown.contains(key))
                details += key + " is " + std::to_string(row->id) + ": " + row->details + "\n";
    return details;
}

}  // namespace cubepi::cluster_tests
