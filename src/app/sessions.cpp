#include "sessions.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <unistd.h>

#include <bub/close_matches.hpp>
#include <bub/tape/prompt_context.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/net/utf8.hpp>

#include "config/paths.hpp"
#include "failure.hpp"
#include "process.hpp"
#include "program.hpp"
#include "saved_sessions.hpp"
#include "shell_quoting.hpp"
#include "terminal/console.hpp"
#include "terminal/event_text.hpp"
#include "terminal/prompter.hpp"
#include "terminal/session_picker.hpp"
#include "terminal/terminal_stream.hpp"
#include "terminal/terminal_text.hpp"
#include "terminal/text_layout.hpp"
#include "terminal/text_table.hpp"
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

/// Columns with tabs between them. A name that is not a plain word is quoted as for a shell, so that no name can contain
/// a tab or a line break here.
void print_session(const SavedSession& session, const SavedSessions& store, bool with_directory) {
    out() << for_terminal(shell_word(session.name)) << "\t"
          << for_terminal(local_time(session.used_at)) << "\t"
          << for_terminal(session.problem.empty() ? std::to_string(session.messages) : "?")
          << (session.messages == 1 ? TerminalView(" message\t") : TerminalView(" messages\t"));
    if (session.tape.empty()) {
        out() << for_terminal(store.database().string());
    } else {
        out() << "tape " << for_terminal(session.tape);
    }
    if (with_directory) out() << "\t" << for_terminal(session.workspace);
    if (!session.title.empty()) out() << "\t" << spelled_out(session.title);
    out() << "\n";
}

/// The same at a terminal, without the names of tapes, which only other commands use.
void print_table(const std::vector<SavedSession>& sessions, const SavedSessions& store,
                 bool with_directory, const Style& style) {
    const auto columns = static_cast<std::size_t>(style.columns);
    const std::size_t longest_name = with_directory ? columns * 2 / 5 : columns / 2;
    TextTable table;
    table.columns = {
        {"session"}, {"last used", false, 2}, {"messages", true, 1}, {"place"}, {"title"}};
    for (const SavedSession& session : sessions) {
        std::string place = session.tape.empty() ? store.database().string() : session.workspace;
        if (!with_directory && !session.tape.empty()) place.clear();
        table.rows.push_back(
            {shortened(for_terminal(shell_word(session.name)), longest_name),
             for_terminal(short_local_time(session.used_at, columns)),
             for_terminal(session.problem.empty() ? std::to_string(session.messages) : "?"),
             shortened_at_front(spelled_out(place), columns / 4), spelled_out(session.title)});
    }
    out() << table.text(style);
}

JsonObject to_json(const SavedSession& session, const SavedSessions& store) {
    JsonObject object;
    object["name"] = is_utf8(session.name) ? session.name : replace_broken_utf8(session.name);
    object["used_at"] = static_cast<std::int64_t>(session.used_at);
    object["messages"] = session.problem.empty() ? Json(session.messages) : Json();
    object["title"] = session.title.empty() ? Json() : Json(session.title);
    if (!session.problem.empty()) object["error"] = session.problem;
    if (session.tape.empty()) {
        object["database"] = store.database().string();
    } else {
        object["tape"] = session.tape;
        object["directory"] = session.workspace;
    }
    return object;
}

void print_json(const std::vector<SavedSession>& sessions, const SavedSessions& store) {
    JsonArray list;
    for (const SavedSession& session : sessions) list.push_back(to_json(session, store));
    data_output(safe_json(list) + "\n");
}

int report(const std::exception_ptr& problem, const std::string& about) {
    const Failure failure = explain(problem);
    err() << "cubepi: " << for_terminal(about + failure.text) << "\n";
    return failure.exit_code;
}

/// A tape that cannot be read does not hide the others.
int note_problem(SavedSession& session, const std::exception_ptr& problem) {
    session.problem = exception_text(problem);
    return report(problem, "session " + visible(session.name) + ": ");
}

/// A failure of the database does not hide the tapes.
Task<int> print_sessions(bool all, bool json) {
    SavedSessions store = SavedSessions::here();
    const SessionsOf which = all ? SessionsOf::everything : SessionsOf::directory;
    std::vector<SavedSession> sessions = co_await store.on_tapes(which);
    int status = exit_ok;
    for (SavedSession& session : sessions) {
        std::exception_ptr problem;
        try {
            const bub::TapePosition end = co_await store.tapes()->position(session.tape);
            session.messages = static_cast<std::size_t>(end.messages);
        } catch (const Error&) {
            problem = std::current_exception();
        }
        if (problem) status = note_problem(session, problem);
    }
    try {
        std::vector<SavedSession> older = co_await store.in_database();
        for (SavedSession& session : older) sessions.push_back(std::move(session));
    } catch (const Error&) {
        status = report(std::current_exception(), std::string());
    }
    if (sessions.empty() && status == exit_ok) {
        err() << "No saved sessions"
              << (all ? TerminalView("") : TerminalView(" in this directory"))
              << ". Start one: cubepi chat\n";
    }
    newest_first(sessions);
    if (json) {
        print_json(sessions, store);
        co_return status;
    }
    if (const Style style = Style::of(STDOUT_FILENO); style.terminal) {
        print_table(sessions, store, all, style);
        co_return status;
    }
    for (const SavedSession& session : sessions) print_session(session, store, all);
    co_return status;
}

