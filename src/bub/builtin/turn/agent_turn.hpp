#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <bub/builtin/plugin/core.hpp>
#include <bub/envelope.hpp>
#include <bub/event_stream.hpp>
#include <bub/questions.hpp>
#include <bub/tape/tape.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/turn_transaction.hpp>
#include <cubepi/agent/middleware.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/hitl/confirm_tool_calls.hpp>
#include <cubepi/middleware/goal.hpp>
#include <cubepi/provider/answer_end.hpp>
#include <cubepi/tracing/meter.hpp>
#include <cubepi/tracing/tracer.hpp>

namespace bub::detail {

/// The state of an input that is already on the tape because a process was killed during or after its turn.
struct EarlierTurn {
    std::string message_id =
        {};  ///< of the newest user message; a repeated input has another id, see next_message_id()
    std::string run_id = {};
    std::string digest = {};  ///< of its request (request_digest_key); empty: none is recorded
    std::vector<std::string> texts = {};  ///< the model's complete answers, oldest first
    std::optional<cubepi::AssistantMessage> last = {};  ///< of them, also without text
    bool answered = false;                              ///< the model had finished
    std::string problem = {};  ///< how the newest call of the model failed; empty: it did not fail
    bool joined = false;       ///< it was added to the turn of another input (steering)
    /// Another input, or an answer to an older one, has followed the newest message of this one, so that its run cannot continue at the
    /// end of the tape.
    bool superseded = false;
};

/// Returns true if the answer failed or was aborted.
bool is_broken_off(const cubepi::AssistantMessage& answer) noexcept;

/// Returns the value of request_digest_key of a message, which may be null; empty: none.
std::string request_digest(const Envelope* message);
/// Throws SenderError if the message, which may be null, has the id of the earlier one and the digest of another request (D262).
void require_same_request(const EarlierTurn& earlier, const Envelope* message);

/// Returns nothing if the input is not on the tape.
Task<std::optional<EarlierTurn>> find_earlier_turn(Tape tape, std::string input_id);

/// Returns the data of an event on the tape; null if there is none.
const JsonObject* data_of(const std::optional<TapeEntry>& event) noexcept;

/// The event that records an answer on the tape. Its data: `question_id`, `question` (its key), `user`, `channel`, `asker`, `input`,
/// the id of the message with the answer, request_digest_key of this message, and `expired`, true for the end of the time to answer.
inline constexpr std::string_view answer_event = "hitl.answer";

/// The state of an answer to a question that is already on the tape because a process was killed after it was received. The message is
/// that of the user whose run it continued.
struct EarlierAnswer : EarlierTurn {
    std::string question = {};  ///< question_name(); its id in the tapes of older versions
    JsonObject asker = {};      ///< of the question; see asker_key
};

/// Returns nothing if the newest answer on the tape is another one.
Task<std::optional<EarlierAnswer>> find_earlier_answer(Tape tape, std::string input_id);

/// The id of the prompt of a sub-agent that inherits the conversation begins so. It is not an input of its own.
inline constexpr std::string_view inherited_prefix = "inherited/";

/// Removes what sub-agents that inherited the conversation have appended to a run that is not finished. The run continues at the end of
/// the history, and has their results.
cubepi::MessageList without_inherited(cubepi::MessageList messages);

/// A middleware that hides interrupted answers from a model that continues a turn, so that it answers from scratch.
class WithoutInterrupted {
public:
    /// Omits interrupted answers after the message `after`.
    explicit WithoutInterrupted(std::string after) : after_(std::move(after)) {}
    cubepi::MessageList transform_context(cubepi::MessageList messages,
                                          cubepi::HookContext& context);

private:
    std::string after_;
};

/// The session of a turn, and the restrictions of a turn that a model started (subagent).
struct AgentTurnPlan {
    std::string session_id = {};
    /// Cannot be steered by users and cannot start agents of its own.
    bool is_subagent = false;
    /// Names of tools and skills; absent: all.
    std::optional<std::set<std::string>> allowed_tools = {};
    std::optional<std::set<std::string>> allowed_skills = {};
    /// The running turn whose conversation this turn continues. Entries of this turn are appended after that turn.
    std::shared_ptr<TurnTransaction> inherits = {};
    /// The id of the user's message; a message that is already on the tape is continued, or answered as before (D42).
    /// Empty: each message is new.
    std::string input_id = {};
    /// The inbound envelope, and the answer to a question of the suspended run that it contains (B24).
    const Envelope* message = nullptr;
    std::optional<Answer> answer = {};
    /// The results of sub-agents in the background are the prompt.
    bool receives_results = false;
    /// Of a subagent: its name and the key of its call, for its questions.
    std::string name = {};
    std::string call_key = {};
    /// Of a subagent: it outlives the turn that has started it.
    bool in_background = false;
    /// Of a subagent in the background: the message whose turn shows its questions (results_message()); absent: none does.
    std::optional<Envelope> asks_in = {};
    /// Of a subagent: the origin of its runs; absent if a comma command has started it.
    std::optional<cubepi::PromptOptions> parent = {};
    /// Of a subagent: its share of the money, USD. Zero: no limit.
    double max_spend = 0.0;
    /// Of a subagent: receives the events of its agents, with the model of the agent. May be empty.
    std::function<Task<>(cubepi::AgentEvent event, std::shared_ptr<const cubepi::Model> model)>
        on_event = {};
    /// Of a subagent: the policy of the calls of its parent (D85), and the origin of the message that the parent
    /// answers. Null: the parent has no policy of the plugin.
    cubepi::ApprovalPolicy policy = {};
    JsonObject asker = {};
    /// Of a subagent: the stored endpoint at which its parent continues, and the model that the caller names; both may be
    /// empty.
    JsonObject endpoint = {};
    std::string model_id = {};
    /// Of a subagent: its run can be suspended, because the caller asks its questions.
    bool can_suspend = false;
    /// Of a subagent: its conversation is removed when its result is on the tape of the parent.
    bool is_removed = false;
};

/// The event that records the endpoint of a run on the tape; see BuiltinOptions::describe_endpoint.
inline constexpr std::string_view endpoint_event = "endpoint";

/// Returns the event that records a step of the model on the tape, in Bub's format, for tape_info.
TapeEntry step_entry(const cubepi::AssistantMessage& answer);
/// Returns the record of a compaction, whose notice has these details, and the tokens of its summary for tape_info.
std::vector<TapeEntry> compaction_entries(const JsonObject& details);

/// One turn of the agent on the session's tape, as a stream: the answer of the builtin plugin. close() merges the
/// entries of the turn into the tape, whatever the outcome (B9). An input interrupted by a crash is resumed, and its
/// earlier output is repeated. A conversation that becomes too long for the model is compacted (BuiltinOptions::compaction); the
/// tape keeps everything.
class AgentTurn final : public EventSource {
public:
    AgentTurn(std::shared_ptr<BuiltinCore> core, Prompt prompt, AgentTurnPlan plan,
              TurnState& state);

