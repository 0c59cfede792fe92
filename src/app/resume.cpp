#include "resume.hpp"

#include <chrono>
#include <stop_token>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>

#include "terminal/console.hpp"
#include "terminal/session_picker.hpp"
#include "transcript.hpp"

namespace cubepi::app {

namespace {

double unix_now() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

/// Stops the search when the caller is cancelled: the worker would go through the whole session.
class StopAtEnd {
public:
    explicit StopAtEnd(std::shared_ptr<MessageSearch> search) : search_(std::move(search)) {}
    ~StopAtEnd() { search_->stopped = true; }
    StopAtEnd(const StopAtEnd&) = delete;
    StopAtEnd& operator=(const StopAtEnd&) = delete;

private:
    std::shared_ptr<MessageSearch> search_;
};

/// The picker is not drawn while a database does not answer, but its keys work.
Task<> stop_when_closed(std::shared_ptr<SessionPicker> picker, std::stop_source stop) {
    while (!picker->is_closed()) co_await picker->change();
    stop.request_stop();
}

/// Reads a session for the preview.
Task<std::string> conversation_text(std::shared_ptr<bub::SessionTapeStore> tapes,
                                    ListedSession session) {
    std::string text;
    try {
        const MessageList messages = co_await read_conversation(tapes, session.tape);
        text = to_markdown(messages, session.heading());
    } catch (const CheckpointerError& error) {
        text = std::string("cannot be read: ") + error.what();
    }
    co_return text;
}

/// Stores what the user has decided. The picker shows a failure.
Task<> make_change(std::shared_ptr<SessionPicker> picker, SessionPicker::Wanted wanted,
                   SavedSessions saved) {
    std::string problem;
    try {
        if (wanted.kind == SessionPicker::Wanted::Kind::title) {
            co_await set_session_title(saved.tapes(), wanted.session.tape, wanted.title);
        } else {
            // A session that older versions have stored has no directory.
            SavedSessions of_session =
                wanted.session.workspace.empty()
                    ? saved
                    : SavedSessions(saved.tapes(), saved.database(), wanted.session.workspace);
            const RemovedSession removed = co_await of_session.remove(wanted.session.name);
            if (removed.not_read) problem = exception_text(removed.not_read);
        }
    } catch (const Error& error) {
        problem = error.what();
    }
    if (wanted.kind == SessionPicker::Wanted::Kind::title) {
        picker->set_title(wanted.index, std::move(wanted.title), problem);
    } else {
        picker->set_removed(wanted.index, problem);
    }
}

/// Does what the picker wants. A session that cannot be searched has no match.
Task<> do_work(std::shared_ptr<SessionPicker> picker, SessionPicker::Wanted wanted,
               std::shared_ptr<bub::SessionTapeStore> tapes) {
    if (wanted.kind == SessionPicker::Wanted::Kind::facts) {
        ListedSession loaded = co_await load_facts(tapes, std::move(wanted.session));
        picker->set_facts(wanted.index, std::move(loaded));
        co_return;
    }
    if (wanted.kind == SessionPicker::Wanted::Kind::conversation) {
        std::string text = co_await conversation_text(tapes, std::move(wanted.session));
        picker->set_conversation(wanted.index, std::move(text));
        co_return;
    }
    const StopAtEnd stop(wanted.search);
    std::optional<std::string> match;
    try {
        match = co_await search_messages(tapes, wanted.session.tape, wanted.search);
    } catch (const CheckpointerError&) {
    }
    if (!wanted.search->stopped) picker->set_match(wanted.index, *wanted.search, std::move(match));
}

/// Runs `work` until the picker is closed.
Task<> unless_closed(std::shared_ptr<SessionPicker> picker, Task<> work) {
    const Executor executor = co_await this_executor;
    std::stop_source stop;
    BackgroundScope keys(executor);
    keys.spawn(stop_when_closed(picker, stop));
    Task<> cancellable = cancel_on(stop.get_token(), std::move(work));
    const Outcome<> done = co_await outcome_of(std::move(cancellable));
    co_await shield();
    co_await keys.close();
    co_await unshield();
    if (!done.ok() && !(done.cancelled() && picker->is_closed())) done.rethrow();
}

}  // namespace

Task<std::optional<ListedSession>> pick_session(std::shared_ptr<Console> console,
                                                SavedSessions saved, bool all,
                                                std::string current) {
    Task<std::vector<ListedSession>> listing = list_sessions(saved);
    std::optional<std::vector<ListedSession>> sessions =
        co_await unless_interrupted(console, std::move(listing));
    if (!sessions) co_return std::nullopt;
    SessionPicker::Options options;
    options.now = unix_now();
    options.all = all;
    options.current = std::move(current);
    const auto picker =
        std::make_shared<SessionPicker>(std::move(*sessions), console->style(), std::move(options));
    console->open_screen(picker);
    while (!picker->is_closed()) {
        SessionPicker::Wanted wanted = picker->wanted();
        console->redraw();
        using Kind = SessionPicker::Wanted::Kind;
        if (wanted.kind == Kind::nothing) {
            co_await picker->change();
        } else if (wanted.kind == Kind::title || wanted.kind == Kind::removal) {
            // Not half of it, whatever the user does meanwhile.
            co_await shield();
            Task<> change = make_change(picker, std::move(wanted), saved);
            co_await std::move(change);
            co_await unshield();
        } else {
            Task<> work = do_work(picker, std::move(wanted), saved.tapes());
            co_await unless_closed(picker, std::move(work));
        }
    }
    co_return picker->chosen();
}

}  // namespace cubepi::app
