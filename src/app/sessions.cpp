#include <array>
#include <ctime>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/run.hpp>

#include "commands.hpp"
#include "exit_code.hpp"
#include "failure.hpp"
#include "kept_sessions.hpp"
#include "terminal/style.hpp"

namespace cubepi::app {

namespace {

std::string date_text(double unix_seconds) {
    const auto seconds = static_cast<std::time_t>(unix_seconds);
    std::tm local = {};
    if (unix_seconds <= 0 || !localtime_r(&seconds, &local)) return "-";
    std::array<char, 32> text = {};
    const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M", &local);
    return std::string(text.data(), size);
}

/// Tabs, so that scripts can cut it.
void print_session(const KeptSession& session, const KeptSessions& kept, bool with_folder) {
    std::cout << one_line(session.name, 200) << '\t' << date_text(session.used_at) << '\t'
              << session.messages << (session.messages == 1 ? " message\t" : " messages\t");
    if (session.tape.empty()) {
        std::cout << printable(kept.database().string());
    } else {
        std::cout << "tape " << printable(session.tape);
    }
    if (with_folder) std::cout << '\t' << printable(session.workspace);
    std::cout << '\n';
}

/// What the database cannot show does not hide the tapes.
Task<int> list_sessions(bool all) {
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
        std::cerr << "No session is kept" << (all ? "" : " in this folder")
                  << ". Begin one: cubepi chat --session NAME\n";
    }
    newest_first(sessions);
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
        std::cerr << "cubepi: this folder has no session '" << printable(name)
                  << "'.\n  See their names: cubepi sessions list\n";
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
    if (line.verb == Verb::sessions_list) return run(list_sessions(line.all));
    return run(delete_session(line.words.empty() ? std::string() : line.words.front()));
}

}  // namespace cubepi::app
