// The questions of the gateway's sessions: for `cubepi inbox --gateway`, and the end of their time.

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <bub/questions.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/agent/hitl_inbox.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/json_member.hpp>

#include "../failure.hpp"
#include "../local_user.hpp"
#include "gateway.hpp"

namespace cubepi::app {

namespace {

constexpr std::chrono::seconds longest_pause{2};

/// A question that a turn of a channel has asked.
struct AskedQuestion {
    HitlRequest request = {};
    JsonObject asker = {};
    std::optional<double> expires_at = {};
};

std::optional<AskedQuestion> asked_question(const InboxEntry& entry) {
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
        InboxQuery query = InboxQuery().limit(200).after(cursor);
        const InboxPage page = co_await memory.list_requests(std::move(query));
        for (const InboxEntry& entry : page.entries) {
            if (std::optional<AskedQuestion> one = asked_question(entry))
                found.push_back(std::move(*one));
        }
        cursor = page.next;
    } while (!cursor.empty());
    co_return found;
}

AskedQuestion question_of(std::vector<AskedQuestion> questions, const std::string& id) {
    const auto matches = [&id](const AskedQuestion& one) {
        return one.request.question_id.starts_with(id) || bub::names_question(id, one.request);
    };
    const auto count = std::count_if(questions.begin(), questions.end(), matches);
    if (count != 1 || id.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    count == 0 ? "no question '" + id + "' waits for an answer"
                               : "'" + id + "' names several questions; give the whole id");
    }
    return std::move(*std::find_if(questions.begin(), questions.end(), matches));
}

/// Returns the comma command for an answer. Throws Error if the question does not accept it.
std::string answer_command(const JsonObject& given, const HitlRequest& request) {
    const std::string action = detail::text_member(given, "action");
    if (action == "cancel") return ",abandon";
    bub::GivenAnswer answer;
    answer.question_id = request.question_id;
    answer.text = detail::text_member(given, "text");
    std::string command = ",answer ";
    if (action == "approve") {
        answer.action = bub::AnswerAction::approve;
        command = ",approve ";
    } else if (action == "deny") {
        answer.action = bub::AnswerAction::deny;
        command = ",deny ";
    }
    (void)check_answer(request, bub::answer_value(answer, request));
    return command + answer.question_id + (answer.text.empty() ? "" : " " + answer.text);
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
        object["asker"] = one.asker;
        object["request"] = to_json(one.request);
        object["summary"] = bub::question_summary(one.request);
        if (one.expires_at) object["expires_at"] = *one.expires_at;
        list.push_back(std::move(object));
    }
    return JsonObject{{"questions", std::move(list)}};
}

}  // namespace

/// An answer is a turn of the session, as if an operator had sent the command to its chat.
Task<JsonObject> Gateway::answer_question(JsonObject request) {
    std::vector<AskedQuestion> open = co_await find_questions(instance_->tapes());
    const AskedQuestion question =
        question_of(std::move(open), detail::text_member(request, "question"));
    bub::Envelope message = message_to(question);
    message.content = answer_command(request, question.request);
    message.context["sender_id"] = local_user();
    JsonObject answered;
    answered["session"] = message.session_id.value_or("");
    co_await instance_->manager().receive(std::move(message));
    co_return answered;
}

Task<JsonObject> Gateway::questions() {
    const std::vector<AskedQuestion> open = co_await find_questions(instance_->tapes());
    co_return list_of(open);
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
    InboxQuery query = InboxQuery().order(InboxOrder::deadline).limit(200);
    const InboxPage page = co_await memory.list_requests(std::move(query));
    std::vector<ExpiredQuestions::Due> due;
    for (const InboxEntry& entry : page.entries) {
        if (!entry.expires_at || *entry.expires_at > now.count()) break;
        const std::optional<AskedQuestion> question = asked_question(entry);
        if (!question) continue;
        ExpiredQuestions::Due one;
        one.key = entry.thread_id + "\n" + entry.question_id;
        one.message = message_to(*question);
        one.message.rest[bub::expired_key] = entry.question_id;
        due.push_back(std::move(one));
    }
    ExpiredQuestions::Receive receive = [this](bub::Envelope message) {
        return instance_->manager().receive(std::move(message));
    };
    ExpiredQuestions::Warn warning = [this](const std::string& text) { warn(text); };
    Task<> notifying = expired_.notify(std::move(due), std::move(receive), std::move(warning));
    co_await std::move(notifying);
}

}  // namespace cubepi::app
