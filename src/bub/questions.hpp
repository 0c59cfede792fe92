#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <bub/envelope.hpp>
#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/agent/question_store.hpp>
#include <cubepi/core/hitl_request.hpp>

namespace bub {

/// The questions with which a turn has ended because its run is suspended (B23), as a service of its TurnState: for
/// save_state and render_outbound.
struct OpenQuestions {
    std::vector<cubepi::HitlRequest> requests = {};
    /// The run was suspended before, and the turn has not read its message, which must come again after the answer. A
    /// channel manager keeps it. The outputs of such a turn are of kind `error`: others count as the answer.
    bool unread = false;
};

/// A turn was given an answer that was not accepted, and its output says why; as a service of its TurnState.
struct RefusedAnswer {};

/// A turn that was about something else has left the questions of its session open: messages that wait for an answer continue to wait; as
/// a service of its TurnState.
struct QuestionsRemain {};

/// The key of StreamEvent::data of a text that says why a message to a running turn was refused: its value is the id of the message.
inline constexpr std::string_view refused_input_key = "refused_input";
/// The key of Envelope::rest of a message of the host, not of the user whose chat it names: about sub-agents in the background, or of a
/// schedule. It is neither merged with messages of users nor limited with them.
inline constexpr std::string_view task_results_key = "subagent_results";
/// The key of Envelope::rest of an answer `abandon` that was a request to stop a turn, while none was running (D96); its value is true.
inline constexpr std::string_view stop_key = "stop";
/// The key of Envelope::rest of a message whose text its sender has not written: it does not answer a question (B24).
inline constexpr std::string_view before_question_key = "before_question";
/// The key of Envelope::rest with the request of an envelope of kind `question`, as cubepi::to_json() writes it.
inline constexpr std::string_view question_key = "question";

/// The key of Envelope::rest of an output that says why an answer was not accepted (RefusedAnswer); its value is true.
inline constexpr std::string_view refused_answer_key = "refused_answer";

/// The key of Envelope::rest with the requests that a message waits for, in the output that says that it was not read; a list of what
/// `question_key` has.
inline constexpr std::string_view open_questions_key = "open_questions";

/// The key of HitlRequest::extra with the origin of the message whose turn asks: {channel, chat, user, name, session}, and `unprompted` (true)
/// if that message has `task_results_key`. The turn of the answer acts for this origin: by its rules, at its cost, in its chat.
inline constexpr std::string_view asker_key = "asker";
/// Returns that origin from the members of a request, or from its `extra`; empty if there is none.
JsonObject asker_of(const JsonObject& members);

/// Returns the name of a question, for buttons and commands: 10 hexadecimal digits, its HitlRequest::request_id (D83). A question of an
/// older version has none: its name is derived from its session and its id.
std::string question_name(const cubepi::HitlRequest& request);
inline constexpr std::size_t question_name_size = 10;

/// Returns the questions that a user may mean by `name`: the one with this key, or else those whose key begins with it (from four digits)
/// and those with this `question_id`. An empty name means all.
std::vector<const cubepi::HitlRequest*> questions_named(
    std::string_view name, const std::vector<cubepi::HitlRequest>& open);

/// Says who has answered the question of this name, and how: "It was denied before by ann (telegram:42)." Empty if no record is of
/// that question. `name` is its question_name() or its id.
std::string earlier_answer_text(const std::vector<cubepi::AnswerRecord>& records,
                                const std::string& name);

/// Returns true if the message arrived before its sender can have read the question: its text does not answer it (B24). The time from
/// storing a question to reading it is at least a second, and the clocks of gateways differ by less. A message that no channel has received
/// is not older. `time_to_read`: none for an explicit answer, which a program may send.
bool is_older(const Envelope& message, const cubepi::HitlRequest& request,
              std::chrono::seconds time_to_read = std::chrono::seconds(1));

/// Returns the member `sender_id` of the message's context; empty if the channel does not identify its users.
std::string sender_of(const Envelope& message);

/// Returns the names of the sub-agents from which a question comes, the outermost first: "research > reader". Empty: the agent of the
/// conversation asks.
std::string asking_agents(const cubepi::HitlRequest& request);

/// Returns the whole question in one or a few lines, without the way to answer it. A question about a call begins with the remarks of the
/// rules on it, and has no character that hides or reorders others: a character of visible_text.hpp is spelled out. Names the sub-agents that
/// ask.
std::string question_summary(const cubepi::HitlRequest& request);

/// Returns the form of a text that answers an `ask`: "one or more of: a, b (separated by commas)", or a line for each part. Empty for one
/// question with one choice.
std::string answer_form(const cubepi::AskRequest& ask);

/// Returns the question for a user who sees text only, with the commands that answer it.
std::string question_text(const cubepi::HitlRequest& request);

/// Completes a message that enters the pipeline: a text that is one of the commands `,answer ID VALUE`, `,approve ID`,
/// `,deny ID [REASON]` and `,abandon [ID]` becomes Envelope::answer, unless the channel has set it, and the answer receives its user and
/// place. ID is the question's key, and may be left out if one question is open. Called where a message comes in: by channels, by
/// ChannelManager and by Framework::process_inbound(Envelope). Nothing else reads a text as an answer.
void note_answer(Envelope& message);

/// Converts the answer to the form of HitlChannel::answer(). A text answers a `confirm` with yes or no, and an `ask` as a
/// JSON object, with several questions as lines "KEY: VALUE", and with one question as the text itself; several choices are separated
/// by commas, and labels stand for values. Throws Error(bad_answer) if it fits none of them.
Json answer_value(const Answer& given, const cubepi::HitlRequest& request);

/// Returns the answer with the key of the question, unless it names the id of the model's endpoint, which is passed on so that the turn
/// checks that it names this question only. Throws Error if the question does not accept the answer.
Answer checked_answer(Answer given, const cubepi::HitlRequest& request);

namespace event_kind {
/// Not a Bub event: {question, answer}. The run has accepted an answer, and continues.
inline constexpr std::string_view answered = "answered";
}  // namespace event_kind

/// The answer to a question that a turn was given and its run has accepted (B24), as a service of its TurnState.
struct AcceptedAnswer {
    std::string question = {};  ///< question_name() of the question
    /// As HitlChannel::answer() takes it; of a question that ended without an answer, the decision "withdrawn" or "expired".
    Json answer = {};
};

/// Optional interface of a channel that shows the outcome of a question, for example in the place of its buttons. Called on the manager's
/// executor, with or without ChannelManagerOptions::stream_output, when the turn of the answer has ended; must not throw.
class ShowsOutcomes {
public:
    virtual ~ShowsOutcomes() = default;
    /// `message` is the one that answered.
    virtual void show_outcome(const Envelope& message, const AcceptedAnswer& answer) noexcept = 0;
};

}  // namespace bub
