#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <bub/questions.hpp>
#include <bub/tape/divided_tape_store.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/agent/question_store.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>

#include "conversation/approval_dialog.hpp"
#include "failure.hpp"
#include "process.hpp"
#include "program.hpp"
#include "saved_sessions.hpp"
#include "shell_quoting.hpp"
#include "terminal/terminal_stream.hpp"
#include "terminal/terminal_text.hpp"
#include "terminal/text_layout.hpp"
#include "terminal/text_table.hpp"

namespace cubepi::app {

namespace {

/// A question of a saved session.
struct OpenQuestion {
    SavedSession session = {};
    QuestionEntry entry = {};  ///< its request is absent if it is damaged
    bool expired = false;

    /// Its request; that of a damaged one has nothing but the id of its row.
    HitlRequest request() const {
        if (entry.request) return *entry.request;
        HitlRequest damaged;
        damaged.question_id = entry.question_id.empty() ? "?" : entry.question_id;
        return damaged;
    }
    /// The name by which it is answered (D83).
    std::string id() const {
        return entry.request ? bub::question_name(*entry.request) : request().question_id;
    }
};

double now() {
    const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration<double>(since_epoch).count();
}

std::string kind_of(const OpenQuestion& question) {
    if (!question.entry.request) return "damaged";
    if (question.expired) return "expired";
    const HitlPayload& payload = question.entry.request->payload;
    if (std::holds_alternative<ApproveRequest>(payload)) return "approve";
    return std::holds_alternative<ConfirmRequest>(payload) ? "confirm" : "ask";
}

/// One line about the question.
std::string summary_of(const QuestionEntry& entry) {
    if (entry.request && std::holds_alternative<ApproveRequest>(entry.request->payload))
        return ApprovalDialog::title(*entry.request);
    std::string text = entry.request ? bub::question_summary(*entry.request) : entry.damage;
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
}

/// Prints what to do about a damaged question, and returns the exit status for it.
int report_damage(const OpenQuestion& question) {
    const std::string session = visible(question.session.name);
    const std::string what =
        question.id() + " of session " + session + " is damaged: " + question.entry.damage;
    const std::string how =
        shell_word(question.id()) + " --session " + shell_word(question.session.name);
    err() << "cubepi: question " << for_terminal(what) << "\n"
          << "  To discard the questions of the session: cubepi inbox cancel " << for_terminal(how)
          << "\n";
    return exit_storage;
}

/// Returns nothing for the tape of another program. A session that cannot be determined has the name of its tape.
Task<std::optional<SavedSession>> session_of_tape(SavedSessions& saved, std::string tape) {
    std::optional<SavedSession> session;
    try {
        session = co_await saved.on_tape(tape);
    } catch (const CheckpointCorruptionError&) {
        // The entry of the inbox contains the same error as its damage.
        session.emplace();
        session->name = tape;
        session->tape = tape;
    }
    co_return session;
}

/// Returns the questions of the sessions, oldest first. Damaged ones are reported and set the exit status.
Task<std::vector<OpenQuestion>> find_questions(bool all, int& status) {
    SavedSessions saved = SavedSessions::here();
    std::vector<OpenQuestion> found;
    const std::string here = saved.tape_prefix();
    std::string cursor;
    std::set<std::string> unread;
    bool more = true;
    while (more) {
        QuestionQuery query = QuestionQuery().limit(200).after(cursor);
        bub::Readable<QuestionPage> page =
            co_await bub::readable_requests(saved.tapes(), std::move(query));
        for (QuestionEntry& entry : page.list.entries) {
            if (!all && !entry.thread_id.starts_with(here)) continue;
            std::optional<SavedSession> session = co_await session_of_tape(saved, entry.thread_id);
            if (!session) continue;
            OpenQuestion question;
            question.session = std::move(*session);
            question.expired = entry.expires_at && *entry.expires_at <= now();
            question.entry = std::move(entry);
            if (!question.entry.request) status = report_damage(question);
            found.push_back(std::move(question));
        }
        for (const std::string& name : page.unread) unread.insert(name);
        cursor = page.list.next;
        more = !cursor.empty();
    }
    for (const std::string& name : unread)
        err() << "Without the database " << for_terminal(name)
              << ", which cannot be read at the moment.\n";
    co_return found;
}

JsonObject to_json(const OpenQuestion& question) {
    JsonObject object;
    object["id"] = question.id();
    object["session"] = question.session.name;
    object["directory"] = question.session.workspace;
    object["tape"] = question.session.tape;
    object["run_id"] = question.entry.run_id;
    object["expired"] = question.expired;
    if (question.entry.request) {
        object["request"] = cubepi::to_json(*question.entry.request);
    } else {
        object["damage"] = question.entry.damage;
    }
    return object;
}

void print_question(const OpenQuestion& question, bool with_directory) {
    out() << for_terminal(question.id()) << "\t"
          << for_terminal(local_time(question.entry.created_at)) << "\t"
          << for_terminal(shell_word(question.session.name)) << "\t"
          << for_terminal(kind_of(question)) << "\t" << for_terminal(summary_of(question.entry));
    if (with_directory) out() << "\t" << for_terminal(question.session.workspace);
    out() << "\n";
}

/// The same at a terminal.
void print_table(const std::vector<OpenQuestion>& questions, bool with_directory,
                 const Style& style) {
    const auto columns = static_cast<std::size_t>(style.columns);
    TextTable table;
    table.columns = {{"id"},   {"asked", false, 1},     {"session"},
                     {"kind"}, {"directory", false, 2}, {"question"}};
    for (const OpenQuestion& one : questions) {
        const TerminalText directory =
            with_directory ? spelled_out(one.session.workspace) : TerminalText();
        table.rows.push_back(
            {for_terminal(one.id()), for_terminal(short_local_time(one.entry.created_at, columns)),
             shortened(for_terminal(shell_word(one.session.name)), columns / 4),
             for_terminal(kind_of(one)), shortened_at_front(directory, columns / 4),
             spelled_out(summary_of(one.entry))});
    }
    out() << table.text(style);
}

Task<int> list_questions(bool all, bool json) {
    int status = exit_ok;
    const std::vector<OpenQuestion> questions = co_await find_questions(all, status);
    if (json) {
        JsonArray list;
        for (const OpenQuestion& one : questions) list.push_back(to_json(one));
        data_output(safe_json(list) + "\n");
        co_return status;
    }
    if (questions.empty() && status == exit_ok) err() << "No question waits for an answer.\n";
    if (const Style style = Style::of(STDOUT_FILENO); style.terminal) {
        print_table(questions, all, style);
        co_return status;
    }
    for (const OpenQuestion& one : questions) print_question(one, all);
    co_return status;
}

/// Returns the questions that the user names.
std::vector<OpenQuestion> named_questions(std::vector<OpenQuestion> questions,
                                          const InboxArguments& inbox) {
    std::vector<OpenQuestion> matches;
    std::vector<HitlRequest> open;
    std::erase_if(questions, [&inbox](const OpenQuestion& one) {
        return !inbox.session.empty() && one.session.name != inbox.session;
    });
    for (const OpenQuestion& one : questions) open.push_back(one.request());
    const auto named = bub::questions_named(inbox.question, open);
    for (const HitlRequest* one : named)
        matches.push_back(std::move(questions[static_cast<std::size_t>(one - open.data())]));
    return matches;
}

/// Finds the question that the user names. Throws Error(invalid_argument) if there is none, or several.
OpenQuestion question_of(std::vector<OpenQuestion> questions, const InboxArguments& inbox) {
    std::vector<OpenQuestion> matches = named_questions(std::move(questions), inbox);
    if (matches.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    "no question '" + inbox.question +
                        "' waits for an answer in this directory.\n"
                        "  To list the questions: cubepi inbox\n"
                        "  Those of other directories: cubepi inbox --all\n"
                        "  Those of the gateway: cubepi inbox --gateway");
    }
    if (matches.size() > 1) {
        throw Error(ErrorCode::invalid_argument, "'" + inbox.question + "' names " +
                                                     std::to_string(matches.size()) +
                                                     " questions; give the whole id, or --session");
    }
    return std::move(matches.front());
}

Task<int> show_question(InboxArguments inbox, bool json) {
    int status = exit_ok;
    std::vector<OpenQuestion> questions = co_await find_questions(false, status);
    const OpenQuestion question = question_of(std::move(questions), inbox);
    if (json) {
        data_output(safe_json(to_json(question)) + "\n");
        co_return status;
    }
    const QuestionEntry& entry = question.entry;
    out() << "Session:  " << for_terminal(question.session.name) << "\n"
          << "Question: " << for_terminal(question.id()) << "\n"
          << "Asked:    " << for_terminal(local_time(entry.created_at)) << "\n";
    if (entry.expires_at) {
        out() << (question.expired ? TerminalView("Expired:  ") : TerminalView("Expires:  "))
              << for_terminal(local_time(*entry.expires_at)) << "\n";
    }
    out() << "\n";
    if (entry.request && std::holds_alternative<ApproveRequest>(entry.request->payload)) {
        // No rows are hidden: the user reads them before consenting.
        const Style style = Style::of(STDOUT_FILENO);
        const ScreenSize whole{static_cast<std::size_t>(style.columns),
                               std::numeric_limits<std::size_t>::max()};
        bool complete = true;
        out() << ApprovalDialog::shown(*entry.request, style, whole, complete);
        co_return status;
    }
    const std::string text = entry.request ? bub::question_summary(*entry.request) : entry.damage;
    out() << for_terminal(text) << "\n";
    co_return status;
}

/// Discards the questions of a session that has a damaged one.
Task<int> discard_questions(OpenQuestion question) {
    bub::TapeCheckpointer memory(SavedSessions::here().tapes());
    const std::size_t count = co_await memory.discard_requests(question.entry.thread_id);
    const std::string text = std::to_string(count) + (count == 1 ? " question" : " questions") +
                             " of session " + visible(question.session.name);
    err() << "Discarded " << for_terminal(text) << ". The next message continues it.\n";
    co_return exit_ok;
}

/// Throws Error if the question cannot be answered.
const HitlRequest& require_answerable(const OpenQuestion& question) {
    if (!question.entry.request) {
        throw Error(ErrorCode::invalid_argument,
                    "question '" + question.id() +
                        "' is damaged and cannot be answered. To discard the questions of its "
                        "session: cubepi inbox cancel");
    }
    if (question.expired) {
        throw Error(ErrorCode::invalid_argument,
                    "question '" + question.id() +
                        "' has expired. To continue its session: cubepi chat --session " +
                        shell_word(question.session.name));
    }
    return *question.entry.request;
}

/// Throws Error if the question does not accept the answer.
bub::Answer answer_of(const InboxArguments& inbox, const HitlRequest& request) {
    bub::Answer given;
    given.question = inbox.question;
    given.text = inbox.value;
    if (inbox.what == InboxArguments::What::cancel) given.action = bub::AnswerAction::abandon;
    if (inbox.what == InboxArguments::What::approve) given.action = bub::AnswerAction::approve;
    if (inbox.what == InboxArguments::What::deny) given.action = bub::AnswerAction::deny;
    return bub::checked_answer(std::move(given), request);
}

/// Throws Error(stale_answer) if the question that the user names was answered, for example by another process at the same time.
Task<> require_unanswered(InboxArguments inbox) {
    SavedSessions saved = SavedSessions::here();
    const std::vector<SavedSession> sessions = co_await saved.on_tapes(SessionsOf::directory);
    bub::TapeCheckpointer memory(saved.tapes());
    for (const SavedSession& session : sessions) {
        if (!inbox.session.empty() && session.name != inbox.session) continue;
        const std::vector<AnswerRecord> answered =
            co_await memory.load_answer_records(session.tape, "");
        const std::string earlier = bub::earlier_answer_text(answered, inbox.question);
        if (earlier.empty()) continue;
        throw Error(ErrorCode::stale_answer, "the question '" + inbox.question + "' of session '" +
                                                 session.name + "' was already answered. " +
                                                 visible(earlier) +
                                                 " To list the questions that wait: cubepi inbox");
    }
}

/// An answer is a turn of the session, as if its operator had answered there.
Task<int> answer_question(CommandLine line) {
    int status = exit_ok;
    std::vector<OpenQuestion> questions = co_await find_questions(false, status);
    if (named_questions(questions, line.inbox).empty()) co_await require_unanswered(line.inbox);
    const OpenQuestion question = question_of(std::move(questions), line.inbox);
    const bool cancels = line.inbox.what == InboxArguments::What::cancel;
    if (cancels && !question.entry.request) co_return co_await discard_questions(question);
    const HitlRequest& request = require_answerable(question);
    // The answer is checked before a session is opened and a model is chosen.
    std::optional<bub::Answer> answer = answer_of(line.inbox, request);
    line.conversation.session = question.session.name;
    if (cancels) line.conversation.model.offline = true;  // no model is called
    const int ended = co_await run_message(std::move(line), std::string(), std::move(answer));
    co_return ended;
}

}  // namespace

int inbox_command(const CommandLine& line) {
    if (line.inbox.gateway) return gateway_inbox(line);
    switch (line.inbox.what) {
        case InboxArguments::What::list:
            return run(list_questions(line.all, line.conversation.json));
        case InboxArguments::What::show:
            return run(show_question(line.inbox, line.conversation.json));
        case InboxArguments::What::approve:
        case InboxArguments::What::deny:
        case InboxArguments::What::answer:
        case InboxArguments::What::cancel: break;
    }
    return run(answer_question(line));
}

}  // namespace cubepi::app
