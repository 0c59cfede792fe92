#include <cubepi/middleware/compaction.hpp>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <set>
#include <utility>

#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/middleware/compaction/recall_tool.hpp>
#include <cubepi/middleware/compaction/record.hpp>
#include <cubepi/middleware/compaction/request_estimate.hpp>
#include <cubepi/middleware/compaction/summary.hpp>
#include <cubepi/provider/cost.hpp>

namespace cubepi {

namespace {

using detail::CompactionRecord;
using detail::estimated_tokens;

constexpr std::size_t longest_old_result = 120;       // bytes, of a result that stays whole
constexpr std::size_t longest_recent_result = 2'000;  // the same at an overflow, for every result
constexpr std::int64_t most_failures = 3;             // then fallback summaries
constexpr std::int64_t most_fallback_runs = 5;        // then the model is tried once
constexpr std::int64_t most_low_savings = 2;
constexpr std::size_t worthwhile_advance = 8;  // messages, after low savings
constexpr double low_saving = 0.1;
constexpr double shortened_share = 0.75;  // of the limit, below which shortened results suffice

enum class Reason : std::uint8_t { limit, overflow, manual };

std::string_view to_string(Reason reason) {
    if (reason == Reason::limit) return "limit";
    return reason == Reason::overflow ? "overflow" : "manual";
}

std::string grouped(std::int64_t number) {
    std::string text = std::to_string(number);
    for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, ",");
    return text;
}

/// Returns the latest index up to `limit` at which the history can be divided: no result after it belongs to a call
/// before it. Zero: there is none.
std::size_t safe_boundary(const MessageList& history, std::size_t limit) {
    std::multiset<std::string_view> open;  // results whose call was not passed yet
    for (std::size_t i = history.size(); i > 0; --i) {
        const Message& message = history[i - 1];
        if (const ToolResultMessage* result = message.tool_result()) {
            open.insert(result->tool_call_id.str());
        } else if (const AssistantMessage* answer = message.assistant()) {
            for (const ToolCall* call : answer->tool_calls()) {
                const auto found = open.find(call->id.str());
                if (found != open.end()) open.erase(found);
            }
        }
        if (i - 1 <= limit && open.empty()) return i - 1;
    }
    return 0;
}

bool marked_as_preserved(const Message& message) {
    const Json* mark = message.metadata().find("preserve");
    return mark && mark->is_bool() && mark->get_bool();
}

}  // namespace

Notice CompactionReport::notice() const {
    Notice notice;
    notice.code = "compaction";
    notice.details["compacted"] = compacted;
    notice.details["reason"] = reason;
    notice.details["before"] = before;
    notice.details["after"] = after;
    notice.details["summarized"] = summarized;
    notice.details["retained"] = retained;
    notice.details["shortened"] = shortened;
    notice.details["fallback"] = is_fallback;
    notice.details["usage"] = to_json(usage);
    if (cost) notice.details["cost"] = *cost;
    if (!error.empty()) notice.details["error"] = error;
    if (!compacted) {
        notice.text = "the conversation was not compacted: " + error;
        return notice;
    }
    notice.text = "compacted the conversation from about " + grouped(before) + " to " +
                  grouped(after) + " tokens: ";
    if (summarized > 0) {
        notice.text += (is_fallback ? "an outline stands for " : "a summary stands for ") +
                       std::to_string(summarized) + " messages, " + std::to_string(retained) +
                       " stay";
        if (!cost) {
            notice.text += ", cost unknown";
        } else if (*cost > 0) {
            notice.text += ", " + money_text(*cost);
        }
    } else {
        notice.text += std::to_string(shortened) + " old tool results are shortened";
    }
    if (!error.empty()) notice.text += "; no summary of the model: " + error;
    return notice;
}

struct CompactionMiddleware::State {
    explicit State(CompactionOptions chosen) : options(std::move(chosen)) {}

    /// One compaction of a history.
    struct Work {
        Reason reason;
        std::string instructions;
        MessageList history;
        std::shared_ptr<RunAccount> account;
        StreamOptions call;
    };

