#include "gateway_questions.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <bub/questions.hpp>
#include <bub/tape/divided_tape_store.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/agent/question_store.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/error_code_of.hpp>
#include <cubepi/core/support/json_member.hpp>

#include "../failure.hpp"
#include "gateway.hpp"

// The questions of the gateway's sessions: the operations on them, and the end of their time.

namespace cubepi::app {

namespace {

/// As JSON: a chat or a user may have any name.
std::string name_of(std::string_view channel, std::string_view chat, std::string_view user) {
    return boost::json::serialize(JsonArray{channel, chat, user});
}

std::string asker_name(const HitlRequest& request) {
    const JsonObject* const asker = detail::object_member(request.extra, bub::asker_key);
    if (!asker) throw Error(ErrorCode::invalid_argument, "the question has no user");
    return name_of(detail::string_member(*asker, "channel"), detail::string_member(*asker, "chat"),
                   detail::string_member(*asker, "user"));
}

/// The name of all operators on the tape.
constexpr std::string_view operator_name = "an operator";

/// Says whether the answer of an operator counts (D242). A turn that waits is not waited for.
class AnswerWatch {
public:
    AnswerWatch(std::shared_ptr<GatewayInstance> instance, const QuestionEntry& question,
                const bub::Envelope& message)
        : instance_(std::move(instance)),
          tape_(question.thread_id),
          run_id_(question.run_id),
          name_(bub::question_name(*question.request)),
          channel_(message.channel.value_or("")),
          message_(message.inbound_id.value_or("")),
          place_(message.answer->place) {}

    /// Returns "accepted", or "waiting" if its turn has not reached it. Throws Error(invalid_state) that says who was first.
    Task<std::string> wait() const {
        // A question of a sub-agent in the background has no tape.
        std::string state = tape_.empty() ? "accepted" : "waiting";
        const std::shared_ptr<Clock> clock = Runtime::standard()->clock;
        const Clock::time_point end = clock->now() + longest_wait;
        while (state == "waiting" && clock->now() < end) {
            // Before the records are read: a turn that ends in between has written them.
            const bool ended = co_await has_ended();
            const bool counts = co_await is_recorded();
            if (counts) state = "accepted";
            if (!counts && ended) {
                const bool is_open = co_await still_open();
                throw Error(ErrorCode::invalid_state,
                            is_open
                                ? "the answer was not accepted, and the question is still open"
                                : "the question was withdrawn or has expired before the answer");
            }
            if (state == "waiting") co_await clock->sleep_for(pause);
        }
        co_return state;
    }

private:
    static constexpr std::chrono::milliseconds pause{20};
    static constexpr std::chrono::seconds longest_wait{2};

    Task<bool> has_ended() const {
        std::string channel = channel_;
        Task<std::optional<bub::FoundMessage>> finding =
            instance_->manager().find_message(std::move(channel), message_);
        const std::optional<bub::FoundMessage> found = co_await std::move(finding);
        co_return !found || found->progress == bub::MessageProgress::finished;
    }
    /// Returns true if the tape has this answer. Throws Error for another one, which may be that of an operator of another gateway.
    Task<bool> is_recorded() const {
        bub::TapeCheckpointer memory(instance_->tapes());
        const std::vector<AnswerRecord> records =
            co_await memory.load_answer_records(tape_, run_id_);
        for (const AnswerRecord& one : records) {
            if (!one.request || bub::question_name(*one.request) != name_) continue;
            if (one.user == operator_name && one.channel == place_) co_return true;
            throw Error(ErrorCode::invalid_state,
                        "another answer came first. " + bub::earlier_answer_text(records, name_));
        }
        co_return false;
    }
    Task<bool> still_open() const;

