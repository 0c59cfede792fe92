#include <bub/builtin/command_hooks.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/log.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/process.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/regular_expression.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/process/local_process.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace bub {

namespace {

using cubepi::Json;
using cubepi::JsonObject;
using cubepi::detail::object_member;
using cubepi::detail::string_member;

constexpr std::array<std::pair<HookPoint, std::string_view>, 5> point_names{{
    {HookPoint::pre_tool_use, "PreToolUse"},
    {HookPoint::post_tool_use, "PostToolUse"},
    {HookPoint::user_prompt_submit, "UserPromptSubmit"},
    {HookPoint::stop, "Stop"},
    {HookPoint::notification, "Notification"},
}};

constexpr std::uint64_t most_output_bytes = 1'000'000;
constexpr std::size_t most_text_bytes = 10'000;  // of a reason or a context
constexpr std::chrono::milliseconds most_notification_time = std::chrono::seconds(5);
constexpr int blocking_status = 2;
constexpr int first_shell_status =
    126;  // cannot be run, not found, or 128 and the number of a signal

bool matches_every_tool(const CommandHook& hook) {
    return hook.matcher.empty() || hook.matcher == "*";
}

/// Returns text of a command in the form in which a model and a terminal can read it.
std::string text_of(std::string_view output) {
    std::string text = cubepi::replace_broken_utf8(cubepi::detail::trimmed(output));
    if (text.size() <= most_text_bytes) return text;
    std::size_t end = most_text_bytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
    text.resize(end);
    return text + " [shortened]";
}

/// The exit of a command and its output.
struct Ended {
    cubepi::ExitStatus status = {};
    std::string output = {};
    std::string errors = {};
};

Task<> write_input(cubepi::Process& process, std::string text) {
    const cubepi::Outcome<> written = co_await cubepi::outcome_of(process.write(std::move(text)));
    if (written.cancelled()) written.rethrow();
    // A command need not read its input.
    process.close_input();
}

Task<> read_output(cubepi::Process& process, std::string& out) {
    for (bool more = true; more;) more = co_await process.read(out);
}

Task<> read_errors(cubepi::Process& process, std::string& out) {
    for (bool more = true; more;) more = co_await process.read_error(out);
}

Task<Ended> run_command(const CommandHook& hook, const detail::HookTurn& turn, std::string input) {
    cubepi::ProcessOptions options("/bin/sh");
    options.arguments = {"-c", hook.command};
    options.directory = turn.directory.string();
    options.environment = turn.environment;
    options.max_output_bytes = most_output_bytes;
    options.timeout = hook.point == HookPoint::notification
                          ? std::min(hook.timeout, most_notification_time)
                          : hook.timeout;
    Task<std::shared_ptr<cubepi::Process>> starting =
        cubepi::launcher_of(*turn.runtime)->start(std::move(options));
    const std::shared_ptr<cubepi::Process> process = co_await std::move(starting);
    Ended ended;
    const auto exchange = [&process, &ended, &input](cubepi::TaskScope& scope) -> Task<> {
        scope.spawn(write_input(*process, std::move(input)));
        scope.spawn(read_output(*process, ended.output));
        scope.spawn(read_errors(*process, ended.errors));
        return scope.join();
    };
    Task<> exchanging = cubepi::with_task_scope(exchange);
    co_await std::move(exchanging);
    ended.status = co_await process->wait();
    co_return ended;
}

/// Returns the name of a hook for models and users of a chat. Its command may contain a secret, and is for its operator.
std::string name_of(const CommandHook& hook) {
    std::string name = "the hook " + std::string(to_string(hook.point));
    if (!hook.matcher.empty()) name += " (" + hook.matcher + ")";
    return name;
}

void block(detail::HookReply& reply, std::string reason, const CommandHook& hook) {
    reply.blocks = true;
    reply.reason = reason.empty() ? name_of(hook) + " has blocked it" : std::move(reason);
}

/// Returns the number of members of a value, with those of the values in it.
std::size_t members_of(const Json& value) {
    std::size_t count = 0;
    if (const JsonObject* object = value.if_object()) {
        count = object->size();
        for (const auto& member : *object) count += members_of(member.value());
    } else if (const cubepi::JsonArray* array = value.if_array()) {
        for (const Json& item : *array) count += members_of(item);
    }
    return count;
}

/// Returns the number of members that a JSON text has, repeated ones too.
std::size_t members_in(std::string_view text) {
    std::size_t count = 0;
    bool is_quoted = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\\') {
            ++i;  // in a string
        } else if (text[i] == '"') {
            is_quoted = !is_quoted;
        } else if (text[i] == ':' && !is_quoted) {
            ++count;
        }
    }
    return count;
}

