#include <bub/tape/entry/line_check.hpp>

#include <algorithm>
#include <utility>

#include <bub/tape/checkpointer/side_state.hpp>
#include <bub/tape/entry/entry_fields.hpp>
#include <bub/tape/entry/message_entries.hpp>
#include <bub/tape/tape_context.hpp>
#include <cubepi/checkpoint/tables/check.hpp>
#include <cubepi/core/support/json_member.hpp>

namespace bub::detail {

namespace {

std::string from_to(std::int64_t first, std::int64_t last) {
    if (first == last) return "entry " + std::to_string(first) + " is";
    return "entries " + std::to_string(first) + " to " + std::to_string(last) + " are";
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\n") == line.npos; }

}  // namespace

void TapeCheck::add(std::string_view line, std::string_view place) {
    if (is_blank(line)) return;
    const std::optional<TapeEntry> entry = read_tape_line(line);
    if (entry) {
        add_entry(*entry, place);
    } else {
        unreadable_.emplace_back(place);
    }
}

void TapeCheck::add_entry(const TapeEntry& entry, std::string_view place) {
    check_id(entry.id, place);
    const EntryFields fields = fields_of(entry);
    if (fields.position && *fields.position < sums_.messages)
        report_.damage(where_ + ", " + std::string(place),
                       "the number of messages goes back from " + std::to_string(sums_.messages) +
                           " to " + std::to_string(*fields.position),
                       "restore the tape from a backup");
    check_messages(entry, place);
    ++sums_.entries;
    sums_.messages = fields.position_after(sums_.messages);
    if (fields.anchor) {
        ++sums_.anchors;
        since_anchor_.clear();
    }
    since_anchor_.push_back(entry);
}

/// A line that cannot be read is what a killed process has left if the next id follows: that entry was never acknowledged.
void TapeCheck::check_id(std::int64_t id, std::string_view place) {
    const std::int64_t last = std::exchange(sums_.last_id, id);
    const std::string here = where_ + ", " + std::string(place);
    if (id <= last) {
        report_.damage(here,
                       "the id " + std::to_string(id) + " is not greater than the one before it, " +
                           std::to_string(last),
                       "restore the tape from a backup, or correct the ids");
    } else if (last < 0 || id - last > 1) {
        report_.damage(here, from_to(last + 1, id - 1) + " missing",
                       "restore the tape from a backup; the other entries are used as they are");
    }
    for (const std::string& unreadable : unreadable_) {
        report_.note(where_ + ", " + unreadable, "the line is not an entry",
                     "readers skip it; a write that a crash interrupts leaves such a line");
    }
    unreadable_.clear();
}

void TapeCheck::check_messages(const TapeEntry& entry, std::string_view place) {
    const JsonArray* const stored = stored_messages(entry);
    if (!stored) return;
    const std::size_t readable = messages_in(entry).size();
    if (readable == stored->size()) return;
    report_.damage(where_ + ", " + std::string(place),
                   std::to_string(stored->size() - readable) + " of its messages cannot be read",
                   "models do not receive them; restore the tape from a backup");
}

void TapeCheck::finish(const JsonObject& state, double now, bool is_open) {
    for (const std::string& unreadable : unreadable_) {
        report_.repair(where_ + ", " + unreadable, "the line is not an entry",
                       "readers skip it, and the next entry gets a line of its own");
    }
    const std::vector<cubepi::QuestionEntry> requests = pending_requests(tape_, state);
    for (const cubepi::QuestionEntry& request : requests) {
        if (request.request) continue;
        report_.damage(where_, "a pending request cannot be read: " + request.damage,
                       "discard it with 'cubepi inbox cancel'");
    }
    JsonObject copy = state;
    const std::vector<cubepi::HeldClaim> claims = SideStateClaims(copy).claims();
    for (const cubepi::HeldClaim& claim : claims)
        cubepi::detail::report_expired(claim, now, where_, report_);
    const cubepi::MessageList messages = agent_messages(since_anchor_);
    const bool ends_open = cubepi::detail::check_conversation(messages, where_, report_);
    const JsonArray* const open_runs = cubepi::detail::array_member(state, "open_runs");
    const bool runs = is_open || (open_runs && !open_runs->empty());
    // The answer to a question continues the calls that wait for it.
    if (ends_open && !runs && requests.empty())
        cubepi::detail::report_interrupted(messages, where_, report_);
    report_.count("entries", sums_.entries);
    report_.count("messages", sums_.messages);
    report_.count("pending requests", static_cast<std::int64_t>(requests.size()));
    report_.count("claimed runs", static_cast<std::int64_t>(claims.size()));
}

}  // namespace bub::detail
