#include <bub/tape/copy_tape.hpp>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/tape/entry/entry_fields.hpp>
#include <bub/tape/turn_lease.hpp>
#include <cubepi/core/error.hpp>

namespace bub {

namespace {

using StorePtr = std::shared_ptr<SessionTapeStore>;

/// The position in an entry's meta is derived from the entries before it.
JsonObject comparable_meta(const TapeEntry& entry) {
    JsonObject meta = entry.meta;
    if (Json* const own = meta.if_contains(detail::meta_key); own && own->is_object())
        own->get_object().erase("position");
    return meta;
}

bool same(const TapeEntry& a, const TapeEntry& b) {
    return a.id == b.id && a.kind == b.kind && a.date == b.date && a.payload == b.payload &&
           comparable_meta(a) == comparable_meta(b);
}

/// The number of entries at the beginning that are equal.
std::size_t common_beginning(const std::vector<TapeEntry>& a, const std::vector<TapeEntry>& b) {
    const std::size_t length = std::min(a.size(), b.size());
    std::size_t count = 0;
    while (count < length && same(a[count], b[count])) ++count;
    return count;
}

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

/// Adds the words of a line that may be the names of media.
void find_media(std::string_view line, std::set<std::string>& names) {
    constexpr std::size_t length = 64;
    for (std::size_t at = 0; at < line.size();) {
        std::size_t end = at;
        while (end < line.size() && is_hex(line[end])) ++end;
        if (end - at == length) names.emplace(line.substr(at, length));
        at = end + 1;
    }
}

Task<void> refuse_open_turn(StorePtr store, std::string tape) {
    const bool open = co_await store->has_open_turn(tape);
    if (!open) co_return;
    throw cubepi::CheckpointerLockTimeoutError(
        cubepi::ErrorCode::storage_locked,
        "a turn is in progress on tape '" + tape + "' (" + store->location() +
            "); nothing was copied; wait for its end and try again");
}

[[noreturn]] void throw_different(const std::string& tape, const std::string& place,
                                  const std::string& how) {
    throw cubepi::Error(cubepi::ErrorCode::invalid_state,
                        "tape '" + tape + "' was not copied: " + place + " has one that " + how);
}

/// Why the target cannot be continued with the entries of the source; empty if it can.
std::string difference(const std::vector<TapeEntry>& source, const std::vector<TapeEntry>& target,
                       bool same_state) {
    const std::size_t common = common_beginning(source, target);
    if (common == source.size() && target.size() > source.size())
        return "is longer (" + std::to_string(target.size()) + " entries, not " +
               std::to_string(source.size()) + ")";
    if (common < target.size())
        return "differs from entry " + std::to_string(target[common].id) + " on";
    if (common == source.size() && !same_state)
        return "has the same entries and another side state";
    return {};
}

Task<std::size_t> copy_media(StorePtr from, StorePtr to, std::vector<TapeEntry> entries) {
    std::set<std::string> names;
    for (const TapeEntry& entry : entries) find_media(tape_line(entry), names);
    std::size_t copied = 0;
    for (const std::string& name : names) {
        std::optional<std::string> bytes = co_await from->get_media(name);
        if (!bytes) continue;
        co_await to->put_media(std::move(*bytes));
        ++copied;
    }
    co_return copied;
}

/// Returns the edit that replaces the side state, if no other process has changed it.
std::function<void(JsonObject&)> replacement(std::string tape, JsonObject state,
                                             JsonObject expected) {
    return [tape = std::move(tape), state = std::move(state),
            expected = std::move(expected)](JsonObject& now) {
        if (now != expected) {
            throw cubepi::StaleAppendError(
                cubepi::ErrorCode::stale_append,
                "another process has changed tape '" + tape + "' meanwhile; copy it again", tape);
        }
        now = state;
    };
}

Task<void> copy_state(StorePtr to, std::string tape, std::function<void(JsonObject&)> replace) {
    std::function<Json(JsonObject&)> edit = [replace = std::move(replace)](JsonObject& now) {
        replace(now);
        return Json();
    };
    co_await to->edit_state(std::move(tape), std::move(edit));
}

/// Appends the entries and replaces the side state in one write, if the store can. Otherwise the state is first: the copy of a beginning of
/// the tape can be continued, whatever its state is.
Task<void> append_with_state(StorePtr to, std::string tape, std::vector<TapeEntry> entries,
                             TapeAppend options, std::function<void(JsonObject&)> replace) {
    if (auto* const both = dynamic_cast<AppendsWithState*>(to.get())) {
        co_await both->append_and_edit(std::move(tape), std::move(entries), std::move(options),
                                       std::move(replace));
        co_return;
    }
    co_await copy_state(to, tape, std::move(replace));
    co_await to->append(std::move(tape), std::move(entries), std::move(options));
}

}  // namespace

Task<CopiedTape> copy_tape(StorePtr from, StorePtr to, std::string tape, bool replace) {
    co_await refuse_open_turn(from, tape);
    co_await refuse_open_turn(to, tape);
    // The state first: it is not newer than the entries.
    JsonObject state = co_await from->read_state(tape);
    std::vector<TapeEntry> source = co_await from->fetch(tape, TapeQuery());
    if (source.empty() && state.empty()) {
        throw cubepi::Error(cubepi::ErrorCode::not_found,
                            "there is no tape '" + tape + "' in " + from->location());
    }
    JsonObject state_there = co_await to->read_state(tape);
    const std::vector<TapeEntry> target = co_await to->fetch(tape, TapeQuery());
    const bool is_new = target.empty() && state_there.empty();
    // Copies of earlier versions had a moment without a side state. One that was interrupted then is completed; if it is the source, the
    // tape is the target's.
    const bool is_unfinished = state.empty() || state_there.empty();
    const std::string why =
        is_new ? std::string() : difference(source, target, is_unfinished || state == state_there);
    if (!why.empty() && !replace) throw_different(tape, to->location(), why);
    CopiedTape copied;
    copied.media = co_await copy_media(from, to, source);
    const std::size_t shared = why.empty() ? target.size() : 0;
    std::vector<TapeEntry> added(source.begin() + static_cast<std::ptrdiff_t>(shared),
                                 source.end());
    copied.entries = added.size();
    copied.state = state != state_there && (!state.empty() || replace || copied.entries > 0);
    std::function<void(JsonObject&)> edit;
    if (copied.state) edit = replacement(tape, std::move(state), std::move(state_there));
    if (copied.entries > 0 || !why.empty()) {
        const TapePosition before = co_await to->position(tape);
        const bool changed = before.last_id != (target.empty() ? 0 : target.back().id);
        if (changed) throw_different(tape, to->location(), "another process has just changed");
        TapeAppend options =
            TapeAppend().keep_ids().reset(!why.empty()).expected_position(before.messages);
        if (edit) {
            co_await append_with_state(to, std::move(tape), std::move(added), std::move(options),
                                       std::move(edit));
        } else {
            co_await to->append(std::move(tape), std::move(added), std::move(options));
        }
    } else if (edit) {
        co_await copy_state(to, std::move(tape), std::move(edit));
    }
    co_return copied;
}

}  // namespace bub
