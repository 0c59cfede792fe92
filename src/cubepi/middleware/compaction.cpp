#include <cubepi/middleware/compaction.hpp>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <cubepi/agent/tool.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run_info.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/middleware/compaction/run.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/provider/capability.hpp>
#include <cubepi/provider/cost.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::detail {

namespace {

constexpr std::size_t page_bytes = 12'000;
constexpr std::size_t most_matches = 20;
constexpr std::size_t match_bytes = 200;  // before and after a match

std::string full_text(const Message& message) {
    std::string text = message.text();
    if (const AssistantMessage* answer = message.assistant()) {
        for (const ToolCall* call : answer->tool_calls())
            text += "\n[calls " + call->name.str() + " " + json_text(call->arguments) + "]";
    }
    return text;
}

std::string label(const Message& message, std::size_t index) {
    std::string text = "Message " + std::to_string(index + 1) + ", ";
    if (const ToolResultMessage* result = message.tool_result())
        return text + "result of " + result->tool_name.str();
    return text + std::string(message.user() ? "user" : "assistant");
}

/// Returns `bytes` of the text from `at` on, without parts of characters.
std::string piece(std::string_view text, std::size_t at, std::size_t bytes) {
    const auto continues = [&text](std::size_t place) {
        return (static_cast<unsigned char>(text[place]) & 0xC0U) == 0x80U;
    };
    at = std::min(at, text.size());
    while (at < text.size() && continues(at)) ++at;
    text = text.substr(at, bytes);
    return std::string(text.substr(0, complete_utf8_prefix(text)));
}

AgentToolResult read_message(const MessageList& history, std::int64_t number, std::int64_t offset) {
    if (number < 1 || static_cast<std::uint64_t>(number) > history.size()) {
        return AgentToolResult::error("there is no message " + std::to_string(number) +
                                      "; the conversation has " + std::to_string(history.size()));
    }
    const std::size_t index = static_cast<std::size_t>(number) - 1;
    const std::string text = full_text(history[index]);
    const std::size_t at = static_cast<std::size_t>(std::max<std::int64_t>(offset, 0));
    const std::string page = piece(text, at, page_bytes);
    std::string result =
        label(history[index], index) + ", " + std::to_string(text.size()) + " bytes:\n" + page;
    if (at + page.size() < text.size())
        result += "\n[continues at offset " + std::to_string(at + page.size()) + "]";
    return AgentToolResult(std::move(result));
}

AgentToolResult find_text(const MessageList& history, const std::string& wanted) {
    std::string result;
    std::size_t matches = 0;
    for (std::size_t i = history.size(); i > 0 && matches < most_matches; --i) {
        const std::string text = full_text(history[i - 1]);
        const std::size_t at = text.find(wanted);
        if (at == std::string::npos) continue;
        ++matches;
        const std::size_t begin = at - std::min(at, match_bytes);
        result += label(history[i - 1], i - 1) + ": " +
                  piece(text, begin, at - begin + wanted.size() + match_bytes) + "\n";
    }
    if (matches == 0) result = "no message contains this text";
    if (matches == most_matches) result += "[older matches are not listed]\n";
    return AgentToolResult(std::move(result));
}

/// Returns the tool `recall`, by which a model reads the messages of a history: those that contain a text, or one of them
/// by its number. `history_of` returns the history of a run; nothing while it must not be read.
AgentTool recall_tool(
    std::function<std::optional<MessageList>(const std::string& run_id)> history_of) {
    Json parameters = {
        {"type", "object"},
        {"properties",
         {{"find",
           {{"type", "string"}, {"description", "A text; lists the messages that contain it."}}},
          {"message", {{"type", "integer"}, {"description", "The number of a message to read."}}},
          {"offset",
           {{"type", "integer"}, {"description", "Where to continue reading, in bytes."}}}}},
        {"additionalProperties", false}};
    AgentTool made =
        tool("recall",
             "Reads earlier messages of this conversation word for word: tool results that were "
             "shortened, and messages that a summary stands for.",
             std::move(parameters),
             [history_of = std::move(history_of)](JsonObject arguments, ToolContext& context) {
                 const std::optional<MessageList> found = history_of(context.run().run_id);
                 if (!found) {
                     return AgentToolResult::error(
                         "earlier messages cannot be read before the first request of a continued "
                         "run; call recall again");
                 }
                 const MessageList& history = *found;
                 const Json* find = arguments.if_contains("find");
                 const Json* number = arguments.if_contains("message");
                 const Json* offset = arguments.if_contains("offset");
                 if (number && number->is_int64()) {
                     const std::int64_t at = offset && offset->is_int64() ? offset->get_int64() : 0;
                     return read_message(history, number->get_int64(), at);
                 }
                 if (find && find->is_string() && !find->get_string().empty())
                     return find_text(history, std::string(find->get_string()));
                 return AgentToolResult::error("pass `find` or `message`");
             });
    return std::move(made).risk(ToolRisk::read_only);
}

}  // namespace

}  // namespace cubepi::detail