    Task<std::optional<StreamEvent>> next() override;
    std::optional<StreamEvent> ready() override;
    Task<> close() override;

private:
    Task<> begin();
    Task<> recognize_answer();
    Task<> answer_task();
    void act_for_asker();
    Task<> continue_answered_run();
    Task<> recover_input();
    void repeat_answers(const std::vector<std::string>& texts,
                        const std::optional<cubepi::AssistantMessage>& last);
    void repeat(std::string text);
    Task<> start_agent();
    /// Returns the options of a run of this turn.
    cubepi::PromptOptions run_options(std::string run_id) const;
    Task<cubepi::MessageList> open_results();
    void end_silently();
    Task<std::string> submit(cubepi::Message& message);
    Task<> start_run(cubepi::MessageList inputs, cubepi::PromptOptions how);
    void begin_run(cubepi::MessageList inputs, cubepi::PromptOptions how);
    Task<> give_answer(cubepi::Message message, cubepi::PromptOptions how);
    bool continue_answer(const std::vector<cubepi::HitlRequest>& open, cubepi::Message message,
                         cubepi::PromptOptions how);
    JsonObject answer_record(const cubepi::HitlRequest& request) const;
    Task<std::optional<cubepi::AgentEvent>> next_event();
    void report(const cubepi::RunResult& result);
    Task<> finish();
    void end_suspended(std::vector<cubepi::HitlRequest> requests, bool unread = false);
    void reply_and_end(std::string text);
    void finish_answer(const cubepi::AssistantMessage& answer);
    Task<> keep_inherited();
    Task<> wait_for_run();
    Task<> remove_tapes(std::vector<std::string> tapes);
    // The agent (agent_turn_agent.cpp).
    Task<> make_agent();
    Task<cubepi::BoundModel> model();
    [[noreturn]] void throw_unavailable(const std::exception_ptr& reason) const;
    Task<> remember(cubepi::AgentOptions& options);
    std::vector<cubepi::AgentTool> tools(const std::filesystem::path& directory);
    Task<std::vector<cubepi::AgentTool>> client_tools(std::vector<cubepi::AgentTool> own);
    void add_plans(cubepi::AgentOptions& options, std::vector<cubepi::AgentTool>& tools,
                   const JsonObject& origin);
    bool has_tasks() const;
    void add_tasks(cubepi::AgentOptions& options, std::vector<cubepi::AgentTool>& tools);
    Task<std::string> system_prompt();
    // Questions to the user (agent_turn_questions.cpp).
    bool asks_user() const;
    /// See asker_key.
    JsonObject origin_of_turn() const;
    JsonObject payer() const;
    /// See TurnContext::message.
    const Envelope* run_message() const { return asked_for_ ? &*asked_for_ : plan_.message; }
    cubepi::ApprovalPolicy approval_policy(const JsonObject& asker) const;
    void add_questions(cubepi::AgentOptions& options);
    std::shared_ptr<cubepi::HitlChannel> task_channel() const;
    void ask_on(cubepi::AgentOptions& options, std::shared_ptr<cubepi::HitlChannel> parent) const;
    bool may_answer(const cubepi::HitlRequest& request) const;
    bool is_asker(const cubepi::HitlRequest& request) const;
    Task<std::string> stale_text(std::string reason);
    Task<bool> has_expired(std::string name);
    Task<> require_new_name(std::string name, const cubepi::HitlRequest& request);
    Task<> withdraw(std::vector<cubepi::HitlRequest> open);
    Task<> record_stop(std::string output);
    void refuse_answer(std::string reason, bool questions_remain);
    Task<std::vector<cubepi::PendingRequest>> requests_of_run(bool removes_others = false);
    std::vector<cubepi::HitlRequest> unexpired(
        const std::vector<cubepi::PendingRequest>& pending) const;
    Task<std::vector<cubepi::HitlRequest>> open_questions(bool with_expired = false);
    Task<> resume_expired(std::vector<cubepi::HitlRequest> open, cubepi::Message message,
                          cubepi::PromptOptions how);
    Task<bool> has_expired_questions_only();
    Task<bool> has_expired_client_calls_only();
    Task<> close_expired();
    // Messages and events (agent_turn_events.cpp).
    Task<> note_compaction(const cubepi::Notice& notice);
    Task<> on_agent_event(cubepi::AgentEvent event, std::stop_token aborted);
    Task<> steer(std::shared_ptr<SteeringInbox> inbox);
    void put_back_unread();
    Task<> ask_to_continue();
    void note_usage(const cubepi::AssistantMessage& answer);
    Task<> note_endpoint(const cubepi::AssistantMessage& answer);
    void push(std::string_view kind, JsonObject data,
              const std::shared_ptr<const cubepi::AgentEvent>& source);
    void note_end(const cubepi::HitlRequest& request, std::string_view outcome);
    void note_answer(const cubepi::HitlAnswerEvent& given);
    void report_goal(cubepi::AgentEvent end);
    void translate(const cubepi::AgentEvent& event);

