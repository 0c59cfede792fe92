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

#include <cubepi/agent/middleware.hpp>

namespace cubepi {

/// The first line of the message that replaces the summarized part of a history. The rest of the message is the summary.
inline constexpr std::string_view summary_prefix =
    "[Summary of the earlier conversation, written by the assistant. It is background, neither a "
    "request nor consent of the user. The messages after it are unchanged.]\n";

/// A tool result that a summary keeps word for word.
struct PreservedToolResult {
    std::string tool_name = {};
    std::string tool_call_id = {};
    std::string text = {};
};

/// The summary of the first messages of a thread, in the form in which CubePi stores it (`extra.compaction`).
struct CompactionState {
    std::string summary = {};
    std::vector<std::string> summarized_message_ids = {};
    /// A reference to each summarized message, or only to the last one; see CompactionOptions::all_message_refs.
    std::vector<std::string> summarized_message_refs = {};
    std::optional<std::string> last_summarized_message_id = {};
    bool is_fallback = false;  ///< no model has written the summary
    std::vector<PreservedToolResult> preserved_tool_results = {};

    /// Returns nothing for a value that is malformed.
    static std::optional<CompactionState> from_json(const Json& value);
    JsonObject to_json() const;
};

/// Returns the part of a tool result that a summary keeps word for word, or nothing.
using ToolResultCompressor =
    std::function<std::optional<std::string>(const ToolResultMessage& result)>;

struct CompactionOptions {
    /// The model that writes summaries. It receives the conversation. Required.
    BoundModel summary_model = {};
    /// The history is compacted when a request would have this share of the context window of the agent's model, or
    /// `max_tokens_before_compact` tokens. Zero: no such limit.
    double window_share = 0.8;
    std::int64_t max_tokens_before_compact = 0;
    /// From this share of the window on, an endpoint that compacts conversations itself is asked to do so
    /// (StreamOptions::compact_at()). Below `window_share`, it usually does so first. Zero: never; its summary cannot be read, and
    /// what is preserved here may not be part of it.
    double provider_share = 0.0;
    /// Tokens. Absent: the window is that of the model, known from its first call on, or from the first request that is refused.
    std::optional<std::int64_t> context_window = {};
    /// Finds the window of the agent's model if neither of the two has it, for example in the list of its server. Called at most once
    /// in a run, before a request of several thousand tokens, which waits five seconds for it at most. Absent, or a failure: it stays
    /// unknown.
    std::function<Task<std::optional<std::int64_t>>()> find_window = {};
    /// The messages at the end of the history that stay unchanged, in tokens; at most half of the limit above.
    std::int64_t keep_tail_tokens = 8'000;
    /// The limit of a summary, in tokens. Absent: 15 % of what it replaces, 1,024 at least and 4,096 at most.
    std::optional<std::int64_t> max_summary_tokens = {};
    /// The smallest number of messages that are worth a summary, unless they have more than a quarter of a request.
    std::size_t min_compact_messages = 4;
    /// Shortens old tool results before a summary is written, which is often enough.
    bool prune_tool_outputs = true;
    ToolResultCompressor tool_result_compressor = {};
    /// Tools whose results are neither shortened nor summarized.
    std::vector<std::string> preserved_tools = {};
    /// Returns true for messages that a summary keeps word for word. Empty: those whose metadata has `preserve: true`.
    std::function<bool(const Message& message)> preserve = {};
    /// The instructions of the summary model. Empty: the default.
    std::string summary_prompt = {};
    std::chrono::nanoseconds summary_timeout = std::chrono::minutes(3);
    /// Offers the tool `recall`, by which the model reads what was shortened or summarized.
    bool with_recall = true;
    /// Stores a reference to each summarized message, as CubePi requires. Otherwise the record has one, whose size does not
    /// depend on the length of the history.
    bool all_message_refs = true;
};

/// The outcome of a compaction. Tokens are estimates of whole requests.
struct CompactionReport {
    bool compacted = false;   ///< something was shortened or summarized
    std::string reason = {};  ///< "limit", "overflow", "manual"; of one that failed, see `error`
    std::int64_t before = 0;
    std::int64_t after = 0;
    std::size_t summarized = 0;  ///< messages that the summary stands for
    std::size_t retained = 0;    ///< messages after it
    std::size_t shortened = 0;   ///< tool results
    bool is_fallback = false;
    Usage usage = {};
    std::optional<double> cost = 0.0;  ///< USD, of the summary; absent: unknown
    std::string error = {};            ///< why there is no summary of a model; empty: there is one

    /// Returns the notice "compaction", whose text is one line for users.
    Notice notice() const;
};

/// The result of CompactionMiddleware::compact_now(): the changes of `extra`, for Agent::set_extra() or
/// Checkpointer::save_extra().
struct ManualCompaction {
    CompactionReport report = {};
    JsonObject extra = {};
};

/// Middleware that shortens what the model receives of a long history: old tool results first, then a summary replaces
/// the oldest messages. The history itself never changes: a compaction is a record in the thread's `extra`, which CubePi
/// reads (D110), and forgetting the record undoes it. Usage and cost of summaries count in the run. Agents, also
/// sub-agents, may share one object, at the same time.
///
/// What earlier middleware has changed in the messages is sent so, also to the summary model. Later middleware does not see
/// the requests of that model.
///
/// A compaction is reported by a notice with the code "compaction", also that of an endpoint. A request that the server refuses because of its
/// length is compacted and sent once more; the notice "context_overflow" precedes that.
class CompactionMiddleware {
public:
    /// Throws Error(invalid_argument) without a summary model.
    explicit CompactionMiddleware(CompactionOptions options);

    std::vector<AgentTool> tools = {};
    std::vector<BoundModel> models = {};

    Task<MessageList> transform_context(MessageList messages, HookContext& context);
    Task<MessageStream> around_model_call(ModelRequest request, ModelCallNext next);
    std::optional<BeforeToolCallResult> before_tool_call(BeforeToolCallContext& context);

    /// Compacts a history at the request of a user; `instructions` says what matters. `account` receives the cost; see
    /// RunAccount. Not during a run of the agent.
    Task<ManualCompaction> compact_now(MessageList messages, JsonObject extra,
                                       std::string instructions,
                                       std::shared_ptr<RunAccount> account,
                                       std::shared_ptr<const Runtime> runtime);
    /// Returns the changes of `extra` that undo every compaction of a thread with this history. The whole history is sent until
    /// it has grown by a tenth, or a server refuses it.
    static JsonObject undo(const MessageList& history, JsonObject extra);

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace cubepi
