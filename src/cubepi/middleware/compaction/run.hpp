#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/middleware/compaction.hpp>
#include <cubepi/middleware/compaction/record.hpp>
#include <cubepi/middleware/compaction/request_estimate.hpp>
#include <cubepi/middleware/compaction/summary.hpp>
#include <cubepi/provider/prefix_guard.hpp>

namespace cubepi::detail {

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
    std::size_t most_verbatim_bytes() const;
    std::size_t tail_start(CompactionReason reason) const;
    std::int64_t estimated_view() const;
    std::int64_t tokens_after(std::int64_t before, std::int64_t estimated_before) const;
    std::size_t shortened_results(std::size_t first, std::size_t last) const;
    bool shorten(CompactionReason reason, std::size_t until, CompactionReport& report);
    bool shorten_all(CompactionReport& report);
    CompactionState state_with(std::string summary, std::size_t until,
                               const JsonObject& extra) const;
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