namespace cubepi {

namespace {

using detail::CompactionReason;
using detail::CompactionRun;
using detail::CompactionWork;

std::string grouped(std::int64_t number) {
    std::string text = std::to_string(number);
    for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, ",");
    return text;
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

/// The runs of a middleware, of one agent or of several.
struct CompactionMiddleware::State {
    /// One run, from its first request on.
    struct Entry {
        std::string run_id;
        std::weak_ptr<RunAccount> account;  ///< ends with the run
        std::shared_ptr<CompactionRun> run;
        // Of the next call, from transform_context() to around_model_call().
        JsonObject* extra = nullptr;
        StreamOptions call = {};
        std::deque<Notice> notices = {};
    };

    explicit State(CompactionOptions chosen)
        : options(std::make_shared<const CompactionOptions>(std::move(chosen))) {}

    /// Returns null for a run that has no entry.
    std::shared_ptr<Entry> find(const std::string& run_id) const {
        const std::lock_guard lock(mutex);
        const auto found = std::find_if(runs.begin(), runs.end(), [&](const auto& one) {
            return one->run_id == run_id && !one->account.expired();
        });
        return found == runs.end() ? nullptr : *found;
    }
    /// Returns the entry of a run; makes it at its first request, and removes those of runs that have ended.
    std::shared_ptr<Entry> entry_of(const HookContext& context) {
        const std::lock_guard lock(mutex);
        std::erase_if(runs, [&](const auto& one) {
            const auto account = one->account.lock();
            return !account || (one->run_id == context.run_id && account != context.account);
        });
        for (const auto& one : runs) {
            if (one->run_id == context.run_id) return one;
        }
        auto made = std::make_shared<Entry>();
        made->run_id = context.run_id;
        made->account = context.account;
        made->run = std::make_shared<CompactionRun>(options);
        made->run->set_model(model_id, model_window);
        made->run->set_found_window(found_window);
        return runs.emplace_back(std::move(made));
    }
    static Task<std::optional<MessageStream>> call_again(std::shared_ptr<Entry> entry,
                                                         ModelRequest request, ModelCallNext next,
                                                         AssistantMessage refusal,
                                                         std::deque<Notice>& notices);
    static Task<> find_window(std::shared_ptr<State> state, std::shared_ptr<CompactionRun> run,
                              std::shared_ptr<const Runtime> runtime);
    void set_model(Entry& entry, const Model& model) {
        const std::lock_guard lock(mutex);
        if (!model_id.empty() && model.id != model_id) found_window.reset();
        entry.run->set_found_window(found_window);
        model_id = model.id;
        model_window = model.context_window;
        entry.run->set_model(model_id, model_window);
    }

