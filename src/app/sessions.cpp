#include <cstdint>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/net/utf8.hpp>

#include "commands.hpp"
#include "exit_code.hpp"
#include "failure.hpp"
#include "kept_sessions.hpp"
#include "local_time.hpp"
#include "shell_quoting.hpp"
#include "terminal/style.hpp"

namespace cubepi::app {

namespace {

/// Columns with tabs between them. A name that is not a plain word is quoted as for a shell, so that no name can contain
/// a tab or a line break here.
void print_session(const KeptSession& session, const KeptSessions& kept, bool with_directory) {
    std::cout << shell_word(session.name) << '\t' << local_time(session.used_at) << '\t'
              << session.messages << (session.messages == 1 ? " message\t" : " messages\t");
    if (session.tape.empty()) {
        std::cout << printable(kept.database().string());
    } else {
        std::cout << "tape " << printable(session.tape);
    }
    if (with_directory) std::cout << '\t' << printable(session.workspace);
    std::cout << '\n';
}

JsonObject to_json(const KeptSession& session, const KeptSessions& kept) {
    JsonObject object;
    object["name"] = is_utf8(session.name) ? session.name : replace_broken_utf8(session.name);
    object["used_at"] = static_cast<std::int64_t>(session.used_at);
    object["messages"] = session.messages;
    if (session.tape.empty()) {
        object["database"] = kept.database().string();
    } else {
        object["tape"] = session.tape;
        object["directory"] = session.workspace;
    }
    return object;
}

void print_json(const std::vector<KeptSession>& sessions, const KeptSessions& kept) {
    JsonArray list;
    for (const KeptSession& session : sessions) list.push_back(to_json(session, kept));
    std::cout << boost::json::serialize(list) << '\n';
}

/// What the database cannot show does not hide the tapes.
Task<int> list_sessions(bool all, bool json) {
    KeptSessions kept = KeptSessions::here();
    std::vector<KeptSession> sessions;
    if (all) {
        sessions = co_await kept.on_tapes();
    } else {
        sessions = co_await kept.on_tapes_here();
    }
    for (KeptSession& session : sessions) {
        const bub::TapePosition end = co_await kept.tapes()->position(session.tape);
        session.messages = static_cast<std::size_t>(end.messages);
    }
    int status = exit_ok;
    try {
        std::vector<KeptSession> older = co_await kept.in_database();
        for (KeptSession& session : older) sessions.push_back(std::move(session));
    } catch (const Error& error) {
        const Failure failure = explain(error);
        std::cerr << "cubepi: " << printable(failure.text) << '\n';
        status = failure.exit_code;
    }
    if (sessions.empty() && status == exit_ok) {
        std::cerr << "No saved sessions" << (all ? "" : " in this directory")
                  << ". Start one: cubepi chat\n";
    }
    newest_first(sessions);
    if (json) {
        print_json(sessions, kept);
        co_return status;
    }
    for (const KeptSession& session : sessions) print_session(session, kept, all);
    co_return status;
}

Task<int> delete_session(std::string name) {
    KeptSessions kept = KeptSessions::here();
    const RemovedSession removed = co_await kept.remove(name);
    int status = exit_ok;
    if (!removed.parts.empty()) {
        std::cerr << "Deleted: " << printable(name) << " (";
        for (std::size_t i = 0; i < removed.parts.size(); ++i)
            std::cerr << (i == 0 ? "" : ", ") << printable(removed.parts[i]);
        std::cerr << ")\n";
    } else if (!removed.not_looked_at) {
        std::cerr << "cubepi: this directory has no session '" << printable(name)
                  << "'.\n  To list the names: cubepi sessions list\n";
        status = exit_usage;
    }
    if (removed.not_looked_at) {
        const Failure failure = explain(removed.not_looked_at);
        std::cerr << "cubepi: " << printable(failure.text) << '\n';
        status = failure.exit_code;
    }
    co_return status;
}

}  // namespace

int sessions_command(const CommandLine& line) {
    if (line.verb == Verb::sessions_list)
        return run(list_sessions(line.all, line.conversation.json));
    return run(delete_session(line.words.empty() ? std::string() : line.words.front()));
}

}  // namespace cubepi::app
