#include <bub/tape/fork/turn_journal.hpp>

#include <algorithm>
#include <exception>
#include <set>
#include <utility>

#include <unistd.h>

#include <bub/tape/entry/entry_fields.hpp>
#include <bub/tape/entry/message_entries.hpp>
#include <bub/tape/search/query_filter.hpp>
#include <bub/tape/support/encoding.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/provider/answer_end.hpp>
#include <cubepi/schema/python_json.hpp>

namespace bub::detail {

using cubepi::detail::integer_member;
using cubepi::detail::object_member;
using cubepi::detail::string_member;
using cubepi::detail::text_member;

namespace {

std::string line_of(const JsonObject& object) {
    std::string line;
    append_json_text(line, object);
    line += '\n';
    return line;
}

/// Returns `{KEY: the line of ENTRY}` without building the entry's JSON again.
std::string wrapped_line(std::string before, const TapeEntry& entry) {
    std::string line = tape_line(entry);
    line.pop_back();
    return std::move(before) + line + "}\n";
}

std::optional<TapeEntry> entry_at(const JsonObject& line, std::string_view key) {
    const JsonObject* entry = object_member(line, key);
    return entry ? entry_of_json(*entry) : std::nullopt;
}

void read_line(JournaledTurn& turn, const JsonObject& line) {
    if (std::optional<TapeEntry> entry = entry_at(line, "behind")) {
        turn.behind.push_back(std::move(*entry));
    } else if (const JsonObject* claim = object_member(line, "claim")) {
        turn.claims.push_back(
            TapeClaim{text_member(*claim, "run_id"), text_member(*claim, "owner_id")});
        turn.after = integer_member(line, "after").value_or(turn.after);
    } else if (const Json* id = line.if_contains("turn"); id && id->is_string()) {
        turn.id = std::string(id->get_string());
        if (const JsonObject* lease = object_member(line, "lease"))
            turn.lease = TurnLease{text_member(*lease, "session"),
                                   integer_member(*lease, "fence").value_or(0)};
    } else if (const Json* text = line.if_contains("text"); text && text->is_string()) {
        turn.partial_text += std::string_view(text->get_string());
    } else if (line.contains("reset")) {
        turn.reset = true;
        turn.entries.clear();
    }
}

}  // namespace

bool is_answer(const TapeEntry& entry) {
    if (entry.kind == entry_kind::tool_call) return true;
    if (entry.kind != entry_kind::message) return false;
    return string_member(entry.payload, "role") == "assistant";
}

namespace {

bool ends_run(const cubepi::AssistantMessage& answer) {
    return !answer.has_tool_calls() && !cubepi::is_paused(answer) &&
           answer.stop_reason != cubepi::stop_reason::error &&
           answer.stop_reason != cubepi::stop_reason::aborted;
}

/// Returns true if the messages of the turn end with the answer that ended the run of the event. A run that reached a limit, or that a
/// tool has ended, has none: only its event says that it is over.
bool ends_with_answer(const std::vector<TapeEntry>& entries, const TapeEntry& event) {
    const auto last = std::find_if(entries.rbegin(), entries.rend(), [](const TapeEntry& entry) {
        return entry.kind != entry_kind::event || is_single_result(entry);
    });
    if (last == entries.rend() || last->kind != entry_kind::message || !is_answer(*last))
        return false;
    const std::vector<cubepi::Message> messages = messages_in(*last);
    const cubepi::AssistantMessage* answer =
        messages.empty() ? nullptr : messages.back().assistant();
    // An answer without a message was not made by the agent.
    if (!answer) return messages.empty();
    const JsonObject* data = object_member(event.payload, "data");
    return data && answer->run_id == string_member(*data, "run_id") && ends_run(*answer);
}

/// Returns true for an answer of the agent on which nothing outside of the turn depends yet: no tool is called.
bool is_last_answer(const TapeEntry& entry) {
    if (entry.kind != entry_kind::message || !is_answer(entry)) return false;
    const std::vector<cubepi::Message> messages = messages_in(entry);
    const cubepi::AssistantMessage* answer =
        messages.empty() ? nullptr : messages.back().assistant();
    return answer && ends_run(*answer);
}

}  // namespace

JournalTime journal_time(const std::vector<TapeEntry>& entries,
                         const std::vector<TapeEntry>& before) {
    const bool has_answer = std::any_of(entries.begin(), entries.end(), is_last_answer);
    const bool may_wait = std::all_of(entries.begin(), entries.end(), [&](const TapeEntry& entry) {
        if (entry.kind != entry_kind::event) return has_answer && is_last_answer(entry);
        const std::string_view name = entry_name(entry);
        const bool is_extra = name == extra_event || name == extra_changes_event;
        return name == step_event || (is_extra && has_answer) ||
               (name == run_event && ends_with_answer(before, entry));
    });
    if (!may_wait) return JournalTime::at_once;
    return has_answer ? JournalTime::like_text : JournalTime::later;
}

std::string journal_head(const std::string& turn_id, std::chrono::system_clock::time_point started,
                         const std::optional<TurnLease>& lease) {
    JsonObject head;
    head["turn"] = turn_id;
    head["pid"] = static_cast<std::int64_t>(::getpid());
    head["started"] = tape_date(started);
    if (lease) {
        JsonObject fields;
        fields["session"] = lease->session;
        fields["fence"] = lease->fence;
        head["lease"] = std::move(fields);
    }
    return line_of(head);
}

JournaledTurn read_journal(std::string_view text) {
    JournaledTurn turn;
    while (!text.empty()) {
        const std::size_t feed = text.find('\n');
        if (feed == text.npos) break;
        const std::string_view line = text.substr(0, feed);
        text.remove_prefix(feed + 1);
        if (std::optional<TapeEntry> entry = read_tape_line(line)) {
            if (is_answer(*entry)) turn.partial_text.clear();
            turn.entries.push_back(std::move(*entry));
            continue;
        }
        try {
            const Json json = cubepi::parse_lenient(line);
            if (const JsonObject* object = json.if_object()) read_line(turn, *object);
        } catch (const cubepi::Error&) {
            continue;
        }
    }
    return turn;
}

namespace {

std::string call_id_of(const Json& message) {
    const JsonObject* object = message.if_object();
    return object ? text_member(*object, "tool_call_id") : std::string();
}

/// Returns true if the first messages of the entries are results: their calls are those of an earlier turn.
bool begins_with_results(const std::vector<TapeEntry>& entries) {
    const auto first = std::find_if(entries.begin(), entries.end(), [](const TapeEntry& entry) {
        return entry.kind != entry_kind::anchor &&
               (entry.kind != entry_kind::event || is_single_result(entry));
    });
    return first != entries.end() && first->kind != entry_kind::message &&
           first->kind != entry_kind::tool_call;
}

/// Moves a hand-off made by one of several calls after their results. Until they have arrived, the hand-off is held (MessageEntries).
std::vector<TapeEntry> anchors_behind_results(std::vector<TapeEntry> entries) {
    std::vector<TapeEntry> ordered;
    std::vector<TapeEntry> late;
    ordered.reserve(entries.size());
    bool open = begins_with_results(entries);
    bool holds = open;
    const auto end_batch = [&] {
        for (TapeEntry& entry : late) ordered.push_back(std::move(entry));
        late.clear();
        open = false;
    };
    for (TapeEntry& entry : entries) {
        const bool calls = entry.kind == entry_kind::tool_call;
        const bool results = entry.kind == entry_kind::tool_result;
        const bool handoff =
            is_anchor(entry) || (entry.kind == entry_kind::event && entry_name(entry) == "handoff");
        if (open && handoff) {
            late.push_back(std::move(entry));
            continue;
        }
        if (calls || entry.kind == entry_kind::message) end_batch();
        if (calls) {
            open = true;
            holds = stored_messages(entry) != nullptr;
        }
        ordered.push_back(std::move(entry));
        if (results) end_batch();
    }
    if (!holds) end_batch();
    for (TapeEntry& entry : late) {
        if (!is_anchor(entry)) continue;
        TapeEntry held = event_entry(held_anchor_event, std::move(entry.payload),
                                     hidden_from_context(std::move(entry.meta)));
        held.date = std::move(entry.date);
        ordered.push_back(std::move(held));
    }
    return ordered;
}

}  // namespace

std::vector<TapeEntry> mergeable(const std::vector<TapeEntry>& entries) {
    std::vector<TapeEntry> merged;
    std::set<std::string> in_batch;
    TapeEntry* batch = nullptr;
    std::vector<TapeEntry> reversed(entries.rbegin(), entries.rend());
    std::int64_t dropped = 0;
    const auto end_batch = [&] {
        if (batch && dropped > 0) {
            JsonObject& ours = batch->meta.at(meta_key).get_object();
            ours["count"] = dropped + integer_member(ours, "count").value_or(0);
        }
        batch = nullptr;
        dropped = 0;
        in_batch.clear();
    };
    merged.reserve(reversed.size());
    for (TapeEntry& entry : reversed) {
        const JsonArray* messages = stored_messages(entry);
        const bool single = entry.kind == entry_kind::event && entry_name(entry) == result_event &&
                            messages && !messages->empty();
        if (single && in_batch.contains(call_id_of(messages->front()))) {
            ++dropped;
            continue;
        }
        if (entry.kind == entry_kind::tool_call) end_batch();
        merged.push_back(std::move(entry));
        if (merged.back().kind == entry_kind::tool_result && stored_messages(merged.back())) {
            end_batch();
            batch = &merged.back();
            for (const Json& message : *stored_messages(merged.back()))
                in_batch.insert(call_id_of(message));
        }
    }
    end_batch();
    std::reverse(merged.begin(), merged.end());
    return anchors_behind_results(std::move(merged));
}

std::size_t first_anchor_in(const std::vector<TapeEntry>& entries) {
    if (entries.empty() || !is_anchor(entries[0], bootstrap_anchor)) return 0;
    const bool has_event = entries.size() > 1 && entries[1].kind == entry_kind::event &&
                           entry_name(entries[1]) == "handoff";
    return has_event ? 2 : 1;
}

void drop_first(std::vector<TapeEntry>& entries, std::size_t count) {
    const std::size_t most = std::min(count, entries.size());
    entries.erase(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(most));
}

TapeEntry partial_text_entry(std::string text, const std::string& turn_id,
                             std::string_view status) {
    JsonObject meta;
    meta["turn"] = turn_id;
    meta["interrupted"] = status;
    return message_entry("assistant", std::move(text), std::move(meta));
}

TapeEntry turn_marker(const std::string& turn_id, std::string_view status) {
    JsonObject data;
    data["turn"] = turn_id;
    data["status"] = status;
    return event_entry(turn_event, std::move(data), hidden_from_context());
}

namespace {

/// Adds the displayed text and the trailing entries to the entries.
void gather(JournaledTurn& turn, std::string_view status) {
    if (!turn.partial_text.empty())
        turn.entries.push_back(partial_text_entry(std::move(turn.partial_text), turn.id, status));
    turn.partial_text.clear();
    turn.entries = mergeable(turn.entries);
    for (TapeEntry& entry : turn.behind) turn.entries.push_back(std::move(entry));
    turn.behind.clear();
}

JsonArray entries_json(const std::vector<TapeEntry>& entries) {
    JsonArray list;
    for (const TapeEntry& entry : entries) {
        JsonObject form;
        form["kind"] = entry.kind;
        form["payload"] = entry.payload;
        form["meta"] = entry.meta;
        form["date"] = entry.date;
        list.push_back(std::move(form));
    }
    return list;
}

}  // namespace

void close_dead_turn(JournaledTurn& turn, bool waits) {
    const std::string_view status = waits ? "suspended" : "interrupted";
    // The text of an answer that asks is in its entry.
    if (waits) turn.partial_text.clear();
    gather(turn, status);
    turn.entries.push_back(turn_marker(turn.id, status));
}

DeadTurn end_dead_turn(JournaledTurn turn, bool superseded, bool waits) {
    DeadTurn dead;
    if (superseded) {
        dead.entries.push_back(
            refused_turn(std::move(turn), "interrupted", "another process had continued the tape"));
        return dead;
    }
    close_dead_turn(turn, waits);
    const std::size_t first = turn.reset ? 0 : first_anchor_in(turn.entries);
    dead.options = TapeAppend().reset(turn.reset).first_anchor(first);
    dead.entries = std::move(turn.entries);
    return dead;
}

TapeEntry refused_turn(JournaledTurn turn, std::string_view status, std::string reason) {
    gather(turn, status);
    JsonObject data;
    data["turn"] = turn.id;
    data["status"] = status;
    data["reason"] = std::move(reason);
    data["entries"] = entries_json(turn.entries);
    return event_entry(refused_event, std::move(data), hidden_from_context());
}

void JournalBuffer::end_partial_text() {
    if (partial_text_.empty()) return;
    JsonObject line;
    line["text"] = partial_text_;
    lines_ += line_of(line);
    partial_text_.clear();
}

void JournalBuffer::add_partial_text(std::string_view text) {
    const std::lock_guard lock(mutex_);
    partial_text_ += text;
}

JournalBuffer::Lines JournalBuffer::add(const std::vector<TapeEntry>& entries, bool reset) {
    const std::lock_guard lock(mutex_);
    end_partial_text();
    Lines lines;
    lines.begin = start_ + lines_.size();
    lines.changes = changes_;
    if (reset) {
        JsonObject line;
        line["reset"] = true;
        lines_ += line_of(line);
    }
    for (const TapeEntry& entry : entries) lines_ += tape_line(entry);
    lines.end = start_ + lines_.size();
    return lines;
}

bool JournalBuffer::take_back(const Lines& lines) {
    const std::lock_guard lock(mutex_);
    if (lines.changes != changes_ || lines.begin < start_) return false;
    ++changes_;
    lines_.erase(lines.begin - start_, lines.end - lines.begin);
    return true;
}

void JournalBuffer::add_behind(const std::vector<TapeEntry>& entries) {
    const std::lock_guard lock(mutex_);
    end_partial_text();
    for (const TapeEntry& entry : entries) lines_ += wrapped_line("{\"behind\": ", entry);
}

void JournalBuffer::add_claim(const TapeClaim& claim, std::int64_t after) {
    JsonObject whose;
    whose["run_id"] = claim.run_id;
    whose["owner_id"] = claim.owner_id;
    JsonObject line;
    line["claim"] = std::move(whose);
    line["after"] = after;
    const std::lock_guard lock(mutex_);
    lines_ += line_of(line);
}

bool JournalBuffer::empty() const {
    const std::lock_guard lock(mutex_);
    return lines_.empty() && partial_text_.empty() && !writing_;
}

bool JournalBuffer::is_writing() const {
    const std::lock_guard lock(mutex_);
    return writing_;
}

void JournalBuffer::end_whole_text() {
    const std::size_t whole = cubepi::complete_utf8_prefix(partial_text_);
    std::string rest = partial_text_.substr(whole);
    partial_text_.resize(whole);
    end_partial_text();
    partial_text_ = std::move(rest);
}

void JournalBuffer::drain(const Open& open) {
    std::unique_lock lock(mutex_);
    written_.wait(lock, [this] { return !writing_; });
    drain(std::move(lock), open);
}

void JournalBuffer::drain_or_leave(const Open& open) {
    std::unique_lock lock(mutex_);
    if (writing_) {
        more_ = true;
        return;
    }
    drain(std::move(lock), open);
}

void JournalBuffer::drain(std::unique_lock<std::mutex> lock, const Open& open) {
    do {
        more_ = false;
        if (stopped_) return;
        end_whole_text();
        if (lines_.empty()) return;
        const std::string lines = std::exchange(lines_, {});
        start_ += lines.size();
        writing_ = true;
        lock.unlock();
        std::exception_ptr failure;
        try {
            write(lines, open);
        } catch (...) {
            failure = std::current_exception();
        }
        lock.lock();
        writing_ = false;
        written_.notify_all();
        if (failure) {
            lines_.insert(0, lines);
            start_ -= lines.size();
            std::rethrow_exception(failure);
        }
    } while (more_);
}

void JournalBuffer::open(const Open& open) {
    if (journal()) return;
    std::shared_ptr<TurnJournal> opened = open();
    const std::lock_guard lock(mutex_);
    journal_ = std::move(opened);
}

void JournalBuffer::write(const std::string& lines, const Open& open) {
    this->open(open);
    journal()->write(lines);
}

void JournalBuffer::wait() const {
    std::unique_lock lock(mutex_);
    written_.wait(lock, [this] { return !writing_; });
}

void JournalBuffer::stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
}

void JournalBuffer::resume() {
    const std::lock_guard lock(mutex_);
    stopped_ = false;
}

void JournalBuffer::remove() {
    stop();
    wait();
    if (const std::shared_ptr<TurnJournal> old = journal()) old->remove();
}

std::shared_ptr<TurnJournal> JournalBuffer::journal() const {
    const std::lock_guard lock(mutex_);
    return journal_;
}

}  // namespace bub::detail
