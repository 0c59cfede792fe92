#include <cubepi/agent/run/tool_output.hpp>

#include <algorithm>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/thread_queue.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi {

namespace detail {

/// The reports of a blocking tool, on their way to the agent's executor. Thread-safe; may outlive the call.
class ToolProgress {
public:
    explicit ToolProgress(ThreadQueue<Json>::Writer writer) : writer_(std::move(writer)) {}
    /// Lets the tool that runs with this context report.
    static void connect(ToolContext& context, std::shared_ptr<ToolProgress> progress) {
        context.progress_ = std::move(progress);
    }
    /// Drops the report if the listeners are far behind, or the call has ended.
    void report(Json value) const { (void)writer_.try_push(std::move(value)); }

private:
    ThreadQueue<Json>::Writer writer_;
};

namespace {

bool is_continuation(char byte) noexcept {
    return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

std::size_t code_points(std::string_view text) noexcept {
    std::size_t count = 0;
    for (const char byte : text) count += is_continuation(byte) ? 0 : 1;
    return count;
}

/// Returns the size in bytes of the first `count` code points.
std::size_t prefix_bytes(std::string_view text, std::size_t count) noexcept {
    std::size_t at = 0;
    while (at < text.size()) {
        if (!is_continuation(text[at])) {
            if (count == 0) break;
            --count;
        }
        ++at;
    }
    return at;
}

/// Returns an object with the same values under sanitized keys. If two keys become equal, the later value wins.
JsonObject with_sanitized_keys(JsonObject object) {
    JsonObject sanitized(object.storage());
    for (auto& [key, value] : object) {
        sanitized.insert_or_assign(replace_broken_utf8(key), std::move(value));
    }
    return sanitized;
}

bool has_valid_keys(const JsonObject& object) noexcept {
    return std::all_of(object.begin(), object.end(),
                       [](const auto& member) { return is_utf8(member.key()); });
}

/// The most reports that wait for the listeners.
constexpr std::size_t most_reports = 256;

Task<> call_blocking(std::shared_ptr<const Runtime> runtime, std::function<AgentToolResult()> work,
                     ThreadQueue<Json>::Writer reports, std::optional<AgentToolResult>* result) {
    Outcome<AgentToolResult> ended =
        co_await outcome_of(offload(*runtime->workers, std::move(work)));
    reports.close();
    *result = std::move(ended).value();
}

/// Passes the reports on until they are closed, then waits for the children of the scope.
Task<> pass_on(TaskScope& scope, ThreadQueue<Json>& reports, ToolContext& context) {
    for (;;) {
        std::optional<Json> report = co_await reports.next();
        if (!report) break;
        co_await context.update(std::move(*report));
    }
    co_await scope.join();
}

/// Runs `work`, which uses `own`, on the worker pool.
Task<AgentToolResult> run_blocking(ToolContext& ctx, std::shared_ptr<ToolContext> own,
                                   std::function<AgentToolResult()> work) {
    const Executor executor = co_await this_executor;
    ThreadQueue<Json> reports(executor, most_reports);
    ToolProgress::connect(*own, std::make_shared<ToolProgress>(reports.writer()));
    std::optional<AgentToolResult> result;
    const auto body = [&](TaskScope& scope) -> Task<> {
        scope.spawn(
            call_blocking(ctx.shared_runtime(), std::move(work), reports.writer(), &result));
        return pass_on(scope, reports, ctx);
    };
    co_await with_task_scope(body);
    co_return std::move(*result);
}

}  // namespace

void sanitize(std::string& text) {
    if (!is_utf8(text)) text = replace_broken_utf8(text);
}

void sanitize(Json& value) {
    if (!value.is_structured() && !value.is_string()) return;
    if (is_nested_deeper(value, max_json_depth)) {
        value = JsonObject{
            {"omitted", "nested deeper than " + std::to_string(max_json_depth) + " levels"}};
        return;
    }
    std::vector<Json*> left{&value};
    while (!left.empty()) {
        Json& one = *left.back();
        left.pop_back();
        if (auto* text = one.if_string()) {
            if (!is_utf8(*text)) *text = replace_broken_utf8(*text);
        } else if (auto* items = one.if_array()) {
            for (Json& item : *items) left.push_back(&item);
        } else if (auto* object = one.if_object()) {
            if (!has_valid_keys(*object)) *object = with_sanitized_keys(std::move(*object));
            for (auto& member : *object) left.push_back(&member.value());
        }
    }
}

void sanitize(AgentToolResult& result) {
    for (Content& block : result.content) {
        if (auto* text = std::get_if<TextContent>(&block)) {
            sanitize(text->text);
        } else if (auto* image = std::get_if<ImageContent>(&block)) {
            sanitize(image->source);
        }
    }
    sanitize(result.details);
}

namespace {

/// Returns the text of a block; null for a call.
template <class Block>
auto text_in(Block& block) -> decltype(&std::get<TextContent>(block).text) {
    if (auto* text = std::get_if<TextContent>(&block)) return &text->text;
    if (auto* image = std::get_if<ImageContent>(&block)) return &image->source;
    if constexpr (std::is_same_v<std::remove_const_t<Block>, AssistantContent>) {
        if (auto* thinking = std::get_if<ThinkingContent>(&block)) return &thinking->thinking;
    }
    return nullptr;
}

/// Returns a sanitized copy of a message, or an empty one if there is nothing to change.
template <class M>
Message sanitized_copy(const M& message) {
    Json metadata(message.metadata.get());
    sanitize(metadata);
    Json details;
    if constexpr (std::is_same_v<M, ToolResultMessage>) details = message.details;
    sanitize(details);
    bool changed = metadata != Json(message.metadata.get());
    if constexpr (std::is_same_v<M, ToolResultMessage>)
        changed = changed || details != message.details;
    changed = changed ||
              std::any_of(message.content.begin(), message.content.end(), [](const auto& block) {
                  const std::string* text = text_in(block);
                  return text && !is_utf8(*text);
              });
    if (!changed) return {};
    M copy = message;
    copy.metadata = std::move(metadata.get_object());
    if constexpr (std::is_same_v<M, ToolResultMessage>) copy.details = std::move(details);
    for (auto& block : copy.content) {
        if (std::string* text = text_in(block)) sanitize(*text);
    }
    return Message(std::move(copy));
}

}  // namespace

Message sanitized(Message message) {
    Message copy;
    if (const auto* user = message.user()) copy = sanitized_copy(*user);
    if (const auto* answer = message.assistant()) copy = sanitized_copy(*answer);
    if (const auto* result = message.tool_result()) copy = sanitized_copy(*result);
    return copy ? std::move(copy) : std::move(message);
}

bool is_longer(const AgentToolResult& result, std::size_t limit) {
    std::size_t bytes = 0;
    for (const Content& block : result.content) {
        if (const auto* text = std::get_if<TextContent>(&block)) bytes += text->text.size();
    }
    return bytes > limit && code_points(result.text()) > limit;
}

Task<AgentToolResult> cut_tool_output(std::shared_ptr<const Runtime> runtime,
                                      std::shared_ptr<SpillSink> spill, SharedString tool_name,
                                      std::string tool_call_id, std::size_t limit,
                                      AgentToolResult result) {
    const std::string whole = result.text();
    std::string where;
    if (spill) {
        auto write = [spill, tool_name, tool_call_id, whole] {
            return spill->spill(tool_name, tool_call_id, whole);
        };
        try {
            where = co_await offload(*runtime->workers, std::move(write));
        } catch (const std::exception& error) {
            if (is_cancellation(std::current_exception())) throw;
            where = std::string("The whole could not be retained: ") + error.what();
        }
    }
    ContentList<Content> retained;
    std::size_t remaining = limit;
    for (Content& block : result.content) {
        auto* text = std::get_if<TextContent>(&block);
        if (!text) {
            retained.push_back(std::move(block));
            continue;
        }
        const std::size_t bytes = prefix_bytes(text->text, remaining);
        remaining -= code_points(std::string_view(text->text).substr(0, bytes));
        text->text.resize(bytes);
        if (!text->text.empty()) retained.push_back(std::move(block));
    }
    std::string notice = "\n[Output cut: the first " + std::to_string(limit) + " of " +
                         std::to_string(code_points(whole)) + " characters are shown.";
    if (!where.empty()) notice += " " + where;
    retained.emplace_back(TextContent{notice + "]"});
    result.content = std::move(retained);
    co_return result;
}

void add_origin(Json& trace, AnswerOrigin origin) {
    if (origin.user.empty() && origin.channel.empty()) return;
    if (!trace.is_null() && !trace.is_object()) return;
    if (trace.is_null()) trace.emplace_object();
    JsonObject& object = trace.get_object();
    sanitize(origin.user);
    sanitize(origin.channel);
    if (!origin.user.empty()) object["user"] = std::move(origin.user);
    if (!origin.channel.empty()) object["channel"] = std::move(origin.channel);
}

Json with_trace(Json details, const Json& trace) {
    if (trace.is_null()) return details;
    JsonObject object;
    if (details.is_object()) {
        object = std::move(details.get_object());
    } else if (!details.is_null()) {
        object["_non_dict_details"] = std::move(details);
    }
    const Json* own = object.if_contains("hitl");
    JsonObject merged;
    if (own && own->is_object() && trace.is_object()) merged = own->get_object();
    if (merged.empty()) {
        object["hitl"] = trace;
    } else {
        for (const auto& [key, value] : trace.get_object()) merged[key] = value;
        object["hitl"] = std::move(merged);
    }
    return object;
}

AgentTool make_blocking_tool(std::string name, std::string description, JsonSchema schema,
                             SharedObject callback, BlockingToolFunction function) {
    auto execute = [callback = std::move(callback), function](
                       JsonObject arguments, ToolContext& ctx) -> MaybeTask<AgentToolResult> {
        // The work may outlive the call when it does not honor its stop token, so it owns all it uses.
        auto own = std::make_shared<ToolContext>(ctx);
        std::function<AgentToolResult()> work = [callback, function, own,
                                                 args = std::move(arguments)]() mutable {
            return function(callback.get(), std::move(args), *own);
        };
        return run_blocking(ctx, std::move(own), std::move(work));
    };
    AgentTool made(std::move(name), std::move(description), std::move(schema), std::move(execute));
    made.runs_blocking = true;
    return made;
}

}  // namespace detail

void ToolContext::report(Json partial_result) const {
    if (!progress_) {
        throw Error(
            ErrorCode::unsupported,
            "the tool '" + tool_name_.str() +
                "' called report(), which only a blocking_tool() may; await update() instead");
    }
    progress_->report(std::move(partial_result));
}

}  // namespace cubepi