    void load(const JsonObject& extra);
    void restart();
    std::int64_t limit() const;
    std::optional<std::int64_t> window() const;
    void learn_window(std::int64_t tokens, std::string model, JsonObject& extra);
    MessageList view();
    Message shown(std::size_t index) const;
    std::optional<std::string> preserved_text(const ToolResultMessage& result) const;
    std::size_t tail_start(Reason reason) const;
    std::int64_t estimated_view() const;
    std::int64_t tokens_after(std::int64_t before, std::int64_t estimated_before) const;
    static Task<CompactionReport> compact(std::shared_ptr<State> self, Work work,
                                          JsonObject& extra);
    static Task<std::optional<MessageStream>> call_again(std::shared_ptr<State> self,
                                                         ModelRequest request, ModelCallNext next,
                                                         AssistantMessage refusal,
                                                         std::deque<Notice>& notices);
    std::size_t shortened_results(std::size_t first, std::size_t last) const;
    bool shorten(Reason reason, std::size_t until, CompactionReport& report);
    bool shorten_all(CompactionReport& report);
    detail::SummaryCall summary_call(const Work& work, std::size_t until) const;
    CompactionReport finish(CompactionReport report, JsonObject& extra);

    CompactionOptions options;
    std::shared_ptr<MessageList> history = std::make_shared<MessageList>();
    CompactionRecord record;
    detail::RequestEstimate estimate;
    std::optional<std::int64_t> model_window = {};
    std::string model_id = {};
    // The view of the history, which grows with it.
    MessageList seen;
    std::size_t seen_until = 0;
    bool is_seen = false;
    // The call that follows transform_context().
    MessageList sent;
    std::string run_id = {};
    JsonObject* extra = nullptr;
    std::shared_ptr<RunAccount> account = {};
    StreamOptions call = {};
    std::deque<Notice> notices = {};
};

void CompactionMiddleware::State::load(const JsonObject& extra) {
    if (record.is_in(extra) && estimate.follows(*history)) return;
    record = CompactionRecord::load(extra, *history);
    restart();
}

void CompactionMiddleware::State::restart() {
    is_seen = false;
    std::size_t valid = record.made_at;
    // A record of CubePi does not say when it was made.
    if (record.state && valid == 0) valid = history->size();
    estimate.restart(*history, record.until, valid, record.tokens);
}

std::optional<std::int64_t> CompactionMiddleware::State::window() const {
    std::optional<std::int64_t> window = options.context_window;
    if (!window) window = model_window;
    const bool is_learned =
        record.window > 0 && (model_id.empty() || model_id == record.window_model);
    if (is_learned && (!window || record.window < *window)) window = record.window;
    return window;
}

/// Returns the tokens of a request from which on the history is compacted; zero: there is no limit.
std::int64_t CompactionMiddleware::State::limit() const {
    std::int64_t limit = std::max<std::int64_t>(options.max_tokens_before_compact, 0);
    const std::optional<std::int64_t> size = window();
    if (size && *size > 0 && options.window_share > 0) {
        const auto share =
            static_cast<std::int64_t>(static_cast<double>(*size) * options.window_share);
        if (limit == 0 || share < limit) limit = std::max<std::int64_t>(share, 1);
    }
    return limit;
}

void CompactionMiddleware::State::learn_window(std::int64_t tokens, std::string model,
                                               JsonObject& extra) {
    if (tokens <= 0) return;
    record.window = tokens;
    record.window_model = std::move(model);
    record.save(extra);
}

/// Returns the estimate of what the model receives of the history.
std::int64_t CompactionMiddleware::State::estimated_view() const {
    std::int64_t sum = record.state ? estimated_tokens(detail::summary_message(*record.state)) : 0;
    for (std::size_t i = record.until; i < history->size(); ++i) sum += estimated_tokens(shown(i));
    return sum;
}