/// Returns the name of a member that decides in a way that is not known; empty: there is none.
std::string_view unknown_decision(const JsonObject& object) {
    const auto has = [](const JsonObject& in, std::string_view key, auto is_known) {
        const Json* const value = in.if_contains(key);
        return value && !value->is_null() && !is_known(*value);
    };
    const auto is_flag = [](const Json& value) { return value.is_bool(); };
    const auto is_object = [](const Json& value) { return value.is_object(); };
    const auto is_text = [](const Json& value) {
        return value.is_string() && !value.get_string().empty();
    };
    const auto is_decision = [](const Json& value) {
        return value == Json("block") || value == Json("approve") || value == Json("allow");
    };
    if (has(object, "decision", is_decision)) return "decision";
    if (has(object, "continue", is_flag)) return "continue";
    if (has(object, "hookSpecificOutput", is_object)) return "hookSpecificOutput";
    const JsonObject* const specific = object_member(object, "hookSpecificOutput");
    if (specific && has(*specific, "permissionDecision", is_text)) return "permissionDecision";
    if (specific && has(*specific, "updatedInput", is_object)) return "updatedInput";
    return {};
}

/// Returns why the decision of a command is not understood; empty: it is.
std::string problem_of(std::string_view output, const Json& parsed) {
    const JsonObject* const object = parsed.if_object();
    if (!object) return "has written text that begins as a JSON object, and is none";
    if (members_in(output) != members_of(parsed))
        return "has written a JSON object in which a key occurs twice";
    const std::string_view unknown = unknown_decision(*object);
    return unknown.empty() ? std::string()
                           : "has written an unknown value of '" + std::string(unknown) + "'";
}

/// Reads the JSON object of a command. Returns false for other output. A guard whose decision is not understood blocks: a text of the
/// model in it may have changed it.
bool read_object(const std::string& output, const CommandHook& hook, detail::HookReply& reply) {
    if (!output.starts_with('{')) return false;
    cubepi::JsonTextError error;
    const Json parsed = cubepi::parse_json(output, error);
    if (hook.point == HookPoint::pre_tool_use || hook.point == HookPoint::user_prompt_submit) {
        if (const std::string problem = problem_of(output, parsed); !problem.empty()) {
            block(reply, name_of(hook) + " " + problem, hook);
            return true;
        }
    }
    const JsonObject* object = parsed.if_object();
    if (!object) return false;
    const JsonObject* specific = object_member(*object, "hookSpecificOutput");
    if (specific) {
        reply.context = text_of(string_member(*specific, "additionalContext"));
        if (const JsonObject* input = object_member(*specific, "updatedInput"))
            reply.input = *input;
        // A question of a hook is not asked here, and what is not understood allows nothing.
        const std::string_view decision = string_member(*specific, "permissionDecision");
        if (!decision.empty() && decision != "allow")
            block(reply, text_of(string_member(*specific, "permissionDecisionReason")), hook);
    }
    if (string_member(*object, "decision") == "block")
        block(reply, text_of(string_member(*object, "reason")), hook);
    // At its end a turn stops by itself.
    const Json* continues = object->if_contains("continue");
    if (continues && *continues == Json(false) && hook.point != HookPoint::stop)
        block(reply, text_of(string_member(*object, "stopReason")), hook);
    return true;
}