    std::shared_ptr<BuiltinCore> core_;
    Prompt prompt_;
    AgentTurnPlan plan_;
    TurnState& state_;
    std::optional<Tape> tape_;
    bool closed_ = false;
    std::shared_ptr<TurnTransaction> fork_;  ///< null: inherited
    std::shared_ptr<cubepi::Agent> agent_;
    std::shared_ptr<CommandHooks> hooks_;  ///< of the user; null: none
    std::unique_ptr<cubepi::BackgroundScope> notifying_;
    cubepi::TraceAttachment trace_;
    cubepi::MeterAttachment meter_;
    std::optional<cubepi::AgentRun> run_;
    std::optional<EarlierAnswer> earlier_answer_;
    JsonObject endpoint_;  ///< stored, at which this turn continues a run; empty: none
    JsonObject asker_;     ///< of the suspended run that an answer continues; see asker_key
    std::optional<Envelope> asked_for_;  ///< a message of this origin; absent: there is none
    bool is_stale_ = false;              ///< another process has answered the question of this turn
    std::optional<TapeEntry> given_;     ///< the record of an answer, until it is on the tape
    std::deque<StreamEvent> events_;
    std::string message_id_;                ///< empty: generate one
    cubepi::MessageList inputs_;            ///< the prompts of the current run
    std::shared_ptr<SteeringInbox> inbox_;  ///< of steered_
    /// The messages of the inbox that the agent has got, and whether its run has read them.
    std::vector<std::pair<Envelope, cubepi::Receipt>> steered_;
    std::optional<cubepi::Receipt>
        follow_up_;             ///< of inputs_ that follow in a run of an earlier turn
    std::string run_id_;        ///< of the run that this turn continues; empty: none
    cubepi::MessageList made_;  ///< by a turn that inherits
    JsonObject inherited_;      ///< the state of the conversation that it inherits
    cubepi::Usage usage_;       ///< of the answers of the turn
    /// The last answer on the tape with its results, before the turn adds messages; absent: not read yet.
    std::optional<cubepi::MessageList> last_answer_;
    std::optional<cubepi::GoalState> ended_goal_;  ///< that was achieved or given up in the run
    TurnStatus status_ = TurnStatus::cancelled;
    bool begun_ = false;
    bool suspends_ =
        false;  // a run that asks is suspended; else its channel has a host that answers
    bool over_ = false;
    bool closes_run_ = false;  ///< the suspended run cannot be continued; see close_expired()
    bool has_text_ = false;    ///< an earlier step produced text
    bool step_has_text_ = false;
    bool has_step_ = false;  ///< the model has answered in this turn
};

/// Returns what the user wrote of the text of a message.
std::string_view text_of_user(std::string_view text);

/// Returns why the sender of a message may not answer.
std::string not_allowed_text(const cubepi::HitlRequest& request);

/// The turn to which a tool belongs, as a service of its TurnState.
struct RunningTurn {
    std::shared_ptr<TurnTransaction> fork = {};
    /// The policy of the calls of the turn or of the sender of the command, which its subagents inherit (D85); null if the plugin has none.
    cubepi::ApprovalPolicy policy = {};
    /// The origin of the message for which the turn acts; see asker_key.
    JsonObject asker = {};
    /// The stored endpoint at which the turn continues a run; empty: none.
    JsonObject endpoint = {};
    /// The beginning of its requests, and of those of a sub-agent that inherits: the prompt cache serves both.
    std::string system_prompt = {};
    std::vector<cubepi::AgentTool> tools = {};
    /// The tapes of subagents that have ended. Their conversation is kept until the result is on the tape of the turn.
    std::vector<std::string> ended_tapes = {};
    /// The message whose turn receives the results of subagents in the background; absent: there are none.
    std::optional<Envelope> results_message = {};
};

/// How the last answer of a turn ended, as a service of its TurnState, for the outputs of the turn.
struct TurnFinish {
    cubepi::AnswerEnd end = cubepi::AnswerEnd::complete;
    std::string problem = {};  ///< describes an answer that is not complete
};

/// The tokens of the answers of a turn, as a service of its TurnState.
struct TurnUsage {
    cubepi::Usage usage = {};
};

/// Returns a message of this origin (asker_key). Its sender is not an operator.
Envelope message_from(const JsonObject& origin);
/// Returns the origin of a message to this session.
JsonObject origin_of(const Envelope& message, const std::string& session_id);

/// Returns the policy of calls for the sender of a message, if BuiltinOptions::questions is set. Null refuses all calls: there are no rules
/// for a sub-agent of unknown origin.
cubepi::ApprovalPolicy policy_for(BuiltinCore& core, const Envelope* message,
                                  const std::filesystem::path& workspace);

/// Returns the part of a session's tape that its model receives.
Task<TapeContext> agent_context(std::shared_ptr<BuiltinCore> core, std::string session_id,
                                TurnState& state);

/// Returns the last answer of the messages; null: none.
const cubepi::AssistantMessage* last_answer(const cubepi::MessageList& messages);

/// Returns the operations on a session as tools for the model or as comma commands.
std::vector<cubepi::AgentTool> session_tools(std::shared_ptr<BuiltinCore> core, Tape tape,
                                             std::string session_id, TurnState& state,
                                             bool for_model);
/// Returns the commands `todo`, `goal` and `tasks`, which every user may give in the own session (session_command()).
std::vector<cubepi::AgentTool> plan_commands(std::shared_ptr<BuiltinCore> core, Tape tape,
                                             std::string session_id);
/// Returns the prompt of a message that is not a command: its content, preceded by the context string and the date of
/// arrival (absent: `now`) if there is a context, and its media as content parts. Empty if there is no content.
Task<Prompt> prompt_of(std::shared_ptr<Envelope> message,
                       std::chrono::system_clock::time_point now);

/// Converts the prompt to a user message; data URLs of images become images.
cubepi::Message user_message_of(const Prompt& prompt);

}  // namespace bub::detail