/// Returns the tokens of a request that had `before` tokens when the view had that estimate.
std::int64_t CompactionMiddleware::State::tokens_after(std::int64_t before,
                                                       std::int64_t estimated_before) const {
    // The smaller of two guesses: the first does not know what is not part of the history, the second overestimates before
    // there is a scale.
    const auto less = static_cast<double>(estimated_before - estimated_view());
    const double share = static_cast<double>(before) * less /
                         static_cast<double>(std::max<std::int64_t>(estimated_before, 1));
    const auto saved = static_cast<std::int64_t>(std::min(share, estimate.scale() * less));
    return std::max<std::int64_t>(before - saved, 1);
}

std::optional<std::string> CompactionMiddleware::State::preserved_text(
    const ToolResultMessage& result) const {
    const std::vector<std::string>& tools = options.preserved_tools;
    if (std::find(tools.begin(), tools.end(), result.tool_name.str()) != tools.end())
        return Message(result).text();
    if (options.tool_result_compressor) return options.tool_result_compressor(result);
    return std::nullopt;
}

/// Returns a message as the model receives it.
Message CompactionMiddleware::State::shown(std::size_t index) const {
    const Message& message = (*history)[index];
    const ToolResultMessage* result = message.tool_result();
    const bool is_recent = index >= record.shortened_until;
    if (!result || is_recent) return message;
    const std::string text = message.text();
    const std::size_t longest =
        record.shortened_until == record.made_at ? longest_recent_result : longest_old_result;
    const std::optional<std::string> preserved = preserved_text(*result);
    if (text.size() <= longest || (preserved && *preserved == text)) return message;
    std::string shorter = preserved ? *preserved
                                    : "[" + result->tool_name.str() + ": " +
                                          std::to_string(text.size()) + " bytes, left out here";
    if (!preserved && options.with_recall)
        shorter += "; recall with message " + std::to_string(index + 1) + " reads them";
    if (!preserved) shorter += "]";
    ToolResultMessage copy = *result;
    copy.content = ContentList<Content>();
    copy.content.emplace_back(TextContent{std::move(shorter)});
    return copy;
}

MessageList CompactionMiddleware::State::view() {
    if (!record.state && record.shortened_until == 0) return *history;
    if (!is_seen) {
        seen = MessageList();
        if (record.state) seen.push_back(detail::summary_message(*record.state));
        seen_until = record.until;
        is_seen = true;
    }
    for (; seen_until < history->size(); ++seen_until) seen.push_back(shown(seen_until));
    return seen;
}

/// Returns the index of the first message that stays unchanged. Messages of the framework at the end do not count as
/// a tail.
std::size_t CompactionMiddleware::State::tail_start(Reason reason) const {
    std::int64_t budget = options.keep_tail_tokens;
    if (const std::int64_t most = limit(); most > 0 && budget >= most) budget = most / 2;
    if (reason != Reason::limit) budget = std::min(budget, estimate.tokens() / 4);
    std::int64_t sum = 0;
    bool has_message = false;
    std::size_t start = history->size();
    for (; start > record.until; --start) {
        const Message& message = (*history)[start - 1];
        sum += static_cast<std::int64_t>(estimate.scale() *
                                         static_cast<double>(estimated_tokens(message)));
        if (has_message && sum > budget) break;
        has_message = has_message || !is_synthetic_message(message);
    }
    return start;
}

std::size_t CompactionMiddleware::State::shortened_results(std::size_t first,
                                                           std::size_t last) const {
    std::size_t count = 0;
    for (std::size_t i = first; i < last; ++i) {
        if (!(*history)[i].is_same(shown(i))) ++count;
    }
    return count;
}