/// Runs one hook. A guard that does not answer blocks.
Task<detail::HookReply> reply_of(const CommandHook& hook, const detail::HookTurn& turn,
                                 std::string input) {
    detail::HookReply reply;
    const std::string name = name_of(hook) + " ";
    cubepi::Outcome<Ended> outcome =
        co_await cubepi::outcome_of(run_command(hook, turn, std::move(input)));
    if (outcome.cancelled()) outcome.rethrow();
    const bool is_guard = hook.point == HookPoint::pre_tool_use;
    const bool has_run = outcome.ok() && outcome.value().status.code &&
                         *outcome.value().status.code < first_shell_status;
    if (!has_run) {
        std::string why = name;
        if (!outcome.ok()) {
            why += "failed: " + cubepi::exception_text(outcome.failure());
        } else if (outcome.value().status.code) {
            why += "was not found, could not be run or was killed (status " +
                   std::to_string(*outcome.value().status.code) + ")";
        } else {
            why += "was killed";
        }
        if (is_guard) {
            block(reply, std::move(why), hook);
        } else {
            reply.failure = std::move(why);
        }
        co_return reply;
    }
    const Ended& ended = outcome.value();
    if (ended.status.code == blocking_status) {
        block(reply, text_of(ended.errors), hook);
    } else if (ended.status.code != 0) {
        reply.failure = name + "failed with status " + std::to_string(*ended.status.code);
        if (const std::string errors = text_of(ended.errors); !errors.empty())
            reply.failure += ": " + errors;
    } else {
        const std::string output(cubepi::detail::trimmed(ended.output));
        const bool is_object = read_object(output, hook, reply);
        if (!is_object && hook.point == HookPoint::user_prompt_submit)
            reply.context = text_of(output);
    }
    co_return reply;
}

void append_line(std::string& text, const std::string& line) {
    if (line.empty()) return;
    if (!text.empty()) text += "\n";
    text += line;
}

/// Returns the text of a result, for commands.
std::string response_text(const cubepi::AgentToolResult& result) {
    return cubepi::replace_broken_utf8(result.text());
}

}  // namespace

std::string_view to_string(HookPoint point) noexcept {
    for (const auto& [known, name] : point_names) {
        if (known == point) return name;
    }
    return {};
}

std::optional<HookPoint> hook_point(std::string_view name) noexcept {
    for (const auto& [point, known] : point_names) {
        if (known == name) return point;
    }
    return std::nullopt;
}

void check_command_hook(const CommandHook& hook) {
    if (cubepi::detail::trimmed(hook.command).empty())
        throw cubepi::Error(cubepi::ErrorCode::invalid_argument, "a hook needs a command");
    if (!matches_every_tool(hook)) (void)cubepi::detail::RegularExpression(hook.matcher);
}

