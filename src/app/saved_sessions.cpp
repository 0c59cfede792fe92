#include "saved_sessions.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <limits>
#include <set>
#include <system_error>
#include <utility>

#include <unistd.h>

#include <bub/builtin/builtin.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/support/encoding.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/tape_context.hpp>
#include <bub/tape/tape_entry.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/net/utf8.hpp>

#include "config/paths.hpp"
#include "config/store_locations.hpp"
#include "conversation/session_changes.hpp"
#include "sessions.hpp"
#include "terminal/terminal_stream.hpp"
#include "terminal/text_layout.hpp"

namespace cubepi::app {

namespace {

constexpr std::string_view channel_prefix = "cli:";

std::string count_of(std::size_t messages) {
    return std::to_string(messages) + (messages == 1 ? " message" : " messages");
}

double unix_seconds(std::chrono::system_clock::time_point time) {
    return std::chrono::duration<double>(time.time_since_epoch()).count();
}

/// True for letters, digits and non-ASCII characters, except for spaces, punctuation and invisible characters.
bool is_word_part(std::string_view character) {
    if (character.size() == 1) {
        const auto byte = static_cast<unsigned char>(character.front());
        return byte < 0x80 && std::isalnum(byte) != 0;
    }
    if (!is_utf8(character) || printable(character) != character) return false;
    if (character.size() == 2) return character[0] != '\xC2' || character >= "\u00C0";
    const bool general_punctuation = character >= "\u2000" && character < "\u2070";
    const bool wide_punctuation = (character >= "\u3000" && character < "\u3005") ||
                                  (character >= "\u3008" && character < "\u3021") ||
                                  (character >= "\uFF00" && character < "\uFF10") ||
                                  (character >= "\uFF1A" && character < "\uFF21");
    return !general_punctuation && !wide_punctuation;
}

std::string lower(char c) {
    return std::string(1, static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
}

Task<bool> has_thread(std::shared_ptr<SQLiteCheckpointer> store, std::string name) {
    const std::vector<ThreadInfo> threads = co_await store->list_threads();
    co_return std::any_of(threads.begin(), threads.end(),
                          [&name](const ThreadInfo& thread) { return thread.thread_id == name; });
}

/// Returns true if nothing but choices of the user, such as the model, is on a tape.
bool are_choices(const std::vector<bub::TapeEntry>& entries) {
    return std::all_of(entries.begin(), entries.end(), [](const bub::TapeEntry& entry) {
        if (entry.kind == bub::entry_kind::anchor) return true;
        if (entry.kind != bub::entry_kind::event) return false;
        if (bub::entry_name(entry) != "command") return true;
        const JsonObject* const data = detail::object_member(entry.payload, "data");
        const std::string name = data ? detail::text_member(*data, "name") : std::string();
        return name == "model" || name == "reasoning_effort";
    });
}

}  // namespace

std::string session_id_of(std::string_view name) {
    return std::string(channel_prefix) + std::string(name);
}

std::string session_name_of(std::string_view id) {
    if (!id.starts_with(channel_prefix)) return {};
    return std::string(id.substr(channel_prefix.size()));
}

std::string session_name_from(std::string_view prompt) {
    constexpr std::size_t longest = 40;
    constexpr std::size_t most_words = 6;
    // Attached files follow after a blank line.
    prompt.remove_prefix(std::min(prompt.find_first_not_of(" \t\r\n"), prompt.size()));
    prompt = prompt.substr(0, prompt.find("\n\n"));
    std::string name;
    std::size_t words = 0;
    bool in_word = false;
    while (!prompt.empty()) {
        const std::string_view character = prompt.substr(0, first_character(prompt).bytes);
        prompt.remove_prefix(character.size());
        const bool part = is_word_part(character);
        if (part && !in_word && ++words > most_words) break;
        if (part && name.size() + character.size() + 1 > longest) break;
        if (part && !in_word && !name.empty()) name += '-';
        in_word = part || (in_word && character == "'");
        if (part) name += character.size() > 1 ? std::string(character) : lower(character.front());
    }
    return name.empty() ? "chat" : name;
}

void newest_first(std::vector<SavedSession>& sessions) {
    std::sort(sessions.begin(), sessions.end(), [](const SavedSession& a, const SavedSession& b) {
        return a.used_at != b.used_at ? a.used_at > b.used_at : a.name < b.name;
    });
}

SavedSessions::SavedSessions(std::filesystem::path tapes, std::filesystem::path database,
                             std::filesystem::path workspace)
    : SavedSessions(std::make_shared<bub::FileTapeStore>(std::move(tapes)), std::move(database),
                    std::move(workspace)) {}

SavedSessions::SavedSessions(std::shared_ptr<bub::SessionTapeStore> tapes,
                             std::filesystem::path database, std::filesystem::path workspace)
    : tapes_(std::move(tapes)), database_(std::move(database)), workspace_(std::move(workspace)) {}

SavedSessions SavedSessions::here() {
    return SavedSessions(configured_tapes(), sessions_path(), std::filesystem::current_path());
}

std::string SavedSessions::tape_of(std::string_view name) const {
    return bub::tape_name(workspace_, session_id_of(name));
}

std::string SavedSessions::tape_prefix() const {
    // The first digest of a tape's name is that of the directory.
    const std::string here = tape_of("");
    return here.substr(0, here.find("__") + 2);
}

namespace {

/// Returns nothing for a tape of another program.
std::optional<SavedSession> session_with(const JsonObject& state, std::string tape,
                                         bool of_channels = false) {
    std::optional<SavedSession> found;
    const std::optional<bub::TapeSession> session = bub::session_of(state);
    std::string name = session ? session_name_of(session->id) : std::string();
    if (session && name.empty() && of_channels) name = session->id;
    if (name.empty()) return found;
    found.emplace();
    found->name = name;
    found->tape = std::move(tape);
    found->workspace = session->workspace;
    found->copied_from = session->copied_from;
    found->title = session_title(state);
    return found;
}

}  // namespace

Task<std::optional<SavedSession>> SavedSessions::on_tape(std::string tape) {
    const JsonObject state = co_await tapes_->read_state(tape);
    co_return session_with(state, std::move(tape));
}

Task<std::vector<SavedSession>> SavedSessions::on_tapes(SessionsOf which, std::size_t most) {
    std::vector<SavedSession> sessions;
    std::string prefix;
    if (which == SessionsOf::directory) prefix = tape_prefix();
    const std::vector<bub::ListedTape> files =
        co_await tapes_->newest_tapes_after(std::nullopt, most, std::move(prefix));
    for (const bub::ListedTape& file : files) {
        std::optional<SavedSession> session;
        try {
            JsonObject state;
            if (!file.state) state = co_await tapes_->read_state(file.name);
            session = session_with(file.state ? *file.state : state, file.name,
                                   which == SessionsOf::everything);
        } catch (const CheckpointCorruptionError&) {
            // The session of the tape is unknown; an attempt to use it reports the error.
            continue;
        }
        if (!session) continue;
        session->used_at = unix_seconds(file.modified);
        sessions.push_back(std::move(*session));
    }
    co_return sessions;
}

Task<double> SavedSessions::used_at(std::string tape) {
    bub::TapeQuery newest = bub::TapeQuery().newest_first().limit(1);
    const std::vector<bub::TapeEntry> found =
        co_await tapes_->fetch(std::move(tape), std::move(newest));
    const auto time = found.empty() ? std::nullopt : bub::detail::parse_date(found.front().date);
    co_return static_cast<double>(time.value_or(0)) / 1e6;
}

bool SavedSessions::has_database() const {
    std::error_code failed;
    return std::filesystem::exists(database_, failed);
}

Task<std::shared_ptr<SQLiteCheckpointer>> SavedSessions::open_database(bool read_only) {
    SQLiteOptions options;
    options.path = database_.string();
    options.read_only = read_only;
    auto store = std::make_shared<SQLiteCheckpointer>(std::move(options));
    bool needs_update = false;
    try {
        co_await store->open();
    } catch (const Error& error) {
        // Tables of another program, or the remains of a crash: they can only be read with write access.
        needs_update = read_only && error.code() == ErrorCode::permission_denied;
        if (!needs_update) throw;
    }
    if (needs_update) store = co_await open_database(false);
    co_return store;
}

Task<std::vector<SavedSession>> SavedSessions::in_database(double after) {
    std::vector<SavedSession> sessions;
    if (!has_database()) co_return sessions;
    const std::shared_ptr<SQLiteCheckpointer> store = co_await open_database(true);
    std::vector<ThreadInfo> threads = co_await store->list_threads();
    std::erase_if(threads, [after](const ThreadInfo& thread) {
        return thread.updated_at.value_or(0) <= after;
    });
    if (threads.empty()) co_return sessions;
    std::set<std::string> on_a_tape;
    const std::string here = tape_prefix();
    const std::vector<SavedSession> taped = co_await on_tapes(SessionsOf::program);
    for (const SavedSession& one : taped) {
        if (one.copied_from == database_ || one.tape.starts_with(here)) on_a_tape.insert(one.name);
    }
    for (const ThreadInfo& thread : threads) {
        if (on_a_tape.contains(thread.thread_id)) continue;
        SavedSession saved;
        saved.name = thread.thread_id;
        saved.used_at = thread.updated_at.value_or(0);
        saved.messages = static_cast<std::size_t>(thread.message_count);
        sessions.push_back(std::move(saved));
    }
    newest_first(sessions);
    co_return sessions;
}

Task<std::optional<SavedSession>> SavedSessions::last_on_tape() {
    std::optional<SavedSession> found;
    // A tape without a session of this program, or a damaged one, is rarely the newest.
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
    for (std::size_t page = 16; !found; page = most) {
        std::vector<SavedSession> sessions = co_await on_tapes(SessionsOf::directory, page);
        if (!sessions.empty()) found = std::move(sessions.front());
        if (page == most) break;
    }
    co_return found;
}

Task<LastSession> SavedSessions::last() {
    LastSession found;
    std::vector<SavedSession> sessions;
    if (const auto newest = co_await last_on_tape()) sessions.push_back(*newest);
    const double used_at = sessions.empty() ? -1 : sessions.front().used_at;
    std::exception_ptr unreadable;
    try {
        std::vector<SavedSession> older = co_await in_database(used_at);
        for (SavedSession& one : older) sessions.push_back(std::move(one));
    } catch (const CheckpointerError& error) {
        unreadable = std::current_exception();
        found.note = "Sessions of older versions were not read: " + std::string(error.what());
    }
    if (sessions.empty() && unreadable) std::rethrow_exception(unreadable);
    if (sessions.empty()) {
        throw Error(ErrorCode::not_found,
                    "there is no session to continue in this directory; start one: cubepi chat");
    }
    newest_first(sessions);
    found.name = sessions.front().name;
    co_return found;
}

std::string SavedSessions::obstacle() const {
    const auto* const files = dynamic_cast<const bub::FileTapeStore*>(tapes_.get());
    if (!files) return {};
    std::filesystem::path place = files->directory();
    std::error_code failed;
    while (!std::filesystem::exists(place, failed) && place.has_relative_path())
        place = place.parent_path();
    if (!std::filesystem::is_directory(place, failed))
        return printable(place.string()) + " is not a directory";
    if (access(place.c_str(), W_OK | X_OK) == 0) return {};
    return "cannot write to " + printable(place.string()) + ": " + detail::errno_text(errno);
}

/// True also for a session with an empty tape, and for one with a damaged state.
Task<bool> SavedSessions::is_taken(std::string name) {
    const std::string tape = tape_of(name);
    bool taken = true;
    try {
        const JsonObject state = co_await tapes_->read_state(tape);
        const bub::TapePosition end = co_await tapes_->position(tape);
        taken = bub::session_of(state).has_value() || end.last_id > 0;
    } catch (const CheckpointCorruptionError&) {
    }
    co_return taken;
}

Task<std::string> SavedSessions::create(std::string first_prompt) {
    return create_named(session_name_from(first_prompt));
}

Task<std::string> SavedSessions::create_named(std::string base, bool exactly) {
    std::set<std::string> older;
    try {
        if (has_database()) {
            const std::shared_ptr<SQLiteCheckpointer> store = co_await open_database(true);
            const std::vector<ThreadInfo> threads = co_await store->list_threads();
            for (const ThreadInfo& thread : threads) older.insert(thread.thread_id);
        }
    } catch (const CheckpointerError&) {
        // A damaged database does not prevent a new session.
    }
    // Two processes that start with the same prompt in the same directory must not get the same name.
    const std::shared_ptr<const void> alone = co_await tapes_->hold("sessions");
    std::optional<std::vector<SavedSession>> taped;
    std::string name = base;
    for (int number = 2;; ++number) {
        bool taken = co_await is_taken(name);
        if (!taken && older.contains(name)) {
            taken = true;
            try {
                if (!taped) taped = co_await on_tapes(SessionsOf::program);
                const std::optional<SavedSession> copy = co_await copy_among(*taped, name);
                taken = !copy;
            } catch (const CheckpointerError&) {
                // It is not known whether a damaged tape has the copy.
            }
        }
        if (!taken) break;
        if (exactly) {
            throw Error(ErrorCode::invalid_argument,
                        "there is a session '" + visible(name) + "' already; choose another name");
        }
        name = base + "-" + std::to_string(number);
    }
    co_await note_session(name, std::string());
    co_return name;
}

Task<std::string> SavedSessions::name_after(std::string name, std::string first_prompt) {
    const std::string unnamed = session_name_from({});
    const bool is_unnamed = name == unnamed || name.starts_with(unnamed + "-");
    if (!is_unnamed || session_name_from(first_prompt) == unnamed) co_return name;
    const std::string tape = tape_of(name);
    std::vector<bub::TapeEntry> entries = co_await tapes_->fetch(tape, bub::TapeQuery());
    if (!are_choices(entries)) co_return name;
    std::string better = co_await create(std::move(first_prompt));
    bub::TapeAppend unchanged = bub::TapeAppend().keep_ids();
    (void)co_await tapes_->append(tape_of(better), std::move(entries), std::move(unchanged));
    co_await tapes_->remove_tape(tape);
    co_return better;
}

namespace {

MessageList without_first_anchor(const std::vector<bub::TapeEntry>& entries) {
    const bool has_anchor = !entries.empty() && entries.front().kind == bub::entry_kind::anchor &&
                            bub::entry_name(entries.front()) == "session/start";
    const auto first = entries.begin() + (has_anchor ? 1 : 0);
    return bub::agent_messages(std::vector<bub::TapeEntry>(first, entries.end()));
}

}  // namespace

Task<std::string> SavedSessions::adopt(std::shared_ptr<bub::TapeStore> from, std::string tape,
                                       std::string first_prompt) {
    std::string name = co_await create(std::move(first_prompt));
    // The suspended run continues at its endpoint only (D86).
    JsonObject endpoint = co_await bub::suspended_endpoint(from, tape);
    const JsonObject state = co_await from->read_state(tape);
    // The tape of the session begins with an anchor of its own.
    bub::TapeCheckpointerOptions options;
    options.context.select = without_first_anchor;
    const auto source =
        std::make_shared<bub::TapeCheckpointer>(std::move(from), std::move(options));
    (void)co_await bub::import_thread(source, tape, tapes_, tape_of(name),
                                      "a run without a session");
    const std::vector<PendingRequest> pending = co_await source->load_pending_requests(tape);
    bub::TapeCheckpointer target(tapes_);
    if (!endpoint.empty()) {
        std::vector<bub::TapeEntry> entries = {bub::endpoint_entry(std::move(endpoint))};
        (void)co_await tapes_->append(tape_of(name), std::move(entries), bub::TapeAppend());
    }
    // Unused answers, marks of calls that have begun (D62), and notes of calls (D176): what the next process needs to repeat nothing.
    std::function<Json(JsonObject&)> copy = [state](JsonObject& now) {
        for (const char* list : {"answers", "batches", "answered", "answer_count"}) {
            if (const Json* found = state.if_contains(list)) now[list] = *found;
        }
        return Json();
    };
    (void)co_await tapes_->edit_state(tape_of(name), std::move(copy));
    for (const PendingRequest& one : pending)
        co_await target.save_pending_request(tape_of(name), one.run_id, one.request);
    co_return name;
}

Task<bool> SavedSessions::was_copied_to(std::string tape) {
    const auto event = co_await tapes_->find_event(std::move(tape), "session.imported");
    const Json* data = event ? event->payload.if_contains("data") : nullptr;
    const JsonObject* note = data ? data->if_object() : nullptr;
    const Json* from = note ? note->if_contains("from") : nullptr;
    co_return from && *from == Json(database_.string());
}

Task<std::optional<SavedSession>> SavedSessions::tape_with_copy(std::string name) {
    std::vector<SavedSession> taped = co_await on_tapes(SessionsOf::program);
    co_return co_await copy_among(std::move(taped), std::move(name));
}

Task<std::optional<SavedSession>> SavedSessions::copy_among(std::vector<SavedSession> taped,
                                                            std::string name) {
    std::optional<SavedSession> found;
    for (const SavedSession& one : taped) {
        if (one.name != name) continue;
        bool has_it = one.copied_from == database_;
        // A process that was killed after the copy has not recorded it in the state of the tape.
        if (one.copied_from.empty()) has_it = co_await was_copied_to(one.tape);
        if (has_it) found = one;
    }
    co_return found;
}

/// Records the session of the tape, and the source of a copy, in the state of the tape; visible from every directory.
Task<> SavedSessions::note_session(std::string name, std::string copied_from) {
    bub::TapeSession session;
    session.id = session_id_of(name);
    session.workspace = workspace_.string();
    session.copied_from = std::move(copied_from);
    std::function<Json(JsonObject&)> note = [session](JsonObject& state) {
        bub::note_session(state, session);
        return Json();
    };
    co_await tapes_->edit_state(tape_of(name), std::move(note));
}

/// Returns whether there is nothing to copy: the tape has messages, or the user has emptied it after the copy.
Task<bool> SavedSessions::is_on_tape(std::string name) {
    const std::string tape = tape_of(name);
    const bub::TapePosition end = co_await tapes_->position(tape);
    const JsonObject state = co_await tapes_->read_state(tape);
    const std::optional<bub::TapeSession> noted = bub::session_of(state);
    if (end.messages == 0) co_return noted && noted->copied_from == database_;
    const bool says_origin = noted && !noted->copied_from.empty();
    if (!says_origin && has_database()) {
        const bool is_copy = co_await was_copied_to(tape);
        if (is_copy) co_await note_session(std::move(name), database_.string());
    }
    co_return true;
}

Task<BroughtToTape> SavedSessions::bring_to_tape(std::string name) {
    BroughtToTape brought;
    const bool on_tape = co_await is_on_tape(name);
    if (on_tape || !has_database()) co_return brought;
    const std::shared_ptr<SQLiteCheckpointer> source = co_await open_database(true);
    const bool known = co_await has_thread(source, name);
    if (!known) co_return brought;
    // Two processes that start at the same time, maybe in two directories, must not both copy it.
    const std::shared_ptr<const void> alone = co_await tapes_->hold("sessions");
    const bool was_copied_meanwhile = co_await is_on_tape(name);
    if (was_copied_meanwhile) co_return brought;
    if (const auto other = co_await tape_with_copy(name)) {
        brought.note = "Session " + visible(name) + " of " + database_.string() +
                       " was copied to a tape of " + printable(other->workspace) +
                       " and continues there. In this directory it starts empty.";
        co_return brought;
    }
    // The session is recorded first, so that the copy of a process that was killed can be identified.
    co_await note_session(name, std::string());
    brought.copied =
        co_await bub::import_thread(source, name, tapes_, tape_of(name), database_.string());
    if (brought.copied == 0) co_return brought;
    co_await note_session(name, database_.string());
    brought.note = "Copied " + count_of(brought.copied) + " of session " + visible(name) +
                   " from " + database_.string() + " to its tape.";
    co_return brought;
}

Task<bool> SavedSessions::remove_from_database(std::string name) {
    const std::shared_ptr<SQLiteCheckpointer> store = co_await open_database(false);
    const bool known = co_await has_thread(store, name);
    if (known) co_await store->delete_thread(std::move(name));
    co_return known;
}

/// Returns true if the tape has messages, or cannot be read: it would not be filled from the database.
Task<bool> SavedSessions::has_messages(std::string tape) {
    bool has = true;
    try {
        const bub::TapePosition end = co_await tapes_->position(std::move(tape));
        has = end.messages > 0;
    } catch (const CheckpointerError&) {
    }
    co_return has;
}

Task<RemovedSession> SavedSessions::remove(std::string name) {
    RemovedSession removed;
    const std::string tape = tape_of(name);
    const std::optional<SavedSession> copy = co_await tape_with_copy(name);
    const std::vector<std::string> tapes = co_await tapes_->all_tapes();
    const bool is_on_tape = std::find(tapes.begin(), tapes.end(), tape) != tapes.end();
    // A session of the database that was never copied has only its name in common with one on a tape.
    bool is_in_database = copy ? copy->tape == tape : !is_on_tape;
    if (is_on_tape && !copy) {
        const bool is_filled = co_await has_messages(tape);
        is_in_database = !is_filled;
    }
    if (is_on_tape) {
        co_await tapes_->remove_tape(tape);
        removed.parts.push_back("its tape " + tape);
        std::error_code failed;
        if (std::filesystem::remove_all(checkpoint_directory(*tapes_, tape), failed) > 0 && !failed)
            removed.parts.push_back("its copies of changed files");
    }
    if (!has_database() || !is_in_database) co_return removed;
    try {
        if (co_await remove_from_database(std::move(name)))
            removed.parts.push_back("its messages in " + database_.string());
    } catch (const Error&) {
        removed.not_read = std::current_exception();
    }
    co_return removed;
}

}  // namespace cubepi::app