/// A session of this directory that has messages.
struct StoredSession {
    SavedSessions saved = SavedSessions::here();
    ListedSession listed = {};
};

/// Throws Error(not_found) if there is no such session. One in the database of older versions is copied to its tape.
Task<StoredSession> open_session(std::string wanted) {
    StoredSession session;
    std::string name = co_await find_session_named(session.saved, std::move(wanted));
    const BroughtToTape brought = co_await session.saved.bring_to_tape(name);
    if (!brought.note.empty()) err() << for_terminal(brought.note) << "\n";
    session.listed.tape = session.saved.tape_of(name);
    session.listed.used_at = co_await session.saved.used_at(session.listed.tape);
    session.listed = co_await load_details(session.saved.tapes(), std::move(session.listed));
    if (!session.listed.problem.empty())
        throw CheckpointerError(ErrorCode::storage, session.listed.problem);
    co_return session;
}

std::string details_text(const ListedSession& listed) {
    return listed.name + " · " + count_text(listed.messages) +
           (listed.messages == 1 ? " message" : " messages") + " · last used " +
           local_time(listed.used_at) + " · " + listed.workspace;
}

Task<int> rename_session(std::string wanted, std::string title) {
    const StoredSession session = co_await open_session(std::move(wanted));
    const std::string stored = clean_title(title);
    co_await set_session_title(session.saved.tapes(), session.listed.tape, stored);
    if (stored.empty()) {
        err() << "Removed the title of session " << spelled_out(session.listed.name) << ".\n";
    } else {
        err() << "Session " << spelled_out(session.listed.name) << " has the title '"
              << for_terminal(stored) << "'.\n";
    }
    co_return exit_ok;
}

/// Prints the newest messages, of which a session may have too many for the memory.
Task<int> show_session(std::string wanted, std::size_t limit) {
    // A message with calls has several entries.
    constexpr std::size_t entries_per_message = 8;
    const StoredSession session = co_await open_session(std::move(wanted));
    MessageList messages;
    if (limit == 0) {
        messages = co_await read_conversation(session.saved.tapes(), session.listed.tape);
    } else {
        messages = co_await read_end(session.saved.tapes(), session.listed.tape,
                                     limit * entries_per_message, shown_bytes);
        if (messages.size() > limit)
            messages =
                MessageList(messages.end() - static_cast<std::ptrdiff_t>(limit), messages.end());
    }
    const auto left = session.listed.messages - static_cast<std::int64_t>(messages.size());
    out() << for_terminal(to_markdown(messages, session.listed.heading()));
    err() << for_terminal(details_text(session.listed)) << "\n";
    if (left > 0) err() << for_terminal(count_text(left)) << " earlier messages: -n 0 shows all\n";
    co_return exit_ok;
}

void write_file(const std::string& path, bool force, const std::string& text) {
    std::ofstream file = create_file(path, force);
    file << text;
    file.close();
    if (!file) throw Error(ErrorCode::io, "'" + path + "' was not written completely");
    err() << "Wrote " << for_terminal(path) << "\n";
}

/// Lets the user pick a session of this directory. Empty: none.
Task<std::string> picked_name() {
    if (!Console::possible()) {
        throw Error(ErrorCode::invalid_argument,
                    "picking a session needs a terminal; name it: cubepi sessions export NAME "
                    "--html FILE\n  To list the names: cubepi sessions list");
    }
    const Executor executor = co_await this_executor;
    const auto console =
        std::make_shared<Console>(executor, *Runtime::standard()->clock, std::filesystem::path());
    Task<std::optional<ListedSession>> picking =
        pick_session(console, SavedSessions::here(), false);
    Outcome<std::optional<ListedSession>> picked = co_await outcome_of(std::move(picking));
    console->close();
    const std::optional<ListedSession> session = std::move(picked).value();
    if (session && !session->is_here) {
        throw Error(ErrorCode::invalid_argument,
                    "that session belongs to another directory: cubepi sessions export " +
                        shell_word(session->name) + " -C " + shell_word(session->workspace));
    }
    co_return session ? session->name : std::string();
}