namespace detail {

bool CommandHookTable::Entry::matches(HookPoint point, const std::string& tool) const {
    if (hook.point != point) return false;
    const bool is_of_tools = point == HookPoint::pre_tool_use || point == HookPoint::post_tool_use;
    if (!is_of_tools || !matcher) return true;
    try {
        return matcher->matches(tool);
    } catch (const cubepi::Error&) {
        return true;  // the hook may exist to refuse the call
    }
}

CommandHookTable::CommandHookTable(std::vector<CommandHook> hooks) {
    for (CommandHook& hook : hooks) {
        check_command_hook(hook);
        Entry entry{std::move(hook), nullptr};
        if (!matches_every_tool(entry.hook))
            entry.matcher =
                std::make_shared<const cubepi::detail::RegularExpression>(entry.hook.matcher);
        entries_.push_back(std::move(entry));
    }
}

bool CommandHookTable::has(HookPoint point) const noexcept {
    return std::any_of(entries_.begin(), entries_.end(),
                       [point](const Entry& entry) { return entry.hook.point == point; });
}

bool CommandHookTable::has(HookPoint point, const std::string& tool) const {
    return std::any_of(entries_.begin(), entries_.end(),
                       [&](const Entry& entry) { return entry.matches(point, tool); });
}

/// Runs the hooks of a point in their order. Those after one that blocks do not run.
Task<HookReply> CommandHooks::run(HookPoint point, std::string tool, JsonObject input) const {
    HookReply all;
    input["hook_event_name"] = to_string(point);
    input["session_id"] = turn_.session_id;
    input["cwd"] = turn_.directory.string();
    for (const CommandHookTable::Entry& entry : table_->entries()) {
        if (!entry.matches(point, tool)) continue;
        if (all.input) input["tool_input"] = *all.input;
        Task<HookReply> running =
            reply_of(entry.hook, turn_, cubepi::json_text(Json(input)) + "\n");
        HookReply one = co_await std::move(running);
        append_line(all.context, one.context);
        if (one.input) all.input = std::move(one.input);
        if (!one.failure.empty()) {
            turn_.runtime->log.write(
                cubepi::LogLevel::warning, "command_hook.failed",
                {{"point", to_string(point)}, {"index", &entry - table_->entries().data()}});
            all.failure = std::move(one.failure);
        }
        if (!one.blocks) continue;
        all.blocks = true;
        all.reason = std::move(one.reason);
        break;
    }
    co_return all;
}

Task<std::optional<cubepi::BeforeToolCallResult>> CommandHooks::before_tool_call(
    cubepi::BeforeToolCallContext& context) {
    if (!table_->has(HookPoint::pre_tool_use)) co_return std::nullopt;
    const std::string tool = context.tool.name.str();
    JsonObject input;
    input["tool_name"] = tool;
    input["tool_input"] = context.args;
    input["tool_use_id"] = context.tool_call.id.str();
    HookReply reply = co_await run(HookPoint::pre_tool_use, tool, std::move(input));
    cubepi::BeforeToolCallResult result;
    if (reply.blocks) {
        result.block = true;
        result.reason = "Blocked by a hook of the user: " + reply.reason;
        co_return result;
    }
    append_line(reply.context, reply.failure);
    if (!reply.context.empty()) notes_[context.tool_call.id.str()] = std::move(reply.context);
    if (!reply.input) co_return std::nullopt;
    result.edited_args = std::move(reply.input);
    co_return result;
}

Task<std::optional<cubepi::AfterToolCallResult>> CommandHooks::after_tool_call(
    cubepi::AfterToolCallContext& context) {
    std::string note;
    if (const auto found = notes_.find(context.tool_call.id.str()); found != notes_.end()) {
        note = std::move(found->second);
        notes_.erase(found);
    }
    if (context.blocked) co_return std::nullopt;
    const std::string tool = context.tool_call.name.str();
    JsonObject input;
    input["tool_name"] = tool;
    input["tool_input"] = context.args;
    input["tool_use_id"] = context.tool_call.id.str();
    JsonObject response;
    response["content"] = response_text(context.result);
    response["is_error"] = context.is_error;
    input["tool_response"] = std::move(response);
    HookReply reply = co_await run(HookPoint::post_tool_use, tool, std::move(input));
    append_line(note, reply.context);
    append_line(note, reply.failure);
    if (reply.blocks) append_line(note, reply.reason);
    if (note.empty()) co_return std::nullopt;
    cubepi::AfterToolCallResult result;
    // Before the result, whose end may be cut off.
    result.content.emplace();
    result.content->emplace_back(cubepi::TextContent{"[A hook of the user: " + note + "]"});
    for (const auto& block : context.result.content) result.content->push_back(block);
    co_return result;
}

Task<cubepi::MessageList> CommandHooks::on_run_end(cubepi::HookContext& context) {
    cubepi::MessageList more;
    if (turn_.is_subagent || !table_->has(HookPoint::stop)) co_return more;
    JsonObject input;
    input["stop_hook_active"] = is_stop_active_;
    for (std::size_t i = context.messages.size(); i > 0; --i) {
        if (!context.messages[i - 1].assistant()) continue;
        input["last_assistant_message"] = context.messages[i - 1].text();
        break;
    }
    HookReply reply = co_await run(HookPoint::stop, "", std::move(input));
    if (!reply.blocks) co_return more;
    is_stop_active_ = true;
    more.push_back(
        cubepi::user_message("[A hook of the user asks you to continue: " + reply.reason + "]"));
    co_return more;
}

Task<HookReply> CommandHooks::submit_prompt(std::string text) {
    JsonObject input;
    input["prompt"] = std::move(text);
    return run(HookPoint::user_prompt_submit, "", std::move(input));
}

Task<HookReply> CommandHooks::notify(std::string message) {
    JsonObject input;
    input["message"] = std::move(message);
    return run(HookPoint::notification, "", std::move(input));
}

}  // namespace detail

}  // namespace bub
