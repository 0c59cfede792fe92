#include "session_list.hpp"

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

#include <bub/close_matches.hpp>
#include <bub/tape/prompt_context.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/support/trimmed.hpp>

#include "terminal/terminal_text.hpp"
#include "transcript.hpp"

namespace cubepi::app {

namespace {

constexpr std::string_view title_key = "title";
constexpr std::string_view fork_key = "forked_from";
constexpr std::size_t longest_title = 200;  // columns
constexpr std::size_t snippet_before = 24;  // bytes
constexpr std::size_t snippet_length = 120;

/// The text of a `message` entry as its author has written it: a string, or the texts of its parts.
std::string text_of(const bub::TapeEntry& entry) {
    const Json* content = entry.payload.if_contains("content");
    if (!content) return {};
    if (content->is_string()) return std::string(bub::without_context(content->get_string()));
    std::string text;
    if (!content->is_array()) return text;
    for (const Json& part : content->get_array()) {
        if (const JsonObject* members = part.if_object())
            text +=
                std::string(bub::without_context(detail::string_member(*members, "text"))) + "\n";
    }
    return text;
}

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

/// The words around a match, on one line.
std::string snippet(const std::string& text, std::size_t at) {
    std::size_t from = at > snippet_before ? at - snippet_before : 0;
    while (from > 0 && continues_character(text[from])) --from;
    std::string part = text.substr(from, snippet_length);
    while (!part.empty() && from + part.size() < text.size() &&
           continues_character(text[from + part.size()]))
        part.pop_back();
    std::replace(part.begin(), part.end(), '\n', ' ');
    return (from > 0 ? "…" : "") + one_line(part, snippet_length);
}

}  // namespace

const std::string& ListedSession::heading() const noexcept {
    if (!title.empty()) return title;
    return first_line.empty() ? name : first_line;
}

std::string session_title(const JsonObject& side_state) {
    return std::string(detail::string_member(side_state, title_key));
}

std::string clean_title(std::string_view title) {
    std::string line(detail::trimmed(title));
    std::replace(line.begin(), line.end(), '\n', ' ');
    return one_line(visible(line), longest_title);
}

Task<> set_session_title(std::shared_ptr<bub::TapeStore> tapes, std::string tape,
                         std::string title) {
    std::function<Json(JsonObject&)> edit = [title = clean_title(title)](JsonObject& state) {
        if (title.empty()) {
            state.erase(title_key);
        } else {
            state[title_key] = title;
        }
        return Json();
    };
    co_await tapes->edit_state(std::move(tape), std::move(edit));
}

std::string forked_from(const JsonObject& side_state) {
    return detail::text_member(side_state, fork_key);
}

Task<> note_fork(std::shared_ptr<bub::TapeStore> tapes, std::string tape, std::string forked_from) {
    std::function<Json(JsonObject&)> edit = [name = std::move(forked_from)](JsonObject& state) {
        state[fork_key] = name;
        return Json();
    };
    co_await tapes->edit_state(std::move(tape), std::move(edit));
}

Task<std::vector<ListedSession>> list_sessions(SavedSessions saved) {
    std::vector<ListedSession> sessions;
    const std::vector<bub::ListedTape> tapes = co_await saved.tapes()->newest_tapes();
    for (const bub::ListedTape& tape : tapes) {
        ListedSession one;
        one.tape = tape.name;
        one.used_at = std::chrono::duration<double>(tape.modified.time_since_epoch()).count();
        one.is_here = saved.is_here(tape.name);
        sessions.push_back(std::move(one));
    }
    try {
        const std::vector<SavedSession> older = co_await saved.in_database();
        for (const SavedSession& old : older) {
            ListedSession one;
            one.used_at = old.used_at;
            one.is_loaded = true;
            one.name = old.name;
            one.messages = static_cast<std::int64_t>(old.messages);
            sessions.push_back(std::move(one));
        }
    } catch (const Error&) {
        // A damaged database hides its sessions, not those on tapes.
    }
    std::sort(sessions.begin(), sessions.end(), [](const ListedSession& a, const ListedSession& b) {
        if (a.used_at != b.used_at) return a.used_at > b.used_at;
        return std::tie(a.tape, a.name) < std::tie(b.tape, b.name);
    });
    co_return sessions;
}

Task<ListedSession> load_facts(std::shared_ptr<bub::SessionTapeStore> tapes, ListedSession listed) {
    listed.is_loaded = true;
    try {
        const JsonObject state = co_await tapes->read_state(listed.tape);
        const std::optional<bub::TapeSession> session = bub::session_of(state);
        if (!session) co_return listed;
        listed.name = session_name_of(session->id);
        listed.workspace = session->workspace;
        listed.title = session_title(state);
        listed.forked_from = forked_from(state);
        if (listed.name.empty()) co_return listed;
        const bub::TapePosition end = co_await tapes->position(listed.tape);
        listed.messages = end.messages;
        const MessageList first = co_await read_beginning(tapes, listed.tape, 1);
        listed.first_line = title_of(first);
    } catch (const Error& error) {
        if (error.code() == ErrorCode::cancelled) throw;
        listed.problem = error.what();
    }
    co_return listed;
}

Task<std::optional<std::string>> search_messages(std::shared_ptr<bub::SessionTapeStore> tapes,
                                                 std::string tape,
                                                 std::shared_ptr<MessageSearch> search) {
    bub::TapeQuery query =
        bub::TapeQuery().kinds({std::string(bub::entry_kind::message)}).newest_first();
    const auto found = std::make_shared<std::optional<std::string>>();
    // On a worker thread; it may outlive the coroutine.
    std::function<bool(const bub::TapeEntry&)> visit =
        [search, found,
         pattern = detail::lower_case(search->pattern)](const bub::TapeEntry& entry) {
            if (search->stopped) return false;
            const std::string text = text_of(entry);
            const std::size_t at = detail::lower_case(text).find(pattern);
            if (at == std::string::npos) return true;
            *found = snippet(text, at);
            return false;
        };
    co_await tapes->visit(std::move(tape), std::move(query), std::move(visit));
    if (search->stopped) co_return std::nullopt;
    co_return *found;
}

Task<std::string> find_session_named(SavedSessions saved, std::string wanted) {
    std::vector<std::string> names;
    std::vector<std::string> titled;
    const JsonObject state = co_await saved.tapes()->read_state(saved.tape_of(wanted));
    if (bub::session_of(state)) co_return wanted;
    const std::vector<ListedSession> sessions = co_await list_sessions(saved);
    for (const ListedSession& listed : sessions) {
        if (!listed.is_here) continue;
        ListedSession one = listed;
        if (!one.is_loaded) {
            try {
                const JsonObject stored = co_await saved.tapes()->read_state(one.tape);
                if (const auto session = bub::session_of(stored))
                    one.name = session_name_of(session->id);
                one.title = session_title(stored);
            } catch (const CheckpointCorruptionError&) {
                continue;  // an attempt to use the session reports the error
            }
        }
        if (one.name == wanted) co_return wanted;
        if (detail::lower_case(one.title) == detail::lower_case(wanted)) titled.push_back(one.name);
        names.push_back(std::move(one.name));
    }
    if (titled.size() == 1) co_return titled.front();
    std::string text = "this directory has no session '" + visible(wanted) + "'";
    if (titled.size() > 1)
        text = std::to_string(titled.size()) + " sessions have the title '" + visible(wanted) + "'";
    const std::vector<std::string> close = bub::close_matches(wanted, names);
    if (!close.empty()) text += "; did you mean '" + visible(close.front()) + "'?";
    throw Error(ErrorCode::not_found, text + "\n  To list the names: cubepi sessions list");
}

}  // namespace cubepi::app