    const std::shared_ptr<const CompactionOptions> options;

private:
    mutable std::mutex mutex;
    std::vector<std::shared_ptr<Entry>> runs;
    // Of the last call, for the first request of the next run.
    std::string model_id = {};
    std::optional<std::int64_t> model_window = {};
    std::optional<std::int64_t> found_window = {};
};

CompactionMiddleware::CompactionMiddleware(CompactionOptions options)
    : state_(std::make_shared<State>(std::move(options))) {
    if (!state_->options->summary_model) {
        throw Error(ErrorCode::invalid_argument,
                    "CompactionMiddleware needs a summary_model with a provider");
    }
    models.push_back(state_->options->summary_model);
    if (state_->options->with_recall) {
        tools.push_back(detail::recall_tool([state = state_](const std::string& run_id) {
            const auto entry = state->find(run_id);
            return entry ? entry->run->readable() : std::nullopt;
        }));
    }
}

Task<MessageList> CompactionMiddleware::transform_context(MessageList messages,
                                                          HookContext& context) {
    const auto entry = state_->entry_of(context);
    const std::shared_ptr<CompactionRun> run = entry->run;
    entry->extra = &context.extra;
    entry->call = context.call_options("compaction");
    entry->notices.clear();
    const std::optional<std::int64_t> cut =
        run->follow(context.messages, std::move(messages), context.extra);
    if (run->begin_finding()) {
        Task<> finding = State::find_window(state_, run, context.runtime);
        co_await std::move(finding);
    }
    if (cut) {
        run->learn_window(*cut, {}, context.extra);
        Notice notice;
        notice.code = "context_cut";
        notice.text = "the server seems to cut requests at about " + grouped(*cut) +
                      " tokens without saying so";
        notice.details["tokens"] = *cut;
        entry->notices.push_back(std::move(notice));
    }
    const bool is_full = run->is_full();
    if (cut || is_full || run->is_too_long()) {
        const CompactionReason reason =
            is_full ? CompactionReason::overflow : CompactionReason::limit;
        CompactionWork work{reason, {}, context.account, entry->call};
        Task<CompactionReport> compacting =
            CompactionRun::compact(run, std::move(work), context.extra);
        const CompactionReport report = co_await std::move(compacting);
        // An attempt that finds nothing to do is made before each call, and not reported.
        if (report.compacted || report.usage != Usage()) entry->notices.push_back(report.notice());
    }
    co_return run->messages();
}

namespace {

/// So long a request waits for CompactionOptions::find_window.
constexpr std::chrono::seconds time_to_find{5};

Task<std::optional<std::int64_t>> find_with(std::shared_ptr<const CompactionOptions> options) {
    Task<std::optional<std::int64_t>> finding = options->find_window();
    const std::optional<std::int64_t> found = co_await std::move(finding);
    co_return found;
}

}  // namespace

Task<> CompactionMiddleware::State::find_window(std::shared_ptr<State> state,
                                                std::shared_ptr<CompactionRun> run,
                                                std::shared_ptr<const Runtime> runtime) {
    Task<std::optional<std::int64_t>> in_time =
        with_timeout(*runtime->clock, time_to_find, find_with(state->options));
    Outcome<std::optional<std::int64_t>> found = co_await outcome_of(std::move(in_time));
    if (found.cancelled()) found.rethrow();
    if (!found.ok() || found.value().value_or(0) <= 0) co_return;
    run->set_found_window(found.value());
    const std::lock_guard lock(state->mutex);
    state->found_window = found.value();
}

/// A suspended run continues with a call, before any request.
std::optional<BeforeToolCallResult> CompactionMiddleware::before_tool_call(
    BeforeToolCallContext& context) {
    if (!tools.empty() && context.tool.name == tools.front().name)
        state_->entry_of(context.context)
            ->run->resume(context.context.messages, context.context.extra);
    return std::nullopt;
}

namespace {

StreamEvent notice_event(Notice notice) {
    StreamEvent event;
    event.type = StreamEventType::notice;
    event.notice = SharedValue<Notice>(std::move(notice));
    return event;
}

Notice provider_compaction() {
    Notice notice;
    notice.code = "compaction";
    notice.text = "the provider compacted the conversation";
    notice.details["compacted"] = true;
    notice.details["reason"] = "provider";
    return notice;
}

bool is_compacted_end(const StreamEvent& event) {
    return event.type == StreamEventType::done && has_compacted(event.partial.get());
}

/// The answer of the model, after the notices of the hook. A refusal because of the length comes before any part of an
/// answer: `retry` is called once then, which returns another call or nothing. There are servers that begin an answer before they
/// refuse, so the start of an answer is held back until its next event.
class CompactedStream final : public StreamSource {
public:
    using Retry = std::function<Task<std::optional<MessageStream>>(AssistantMessage refusal,
                                                                   std::deque<Notice>& notices)>;
    CompactedStream(MessageStream stream, std::deque<Notice> notices, Retry retry)
        : stream_(std::move(stream)), notices_(std::move(notices)), retry_(std::move(retry)) {}

    std::optional<StreamEvent> ready() override {
        if (std::optional<StreamEvent> notice = next_notice()) return notice;
        if (refusal_ || last_ || (!has_begun_ && !start_)) return std::nullopt;
        if (after_start_) return delivered(std::move(*std::exchange(after_start_, std::nullopt)));
        for (;;) {
            std::optional<StreamEvent> event = stream_.ready();
            if (!event) return std::nullopt;
            event = taken(std::move(*event));
            // An aborted answer has one event more: its end, which has what the start had.
            if (after_start_ && after_start_->is_terminal())
                return delivered(std::move(*std::exchange(after_start_, std::nullopt)));
            if (event) return event;
        }
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
                    last_ = std::move(refused);
                } else {
                    stream_ = std::move(*retried);
                    refusal_.reset();
                }
                continue;
            }
            if (last_) co_return std::move(*last_);
            if (after_start_) {
                StreamEvent event = std::move(*std::exchange(after_start_, std::nullopt));
                co_return delivered(std::move(event));
            }
            std::optional<StreamEvent> event = co_await stream_.next();
            if (!event)
                throw Error(ErrorCode::protocol,
                            "the provider's stream ended without done or error");
            std::optional<StreamEvent> delivered_now = taken(std::move(*event));
            if (delivered_now) co_return std::move(*delivered_now);
        }
    }

private:
    /// Returns what to deliver at an event of the provider; nothing if it is held back.
    std::optional<StreamEvent> taken(StreamEvent event) {
        const bool is_refusal = retry_ && !has_begun_ && event.type == StreamEventType::error &&
                                detail::is_overflow(event.partial.get());
        if (is_refusal) {
            refusal_ = std::move(event);
            start_.reset();
            Notice notice;
            notice.code = "context_overflow";
            notice.text = "the conversation is too long for the model; compacting it ...";
            notices_.push_back(std::move(notice));
            return next_notice();
        }
        if (event.type == StreamEventType::notice) return event;
        if (retry_ && !has_begun_ && event.type == StreamEventType::start) {
            start_ = std::move(event);
            return std::nullopt;
        }
        has_begun_ = true;
        if (!start_) return delivered(std::move(event));
        after_start_ = std::move(event);
        return std::exchange(start_, std::nullopt);
    }

