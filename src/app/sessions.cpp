#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <cubepi/core/json.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/net/utf8.hpp>

#include "failure.hpp"
#include "process.hpp"
#include "program.hpp"
#include "saved_sessions.hpp"
#include "shell_quoting.hpp"
#include "terminal/prompter.hpp"
#include "terminal/safe_json.hpp"
#include "terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

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
    out() << "\n";
}

JsonObject to_json(const SavedSession& session, const SavedSessions& store) {
    JsonObject object;
    object["name"] = is_utf8(session.name) ? session.name : replace_broken_utf8(session.name);
    object["used_at"] = static_cast<std::int64_t>(session.used_at);
    object["messages"] = session.problem.empty() ? Json(session.messages) : Json();
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
Task<int> list_sessions(bool all, bool json) {
    SavedSessions store = SavedSessions::here();
    std::vector<SavedSession> sessions;
    if (all) {
        sessions = co_await store.on_tapes(true);
    } else {
        sessions = co_await store.on_tapes_here();
    }
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
    for (const SavedSession& session : sessions) print_session(session, store, all);
    co_return status;
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

int sessions_command(const CommandLine& line) {
    if (line.verb == Verb::sessions_list)
        return run(list_sessions(line.all, line.conversation.json));
    return run(delete_session(line.words.empty() ? std::string() : line.words.front(),
                              line.conversation.yes));
}

}  // namespace cubepi::app
