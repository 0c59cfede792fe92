#include <bub/session_tape.hpp>

#include <optional>
#include <utility>
#include <vector>

#include <bub/tape/support/encoding.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>

namespace bub {

namespace {

using cubepi::detail::object_member;
using cubepi::detail::text_member;

struct FoundTape {
    std::string name = {};
    bool is_linked = false;
};

/// Follows the link on a tape, or finds the tape of an earlier version.
Task<FoundTape> find_tape(std::shared_ptr<TapeStore> store, std::string tape, std::string earlier) {
    FoundTape found;
    const std::optional<TapeEntry> link =
        co_await store->find_event(tape, std::string(tape_link_event));
    const JsonObject* const data = link ? object_member(link->payload, "data") : nullptr;
    if (data) {
        found.name = text_member(*data, "tape");
        found.is_linked = true;
        co_return found;
    }
    const TapePosition end = co_await store->position(earlier);
    found.name = end.last_id == 0 ? std::move(tape) : std::move(earlier);
    co_return found;
}

/// Finds the tape, and links one of an earlier version.
Task<std::string> linked_tape(std::shared_ptr<TapeStore> store, std::string tape,
                              std::string earlier) {
    if (auto* const reads = dynamic_cast<TurnReads*>(store.get())) {
        std::vector<TapeLookup> link(1);
        link.front() = TapeLookup{TapeKey::event, std::string(tape_link_event)};
        std::vector<std::string> others(1, earlier);
        reads->expect(std::move(link), std::move(others));
    }
    const FoundTape found = co_await find_tape(store, tape, earlier);
    if (found.is_linked || found.name == tape) co_return found.name;
    JsonObject made;
    made["tape"] = earlier;
    std::vector<TapeEntry> entries;
    entries.push_back(event_entry(tape_link_event, std::move(made)));
    TapeAppend how;
    (void)co_await store->append(std::move(tape), std::move(entries), std::move(how));
    co_return earlier;
}

}  // namespace

void expect_lookups(const TurnState& state, std::vector<TapeLookup> lookups) {
    const std::shared_ptr<TurnTapes> tapes = state.service<TurnTapes>();
    auto* const reads = tapes ? dynamic_cast<TurnReads*>(tapes->store.get()) : nullptr;
    if (reads) reads->expect(std::move(lookups), {});
}

namespace {

constexpr std::string_view answer_suffix = "/answer";
constexpr std::string_view repetition_suffix = "+";

}  // namespace

std::string plugin_answer_id(const std::string& input_id) {
    return input_id + std::string(answer_suffix);
}

std::string next_message_id(const std::string& message_id) {
    return message_id + std::string(repetition_suffix);
}

bool is_derived_id(std::string_view id) noexcept {
    return id.ends_with(answer_suffix) || id.ends_with(repetition_suffix);
}

std::string shared_tape_name(std::string_view name_space, std::string_view session_id) {
    return cubepi::detail::sha256_hex(name_space).substr(0, 16) + "__" +
           cubepi::detail::sha256_hex(session_id).substr(0, 32);
}

Task<std::string> session_tape_name(std::shared_ptr<TapeStore> store, const TurnState& state,
                                    std::string session_id) {
    const std::shared_ptr<SessionTapes> tapes = state.service<SessionTapes>();
    if (!tapes) co_return tape_name(state.text(TurnState::workspace_key), session_id);
    if (const auto found = tapes->known.find(session_id); found != tapes->known.end())
        co_return found->second;
    std::string name = shared_tape_name(tapes->name_space, session_id);
    if (store && !session_id.starts_with("temp/")) {
        std::string earlier = tape_name(tapes->earlier_workspace, session_id);
        name = co_await linked_tape(std::move(store), std::move(name), std::move(earlier));
    }
    tapes->known[std::move(session_id)] = name;
    co_return name;
}

Task<std::string> find_session_tape(std::shared_ptr<TapeStore> store, std::string name_space,
                                    std::filesystem::path earlier_workspace,
                                    std::string session_id) {
    std::string name = shared_tape_name(name_space, session_id);
    std::string earlier = tape_name(earlier_workspace, session_id);
    const FoundTape found =
        co_await find_tape(std::move(store), std::move(name), std::move(earlier));
    co_return found.name;
}

}  // namespace bub
