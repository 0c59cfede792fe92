#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <bub/questions.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/agent/question_store.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/json_member.hpp>

#include "../config/paths.hpp"
#include "../failure.hpp"
#include "../process.hpp"
#include "../program.hpp"
#include "../terminal/safe_json.hpp"
#include "../terminal/terminal_stream.hpp"
#include "control_server.hpp"
#include "gateway.hpp"

// The questions of the gateway's sessions: `cubepi inbox --gateway`, and the end of their time.

namespace cubepi::app {

namespace {

bool may_succeed_later(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const Error& error) {
        return error.code() == ErrorCode::not_found || error.code() == ErrorCode::limit ||
               error.code() == ErrorCode::unavailable || error.code() == ErrorCode::invalid_state;
    } catch (...) {
        return false;
    }
}

constexpr std::chrono::seconds longest_pause{2};

/// A question that a turn of a channel has asked.
struct AskedQuestion {
    HitlRequest request = {};
    JsonObject asker = {};
    std::optional<double> expires_at = {};
};

std::optional<AskedQuestion> asked_question(const QuestionEntry& entry) {
    if (!entry.request) return std::nullopt;
    const JsonObject* const asker = detail::object_member(entry.request->extra, bub::asker_key);
    // Conversations at a terminal store theirs in the same tapes.
    if (!asker || detail::string_member(*asker, "session").empty()) return std::nullopt;
    AskedQuestion question;
    question.request = *entry.request;
    question.asker = *asker;
    question.expires_at = entry.expires_at;
    return question;
}

Task<std::vector<AskedQuestion>> find_questions(std::shared_ptr<bub::TapeStore> tapes) {
    bub::TapeCheckpointer memory(std::move(tapes));
    std::vector<AskedQuestion> found;
    std::string cursor;
    do {
        QuestionQuery query = QuestionQuery().limit(200).after(cursor);
        const QuestionPage page = co_await memory.list_requests(std::move(query));
        for (const QuestionEntry& entry : page.entries) {
            if (std::optional<AskedQuestion> one = asked_question(entry))
                found.push_back(std::move(*one));
        }
        cursor = page.next;
    } while (!cursor.empty());
    co_return found;
}

AskedQuestion question_of(std::vector<AskedQuestion> questions, const std::string& name) {
    std::vector<HitlRequest> open;
    for (const AskedQuestion& one : questions) open.push_back(one.request);
    const auto named = bub::questions_named(name, open);
    if (named.size() != 1 || name.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    named.empty() ? "no question '" + name + "' waits for an answer"
                                  : "'" + name + "' names several questions; give the whole name");
    }
    return std::move(questions[static_cast<std::size_t>(named.front() - open.data())]);
}

/// Throws Error if the question does not accept the answer.
bub::Answer answer_of(const JsonObject& given, const HitlRequest& request) {
    const std::string action = detail::text_member(given, "action");
    bub::Answer answer;
    answer.question = detail::text_member(given, "question");
    answer.text = detail::text_member(given, "text");
    if (action == "cancel") answer.action = bub::AnswerAction::abandon;
    if (action == "approve") answer.action = bub::AnswerAction::approve;
    if (action == "deny") answer.action = bub::AnswerAction::deny;
    return bub::checked_answer(std::move(answer), request);
}

/// Returns a message of an operator to the session of a question.
bub::Envelope message_to(const AskedQuestion& question) {
    bub::Envelope message;
    message.channel = detail::text_member(question.asker, "channel");
    message.chat_id = detail::text_member(question.asker, "chat");
    message.session_id = detail::text_member(question.asker, "session");
    message.from_operator = true;
    message.is_active = true;
    return message;
}

JsonObject list_of(const std::vector<AskedQuestion>& questions) {
    JsonArray list;
    for (const AskedQuestion& one : questions) {
        JsonObject object;
        object["id"] = bub::question_name(one.request);
        object["asker"] = one.asker;
        object["request"] = to_json(one.request);
        object["summary"] = bub::question_summary(one.request);
        if (one.expires_at) object["expires_at"] = *one.expires_at;
        list.push_back(std::move(object));
    }
    return JsonObject{{"questions", std::move(list)}};
}

using detail::object_member;
using detail::string_member;
using detail::text_member;
using What = InboxArguments::What;

/// A question as the gateway describes it.
struct GatewayQuestion {
    explicit GatewayQuestion(const JsonObject& object) : all(object) {
        id = text_member(object, "id");
        if (const JsonObject* const request = object_member(object, "request")) {
            const Json* const created = request->if_contains("created_at");
            if (created && created->is_number()) created_at = created->to_number<double>();
        }
        if (const JsonObject* const asker = object_member(object, "asker")) {
            session = text_member(*asker, "session");
            user = text_member(*asker, "user");
        }
        summary = text_member(object, "summary");
        std::replace(summary.begin(), summary.end(), '\n', ' ');
    }

    const JsonObject& all;
    std::string id = {};
    double created_at = 0;
    std::string session = {};
    std::string user = {};
    std::string summary = {};
};

JsonObject call(std::string_view command) {
    return call_gateway(gateway_socket(), JsonObject{{"command", command}});
}

void print_question(const GatewayQuestion& question) {
    out() << for_terminal(question.id) << "\t" << for_terminal(local_time(question.created_at))
          << "\t" << for_terminal(question.session) << "\t"
          << for_terminal(question.user.empty() ? "-" : question.user) << "\t"
          << for_terminal(question.summary) << "\n";
}