/// Shortens tool results before `until` if no summary is needed then.
bool CompactionMiddleware::State::shorten(Reason reason, std::size_t until,
                                          CompactionReport& report) {
    if (!options.prune_tool_outputs || reason == Reason::manual) return false;
    const CompactionRecord before = record;
    const std::int64_t estimated = estimated_view();
    const std::size_t first = std::max(record.until, record.shortened_until);
    record.shortened_until = until;
    record.made_at = history->size();
    report.shortened = shortened_results(first, until);
    record.tokens = tokens_after(report.before, estimated);
    // After a refusal, only a limit says whether that is enough.
    report.compacted =
        report.shortened > 0 && limit() > 0 &&
        static_cast<double>(record.tokens) < shortened_share * static_cast<double>(limit());
    if (!report.compacted) {
        record = before;
        report.shortened = 0;
    }
    return report.compacted;
}

/// Shortens long tool results at the end of the history too, because one of them may be what does not fit.
bool CompactionMiddleware::State::shorten_all(CompactionReport& report) {
    const std::size_t first = std::max(record.until, record.shortened_until);
    const std::int64_t before =
        record.tokens > 0 && report.compacted ? record.tokens : report.before;
    const std::int64_t estimated = estimated_view();
    record.shortened_until = record.made_at = history->size();
    report.shortened = shortened_results(first, history->size());
    record.tokens = tokens_after(before, estimated);
    report.compacted = report.compacted || report.shortened > 0;
    return report.compacted;
}

detail::SummaryCall CompactionMiddleware::State::summary_call(const Work& work,
                                                              std::size_t until) const {
    std::string earlier;
    if (record.state)
        earlier = "Earlier notes:\n" + detail::without_verbatim_part(record.state->summary) + "\n";
    std::int64_t replaced = 0;
    for (std::size_t i = record.until; i < until; ++i) replaced += estimated_tokens((*history)[i]);
    const std::int64_t most = options.max_summary_tokens
                                  ? *options.max_summary_tokens
                                  : std::clamp<std::int64_t>(replaced * 15 / 100, 1'024, 4'096);
    const MessageList& all = *history;
    return detail::SummaryCall{
        options.summary_model,
        options.summary_prompt.empty() ? detail::default_summary_prompt() : options.summary_prompt,
        work.instructions,
        detail::ConversationDigest(earlier, all.begin() + record.until, all.begin() + until),
        std::max<std::int64_t>(most, 1),
        options.summary_timeout,
        work.call,
        work.account};
}

/// Stores the record.
CompactionReport CompactionMiddleware::State::finish(CompactionReport report, JsonObject& extra) {
    record.save(extra);
    restart();
    (void)estimate.follow(*history);
    report.after = record.tokens;
    return report;
}