Task<int> export_session(SessionsArguments arguments) {
    if (arguments.name.empty()) {
        Task<std::string> picking = picked_name();
        arguments.name = co_await until_signal(std::move(picking));
        if (arguments.name.empty()) co_return exit_aborted;
    }
    const StoredSession session = co_await open_session(std::move(arguments.name));
    const MessageList messages =
        co_await read_conversation(session.saved.tapes(), session.listed.tape);
    if (arguments.html.empty() && arguments.markdown.empty())
        out() << for_terminal(to_markdown(messages, session.listed.heading()));
    if (!arguments.html.empty()) {
        SessionPageHead head;
        head.title = session.listed.heading();
        head.details = details_text(session.listed);
        write_file(arguments.html, arguments.force, session_page(messages, head));
    }
    if (!arguments.markdown.empty())
        write_file(arguments.markdown, arguments.force,
                   to_markdown(messages, session.listed.heading()));
    co_return exit_ok;
}

/// Asks only at a terminal; a script has already decided.
Task<bool> confirm_deletion(const SavedSessions& store, std::string name) {
    const bool terminal = isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1;
    if (!terminal) co_return true;
    std::string size = "its messages could not be counted";
    try {
        const bub::TapePosition end = co_await store.tapes()->position(store.tape_of(name));
        if (end.messages == 0) co_return true;
        size = std::to_string(end.messages) + (end.messages == 1 ? " message" : " messages");
    } catch (const Error&) {
        // A tape that cannot be read can be deleted.
    }
    const Executor executor = co_await this_executor;
    LinePrompter prompter(executor, std::filesystem::path());
    TerminalText question =
        "Delete session " + spelled_out(name) + " (" + for_terminal(size) + ") permanently? [y/N] ";
    const std::optional<std::string> answer = co_await prompter.read(std::move(question));
    co_return answer && (*answer == "y" || *answer == "Y" || *answer == "yes");
}

Task<int> delete_session(std::string name, bool yes) {
    SavedSessions store = SavedSessions::here();
    if (!yes) {
        Task<bool> confirmation = confirm_deletion(store, name);
        const bool agreed = co_await until_signal(std::move(confirmation));
        if (!agreed) {
            err() << "Nothing was deleted.\n";
            co_return exit_failed;
        }
    }
    RemovedSession removed;
    try {
        removed = co_await store.remove(name);
    } catch (const CheckpointerLockTimeoutError& error) {
        err() << "cubepi: session '" << spelled_out(name)
              << "' was not deleted: " << for_terminal(error.what()) << ".\n";
        co_return exit_storage;
    }
    int status = exit_ok;
    if (!removed.parts.empty()) {
        err() << "Deleted: " << spelled_out(name) << " (";
        for (std::size_t i = 0; i < removed.parts.size(); ++i)
            err() << (i == 0 ? TerminalView("") : TerminalView(", "))
                  << for_terminal(removed.parts[i]);
        err() << ")\n";
    } else if (!removed.not_read) {
        err() << "cubepi: this directory has no session '" << spelled_out(name)
              << "'.\n  To list the names: cubepi sessions list\n";
        status = exit_usage;
    }
    if (removed.not_read) {
        const Failure failure = explain(removed.not_read);
        err() << "cubepi: " << for_terminal(failure.text) << "\n";
        status = failure.exit_code;
    }
    co_return status;
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

Task<std::vector<ListedSession>> list_sessions(SavedSessions saved, SessionsOf which) {
    std::vector<ListedSession> sessions;
    const std::string here = saved.tape_prefix();
    std::string prefix;
    if (which == SessionsOf::directory) prefix = here;
    const std::vector<bub::ListedTape> tapes =
        co_await saved.tapes()->newest_tapes(std::move(prefix));
    for (const bub::ListedTape& tape : tapes) {
        ListedSession one;
        one.tape = tape.name;
        one.used_at = std::chrono::duration<double>(tape.modified.time_since_epoch()).count();
        one.is_here = tape.name.starts_with(here);
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

Task<ListedSession> load_details(std::shared_ptr<bub::SessionTapeStore> tapes,
                                 ListedSession listed) {
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
    const std::vector<ListedSession> sessions =
        co_await list_sessions(saved, SessionsOf::directory);
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

int sessions_command(const CommandLine& line) {
    using What = SessionsArguments::What;
    const SessionsArguments& arguments = line.sessions;
    switch (arguments.what) {
        case What::list: return run(print_sessions(line.all, line.conversation.json));
        case What::remove: return run(delete_session(arguments.name, line.conversation.yes));
        case What::rename: return run(rename_session(arguments.name, arguments.title));
        case What::show: return run(show_session(arguments.name, arguments.limit));
        case What::export_file: return run(export_session(arguments));
    }
    return exit_usage;
}

}  // namespace cubepi::app