int list_questions(const InboxArguments& arguments, bool json) {
    const JsonObject answer = call("questions");
    if (json) {
        data_output(safe_json(answer.at("questions")) + "\n");
        return exit_ok;
    }
    std::size_t shown = 0;
    for (const Json& one : answer.at("questions").as_array()) {
        const GatewayQuestion question(one.as_object());
        if (!question.id.starts_with(arguments.question)) continue;
        if (!arguments.session.empty() && arguments.session != question.session) continue;
        print_question(question);
        ++shown;
    }
    if (shown == 0) err() << "No question of the gateway waits for an answer.\n";
    return exit_ok;
}

const char* action_of(What what) {
    switch (what) {
        case What::approve: return "approve";
        case What::deny: return "deny";
        case What::cancel: return "cancel";
        default: return "answer";
    }
}

}  // namespace

Task<> ExpiredQuestions::notify(std::vector<Due> due, Receive receive, Warn warn) {
    std::set<std::string> keys;
    for (const Due& one : due) keys.insert(one.key);
    std::erase_if(notified_, [&keys](const std::string& key) { return !keys.contains(key); });
    for (Due& one : due) {
        if (!notified_.insert(one.key).second) continue;
        Task<> receiving = receive(std::move(one.message));
        const Outcome<> received = co_await outcome_of(std::move(receiving));
        if (received) continue;
        if (received.cancelled()) received.rethrow();
        if (may_succeed_later(received.failure())) {
            notified_.erase(one.key);
        } else {
            warn("the session of an expired question was not continued: " +
                 explain(received.failure()).text);
        }
    }
}

/// An answer is a turn of the session, as if an operator had answered in its chat.
Task<JsonObject> Gateway::answer_question(JsonObject request) {
    std::vector<AskedQuestion> open = co_await find_questions(instance_->tapes());
    const AskedQuestion question =
        question_of(std::move(open), detail::text_member(request, "question"));
    bub::Envelope message = message_to(question);
    message.answer = answer_of(request, question.request);
    message.context["sender_id"] = local_user();
    // The turn that continues the run is recognized when it is tried again (D42).
    message.inbound_id = "inbox-" + Runtime::standard()->ids->next();
    JsonObject answered;
    answered["session"] = message.session_id.value_or("");
    co_await instance_->manager().receive(std::move(message));
    co_return answered;
}

Task<JsonObject> Gateway::questions() {
    const std::vector<AskedQuestion> open = co_await find_questions(instance_->tapes());
    co_return list_of(open);
}

Task<std::vector<std::string>> Gateway::channels_of_questions() {
    const std::vector<AskedQuestion> open = co_await find_questions(instance_->tapes());
    std::vector<std::string> channels;
    for (const AskedQuestion& one : open)
        channels.push_back(detail::text_member(one.asker, "channel"));
    co_return channels;
}

Task<> Gateway::watch_deadlines() {
    const std::shared_ptr<Clock> clock = Runtime::standard()->clock;
    for (;;) {
        // A question that was asked meanwhile may be the first to expire.
        co_await clock->sleep_for(longest_pause);
        if (state_ != State::running) continue;
        const Outcome<> done = co_await outcome_of(expire_due());
        if (done.cancelled()) done.rethrow();
        if (!done) warn("expired questions were not closed: " + explain(done.failure()).text);
    }
}

/// A question of an ended process is found as well. The turn does nothing if the run has continued meanwhile.
Task<> Gateway::expire_due() {
    const std::chrono::duration<double> now = Runtime::standard()->clock->wall().time_since_epoch();
    bub::TapeCheckpointer memory(instance_->tapes());
    QuestionQuery query = QuestionQuery().order(QuestionOrder::deadline).limit(200);
    const QuestionPage page = co_await memory.list_requests(std::move(query));
    std::vector<ExpiredQuestions::Due> due;
    for (const QuestionEntry& entry : page.entries) {
        if (!entry.expires_at || *entry.expires_at > now.count()) break;
        const std::optional<AskedQuestion> question = asked_question(entry);
        if (!question) continue;
        ExpiredQuestions::Due one;
        one.key = entry.thread_id + "\n" + bub::question_name(question->request);
        one.message = message_to(*question);
        one.message.answer.emplace().action = bub::AnswerAction::expire;
        one.message.answer->question = entry.question_id;
        one.message.inbound_id = "expired-" + Runtime::standard()->ids->next();
        due.push_back(std::move(one));
    }
    ExpiredQuestions::Receive receive = [this](bub::Envelope message) {
        return instance_->manager().receive(std::move(message));
    };
    ExpiredQuestions::Warn warning = [this](const std::string& text) { warn(text); };
    Task<> notifying = expired_.notify(std::move(due), std::move(receive), std::move(warning));
    co_await std::move(notifying);
}

int gateway_inbox(const CommandLine& line) {
    const InboxArguments& inbox = line.inbox;
    if (inbox.what == What::list || inbox.what == What::show)
        return list_questions(inbox, line.conversation.json);
    const JsonObject request{{"command", "answer"},
                             {"question", inbox.question},
                             {"action", action_of(inbox.what)},
                             {"text", inbox.value}};
    const JsonObject answered = call_gateway(gateway_socket(), request);
    err() << "The gateway continues the session " << for_terminal(text_member(answered, "session"))
          << "; its chat receives the answer.\n";
    return exit_ok;
}

}  // namespace cubepi::app