/// Compacts the history, or says why not. `extra` must be valid until the task has ended.
Task<CompactionReport> CompactionMiddleware::State::compact(std::shared_ptr<State> self, Work work,
                                                            JsonObject& extra) {
    State& my = *self;
    const MessageList& all = work.history;
    CompactionReport report;
    report.reason = to_string(work.reason);
    report.before = report.after = my.estimate.tokens();
    report.retained = all.size() - my.record.until;
    const std::size_t until = safe_boundary(all, my.tail_start(work.reason));
    const std::size_t fewest = work.reason == Reason::limit ? my.options.min_compact_messages : 1;
    if (my.shorten(work.reason, until, report)) {
        report = my.finish(std::move(report), extra);
        co_return report;
    }
    const bool is_thrashing = work.reason == Reason::limit &&
                              my.record.low_savings >= most_low_savings &&
                              until < my.record.until + worthwhile_advance;
    if (until < std::max(fewest, my.record.until + 1) || is_thrashing) {
        report.error = "there are no earlier messages to summarize";
        if (work.reason == Reason::overflow && my.shorten_all(report))
            report = my.finish(std::move(report), extra);
        co_return report;
    }

    CompactionState next;
    const std::int64_t estimated = my.estimated_view();
    std::int64_t replaced = estimated;
    for (std::size_t i = until; i < all.size(); ++i) replaced -= estimated_tokens(my.shown(i));
    const bool is_open =
        my.record.failures >= most_failures && my.record.fallback_runs < most_fallback_runs;
    if (!is_open || work.reason == Reason::manual) {
        detail::SummaryCall call = my.summary_call(work, until);
        detail::SummaryAnswer answer = co_await detail::write_summary(std::move(call));
        if (work.call.stop_token().stop_requested()) {
            report.error = "aborted";
            co_return report;
        }
        report.usage = answer.usage;
        report.cost = answer.cost;
        report.error = std::move(answer.error);
        next.summary = std::move(answer.text);
        const auto size = static_cast<std::int64_t>(next.summary.size() / 2);
        if (report.error.empty() && size >= replaced)
            report.error = "the summary is not shorter than what it replaces";
        if (my.record.fallback_runs >= most_fallback_runs) my.record.fallback_runs = 0;
    } else {
        report.error = "the summary model has failed " + std::to_string(my.record.failures) +
                       " times in a row";
    }
    if (report.error.empty()) {
        my.record.failures = my.record.fallback_runs = 0;
    } else {
        if (!is_open) my.record.failures = std::min(my.record.failures + 1, most_failures);
        // Before that many failures, a request that can still be sent is sent as it is.
        const bool may_wait = my.record.failures < most_failures && work.reason != Reason::overflow;
        if (may_wait) {
            my.record.save(extra);
            co_return report;
        }
        ++my.record.fallback_runs;
        next.is_fallback = report.is_fallback = true;
        next.summary = detail::fallback_summary(all, my.record.until, until, my.record.state);
    }

    const auto preserve = my.options.preserve ? my.options.preserve : marked_as_preserved;
    next.summary += detail::verbatim_part(all, until, extra, preserve);
    if (my.record.state) {
        next.preserved_tool_results = std::move(my.record.state->preserved_tool_results);
        next.summarized_message_refs = std::move(my.record.state->summarized_message_refs);
    }
    for (std::size_t i = my.record.until; i < until; ++i) {
        const ToolResultMessage* result = all[i].tool_result();
        std::optional<std::string> text = result ? my.preserved_text(*result) : std::nullopt;
        if (!text) continue;
        next.preserved_tool_results.push_back(PreservedToolResult{
            result->tool_name.str(), result->tool_call_id.str(), std::move(*text)});
    }
    my.record.state = std::move(next);
    my.record.refer_to(all, until, my.options.all_message_refs);
    my.record.made_at = all.size();
    my.record.tokens = my.tokens_after(report.before, estimated);
    const bool is_low = static_cast<double>(report.before - my.record.tokens) <
                        low_saving * static_cast<double>(report.before);
    my.record.low_savings = is_low ? my.record.low_savings + 1 : 0;
    report.compacted = true;
    report.summarized = until;
    report.retained = all.size() - until;
    if (work.reason == Reason::overflow) (void)my.shorten_all(report);
    report = my.finish(std::move(report), extra);
    co_return report;
}

// The hooks.

CompactionMiddleware::CompactionMiddleware(CompactionOptions options)
    : state_(std::make_shared<State>(std::move(options))) {
    if (!state_->options.summary_model) {
        throw Error(ErrorCode::invalid_argument,
                    "CompactionMiddleware needs a summary_model with a provider");
    }
    models.push_back(state_->options.summary_model);
    if (state_->options.with_recall) tools.push_back(detail::recall_tool(state_->history));
}