    const std::shared_ptr<GatewayInstance> instance_;
    const std::string tape_;
    const std::string run_id_;
    const std::string name_;
    const std::string channel_;
    const std::string message_;
    const std::string place_;  ///< of the answer, with its mark
};

bool may_succeed_later(const std::exception_ptr& failure) {
    const ErrorCode code = detail::error_code_of(failure);
    return code == ErrorCode::not_found || code == ErrorCode::limit ||
           code == ErrorCode::unavailable || code == ErrorCode::invalid_state ||
           bub::cause_of(failure) == bub::FailureCause::outage;
}

/// Returns a sentence for operators who answer later.
std::string text_about(const std::string& name, QuestionAction action) {
    const std::string who = name.empty() ? "another operator" : name;
    switch (action) {
        case QuestionAction::always:
        case QuestionAction::approve: return who + " has approved it before";
        case QuestionAction::edit: return who + " has approved it with changes before";
        case QuestionAction::deny: return who + " has denied it before";
        case QuestionAction::cancel: return who + " has withdrawn it before";
        case QuestionAction::answer: break;
    }
    return who + " has answered it before";
}

constexpr std::chrono::seconds longest_pause{2};

/// The questions of a page are those of the gateway's sessions. The rest of what the store has are those of conversations at a terminal,
/// which have no session, and of gateways with another namespace.
struct AskedPage {
    std::vector<QuestionEntry> entries = {};  ///< each with its request
    std::string next = {};
    std::vector<std::string> unread = {};  ///< the names of the databases that cannot be read
};

JsonObject asker_of(const QuestionEntry& entry) { return bub::asker_of(entry.request->extra); }

/// Reads a page of the store. With `due_at`, in the order of their deadlines, up to the first one that is later.
Task<AskedPage> read_page(std::shared_ptr<GatewayInstance> instance, PageArguments which,
                          std::optional<double> due_at) {
    constexpr std::size_t longest_page = 1'000;
    QuestionQuery query = QuestionQuery()
                              .limit(std::clamp<std::size_t>(which.limit, 1, longest_page))
                              .after(std::move(which.after))
                              .order(due_at ? QuestionOrder::deadline : QuestionOrder::age);
    bub::Readable<QuestionPage> read =
        co_await bub::readable_requests(instance->tapes(), std::move(query));
    AskedPage page;
    page.next = std::move(read.list.next);
    page.unread = std::move(read.unread);
    for (QuestionEntry& entry : read.list.entries) {
        if (due_at && (!entry.expires_at || *entry.expires_at > *due_at)) {
            page.next.clear();
            break;
        }
        if (!entry.request) continue;
        std::string session = detail::text_member(asker_of(entry), "session");
        if (session.empty()) continue;
        const bool is_own = co_await instance->owns_tape(entry.thread_id, std::move(session));
        if (is_own) page.entries.push_back(std::move(entry));
    }
    co_return page;
}

Task<AskedPage> read_all(std::shared_ptr<GatewayInstance> instance, std::optional<double> due_at) {
    AskedPage all;
    PageArguments which;
    which.limit = 200;
    do {
        AskedPage page = co_await read_page(instance, which, due_at);
        all.entries.insert(all.entries.end(), std::move_iterator(page.entries.begin()),
                           std::move_iterator(page.entries.end()));
        if (!page.unread.empty()) all.unread = std::move(page.unread);
        which.after = std::move(page.next);
    } while (!which.after.empty());
    co_return all;
}

/// Returns the questions of sub-agents in the background.
std::vector<QuestionEntry> task_questions(const GatewayInstance& instance) {
    std::vector<QuestionEntry> entries;
    for (HitlRequest& request : instance.task_questions()) {
        QuestionEntry& entry = entries.emplace_back();
        entry.question_id = request.question_id;
        if (request.timeout_seconds)
            entry.expires_at = request.created_at + *request.timeout_seconds;
        entry.request = std::move(request);
    }
    return entries;
}

/// Returns the question that the operator names. Throws Error.
Task<QuestionEntry> find_question(std::shared_ptr<GatewayInstance> instance, std::string name) {
    AskedPage read = co_await read_all(instance, std::nullopt);
    std::vector<QuestionEntry> all = std::move(read.entries);
    std::vector<QuestionEntry> of_tasks = task_questions(*instance);
    std::move(of_tasks.begin(), of_tasks.end(), std::back_inserter(all));
    std::vector<HitlRequest> open;
    for (const QuestionEntry& one : all) open.push_back(*one.request);
    const auto named = bub::questions_named(name, open);
    // A name of one question here may be that of others there, too.
    const bool is_whole = named.size() == 1 && bub::question_name(*named.front()) == name;
    if (!is_whole && !read.unread.empty()) {
        std::string databases;
        for (const std::string& one : read.unread)
            databases += (databases.empty() ? "" : "', '") + one;
        throw Error(ErrorCode::unavailable, "the question '" + name + "' may be in the database '" +
                                                databases +
                                                "', which cannot be used at the moment");
    }
    if (named.empty())
        throw Error(ErrorCode::not_found, "no question '" + name + "' waits for an answer");
    if (named.size() > 1)
        throw Error(ErrorCode::invalid_argument,
                    "'" + name + "' names several questions; give the whole name");
    co_return std::move(all[static_cast<std::size_t>(named.front() - open.data())]);
}

/// Throws Error if the question does not accept the answer.
bub::Answer answer_of(const AnswerArguments& given, const HitlRequest& request) {
    bub::Answer answer;
    answer.question = given.question;
    answer.text = given.text;
    if (given.action == QuestionAction::cancel) answer.action = bub::AnswerAction::abandon;
    if (given.action == QuestionAction::approve || given.action == QuestionAction::always)
        answer.action = bub::AnswerAction::approve;
    if (given.action == QuestionAction::deny) answer.action = bub::AnswerAction::deny;
    if (given.action == QuestionAction::edit) {
        const bool is_call = std::holds_alternative<ApproveRequest>(request.payload);
        if (!is_call || !given.arguments)
            throw Error(ErrorCode::invalid_argument,
                        "'edit' needs the question about a call, and 'arguments': an object");
        answer.action = bub::AnswerAction::approve;
        answer.value = Json(to_json(ApproveAnswer::edit(*given.arguments)));
    }
    return bub::checked_answer(std::move(answer), request);
}

/// Returns a message of an operator to the session of a question.
bub::Envelope message_to(const QuestionEntry& question) {
    const JsonObject asker = asker_of(question);
    bub::Envelope message;
    message.channel = detail::text_member(asker, "channel");
    message.chat_id = detail::text_member(asker, "chat");
    message.session_id = detail::text_member(asker, "session");
    message.from_operator = true;
    message.is_active = true;
    return message;
}

Task<bool> AnswerWatch::still_open() const {
    const AskedPage open = co_await read_all(instance_, std::nullopt);
    for (const QuestionEntry& one : open.entries)
        if (one.thread_id == tape_ && bub::question_name(*one.request) == name_) co_return true;
    // It may be in a database that cannot be read.
    co_return !open.unread.empty();
}

GatewayQuestion shown(const QuestionEntry& entry) {
    GatewayQuestion question;
    question.id = bub::question_name(*entry.request);
    question.asker = asker_of(entry);
    question.request = to_json(*entry.request);
    question.summary = bub::question_summary(*entry.request);
    question.expires_at = entry.expires_at;
    return question;
}

}  // namespace

ApprovalRule GrantedRules::offered_by(const HitlRequest& request) {
    const auto* const approve = std::get_if<ApproveRequest>(&request.payload);
    const JsonObject* const details = approve ? approve->details.if_object() : nullptr;
    const std::string rule = details ? detail::text_member(*details, "rule") : "";
    if (rule.empty())
        throw Error(ErrorCode::invalid_argument,
                    "no rule can allow this call; approve it without 'always'");
    return ApprovalRule::parse(rule);
}

bool GrantedRules::add(const HitlRequest& request, const ApprovalRule& rule) {
    std::string asker = asker_name(request);
    const std::lock_guard lock(mutex_);
    if (!rules_.contains(asker) && rules_.size() >= most_askers)
        throw Error(ErrorCode::limit,
                    "too many users have rules of operators; write them into "
                    "gateway.rules, and run: cubepi gateway reload");
    std::vector<ApprovalRule>& rules = rules_[std::move(asker)];
    if (std::find(rules.begin(), rules.end(), rule) != rules.end()) return false;
    if (rules.size() >= most_of_asker)
        throw Error(ErrorCode::limit,
                    "the user has too many rules of operators; write them into "
                    "gateway.rules, and run: cubepi gateway reload");
    rules.push_back(rule);
    return true;
}

void GrantedRules::withdraw(const HitlRequest& request, const ApprovalRule& rule) {
    const std::string asker = asker_name(request);
    const std::lock_guard lock(mutex_);
    const auto found = rules_.find(asker);
    if (found == rules_.end()) return;
    std::erase(found->second, rule);
    if (found->second.empty()) rules_.erase(found);
}

void GrantedRules::add_to(ToolRules& rules, const bub::Envelope& message) const {
    const std::string asker = name_of(message.channel.value_or(""), message.chat_id.value_or(""),
                                      bub::sender_of(message));
    const std::lock_guard lock(mutex_);
    const auto found = rules_.find(asker);
    if (found == rules_.end()) return;
    for (const ApprovalRule& rule : found->second) rules.allow(rule);
}

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

Task<GatewayQuestions> GatewayApi::questions(PageArguments page) {
    const std::shared_ptr<GatewayInstance> instance = gateway_.instance();
    AskedPage read = co_await read_page(instance, std::move(page), std::nullopt);
    GatewayQuestions result;
    for (const QuestionEntry& one : read.entries) result.questions.push_back(shown(one));
    if (read.next.empty())
        for (const QuestionEntry& one : task_questions(*instance))
            result.questions.push_back(shown(one));
    if (!read.next.empty()) result.next = std::move(read.next);
    if (!read.unread.empty()) result.unread_databases = std::move(read.unread);
    co_return result;
}

Task<GatewayQuestion> GatewayApi::question(QuestionArguments which) {
    const QuestionEntry found = co_await find_question(gateway_.instance(), which.question);
    co_return shown(found);
}

/// Throws Error(busy) if another answer to the question is on its way: its operator and this one would both be told that their answer
/// counts. An answer whose turn has ended while the question is open was not accepted.
Task<> GatewayApi::claim_answer(std::string question, std::string channel) {
    const auto earlier = answers_.find(question);
    if (earlier != answers_.end()) {
        bool ended = false;
        const std::string text = earlier->second.text;
        if (const std::string sent = earlier->second.message; !sent.empty()) {
            Task<std::optional<bub::FoundMessage>> finding =
                gateway_.instance()->manager().find_message(std::move(channel), sent);
            const std::optional<bub::FoundMessage> found = co_await std::move(finding);
            const auto now = answers_.find(question);
            const bool is_last = now == answers_.end() || now->second.message == sent;
            ended = is_last && (!found || found->progress == bub::MessageProgress::finished);
        }
        if (!ended)
            throw Error(ErrorCode::busy,
                        text.empty() ? "another operator has just answered the question" : text);
    }
    constexpr std::size_t most = 1'000;
    while (answers_.size() >= most) answers_.erase(answers_.begin());
    answers_[std::move(question)] = SentAnswer();
}

/// An operator whose page still shows the question reads who was faster.
void GatewayApi::explain_missing_question(const std::exception_ptr& failure,
                                          const std::string& name) const {
    if (logged_error(failure) == to_string(ErrorCode::not_found)) {
        for (const auto& [key, sent] : answers_) {
            if (!sent.text.empty() && key.ends_with("\n" + name))
                throw Error(ErrorCode::invalid_state, sent.text);
        }
    }
    std::rethrow_exception(failure);
}

/// An answer is a turn of the session, as if an operator had answered in its chat. What another user, or another process, has answered
/// meanwhile is found when the turn begins.
Task<AnsweredQuestion> GatewayApi::answer(AnswerArguments which, GatewayCaller caller) {
    const std::shared_ptr<GatewayInstance> instance = gateway_.instance();
    Task<QuestionEntry> finding = find_question(instance, which.question);
    Outcome<QuestionEntry> found = co_await outcome_of(std::move(finding));
    if (found.cancelled()) found.rethrow();
    if (!found) explain_missing_question(found.failure(), which.question);
    const QuestionEntry& question = found.value();
    bub::Envelope message = message_to(question);
    message.answer = answer_of(which, *question.request);
    const std::string name = bub::question_name(*question.request);
    const std::string key = question.thread_id + "\n" + name;
    SentAnswer before;
    if (const auto earlier = answers_.find(key); earlier != answers_.end())
        before = earlier->second;
    co_await claim_answer(key, message.channel.value_or(""));
    bool sent = false;
    const std::shared_ptr<const void> over(nullptr, [this, &key, &sent, &before](const void*) {
        if (sent) return;
        answers_.erase(key);
        if (!before.message.empty()) answers_[key] = before;
    });
    // An earlier answer may have closed it before the claim.
    Task<QuestionEntry> repeating = find_question(instance, name);
    const Outcome<QuestionEntry> repeated = co_await outcome_of(std::move(repeating));
    if (repeated.cancelled()) repeated.rethrow();
    if (!repeated) {
        if (!before.text.empty()) answers_[key] = before;
        explain_missing_question(repeated.failure(), name);
    }
    // Users of the chat see who has answered. The log has the name.
    message.context["sender_id"] = operator_name;
    // The turn that continues the run is recognized when it is tried again (D42).
    const std::string mark = Runtime::standard()->ids->next();
    const std::string id = "inbox-" + mark;
    message.inbound_id = id;
    message.context["answer_mark"] = mark.substr(0, 8);
    bub::note_answer(message);
    AnsweredQuestion answered;
    answered.session = message.session_id.value_or("");
    const AnswerWatch watch(instance, question, message);
    // Before the turn that continues begins: its next calls are decided by the rule.
    std::optional<ApprovalRule> granted;
    if (which.action == QuestionAction::always) {
        granted = GrantedRules::offered_by(*question.request);
        if (!instance->granted_rules().add(*question.request, *granted)) granted.reset();
    }
    const std::shared_ptr<const void> unless_used(nullptr, [&](const void*) {
        if (granted) instance->granted_rules().withdraw(*question.request, *granted);
    });
    co_await instance->manager().receive(std::move(message));
    sent = true;
    SentAnswer last;
    last.message = id;
    last.text = text_about(caller.name, which.action);
    answers_[key] = last;
    // A withdrawal leaves no record.
    if (which.action == QuestionAction::cancel) co_return answered;
    Task<std::string> watching = watch.wait();
    Outcome<std::string> state = co_await outcome_of(std::move(watching));
    if (!state) {
        // Another answer may be on its way by now.
        if (const auto now = answers_.find(key); now != answers_.end() && now->second.message == id)
            now->second.text.clear();
        state.rethrow();
    }
    granted.reset();
    answered.state = std::move(state).value();
    co_return answered;
}

Task<> Gateway::watch_deadlines() {
    const std::shared_ptr<Clock> clock = Runtime::standard()->clock;
    bool is_reported = false;
    for (;;) {
        // A question that was asked meanwhile may be the first to expire.
        co_await clock->sleep_for(longest_pause);
        if (state_ != State::running) continue;
        const Outcome<> done = co_await outcome_of(expire_due());
        if (done.cancelled()) done.rethrow();
        if (!done && !is_reported)
            warn("expired questions were not closed: " + explain(done.failure()).text);
        is_reported = !done;
    }
}

/// A question of an ended process is found as well. The turn does nothing if the run has continued meanwhile.
Task<> Gateway::expire_due() {
    const std::chrono::duration<double> now = Runtime::standard()->clock->wall().time_since_epoch();
    const std::shared_ptr<GatewayInstance> instance = instance_;
    const AskedPage expired = co_await read_all(instance, now.count());
    std::vector<ExpiredQuestions::Due> due;
    for (const QuestionEntry& entry : expired.entries) {
        ExpiredQuestions::Due one;
        one.key = entry.thread_id + "\n" + bub::question_name(*entry.request);
        one.message = message_to(entry);
        one.message.answer.emplace().action = bub::AnswerAction::expire;
        one.message.answer->question = entry.question_id;
        one.message.inbound_id = "expired-" + Runtime::standard()->ids->next();
        due.push_back(std::move(one));
    }
    ExpiredQuestions::Receive receive = [instance](bub::Envelope message) {
        return instance->manager().receive(std::move(message));
    };
    ExpiredQuestions::Warn warning = [this](const std::string& text) { warn(text); };
    Task<> notifying = expired_.notify(std::move(due), std::move(receive), std::move(warning));
    co_await std::move(notifying);
}

}  // namespace cubepi::app
