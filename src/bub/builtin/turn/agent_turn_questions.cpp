#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include <bub/builtin/client_tools.hpp>
#include <bub/builtin/tools/subagent_tool.hpp>
#include <bub/builtin/turn/agent_turn.hpp>
#include <bub/questions.hpp>
#include <cubepi/agent/run/open_requests.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/hitl/ask_user_tool.hpp>
#include <cubepi/hitl/checkpointed_channel.hpp>
#include <cubepi/hitl/confirm_tool_calls.hpp>

// Questions of a turn to the user (B23 to B25): which calls need one, which are open, who may answer them, and their end without an
// answer.

namespace bub::detail {

namespace {

cubepi::MessageList from_last_answer(const cubepi::MessageList& messages) {
    const auto is_result = [](const cubepi::Message& one) { return one.tool_result() != nullptr; };
    auto first = messages.end();
    while (first != messages.begin() && is_result(*std::prev(first))) --first;
    if (first != messages.begin()) --first;
    return cubepi::MessageList(first, messages.end());
}

/// The rules for the sender of a message, in the workspace of its session.
struct RulesOfTurn {
    SenderRules rules;
    std::shared_ptr<cubepi::Workspace> workspace;
    std::shared_ptr<const cubepi::Runtime> runtime;
};

Task<cubepi::RuleDecision> apply_rules(std::shared_ptr<const RulesOfTurn> of_turn,
                                       const cubepi::BeforeToolCallContext& call) {
    const cubepi::ToolRules& rules = of_turn->rules.allow;
    if (!rules.follows_path(call.tool, call.args)) co_return rules.decide(call.tool, call.args);
    // Copies: a call that is aborted does not wait for the thread.
    auto work = [of_turn, tool = call.tool.name, risk = call.tool.risk_level,
                 arguments = call.args] {
        return of_turn->rules.allow.decide(tool.str(), risk, arguments, *of_turn->workspace);
    };
    cubepi::RuleDecision decision =
        co_await cubepi::offload(*of_turn->runtime->workers, std::move(work));
    if (call.judged_file && decision.file) *call.judged_file = decision.file;
    co_return decision;
}

/// Returns true if a rule allows the tool as it is defined now.
bool allows_definition(const SenderRules& rules, const cubepi::AgentTool& tool) {
    if (!rules.definition) return false;
    const std::optional<cubepi::ApprovalRule> rule = rules.definition(tool);
    const std::vector<cubepi::ApprovalRule>& all = rules.allow.rules();
    return rule && std::find(all.begin(), all.end(), *rule) != all.end();
}

/// Decides by the rules: what only reads runs, and the user is asked about all other calls that no rule allows.
Task<cubepi::ApprovalDecision> decide(std::shared_ptr<const RulesOfTurn> of_turn,
                                      const cubepi::BeforeToolCallContext& call) {
    const SenderRules* const rules = &of_turn->rules;
    const std::string name = call.tool_call.name.str();
    if (std::find(rules->refuse.begin(), rules->refuse.end(), name) != rules->refuse.end())
        co_return cubepi::ApprovalDecision(
            cubepi::Deny{"the configuration does not allow this tool here"});
    cubepi::RuleDecision decision = co_await apply_rules(of_turn, call);
    if (!decision.always_asks && allows_definition(*rules, call.tool)) decision.allowed = true;
    if (decision.allowed) co_return cubepi::ApprovalDecision(cubepi::Approve());
    if (!decision.refusal.empty())
        co_return cubepi::ApprovalDecision(cubepi::Deny{std::move(decision.refusal)});
    JsonObject details{{"question", decision.question}};
    // The rule that an answer "always" would add (B26).
    if (!decision.always_asks) {
        std::optional<cubepi::ApprovalRule> rule = decision.always;
        if (rules->definition) {
            if (auto defined = rules->definition(call.tool)) rule = std::move(defined);
        }
        if (rule) details["rule"] = rule->text();
    }
    cubepi::AskUser ask;
    ask.details = std::move(details);
    co_return cubepi::ApprovalDecision(std::move(ask));
}

Task<cubepi::ApprovalDecision> refuse(const cubepi::BeforeToolCallContext&) {
    cubepi::Deny refusal{"there are no rules for the caller of this sub-agent"};
    co_return cubepi::ApprovalDecision(std::move(refusal));
}

/// The member of asker_key about a run that no user has begun.
constexpr std::string_view unprompted_key = "unprompted";

}  // namespace

cubepi::ApprovalPolicy policy_for(BuiltinCore& core, const Envelope* message,
                                  const std::filesystem::path& workspace) {
    const TurnQuestions& questions = *core.options().questions;
    if (questions.policy) return questions.policy;
    if (!message) return refuse;
    RulesOfTurn rules;
    if (questions.rules) rules.rules = questions.rules(*message);
    rules.workspace = core.workspace(workspace);
    rules.runtime = core.framework().runtime();
    return [of_turn = std::make_shared<const RulesOfTurn>(std::move(rules))](
               const cubepi::BeforeToolCallContext& call) { return decide(of_turn, call); };
}

JsonObject origin_of(const Envelope& message, const std::string& session_id) {
    JsonObject origin;
    if (message.channel) origin["channel"] = *message.channel;
    if (message.chat_id) origin["chat"] = *message.chat_id;
    if (std::string user = sender_of(message); !user.empty()) origin["user"] = std::move(user);
    std::string name = cubepi::detail::text_member(message.context, "sender");
    if (!name.empty()) origin["name"] = std::move(name);
    if (message.rest.contains(task_results_key)) origin[unprompted_key] = true;
    origin["session"] = session_id;
    return origin;
}

Envelope message_from(const JsonObject& origin) {
    Envelope message;
    message.channel = cubepi::detail::text_member(origin, "channel");
    message.chat_id = cubepi::detail::text_member(origin, "chat");
    message.from_operator = false;
    if (std::string user = cubepi::detail::text_member(origin, "user"); !user.empty())
        message.context["sender_id"] = std::move(user);
    if (std::string name = cubepi::detail::text_member(origin, "name"); !name.empty())
        message.context["sender"] = std::move(name);
    if (cubepi::detail::flag_member(origin, unprompted_key)) message.rest[task_results_key] = true;
    return message;
}

std::string not_allowed_text(const cubepi::HitlRequest& request) {
    return std::holds_alternative<cubepi::ApproveRequest>(request.payload)
               ? "You may not answer this question: only an operator may."
               : "You may not answer this question: only an operator, or the user who was asked, "
                 "may.";
}

bool AgentTurn::asks_user() const {
    return core_->options().questions && !plan_.inherits && !is_temporary(plan_.session_id) &&
           (!plan_.is_subagent || plan_.can_suspend);
}

/// Returns the policy of the calls of this turn. A subagent has that of its parent (D85).
cubepi::ApprovalPolicy AgentTurn::approval_policy(const JsonObject& asker) const {
    if (plan_.policy) return plan_.policy;
    const std::filesystem::path workspace = core_->workspace_of(state_);
    if (!plan_.answer) return policy_for(*core_, plan_.message, workspace);
    // A question without an origin has no rules, whatever those of the user who answers are.
    const Envelope from = message_from(asker);
    return policy_for(*core_, &from, workspace);
}

/// Returns the channel of a sub-agent in the background, whose questions a turn of its session shows, and another one answers (D128);
/// null if there is no user.
std::shared_ptr<cubepi::HitlChannel> AgentTurn::task_channel() const {
    const BuiltinOptions& options = core_->options();
    if (options.background_channel || !options.questions || !options.deliver_results ||
        !plan_.asks_in)
        return options.background_channel;
    const std::string session_id = plan_.asks_in->session_id.value();
    const std::shared_ptr<AgentsOfSession> agents = core_->agents(session_id);
    TaskQuestionChannel::Parts parts;
    parts.to = agents->questions;
    parts.asker = plan_.asker;
    parts.timeout = options.questions->timeout;
    parts.before = [deliver = options.deliver_results, message = *plan_.asks_in] {
        deliver(message);
    };
    parts.after = [all = std::weak_ptr<SessionAgents>(options.agents), session_id,
                   questions = agents->questions] {
        if (const auto sessions = all.lock())
            sessions->note_questions(session_id, questions->pending());
    };
    return std::make_shared<TaskQuestionChannel>(std::move(parts));
}

/// Sets the channel of a subagent whose questions are not stored. In the background the channel of the parent belongs to another
/// run.
void AgentTurn::ask_on(cubepi::AgentOptions& options,
                       std::shared_ptr<cubepi::HitlChannel> parent) const {
    std::shared_ptr<cubepi::HitlChannel> to = parent;
    if (plan_.in_background) to = task_channel();
    cubepi::detail::AskingAgent asking{std::move(parent), plan_.name, plan_.call_key,
                                       core_->framework().runtime()};
    options.channel = cubepi::detail::forwarding_channel(std::move(to), std::move(asking));
}

JsonObject AgentTurn::origin_of_turn() const {
    if (plan_.is_subagent) return plan_.asker;
    JsonObject origin;
    if (!plan_.answer && plan_.message) return origin_of(*plan_.message, plan_.session_id);
    if (plan_.answer) origin = asker_;
    origin["session"] = plan_.session_id;
    return origin;
}

/// Returns the origin of the message that has caused the calls of the turn.
JsonObject AgentTurn::payer() const {
    JsonObject origin = origin_of_turn();
    // The answer to a question of a version that did not record who was asked.
    if (!origin.contains("channel") && plan_.message)
        origin = origin_of(*plan_.message, plan_.session_id);
    return origin;
}

void AgentTurn::add_questions(cubepi::AgentOptions& options) {
    if (options.channel) {
        // Of `configure`, which has a policy of its own. A channel that waits in this process belongs to the run of the
        // parent, and its host shows the requests of both.
        if (plan_.in_background || (plan_.is_subagent && !options.channel->is_durable()))
            ask_on(options, options.channel);
        return;
    }
    if (!core_->options().questions) {
        if (plan_.in_background) ask_on(options, nullptr);
        return;
    }
    JsonObject asker = origin_of_turn();
    cubepi::ApprovalPolicy policy = approval_policy(asker);
    if (const auto running = state_.service<RunningTurn>()) {
        running->policy = policy;
        running->asker = asker;
    }
    if (!asks_user() || !options.checkpointer) {
        if (plan_.in_background) ask_on(options, nullptr);
        options.middleware.emplace_back(
            cubepi::ApprovalPolicyMiddleware(options.channel, std::move(policy)));
        return;
    }
    cubepi::CheckpointedChannelOptions how;
    // The time of a subagent's question is that of the request of its caller.
    if (!plan_.is_subagent) how.default_timeout = core_->options().questions->timeout;
    how.clock = core_->runtime().clock;
    how.extra[asker_key] = std::move(asker);
    auto channel = std::make_shared<cubepi::CheckpointedChannel>(options.checkpointer,
                                                                 options.thread_id, std::move(how));
    options.middleware.emplace_back(cubepi::ApprovalPolicyMiddleware(channel, std::move(policy)));
    if (core_->options().questions->with_ask_user)
        options.tools.push_back(cubepi::ask_user_tool(channel));
    options.channel = std::move(channel);
}

/// Returns the requests of the tape that an answer can reach, also those whose time is over. `removes_others`: any other one would be
/// listed for ever.
Task<std::vector<cubepi::PendingRequest>> AgentTurn::requests_of_run(bool removes_others) {
    TapeCheckpointer requests(fork_);
    std::vector<cubepi::PendingRequest> pending =
        co_await requests.load_pending_requests(tape_->name());
    if (pending.empty()) co_return pending;
    TapeCheckpointerOptions how;
    how.context = co_await agent_context(core_, plan_.session_id, state_);
    TapeCheckpointer memory(fork_, std::move(how));
    if (!last_answer_) {
        // No message is added before the run continues.
        const std::optional<cubepi::CheckpointData> data = co_await memory.load(tape_->name());
        last_answer_ = from_last_answer(data.value_or(cubepi::CheckpointData()).messages);
    }
    pending = cubepi::detail::requests_of_open_calls(std::move(pending), *last_answer_);
    if (removes_others && pending.empty()) (void)co_await memory.discard_requests(tape_->name());
    co_return pending;
}

std::vector<cubepi::HitlRequest> AgentTurn::unexpired(
    const std::vector<cubepi::PendingRequest>& pending) const {
    const std::chrono::duration<double> now = core_->runtime().clock->wall().time_since_epoch();
    std::vector<cubepi::HitlRequest> open;
    for (const cubepi::PendingRequest& one : pending)
        if (!cubepi::detail::is_expired(one, now.count())) open.push_back(one.request);
    return open;
}

/// Returns the requests of the tape that wait for an answer; if asked for, also those whose time is over and whose run has not continued.
Task<std::vector<cubepi::HitlRequest>> AgentTurn::open_questions(bool with_expired) {
    const std::vector<cubepi::PendingRequest> pending = co_await requests_of_run();
    if (!with_expired) co_return unexpired(pending);
    std::vector<cubepi::HitlRequest> all;
    for (const cubepi::PendingRequest& one : pending) all.push_back(one.request);
    co_return all;
}

/// Says who has answered the question of this turn, if it was answered; `reason` follows.
Task<std::string> AgentTurn::stale_text(std::string reason) {
    TapeCheckpointer memory(fork_);
    const std::vector<cubepi::AnswerRecord> answered =
        co_await memory.load_answer_records(tape_->name(), "");
    const std::string& name = plan_.answer->question;
    const std::string earlier = earlier_answer_text(answered, name);
    if (earlier.empty()) {
        const bool expired = co_await has_expired(name);
        if (!expired) co_return reason;
        const std::string question = name.empty() ? "The question" : "The question " + name;
        co_return question + " has expired: the time to answer it is over.\n\n" + reason;
    }
    co_return "The question " + name + " was already answered. " + earlier + "\n\n" + reason;
}

/// Returns true if the time of the question with this name is over; empty: of the last question, if none is open.
Task<bool> AgentTurn::has_expired(std::string name) {
    const std::vector<cubepi::HitlRequest> all = co_await open_questions(true);
    const std::vector<cubepi::HitlRequest> open = co_await open_questions();
    if (name.empty() && !open.empty()) co_return false;
    if (name.empty() ? !all.empty() : !questions_named(name, all).empty())
        co_return name.empty() || questions_named(name, open).empty();
    // Its run has continued since.
    const std::shared_ptr<TapeStore>& store = tape_->store();
    if (!store) co_return false;
    const std::optional<TapeEntry> entry =
        co_await store->find_event(tape_->name(), std::string(answer_event));
    const JsonObject* const last = data_of(entry);
    if (!last || !cubepi::detail::flag_member(*last, "expired")) co_return false;
    co_return name.empty() || cubepi::detail::text_member(*last, "question") == name ||
        cubepi::detail::text_member(*last, "question_id") == name;
}

/// The id of a tool call is chosen by the endpoint. One that an earlier question had too, which was answered, does not say which of
/// the two is meant (D83).
Task<> AgentTurn::require_new_name(std::string name, const cubepi::HitlRequest& request) {
    if (name != request.question_id || request.request_id.empty()) co_return;
    TapeCheckpointer memory(fork_);
    const std::vector<cubepi::AnswerRecord> answered =
        co_await memory.load_answer_records(tape_->name(), "");
    for (const cubepi::AnswerRecord& one : answered) {
        if (one.question_id != name) continue;
        throw cubepi::Error(cubepi::ErrorCode::stale_answer,
                            "'" + name +
                                "' was answered before, and the open question has the same id. "
                                "To answer that one, use its own name:\n\n" +
                                question_text(request));
    }
}

Task<> AgentTurn::withdraw(std::vector<cubepi::HitlRequest> open) {
    // Users may also withdraw what they have asked for and others approve.
    const bool may = std::all_of(open.begin(), open.end(), [this](const auto& one) {
        return may_answer(one) || is_asker(one);
    });
    const bool was_stop = plan_.message && plan_.message->rest.contains(stop_key);
    if (!may) {
        std::string reason =
            "You may not withdraw this question: only an operator, or the user who was asked, may.";
        if (was_stop) co_await record_stop(reason);
        co_return refuse_answer(std::move(reason), true);
    }
    // A run whose questions are answered is closed by operators only, but not by a request to stop: another gateway may run it.
    const bool closes = plan_.message && plan_.message->is_operator() && !was_stop;
    if (!open.empty() || closes) co_await agent_->abort_pending("withdrawn by the user");
    // No call is open then.
    if (open.empty() && closes) co_await forget_suspended_run(*tape_);
    if (!open.empty()) note_end(open.front(), "withdrawn");
    const std::string nothing =
        was_stop ? "No turn of this session is running here, and no question waits for an answer."
                 : "No question waits for an answer.";
    const std::string done = open.empty() ? nothing : "The question was withdrawn.";
    if (was_stop) co_await record_stop(done);
    reply_and_end(done);
}

/// Records what a request to stop was answered, for a client that reads the message later.
Task<> AgentTurn::record_stop(std::string output) {
    JsonObject record;
    record["input"] = plan_.input_id;
    record["raw"] = "/stop";
    record["name"] = "stop";
    record["status"] = "ok";
    record["output"] = std::move(output);
    TapeEntry entry = event_entry("command", std::move(record), hidden_from_context());
    (void)co_await tape_->append(std::move(entry));
}

/// Continues the run after the time of its last open question is over.
Task<> AgentTurn::resume_expired(std::vector<cubepi::HitlRequest> open, cubepi::Message message,
                                 cubepi::PromptOptions how) {
    const std::vector<cubepi::HitlRequest> expired = co_await open_questions(true);
    if (closes_run_) {
        reply_and_end("The time to answer the question is over.");
        co_return;
    }
    if (open.empty() && !expired.empty()) {
        note_end(expired.front(), "expired");
        JsonObject record = answer_record(expired.front());
        record["expired"] = true;
        TapeEntry entry =
            event_entry(std::string(answer_event), std::move(record), hidden_from_context());
        (void)co_await tape_->append(std::move(entry));
        run_.emplace(agent_->start_resume(run_options("")));
        co_return;
    }
    // The run that an interrupted turn has continued.
    if (open.empty() && continue_answer(open, std::move(message), std::move(how))) co_return;
    if (open.empty()) {
        status_ = TurnStatus::ok;
        over_ = true;
    } else {
        end_suspended(std::move(open));
    }
    state_.mark_silent();
}

/// Returns true if the run of the session waits for questions whose time is over, and for no others.
Task<bool> AgentTurn::has_expired_questions_only() {
    const std::vector<cubepi::HitlRequest> all = co_await open_questions(true);
    const std::vector<cubepi::HitlRequest> open = co_await open_questions();
    co_return !all.empty() && open.empty();
}

/// Returns true if it waits for outputs whose client has not sent them in time: nothing reads what the run would continue with (D261).
Task<bool> AgentTurn::has_expired_client_calls_only() {
    const bool is_over = co_await has_expired_questions_only();
    if (!is_over) co_return false;
    const std::vector<cubepi::HitlRequest> all = co_await open_questions(true);
    const bool are_calls = std::all_of(all.begin(), all.end(), is_client_call);
    co_return are_calls;
}

/// Closes a run whose questions have expired, and which nothing can continue (D86) or waits for (D261).
Task<> AgentTurn::close_expired() {
    const std::vector<cubepi::HitlRequest> expired = co_await open_questions(true);
    if (!expired.empty()) note_end(expired.front(), "expired");
    co_await agent_->abort_pending("not answered in time");
}

void AgentTurn::refuse_answer(std::string reason, bool questions_remain) {
    state_.replace(std::make_shared<RefusedAnswer>());
    if (questions_remain) state_.replace(std::make_shared<QuestionsRemain>());
    reply_and_end(std::move(reason));
}

/// B25.
bool AgentTurn::may_answer(const cubepi::HitlRequest& request) const {
    // The parent has asked, and passes the answer on.
    if (plan_.is_subagent) return true;
    const Envelope& message = *plan_.message;
    if (message.is_operator()) return true;
    // The output of a call comes from the program that offers its tool, which need not name a user.
    if (is_client_call(request)) {
        return cubepi::detail::text_member(asker_of(request.extra), "channel") ==
               message.channel.value_or("");
    }
    if (const auto& may = core_->options().questions->may_answer) return may(message, request);
    return std::holds_alternative<cubepi::AskRequest>(request.payload) && is_asker(request);
}

/// Returns true if the sender of the message is the user whose message started the run.
bool AgentTurn::is_asker(const cubepi::HitlRequest& request) const {
    const JsonObject asker = asker_of(request.extra);
    const std::string sender = sender_of(*plan_.message);
    return !sender.empty() && cubepi::detail::text_member(asker, "user") == sender &&
           cubepi::detail::text_member(asker, "channel") == plan_.message->channel.value_or("");
}

}  // namespace bub::detail
