#include <algorithm>
#include <utility>

#include <bub/builtin/tools/subagent_tool.hpp>
#include <bub/builtin/turn/agent_turn.hpp>
#include <bub/questions.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/core/error.hpp>

// The sub-agents in the background of a turn's session (D126 to D128): their results, and their questions.

namespace bub::detail {

namespace {

/// Ends no run while sub-agents of its session run in the background.
struct WaitForTasks {
    std::shared_ptr<cubepi::detail::SubagentTasks> tasks;
    Task<cubepi::MessageList> on_run_end(cubepi::HookContext&) {
        while (tasks->running_in_background > 0) co_await tasks->task_ended.wait();
        co_return cubepi::MessageList();
    }
};

}  // namespace

/// Returns true if the session may have sub-agents in the background.
bool AgentTurn::has_tasks() const {
    return !plan_.is_subagent && core_->options().subagents.max_background != 0 &&
           !is_temporary(plan_.session_id);
}

/// Adds the sub-agents of the session: their limits, and those in the background, whose results this run receives.
void AgentTurn::add_tasks(cubepi::AgentOptions& options, std::vector<cubepi::AgentTool>& tools) {
    const std::shared_ptr<AgentsOfSession> agents = core_->agents(plan_.session_id);
    if (!has_tasks()) {
        options.middleware.emplace_back(agents->middleware);
        return;
    }
    // `configure` may have removed the tool.
    if (std::any_of(tools.begin(), tools.end(),
                    [](const auto& tool) { return tool.name == "subagent"; }))
        tools.push_back(cubepi::detail::subagent_tasks_tool(agents->owner->shared));
    if (core_->options().waits_for_tasks)
        options.middleware.emplace_back(WaitForTasks{agents->owner->shared});
    options.middleware.emplace_back(agents->middleware);
    const auto running = state_.service<RunningTurn>();
    if (!running || !plan_.message) return;
    // The results belong to the user whose message has started the run, not to the one who has answered a question of it.
    const bool has_asker = plan_.answer && asker_.contains("channel");
    const Envelope from = has_asker ? message_from(asker_) : *plan_.message;
    running->results_message = results_message(from, plan_.session_id);
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

/// Answers a question of a sub-agent in the background, if the answer of this turn names one.
Task<> AgentTurn::answer_task() {
    const Answer& given = *plan_.answer;
    const std::shared_ptr<AgentsOfSession> agents = core_->options().agents->find(plan_.session_id);
    if (!agents || given.question.empty() || plan_.is_subagent) co_return;
    const std::vector<cubepi::HitlRequest> open = agents->questions->pending();
    const std::vector<const cubepi::HitlRequest*> named = questions_named(given.question, open);
    if (named.size() != 1) co_return;
    const cubepi::HitlRequest& request = *named.front();
    const std::vector<cubepi::HitlRequest> of_run = co_await open_questions();
    if (!may_answer(request)) co_return refuse_answer(not_allowed_text(request), !of_run.empty());
    AcceptedAnswer accepted{question_name(request), Json("withdrawn")};
    std::string problem;
    try {
        if (given.action == AnswerAction::abandon) {
            co_await agents->questions->cancel(request.request_id, "withdrawn by the user");
        } else {
            accepted.answer = cubepi::check_answer(request, answer_value(given, request));
            Json value = accepted.answer;
            cubepi::AnswerOrigin origin;
            origin.user = given.user;
            origin.channel = given.place;
            Task<> answering =
                agents->questions->answer(request.request_id, std::move(value), std::move(origin));
            co_await std::move(answering);
        }
    } catch (const cubepi::Error& error) {
        problem = error.what();
    }
    if (!problem.empty()) co_return refuse_answer(std::move(problem), !of_run.empty());
    state_.replace(std::make_shared<AcceptedAnswer>(std::move(accepted)));
    if (!of_run.empty()) state_.replace(std::make_shared<QuestionsRemain>());
    say_and_end("The sub-agent has the answer.");
}

/// Returns the results of sub-agents that no run has received, and those of an earlier process as interrupted. A run that waits
/// receives them when it continues.
Task<cubepi::MessageList> AgentTurn::open_results() {
    cubepi::MessageList results;
    if (!has_tasks() || plan_.message->rest.contains(questions_only_key)) co_return results;
    const std::vector<cubepi::HitlRequest> open = co_await open_questions();
    if (!open.empty()) {
        state_.replace(std::make_shared<QuestionsRemain>());
        co_return results;
    }
    TapeCheckpointer memory(fork_);
    const std::optional<cubepi::CheckpointData> stored = co_await memory.load(tape_->name());
    const cubepi::CheckpointData data = stored.value_or(cubepi::CheckpointData());
    const std::shared_ptr<AgentsOfSession> agents = core_->agents(plan_.session_id);
    results = cubepi::detail::open_results(*agents->owner->shared, data.extra, data.messages,
                                           tape_->name());
    if (results.empty() && plan_.message->context.contains(redelivered_key)) {
        // The process that has begun this turn was killed.
        std::optional<cubepi::Message> last = cubepi::detail::unanswered_result(data.messages);
        if (last) results.push_back(std::move(*last));
    }
    if (!results.empty()) prompt_ = Prompt(results.front().text());
    co_return results;
}

/// Ends a turn that has nothing to do, but questions of sub-agents to show.
void AgentTurn::end_silently() {
    const auto agents = core_->options().agents->find(plan_.session_id);
    if (!agents || !agents->has_new_questions()) state_.mark_silent();
    status_ = TurnStatus::ok;
    over_ = true;
}

}  // namespace bub::detail
