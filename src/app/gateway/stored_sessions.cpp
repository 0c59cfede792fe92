#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <bub/channel/channel_manager.hpp>
#include <bub/tape/divided_tape_store.hpp>
#include <bub/tape/session_tape_store.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/tape_session.hpp>
#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/net/utf8.hpp>

#include "../sessions.hpp"
#include "../trace/trace_views.hpp"
#include "../transcript.hpp"
#include "gateway_api.hpp"
#include "gateway_instance.hpp"
#include "gateway_messages.hpp"

// The sessions that a gateway has stored: their list, what they have used, and what is made of them.

namespace cubepi::app {

namespace {

constexpr std::size_t longest_page = 200;
/// The sessions that a page of the console shows first.
constexpr std::size_t listed_sessions = 25;
/// The tapes that a call looks at; a search that finds nothing continues with the next page.
constexpr std::size_t most_read = 1'000;
constexpr std::int64_t longest_session = 5'000;  // messages
constexpr std::size_t most_traces = 50;

std::shared_ptr<bub::SessionTapeStore> listed_tapes(const GatewayInstance& instance) {
    auto tapes = std::dynamic_pointer_cast<bub::SessionTapeStore>(instance.tapes());
    if (!tapes)
        throw Error(ErrorCode::unsupported, "the store of this gateway cannot list its sessions");
    return tapes;
}

bool is_of_agent(std::string_view session) {
    return session.find("/agent/") != std::string_view::npos ||
           session.find("/call/") != std::string_view::npos;
}

std::int64_t microseconds(std::chrono::system_clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
}

/// The position of a tape in the list: "MICROSECONDS TAPE". Tapes that are written meanwhile move before it.
std::string cursor_of(const bub::ListedTape& tape) {
    return std::to_string(microseconds(tape.modified)) + " " + tape.name;
}

/// Returns the tape of a cursor, with its name and time; nothing for an empty one. Throws Error(invalid_argument).
std::optional<bub::ListedTape> tape_at(const std::string& cursor) {
    std::optional<bub::ListedTape> tape;
    if (cursor.empty()) return tape;
    const std::size_t blank = cursor.find(' ');
    const std::string digits = cursor.substr(0, blank);
    // The clock of the system has no times with more digits.
    const bool is_number = !digits.empty() && digits.size() < 17 &&
                           digits.find_first_not_of("0123456789") == std::string::npos;
    const std::int64_t time = is_number ? std::stoll(digits) : -1;
    if (blank == std::string::npos || time < 0 || time > 9'000'000'000'000'000 || !is_utf8(cursor))
        throw Error(ErrorCode::invalid_argument, "'after' must be 'next' of an earlier page");
    tape.emplace();
    tape->name = cursor.substr(blank + 1);
    tape->modified += std::chrono::microseconds(time);
    return tape;
}

/// Reads the details of a tape; nothing if it is not a session of the gateway.
Task<std::optional<StoredSession>> read_details(std::shared_ptr<GatewayInstance> instance,
                                                std::shared_ptr<bub::SessionTapeStore> tapes,
                                                bub::ListedTape tape) {
    std::optional<StoredSession> found;
    JsonObject state;
    if (tape.state) state = *tape.state;
    if (!tape.state) state = co_await tapes->read_state(tape.name);
    const std::optional<bub::TapeSession> session = bub::session_of(state);
    if (!session || is_of_agent(session->id)) co_return found;
    const bool is_own = co_await instance->owns_tape(tape.name, session->id);
    if (!is_own) co_return found;
    found.emplace();
    found->session = session->id;
    found->forked_from = forked_from(state);
    found->used = std::chrono::duration<double>(tape.modified.time_since_epoch()).count();
    const bub::TurnSnapshot turn = instance->manager().snapshot(session->id);
    found->state = turn.is_running ? "running" : turn.pending_count > 0 ? "pending" : "idle";
    const bub::TapePosition end = co_await tapes->position(tape.name);
    found->messages = end.messages;
    found->title = session_title(state);
    if (found->title.empty()) {
        const MessageList first = co_await read_beginning(tapes, tape.name, 1);
        found->title = title_of(first);
    }
    co_return found;
}

bool matches(const StoredSession& session, const std::string& pattern) {
    return pattern.empty() ||
           detail::lower_case(session.session).find(pattern) != std::string::npos ||
           detail::lower_case(session.title).find(pattern) != std::string::npos;
}

/// Returns the newest complete run of a tape; empty: none.
Task<std::string> last_complete_run(std::shared_ptr<bub::TapeStore> tapes, std::string tape) {
    constexpr std::size_t entries = 500;
    // More than a turn that is running has, as its model has a context window.
    constexpr std::size_t bytes = std::size_t{8} << 20U;
    bub::TapeCheckpointer memory(tapes);
    const MessageList newest = co_await read_end(tapes, tape, entries, bytes);
    std::string last;
    for (std::size_t at = newest.size(); at > 0; --at) {
        const std::string run = newest[at - 1].run_id().str();
        if (run.empty() || run == last) continue;
        last = run;
        const bool is_complete = co_await memory.is_run_complete(tape, run);
        if (is_complete) co_return run;
    }
    co_return std::string();
}

ListedTurn listed_turn(const TraceSummary& summary) {
    ListedTurn turn;
    turn.id = summary.id;
    turn.status = status_name(summary.status);
    turn.facts = summary_text(summary);
    turn.input = summary.input;
    turn.start = static_cast<double>(summary.start) / 1e6;
    turn.seconds = static_cast<double>(summary.duration()) / 1e6;
    return turn;
}

/// Throws Error(invalid_state) if traces are not recorded.
std::filesystem::path traces_of(const GatewayInstance& instance) {
    std::filesystem::path directory = instance.trace_directory();
    if (directory.empty())
        throw Error(ErrorCode::invalid_state,
                    "this gateway records no traces in files; set trace.directory in the "
                    "configuration file, or CUBEPI_TRACE");
    return directory;
}

SessionTraces read_session_traces(const std::filesystem::path& directory, std::string session) {
    SessionTraces all;
    std::error_code failed;
    // It is created with the first trace.
    if (!std::filesystem::is_directory(directory, failed)) return all;
    TraceFilter filter;
    filter.session = std::move(session);
    const TraceListing listing = list_traces(directory, filter, most_traces);
    for (const ListedTrace& one : listing.traces) all.traces.push_back(listed_turn(one.summary));
    return all;
}

struct ReadTrace {
    std::string session = {};
    ExportedPage page = {};
};

ReadTrace read_trace(const std::filesystem::path& directory, const std::string& id) {
    const TraceSet set = find_trace(directory, id);
    ReadTrace read;
    if (set.traces.empty()) return read;
    const Trace& trace = set.traces.front();
    read.session = trace.summary.session;
    read.page.title = "Trace " + trace.summary.id;
    read.page.html = trace_page(set, trace);
    return read;
}

Error unknown_session(const std::string& session) {
    return Error(ErrorCode::not_found, "no session '" + session + "' is known to this gateway");
}

}  // namespace

Task<StoredSessions> GatewayApi::stored(StoredArguments page) {
    const std::shared_ptr<GatewayInstance> instance = gateway_.instance();
    const std::shared_ptr<bub::SessionTapeStore> tapes = listed_tapes(*instance);
    const std::size_t limit = std::clamp<std::size_t>(page.limit, 1, longest_page);
    const std::string pattern = detail::lower_case(page.search);
    std::optional<bub::ListedTape> last = tape_at(page.after);
    StoredSessions result;
    std::size_t left = most_read;
    bool has_more = true;
    while (has_more && left > 0 && result.sessions.size() < limit) {
        // Most tapes are sessions of this gateway, so that a second read is rare; it reads all that the call may look at.
        const std::size_t count = left == most_read ? limit : left;
        bub::Readable<std::vector<bub::ListedTape>> read =
            co_await bub::readable_tapes(tapes, last, count + 1);
        if (!read.unread.empty()) result.unread_databases = std::move(read.unread);
        const std::vector<bub::ListedTape> listed = std::move(read.list);
        std::size_t at = 0;
        for (; at < std::min(listed.size(), count) && result.sessions.size() < limit; ++at) {
            Task<std::optional<StoredSession>> reading = read_details(instance, tapes, listed[at]);
            Outcome<std::optional<StoredSession>> read = co_await outcome_of(std::move(reading));
            if (read.cancelled()) read.rethrow();
            // A damaged tape does not hide the others; an attempt to open its session reports the error.
            if (!read || !read.value() || !matches(*read.value(), pattern)) continue;
            result.sessions.push_back(std::move(*read.value()));
        }
        left -= at;
        has_more = at < listed.size();
        if (at > 0) last = listed[at - 1];
    }
    if (has_more && last) result.next = cursor_of(*last);
    co_return result;
}

/// Reads no tape to find those of other namespaces: the write of any tape is a reason to read the list.
Task<std::string> GatewayApi::newest_sessions() {
    const std::shared_ptr<bub::SessionTapeStore> tapes = listed_tapes(*gateway_.instance());
    const bub::Readable<std::vector<bub::ListedTape>> newest =
        co_await bub::readable_tapes(tapes, std::nullopt, listed_sessions);
    std::string text;
    for (const bub::ListedTape& tape : newest.list) text += cursor_of(tape) + "\n";
    for (const std::string& database : newest.unread) text += database + "\n";
    co_return text;
}

Task<SessionSpending> GatewayApi::spending(NamedArguments which) {
    const std::shared_ptr<GatewayInstance> instance = gateway_.instance();
    const bub::Tape tape = co_await stored_tape(which.id);
    Task<SessionUsage> reading =
        read_usage(tape.store(), tape.name(), instance->model().model.spec());
    const SessionUsage used = co_await std::move(reading);
    SessionSpending spent;
    spent.calls = used.calls;
    spent.tokens_in = used.tokens_in;
    spent.tokens_out = used.tokens_out;
    spent.cost = used.cost;
    spent.unpriced = used.unpriced;
    co_return spent;
}

/// Returns the tape of a session that has entries. Throws Error(not_found), and Error(too_large) for a long session.
Task<bub::Tape> GatewayApi::stored_tape(std::string session) {
    const std::shared_ptr<GatewayInstance> instance = gateway_.instance();
    bub::Tape tape = co_await instance->tape_of(session);
    const bub::TapePosition end = co_await tape.store()->position(tape.name());
    if (end.last_id == 0) throw unknown_session(session);
    if (end.messages > longest_session)
        throw Error(ErrorCode::invalid_state,
                    "the session '" + session + "' has more than " +
                        std::to_string(longest_session) +
                        " messages; read it with: cubepi tape show --session");
    co_return tape;
}

Task<NewSession> GatewayApi::fork(ForkArguments which) {
    const std::shared_ptr<GatewayInstance> instance = gateway_.instance();
    const bub::Tape source = co_await stored_tape(which.id);
    std::string after = std::move(which.after);
    if (after.empty()) after = co_await last_complete_run(source.store(), source.name());
    if (after.empty())
        throw Error(ErrorCode::invalid_state,
                    "there is no complete answer yet from which to continue");
    NewSession made;
    // In the database of its source, whose media it uses.
    for (bool is_there = false; !is_there;) {
        made.session =
            instance->new_session_id(detail::sha256_hex(Runtime::standard()->ids->next()));
        is_there = instance->settings().has_terminal_sessions ||
                   tapes_of_session(instance->tapes(), made.session) ==
                       tapes_of_session(instance->tapes(), which.id);
    }
    const bub::Tape target = co_await instance->tape_of(made.session);
    bub::TapeCheckpointer memory(source.store());
    Task<> forking = memory.fork(source.name(), target.name(), std::move(after), std::nullopt);
    const Outcome<> forked = co_await outcome_of(std::move(forking));
    if (forked.cancelled()) forked.rethrow();
    if (!forked) throw Error(ErrorCode::invalid_state, exception_text(forked.failure()));
    bub::TapeSession session;
    session.id = made.session;
    const std::filesystem::path root = instance->framework().workspace();
    session.workspace = instance->settings().shared_workspace
                            ? root.string()
                            : session_workspace(root, made.session).directory.string();
    std::function<Json(JsonObject&)> note = [session](JsonObject& state) {
        bub::note_session(state, session);
        return Json();
    };
    (void)co_await source.store()->edit_state(target.name(), std::move(note));
    co_await note_fork(source.store(), target.name(), which.id);
    co_return made;
}

Task<ExportedPage> GatewayApi::export_page(NamedArguments which) {
    const bub::Tape tape = co_await stored_tape(which.id);
    const MessageList messages = co_await read_conversation(tape.store(), tape.name());
    SessionPageHead head;
    head.title = which.id;
    head.details = std::to_string(messages.size()) + " messages";
    ExportedPage page;
    page.title = which.id;
    page.html = session_page(messages, head);
    co_return page;
}

Task<SessionTraces> GatewayApi::traces(NamedArguments which) {
    const std::shared_ptr<GatewayInstance> instance = gateway_.instance();
    const bool is_known = co_await knows_session(which.id);
    if (!is_known) throw unknown_session(which.id);
    auto reading = [directory = traces_of(*instance), session = std::move(which.id)] {
        return read_session_traces(directory, session);
    };
    Task<SessionTraces> read = offload(*Runtime::standard()->workers, std::move(reading));
    SessionTraces all = co_await std::move(read);
    co_return all;
}

Task<ExportedPage> GatewayApi::trace(NamedArguments which) {
    const std::shared_ptr<GatewayInstance> instance = gateway_.instance();
    const Error unknown(ErrorCode::not_found,
                        "no trace '" + which.id + "' of a session of this gateway");
    // Other names are paths.
    if (!is_trace_id(which.id)) throw unknown;
    auto reading = [directory = traces_of(*instance), id = which.id] {
        return read_trace(directory, id);
    };
    Task<ReadTrace> read = offload(*Runtime::standard()->workers, std::move(reading));
    ReadTrace found = co_await std::move(read);
    // The directory may have traces of other programs.
    if (found.session.empty()) throw unknown;
    const bool is_own = co_await knows_session(found.session);
    if (!is_own) throw unknown;
    co_return std::move(found.page);
}

}  // namespace cubepi::app