    /// Returns the event, or the notice that precedes it.
    StreamEvent delivered(StreamEvent event) {
        if (!is_compacted_end(event)) return event;
        last_ = std::move(event);
        return notice_event(provider_compaction());
    }

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
    std::optional<StreamEvent> start_;        ///< held back
    std::optional<StreamEvent> after_start_;  ///< the event that has released it
    std::optional<StreamEvent> last_;         ///< after a notice
    bool has_begun_ = false;
};

}  // namespace

Task<MessageStream> CompactionMiddleware::around_model_call(ModelRequest request,
                                                            ModelCallNext next) {
    const std::shared_ptr<State::Entry> entry = state_->find(request.options.run_id());
    // An explicit transform_context of the agent replaces that of middleware.
    const bool is_followed = entry && entry->extra;
    if (is_followed) {
        state_->set_model(*entry, request.model);
        entry->run->note_call(request, *entry->extra);
        if (const std::int64_t tokens = entry->run->provider_limit(); tokens > 0)
            request.options = std::move(request.options).compact_at(tokens);
    }
    Task<MessageStream> starting = next(request);
    MessageStream stream = co_await std::move(starting);
    if (!is_followed) co_return std::move(stream);
    auto retry = [entry, request, next](AssistantMessage refusal, std::deque<Notice>& notices) {
        return State::call_again(entry, request, next, std::move(refusal), notices);
    };
    co_return MessageStream(std::make_unique<CompactedStream>(
        std::move(stream), std::exchange(entry->notices, {}), std::move(retry)));
}

/// Compacts the history after a refusal, and makes the call again.
Task<std::optional<MessageStream>> CompactionMiddleware::State::call_again(
    std::shared_ptr<Entry> entry, ModelRequest request, ModelCallNext next,
    AssistantMessage refusal, std::deque<Notice>& notices) {
    std::optional<MessageStream> again;
    const std::shared_ptr<CompactionRun> run = entry->run;
    std::shared_ptr<RunAccount> account = entry->account.lock();
    if (!account) co_return again;
    if (refusal.error && refusal.error->context_window)
        run->learn_window(*refusal.error->context_window, request.model.id, *entry->extra);
    const CompactionRun::View sent = run->view();
    CompactionWork work{CompactionReason::overflow, {}, std::move(account), entry->call};
    Task<CompactionReport> compacting = CompactionRun::compact(run, std::move(work), *entry->extra);
    const CompactionReport report = co_await std::move(compacting);
    notices.push_back(report.notice());
    if (!report.compacted) co_return again;
    std::optional<MessageList> messages = run->continued(request.messages, sent);
    if (!messages) co_return again;
    request.messages = std::move(*messages);
    Task<MessageStream> starting = next(std::move(request));
    again.emplace(co_await std::move(starting));
    co_return again;
}

namespace {

JsonObject changes_of(const JsonObject& before, const JsonObject& after) {
    JsonObject changes;
    for (const auto& [key, value] : after) {
        const Json* old = before.if_contains(key);
        if (!old || *old != value) changes[key] = value;
    }
    return changes;
}

}  // namespace

Task<ManualCompaction> CompactionMiddleware::compact_now(MessageList messages, JsonObject extra,
                                                         std::string instructions,
                                                         std::shared_ptr<RunAccount> account,
                                                         std::shared_ptr<const Runtime> runtime) {
    const auto run = std::make_shared<CompactionRun>(state_->options);
    const JsonObject before = extra;
    (void)run->follow(messages, messages, extra);
    StreamOptions call =
        options_for_call(account->info(), "compaction").runtime(std::move(runtime));
    CompactionWork work{CompactionReason::manual, std::move(instructions), std::move(account),
                        std::move(call)};
    Task<CompactionReport> compacting = CompactionRun::compact(run, std::move(work), extra);
    ManualCompaction done;
    done.report = co_await std::move(compacting);
    done.extra = changes_of(before, extra);
    co_return done;
}

JsonObject CompactionMiddleware::undo(const MessageList& history, JsonObject extra) {
    CompactionRun run(std::make_shared<const CompactionOptions>());
    const JsonObject before = extra;
    (void)run.follow(history, history, extra);
    run.undo(extra);
    return changes_of(before, extra);
}

}  // namespace cubepi
