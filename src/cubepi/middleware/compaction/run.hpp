#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/message_list.hpp>
#include <cubepi/middleware/compaction.hpp>
#include <cubepi/provider/prefix_guard.hpp>

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

/// Returns the tokens of a message by its length: two bytes are one token, which is more than any text needs.
std::int64_t estimated_tokens(const Message& message);

/// An estimate of the next request of a growing history: what the server counted in the last call, and the messages since,
/// scaled by what it counted in the calls before. Following one more message costs the same for any length of the history.
class RequestEstimate {
public:
    /// Begins with messages from `first` on. Usage of calls before `valid_from` is of other requests, and only says how the server
    /// counts. `tokens`: of the request at that time; zero: the estimate of the messages before.
    void restart(const MessageList& history, std::size_t first, std::size_t valid_from,
                 std::int64_t tokens);
    /// Counts the messages that were added since. Returns the size at which the server cuts requests silently, if its newest
    /// count makes that apparent: it falls, or hardly grows, while the history grows. Calls from `alike_from` on had the same
    /// tools and system prompt; only they are compared.
    std::optional<std::int64_t> follow(const MessageList& history, std::size_t alike_from);
    /// Returns true if follow() was called with the beginning of this history.
    bool follows(const MessageList& history) const;

    std::int64_t tokens() const;
    /// Returns the newest count of the server; zero: there is none.
    std::int64_t reported() const { return reported_.value_or(0); }
    /// Returns the model that reported it.
    const SharedString& model() const noexcept { return model_; }
    /// Tokens of the server for one estimated token; 1 before the third call, which overestimates.
    double scale() const;

private:
    struct Growth {
        std::int64_t reported;
        std::int64_t estimated;
    };
    void count(const Message& message, std::size_t index, std::size_t alike_from);
    void note_call(std::int64_t reported, const SharedString& model, bool is_alike);
    bool may_be_cut(std::int64_t at) const;
    void forget_call();

    std::size_t seen_ = 0;
    Message last_;
    std::size_t valid_from_ = 0;
    std::int64_t base_ = 0;   ///< as reported, or of restart()
    std::int64_t since_ = 0;  ///< estimated, of the messages after that
    std::int64_t pictures_ =
        0;  ///< the part of it for pictures, which servers count in their own ways
    std::int64_t thinking_ = 0;  ///< estimated, which servers may drop
    std::optional<std::int64_t> reported_ = {};
    std::size_t reported_at_ = 0;  ///< index of the answer
    SharedString model_;
    // Of the calls that can be compared with the last one.
    std::int64_t lowest_ = 0;
    std::int64_t highest_ = 0;
    std::int64_t rise_ = 0;           ///< the most by which a count was larger than an earlier one
    std::deque<Growth> growth_ = {};  ///< of the last calls
    bool is_edited_ = false;          ///< the endpoint has left out a part of the last request
    std::size_t calls_ = 0;
    double missing_ = 0;  ///< tokens that the server should have counted in the last calls
    std::optional<std::int64_t> cut_at_ = {};
};

/// The record of the compactions of a thread in `extra`: CubePi's keys, and those of this library in one object.
struct CompactionRecord {
    std::optional<CompactionState> state = {};
    std::size_t until = 0;  ///< number of messages for which the summary stands
    std::int64_t failures = 0;
    std::int64_t low_savings = 0;
    std::int64_t fallback_runs = 0;
    // Of this library. Absent in a record of CubePi.
    std::size_t made_at = 0;          ///< length of the history when it was compacted
    std::int64_t tokens = 0;          ///< estimate of the request at that time; zero: unknown
    std::size_t shortened_until = 0;  ///< results of messages before this index are shortened
    std::int64_t window = 0;          ///< learned from a server; zero: none
    std::string window_model = {};    ///< to which `window` applies
    std::int64_t raised = 0;  ///< the user has undone a compaction: none below this many tokens
    Json prompt = {};         ///< PrefixGuard::digest() of tools and system prompt; null: unknown
    std::size_t alike_from = 0;  ///< index of the first answer to a call with that prompt
    /// Earlier hooks have left the history of the last request as it is stored.
    bool is_as_stored = false;

    /// Ignores what is malformed, or does not fit the history.
    static CompactionRecord load(const JsonObject& extra, const MessageList& history);
    /// Returns true if `extra` still has this record; costs the same for any length of the history.
    bool is_in(const JsonObject& extra) const;
    void save(JsonObject& extra) const;
    /// Sets the references to the first `count` messages.
    void refer_to(const MessageList& history, std::size_t count, bool to_all);
};

/// Returns CubePi's reference to a message: a digest of its stored form without this library's keys.
std::string message_ref(const Message& message);

enum class CompactionReason : std::uint8_t { limit, overflow, manual };

/// One compaction of a history.
struct CompactionWork {
    CompactionReason reason;
    std::string instructions;
    std::shared_ptr<RunAccount> account;
    StreamOptions call;
};

