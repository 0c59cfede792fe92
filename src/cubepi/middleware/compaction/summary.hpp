#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/message_list.hpp>
#include <cubepi/middleware/compaction.hpp>

namespace cubepi::detail {

/// A conversation as plain text, for a model that is asked to summarize it. Tool calls and their results become text
/// too, because a request without tools must not contain them.
class ConversationDigest {
public:
    /// `before` becomes the first part, unless it is empty.
    ConversationDigest(const std::string& before, const Message* first, const Message* last);

    /// Returns the size of the whole text in bytes.
    std::size_t size() const noexcept;
    /// Returns the text in at most `limit` bytes: the first part and the newest messages. States how many messages between
    /// them are omitted.
    std::string text(std::size_t limit) const;

private:
    std::vector<std::string> parts_;
};

/// Returns at most `limit` bytes of valid UTF-8: beginning and end of a longer text, and how much is omitted between
/// them.
std::string shortened_middle(std::string_view text, std::size_t limit);

/// The call of a model that summarizes.
struct SummaryCall {
    BoundModel model = {};
    std::string prompt = {};        ///< of the system
    std::string instructions = {};  ///< of the user; may be empty
    ConversationDigest conversation;
    std::int64_t max_tokens = 0;                      ///< of the summary
    std::optional<std::int64_t> learned_window = {};  ///< of the model, besides that in its spec
    std::chrono::nanoseconds timeout = {};
    StreamOptions options = {};
    std::shared_ptr<RunAccount> account = {};
    /// The cost of the call is reserved in the account. After a refusal it is not: the reservation of the refused call stands.
    bool reserves = true;
};

struct SummaryAnswer {
    std::string text = {};
    std::string error = {};   ///< why there is no text; empty: there is one
    bool is_limited = false;  ///< the model was not called, because the run may not spend more
    Usage usage = {};
    std::optional<double> cost = 0.0;
};

/// Asks the model, several times with less of the conversation if it does not fit the window of the model. Charges the
/// calls. An abort is an error like any other.
Task<SummaryAnswer> write_summary(SummaryCall call);

/// Returns true for the answer to a request that does not fit the window of the model.
bool is_overflow(const AssistantMessage& answer);

/// Returns the default of CompactionOptions::summary_prompt.
std::string default_summary_prompt();

/// Returns a summary that no model has written: the beginnings of the user's messages and the names of the tools, after the
/// earlier summary.
std::string fallback_summary(const MessageList& part,
                             const std::optional<CompactionState>& earlier);

/// Adds a result, in place of one of the same tool with the same text.
void preserve_result(CompactionState& state, PreservedToolResult result);
/// Adds the part of a summary that its writer must not change: goal, open to-dos, preserved messages, and the last request of the
/// user if it is not among the messages after the summary. That part and the preserved results have at most `most_bytes`
/// together; the newest stay, and a line says that `recall` reads the others.
void add_verbatim_part(CompactionState& state, const MessageList& summarized,
                       const MessageList& after, const JsonObject& extra,
                       const std::function<bool(const Message&)>& preserve, std::size_t most_bytes);
/// Returns the summary without its verbatim part.
std::string without_verbatim_part(std::string summary);

/// Returns the message that stands for the summarized part of the history.
Message summary_message(const CompactionState& state);

}  // namespace cubepi::detail