Task<MessageList> CompactionMiddleware::transform_context(MessageList messages,
                                                          HookContext& context) {
    const std::shared_ptr<State> state = state_;
    State& my = *state;
    // Middleware before this one may have added messages, which are not part of the history.
    const MessageList& all = context.messages;
    const bool is_longer = !all.empty() && messages.size() >= all.size() &&
                           messages[all.size() - 1].is_same(all.back());
    *my.history = is_longer ? all : messages;
    my.load(context.extra);
    my.run_id = context.run_id;
    my.extra = &context.extra;
    my.account = context.account;
    my.call = context.call_options("compaction");
    my.notices.clear();
    const std::optional<std::int64_t> cut = my.estimate.follow(*my.history);
    if (cut) {
        std::string model;
        for (std::size_t i = all.size(); i > 0 && model.empty(); --i) {
            if (const AssistantMessage* answer = all[i - 1].assistant())
                model = answer->model_id.str();
        }
        my.learn_window(*cut, std::move(model), context.extra);
        Notice notice;
        notice.code = "context_cut";
        notice.text = "the server seems to cut requests at about " + grouped(*cut) +
                      " tokens without saying so";
        notice.details["tokens"] = *cut;
        my.notices.push_back(std::move(notice));
    }
    const std::int64_t limit = my.limit();
    if (cut || (limit > 0 && my.estimate.tokens() >= limit)) {
        State::Work work{Reason::limit, {}, *my.history, my.account, my.call};
        Task<CompactionReport> compacting = State::compact(state, std::move(work), context.extra);
        const CompactionReport report = co_await std::move(compacting);
        // An attempt that finds nothing to do is made before each call, and not reported.
        if (report.compacted || report.usage != Usage()) my.notices.push_back(report.notice());
    }
    my.sent = my.view();
    for (std::size_t i = my.history->size(); i < messages.size(); ++i)
        my.sent.push_back(messages[i]);
    co_return my.sent;
}

namespace {

/// Returns the messages with which a request continues after the history was compacted: `view` in place of `sent`. What later
/// hooks left out of `sent`, or added after it, is left out or added. Nothing if they have changed it in another way.
std::optional<MessageList> continued(const MessageList& messages, const MessageList& sent,
                                     const MessageList& view) {
    std::vector<Message> left_out;
    std::size_t next = 0;
    for (const Message& message : sent) {
        if (next < messages.size() && messages[next].is_same(message)) {
            ++next;
        } else {
            left_out.push_back(message);
        }
    }
    const bool is_rewritten = !left_out.empty() && left_out.back().is_same(sent.back());
    if (is_rewritten) return std::nullopt;
    MessageList made;
    for (const Message& message : view) {
        const bool stays = std::none_of(left_out.begin(), left_out.end(),
                                        [&](const Message& one) { return one.is_same(message); });
        if (stays) made.push_back(message);
    }
    for (; next < messages.size(); ++next) made.push_back(messages[next]);
    return std::move(repair_request(made).messages);
}

StreamEvent notice_event(Notice notice) {
    StreamEvent event;
    event.type = StreamEventType::notice;
    event.notice = SharedValue<Notice>(std::move(notice));
    return event;
}

/// The answer of the model, after the notices of the hook. A refusal because of the length comes before any part of an
/// answer: `retry` is called once then, which returns another call or nothing.
class CompactedStream final : public StreamSource {
public:
    using Retry = std::function<Task<std::optional<MessageStream>>(AssistantMessage refusal,
                                                                   std::deque<Notice>& notices)>;
    CompactedStream(MessageStream stream, std::deque<Notice> notices, Retry retry)
        : stream_(std::move(stream)), notices_(std::move(notices)), retry_(std::move(retry)) {}

    std::optional<StreamEvent> ready() override {
        if (has_begun_) return stream_.ready();
        if (std::optional<StreamEvent> notice = next_notice()) return notice;
        return std::nullopt;
    }

    Task<StreamEvent> next() override {
        for (;;) {
            if (std::optional<StreamEvent> notice = next_notice()) co_return std::move(*notice);
            if (refusal_) {
                // The notice that precedes the summary was delivered.
                Task<std::optional<MessageStream>> retrying =
                    std::exchange(retry_, nullptr)(refusal_->partial.get(), notices_);
                std::optional<MessageStream> retried = co_await std::move(retrying);
                if (!retried) {
                    has_begun_ = true;
                    StreamEvent refused = std::move(*std::exchange(refusal_, std::nullopt));
                    failed_ = std::move(refused);
                } else {
                    stream_ = std::move(*retried);
                    refusal_.reset();
                }
                continue;
            }
            if (failed_ && notices_.empty()) co_return std::move(*failed_);
            std::optional<StreamEvent> event = co_await stream_.next();
            if (!event)
                throw Error(ErrorCode::protocol,
                            "the provider's stream ended without done or error");
            const bool is_refusal = retry_ && !has_begun_ &&
                                    event->type == StreamEventType::error &&
                                    detail::is_overflow(event->partial.get());
            if (is_refusal) {
                refusal_ = std::move(event);
                Notice notice;
                notice.code = "context_overflow";
                notice.text = "the conversation is too long for the model; compacting it ...";
                notices_.push_back(std::move(notice));
                continue;
            }
            has_begun_ = has_begun_ || event->type != StreamEventType::notice;
            co_return std::move(*event);
        }
    }

private:
    std::optional<StreamEvent> next_notice() {
        if (notices_.empty()) return std::nullopt;
        StreamEvent event = notice_event(std::move(notices_.front()));
        notices_.pop_front();
        return event;
    }

