#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <bub/questions.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>

#include "commands.hpp"
#include "exit_code.hpp"
#include "failure.hpp"
#include "local_time.hpp"
#include "saved_sessions.hpp"
#include "shell_quoting.hpp"
#include "terminal/safe_json.hpp"
#include "terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

/// A question of a saved session.
struct OpenQuestion {
    SavedSession session = {};
    HitlRequest request = {};
    std::string run_id = {};
    bool expired = false;
};

double now() {
    const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration<double>(since_epoch).count();
}

std::string kind_of(const HitlRequest& request) {
    if (std::holds_alternative<ApproveRequest>(request.payload)) return "approve";
    return std::holds_alternative<ConfirmRequest>(request.payload) ? "confirm" : "ask";
}

/// One line about the question.
std::string summary_of(const HitlRequest& request) {
    std::string text = bub::question_summary(request);
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
}

/// The questions of the sessions, oldest first. A session that cannot be read does not hide the others.
Task<std::vector<OpenQuestion>> find_questions(bool all, int& status) {
    SavedSessions saved = SavedSessions::here();
    std::vector<SavedSession> sessions;
    if (all) {
        sessions = co_await saved.on_tapes();
    } else {
        sessions = co_await saved.on_tapes_here();
    }
    bub::TapeCheckpointer memory(saved.tapes());
    std::vector<OpenQuestion> found;
    for (const SavedSession& session : sessions) {
        std::vector<PendingRequest> pending;
        std::exception_ptr problem;
        try {
            pending = co_await memory.load_pending_requests(session.tape);
        } catch (const Error&) {
            problem = std::current_exception();
        }
        if (problem) {
            const Failure failure = explain(problem);
            err() << "cubepi: session "
                  << for_terminal(printable(session.name) + ": " + failure.text) << "\n";
            status = failure.exit_code;
        }
        for (PendingRequest& one : pending) {
            OpenQuestion question;
            question.session = session;
            const double deadline =
                one.request.created_at + one.request.timeout_seconds.value_or(0);
            question.expired = one.expired || (one.request.timeout_seconds && deadline <= now());
            question.run_id = std::move(one.run_id);
            question.request = std::move(one.request);
            found.push_back(std::move(question));
        }
    }
    std::sort(found.begin(), found.end(), [](const OpenQuestion& a, const OpenQuestion& b) {
        if (a.request.created_at != b.request.created_at)
            return a.request.created_at < b.request.created_at;
        return a.request.question_id < b.request.question_id;
    });
    co_return found;
}

JsonObject to_json(const OpenQuestion& question) {
    JsonObject object;
    object["session"] = question.session.name;
    object["directory"] = question.session.workspace;
    object["tape"] = question.session.tape;
    object["run_id"] = question.run_id;
    object["expired"] = question.expired;
    object["request"] = cubepi::to_json(question.request);
    return object;
}

void print_question(const OpenQuestion& question, bool with_directory) {
    out() << for_terminal(question.request.question_id) << "\t"
          << for_terminal(local_time(question.request.created_at)) << "\t"
          << for_terminal(shell_word(question.session.name)) << "\t"
          << for_terminal(question.expired ? "expired" : kind_of(question.request)) << "\t"
          << for_terminal(summary_of(question.request));
    if (with_directory) out() << "\t" << for_terminal(question.session.workspace);
    out() << "\n";
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
    for (const OpenQuestion& one : questions) print_question(one, all);
    co_return status;
}

/// Finds the question by its id or a prefix of it. Throws Error(invalid_argument) if there is none, or several.
OpenQuestion question_of(std::vector<OpenQuestion> questions, const InboxArguments& inbox) {
    std::vector<OpenQuestion> matches;
    for (OpenQuestion& one : questions) {
        const bool session = inbox.session.empty() || one.session.name == inbox.session;
        if (session && one.request.question_id.starts_with(inbox.question))
            matches.push_back(std::move(one));
    }
    if (matches.empty()) {
        throw Error(ErrorCode::invalid_argument, "no question '" + inbox.question +
                                                     "' waits for an answer in this directory. To "
                                                     "list the questions: cubepi inbox");
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
    out() << "Session:  " << for_terminal(question.session.name) << "\n"
          << "Question: " << for_terminal(question.request.question_id) << "\n"
          << "Asked:    " << for_terminal(local_time(question.request.created_at)) << "\n";
    if (question.request.timeout_seconds) {
        const double deadline = question.request.created_at + *question.request.timeout_seconds;
        out() << (question.expired ? TerminalView("Expired:  ") : TerminalView("Expires:  "))
              << for_terminal(local_time(deadline)) << "\n";
    }
    out() << "\n" << for_terminal(bub::question_summary(question.request)) << "\n";
    co_return status;
}

/// An answer is a turn of the session, as if its operator had typed the command there.
Task<int> answer_question(CommandLine line) {
    int status = exit_ok;
    std::vector<OpenQuestion> questions = co_await find_questions(false, status);
    OpenQuestion question = question_of(std::move(questions), line.inbox);
    if (question.expired) {
        throw Error(ErrorCode::invalid_argument,
                    "question '" + question.request.question_id +
                        "' has expired. To continue its session: cubepi chat --session " +
                        shell_word(question.session.name));
    }
    bub::GivenAnswer given;
    given.question_id = question.request.question_id;
    given.text = line.inbox.value;
    std::string text = ",answer ";
    if (line.inbox.what == InboxArguments::What::approve) {
        given.action = bub::AnswerAction::approve;
        text = ",approve ";
    } else if (line.inbox.what == InboxArguments::What::deny) {
        given.action = bub::AnswerAction::deny;
        text = ",deny ";
    }
    if (line.inbox.what == InboxArguments::What::cancel) {
        text = ",abandon";
    } else {
        // Checked before a session is opened and a model is chosen.
        (void)check_answer(question.request, bub::answer_value(given, question.request));
        text += given.question_id + (given.text.empty() ? "" : " " + given.text);
    }
    line.conversation.session = question.session.name;
    const int ended = co_await run_message(std::move(line), std::move(text), true);
    co_return ended;
}

}  // namespace

int inbox_command(const CommandLine& line) {
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
