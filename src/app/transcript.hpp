#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <bub/tape/tape_store.hpp>
#include <cubepi/core/agent_event.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/model.hpp>
#include <cubepi/middleware/subagents.hpp>

namespace cubepi::app {

// The messages of a session, read from its tape: for resuming, exporting and adding up.

/// All messages, oldest first, also those before the last hand-off.
Task<MessageList> read_conversation(std::shared_ptr<bub::TapeStore> tapes, std::string tape);
/// The oldest messages, at most `most`.
Task<MessageList> read_beginning(std::shared_ptr<bub::TapeStore> tapes, std::string tape,
                                 std::size_t most);
/// More than a user reads, and little enough memory for entries of any length.
inline constexpr std::size_t shown_bytes = std::size_t{256} << 10U;
/// The newest messages: those of the last `entries` entries of the tape, or of fewer, if these have `bytes` as JSON.
Task<MessageList> read_end(std::shared_ptr<bub::TapeStore> tapes, std::string tape,
                           std::size_t entries,
                           std::size_t bytes = std::numeric_limits<std::size_t>::max());

/// The first line of the first prompt, shortened; empty without a prompt.
std::string title_of(const MessageList& messages);
/// The text of the last answer; empty without one.
std::string last_answer(const MessageList& messages);
/// Returns the call that the result at `position` answers; null if it is not there. An id may occur again in a later answer.
const ToolCall* call_of_result(const MessageList& messages, std::size_t position);
/// Returns the text of the result at `position`. The answers to ask_user stand with their questions.
std::string result_text(const MessageList& messages, std::size_t position);
/// The conversation as Markdown, with tool calls and their results.
std::string to_markdown(const MessageList& messages, std::string_view title);

/// A prompt of the user that began a run.
struct EarlierPrompt {
    std::string text = {};  ///< as the user has entered it
    std::vector<std::string> runs =
        {};  ///< its own, and those of results of its sub-agents in the background
};
/// Returns the prompts of a conversation, oldest first. Those that steered a run belong to that run's prompt.
std::vector<EarlierPrompt> prompts_of(const MessageList& messages);

/// The totals of a session.
struct SessionUsage {
    std::size_t calls = 0;  ///< of a model
    std::int64_t tokens_in = 0;
    std::int64_t tokens_out = 0;
    std::int64_t context = 0;  ///< tokens of the last call
    double cost = 0;           ///< USD, of the calls whose price is known
    std::size_t unpriced = 0;  ///< calls whose price is not known
    std::string last_model = {};
};
/// Includes the sub-agents whose results the messages have. `asked`: the model of the session. A call that another model answered has that model's list price.
SessionUsage usage_of(const MessageList& messages, const Model& asked);

/// Returns the usage of a stored session, with the summaries of its compactions and its sub-agents. `tasks`: those in the background
/// whose results may not be in it. The context is what the next request has.
Task<SessionUsage> read_usage(std::shared_ptr<bub::TapeStore> tapes, std::string tape, Model asked,
                              std::vector<SubagentTask> tasks = {});

/// Shows messages as they were shown when they were new. Null: what it would show is left out.
struct Replay {
    std::function<void(const std::string& text)> prompt = {};
    std::function<void(const std::string& text)> thinking = {};
    std::function<void(const std::string& text)> answer = {};
    std::function<void(const AgentEvent& event)> tool = {};
};
/// Replays the end of a conversation that fits about one screen. Returns the number of omitted messages.
std::size_t replay_end(const MessageList& messages, std::size_t columns, std::size_t rows,
                       const Replay& replay);

/// The head of the page of a session.
struct SessionPageHead {
    std::string title = {};
    std::string details = {};  ///< one line below the title
};

/// Returns a conversation as an HTML page, complete in one file: without scripts, and loading nothing. All text is escaped; the
/// pictures that models take are in it, other ones are only named.
std::string session_page(const MessageList& messages, const SessionPageHead& head);

/// `text` for an HTML element or an attribute in quotes. Control characters are removed, characters that change the order
/// of others become U+FFFD.
std::string html_text(std::string_view text);

}  // namespace cubepi::app