    MessageStream stream_;
    std::deque<Notice> notices_;
    Retry retry_;
    std::optional<StreamEvent> refusal_;
    std::optional<StreamEvent> failed_;
    bool has_begun_ = false;
};

}  // namespace

Task<MessageStream> CompactionMiddleware::around_model_call(ModelRequest request,
                                                            ModelCallNext next) {
    const std::shared_ptr<State> state = state_;
    Task<MessageStream> starting = next(request);
    MessageStream stream = co_await std::move(starting);
    // An explicit transform_context of the agent replaces that of middleware.
    if (state->run_id != request.options.run_id() || !state->extra) co_return std::move(stream);
    state->model_window = request.model.context_window;
    state->model_id = request.model.id;
    auto retry = [state, request, next](AssistantMessage refusal, std::deque<Notice>& notices) {
        return State::call_again(state, request, next, std::move(refusal), notices);
    };
    co_return MessageStream(std::make_unique<CompactedStream>(
        std::move(stream), std::exchange(state->notices, {}), std::move(retry)));
}

/// Compacts the history after a refusal, and makes the call again.
Task<std::optional<MessageStream>> CompactionMiddleware::State::call_again(
    std::shared_ptr<State> self, ModelRequest request, ModelCallNext next, AssistantMessage refusal,
    std::deque<Notice>& notices) {
    State& my = *self;
    std::optional<MessageStream> again;
    if (refusal.error && refusal.error->context_window)
        my.learn_window(*refusal.error->context_window, request.model.id, *my.extra);
    const MessageList sent = my.sent;
    Work work{Reason::overflow, {}, *my.history, my.account, my.call};
    Task<CompactionReport> compacting = compact(self, std::move(work), *my.extra);
    const CompactionReport report = co_await std::move(compacting);
    notices.push_back(report.notice());
    if (!report.compacted) co_return again;
    std::optional<MessageList> messages =
        sent.empty() ? std::nullopt : continued(request.messages, sent, my.view());
    if (!messages) co_return again;
    request.messages = std::move(*messages);
    Task<MessageStream> starting = next(std::move(request));
    again.emplace(co_await std::move(starting));
    co_return again;
}

Task<ManualCompaction> CompactionMiddleware::compact_now(MessageList messages, JsonObject extra,
                                                         std::string instructions,
                                                         std::shared_ptr<RunAccount> account,
                                                         std::shared_ptr<const Runtime> runtime) {
    const std::shared_ptr<State> state = state_;
    *state->history = std::move(messages);
    state->record = CompactionRecord::load(extra, *state->history);
    state->restart();
    (void)state->estimate.follow(*state->history);
    StreamOptions call =
        options_for_call(account->info(), "compaction").runtime(std::move(runtime));
    State::Work work{Reason::manual, std::move(instructions), *state->history, std::move(account),
                     std::move(call)};
    const JsonObject before = extra;
    Task<CompactionReport> compacting = State::compact(state, std::move(work), extra);
    ManualCompaction done;
    done.report = co_await std::move(compacting);
    for (auto& [key, value] : extra) {
        const Json* old = before.if_contains(key);
        if (!old || *old != value) done.extra[key] = value;
    }
    co_return done;
}

}  // namespace cubepi