/// The place of a message that is not part of the history.
inline constexpr std::size_t no_place = std::numeric_limits<std::size_t>::max();
inline constexpr std::size_t summary_place = no_place - 1;

/// Returns for each message of `list` its place in `origin`, or no_place. They are the same message if they are one object or
/// have one id. Another one replaces the next message of the origin that is missing in the list and has its role.
std::vector<std::size_t> places_in(const MessageList& list, const MessageList& origin);

/// The compaction of one run: its history and record, what earlier hooks have made of the history, and the request that
/// results. Runs share the options of their middleware and nothing else.
class CompactionRun {
public:
    explicit CompactionRun(std::shared_ptr<const CompactionOptions> options)
        : options_(std::move(options)) {}

    /// Takes the history, as it is stored and as earlier hooks have left it, and the record in `extra`, from which one of
    /// another history is removed. Returns the size at which the server cuts requests, if that became apparent.
    std::optional<std::int64_t> follow(MessageList history, MessageList given, JsonObject& extra);
    /// Takes the history of a run that may have made no request yet, for recall: a resumed run begins with calls.
    void resume(const MessageList& history, const JsonObject& extra);
    /// Returns what recall reads: the history as earlier hooks have left it, with a note in the place of a message that they have left
    /// out. Nothing before the first request of a run that resumes a request which hooks had changed.
    std::optional<MessageList> readable() const;

    /// The model of the run's calls, for its window; absent: unknown.
    void set_model(std::string id, std::optional<std::int64_t> window);
    /// Returns true, once, if CompactionOptions::find_window is to be called before the next request.
    bool begin_finding();
    /// The window that it has found, for a model without one.
    void set_found_window(std::optional<std::int64_t> tokens) { found_window_ = tokens; }
    /// Records that the server has this window. `model` is empty for the one that has answered last.
    void learn_window(std::int64_t tokens, std::string model, JsonObject& extra);
    /// Called for each request before it is sent.
    void note_call(const ModelRequest& request, JsonObject& extra);
    /// Undoes the compactions.
    void undo(JsonObject& extra);
    /// Returns the tokens from which on the endpoint is asked to compact; zero: it is not asked.
    std::int64_t provider_limit() const;
    /// Returns true if the next request reaches the limit.
    bool is_too_long() const { return limit() > 0 && estimate_.tokens() >= limit(); }
    /// Returns true if the last answer was cut off because the window is full, and nothing was compacted since.
    bool is_full() const;

    /// Compacts the history, or says why not. `extra` must be valid until the task has ended.
    static Task<CompactionReport> compact(std::shared_ptr<CompactionRun> run, CompactionWork work,
                                          JsonObject& extra);

    /// A request of the run, and the place of each message in the history.
    struct View {
        MessageList messages = {};
        std::vector<std::size_t> places = {};
    };
    /// Returns the messages to send. Costs the same for any length of the history while hooks leave it unchanged.
    MessageList messages();
    View view() const;
    /// Returns the messages with which a request continues after the history was compacted. `sent` was the view, from which
    /// later hooks made `messages`; what they have changed, left out or added stays so. Nothing if that is the same request.
    std::optional<MessageList> continued(const MessageList& messages, const View& sent) const;

private:
    void restart();
    std::int64_t limit() const;
    std::optional<std::int64_t> window() const;
    std::size_t place_of(std::size_t index) const;
    MessageList between(std::size_t first, std::size_t last) const;
    Message shown(std::size_t place, const Message& message) const;
    std::optional<std::string> preserved_text(const ToolResultMessage& result) const;
    bool is_long(std::size_t until) const;
    std::size_t most_verbatim_bytes() const;
    std::size_t tail_start(CompactionReason reason) const;
    std::int64_t estimated_view() const;
    std::int64_t tokens_after(std::int64_t before, std::int64_t estimated_before) const;
    std::size_t shortened_results(std::size_t first, std::size_t last) const;
    bool shorten(CompactionReason reason, std::size_t until, CompactionReport& report);
    bool shorten_all(CompactionReport& report);
    SummaryCall summary_call(const CompactionWork& work, std::size_t until) const;
    CompactionReport finish(CompactionReport report, JsonObject& extra);

    const std::shared_ptr<const CompactionOptions> options_;
    MessageList history_;
    MessageList given_;
    std::optional<MessageList> resumed_ = {};  ///< of resume(), until the first request
    /// The place of each message of `given_`; empty: it is the history, perhaps with messages after it.
    std::vector<std::size_t> places_;
    CompactionRecord record_;
    bool is_loaded_ = false;
    RequestEstimate estimate_;
    PrefixGuard prompt_;  ///< sees requests without their messages
    std::optional<std::int64_t> model_window_ = {};
    std::optional<std::int64_t> found_window_ = {};
    bool has_tried_to_find_ = false;
    std::string model_id_ = {};
    // The view of a history that hooks leave unchanged, which grows with it.
    MessageList seen_;
    std::size_t seen_until_ = 0;
    bool is_seen_ = false;
};

}  // namespace cubepi::detail
