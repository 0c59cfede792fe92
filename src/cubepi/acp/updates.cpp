#include <cubepi/acp/updates.hpp>

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include <cubepi/acp/wire/messages.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/random_word.hpp>
#include <cubepi/middleware/todo_list.hpp>
#include <cubepi/net/utf8.hpp>

namespace cubepi {

namespace {

constexpr std::size_t max_title_bytes = 200;
constexpr std::size_t max_result_bytes = 64 * 1024;  // of a result as it is shown
constexpr std::size_t max_open_calls = 4096;

/// How editors show the calls of a tool, and the argument that its title names.
struct ToolLook {
    std::string_view tool;
    std::string_view kind;
    std::string_view argument;
};

constexpr std::array<ToolLook, 10> looks{{
    {"read", "read", "path"},
    {"write", "edit", "path"},
    {"edit", "edit", "path"},
    {"list", "search", "path"},
    {"grep", "search", "pattern"},
    {"glob", "search", "pattern"},
    {"shell", "execute", "command"},
    {"fetch", "fetch", "url"},
    {"subagent", "think", "task"},
    {"write_todos", "think", ""},
}};

const ToolLook* look_of(std::string_view tool) {
    for (const ToolLook& look : looks) {
        if (look.tool == tool) return &look;
    }
    return nullptr;
}

/// `text` as valid UTF-8 of at most `most` bytes.
std::string shortened(std::string_view text, std::size_t most) {
    if (text.size() <= most) return replace_broken_utf8(text);
    std::size_t end = most;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
    return replace_broken_utf8(text.substr(0, end)) + "…";
}

std::string title_of(std::string_view tool, const JsonObject& args) {
    const ToolLook* look = look_of(tool);
    std::string title(tool);
    const std::string_view argument =
        look ? detail::string_member(args, look->argument) : std::string_view();
    if (!argument.empty()) title += " " + std::string(argument.substr(0, argument.find('\n')));
    return shortened(title, max_title_bytes);
}

JsonObject text_block(std::string_view text) {
    JsonObject block;
    block["type"] = "text";
    block["text"] = replace_broken_utf8(text);
    return block;
}

JsonObject content_of(JsonObject block) {
    JsonObject content;
    content["type"] = "content";
    content["content"] = std::move(block);
    return content;
}

JsonObject update_of(std::string_view kind) {
    JsonObject update;
    update["sessionUpdate"] = kind;
    return update;
}

JsonObject status_of(std::string_view id, std::string_view status) {
    JsonObject update = update_of("tool_call_update");
    update["toolCallId"] = id;
    update["status"] = status;
    return update;
}

JsonObject plan_of(const std::vector<Todo>& todos) {
    JsonArray entries;
    for (const Todo& todo : todos) {
        JsonObject entry;
        entry["content"] = todo.content;
        entry["priority"] = "medium";
        entry["status"] = todo.status == TodoStatus::completed     ? "completed"
                          : todo.status == TodoStatus::in_progress ? "in_progress"
                                                                   : "pending";
        entries.emplace_back(std::move(entry));
    }
    JsonObject update = update_of("plan");
    update["entries"] = std::move(entries);
    return update;
}

JsonArray result_content(const ContentList<Content>& blocks) {
    JsonArray content;
    for (const Content& block : blocks) {
        if (const auto* text = std::get_if<TextContent>(&block)) {
            content.emplace_back(content_of(text_block(shortened(text->text, max_result_bytes))));
        } else if (const auto* image = std::get_if<ImageContent>(&block)) {
            if (image->source.starts_with("http")) continue;
            JsonObject shown;
            shown["type"] = "image";
            shown["data"] = image->source;
            shown["mimeType"] = image->media_type.str();
            content.emplace_back(content_of(std::move(shown)));
        }
    }
    return content;
}

}  // namespace

JsonObject acp_text_update(std::string_view kind, std::string_view text, std::string_view message) {
    JsonObject update = update_of(kind);
    if (!message.empty()) update["messageId"] = message;
    update["content"] = text_block(text);
    return update;
}

JsonObject acp_commands_update(const std::vector<AcpChoice>& commands) {
    JsonArray list;
    for (const AcpChoice& command : commands) {
        JsonObject json;
        json["name"] = command.id;
        json["description"] = command.description;
        JsonObject input;
        input["hint"] = command.name;
        if (!command.name.empty()) json["input"] = std::move(input);
        list.emplace_back(std::move(json));
    }
    JsonObject update = update_of("available_commands_update");
    update["availableCommands"] = std::move(list);
    return update;
}

JsonObject acp_mode_update(std::string_view mode) {
    JsonObject update = update_of("current_mode_update");
    update["currentModeId"] = mode;
    return update;
}

JsonObject acp_options_update(const std::vector<AcpOption>& options) {
    JsonObject update = update_of("config_option_update");
    update["configOptions"] = detail::options_json(options);
    return update;
}

JsonObject acp_title_update(std::string_view title) {
    JsonObject update = update_of("session_info_update");
    update["title"] = shortened(title, max_title_bytes);
    return update;
}

JsonObject acp_diff(std::string path, std::string_view hunks, bool is_new, int protocol) {
    if (protocol >= 2) return detail::diff_two(path, replace_broken_utf8(hunks), is_new);
    std::string before;
    std::string after;
    while (!hunks.empty()) {
        const std::size_t end = std::min(hunks.find('\n'), hunks.size() - 1);
        const std::string_view line = hunks.substr(0, end + 1);
        hunks.remove_prefix(end + 1);
        const char mark = line.front();
        if (mark == ' ' || mark == '-') before += line.substr(1);
        if (mark == ' ' || mark == '+') after += line.substr(1);
    }
    JsonObject diff;
    diff["type"] = "diff";
    diff["path"] = std::move(path);
    if (!is_new) diff["oldText"] = replace_broken_utf8(before);
    diff["newText"] = replace_broken_utf8(after);
    return diff;
}

AcpUpdates::AcpUpdates(std::string directory)
    : directory_(std::move(directory)), prefix_(std::to_string(detail::random_word()) + "-") {}

void AcpUpdates::expect(std::string message_id,
                        std::function<void(const std::string& id)> inserted) {
    expected_.insert_or_assign(std::move(message_id), std::move(inserted));
}

/// A message of the user.
void AcpUpdates::found(const Message& message) {
    auto entry = expected_.find(message.id());
    if (entry == expected_.end()) entry = expected_.find(std::string());
    if (entry == expected_.end()) return;
    const std::function<void(const std::string& id)> inserted = std::move(entry->second);
    expected_.erase(entry);
    inserted(message.id());
}

/// Ids of messages are stored, so that they are the same when the conversation is repeated.
void AcpUpdates::began(const Message& message) {
    message_ = message.id();
    if (message_.empty()) message_ = "message-" + prefix_ + std::to_string(++messages_);
}

std::string AcpUpdates::absolute(std::string_view path) const {
    if (path.starts_with('/')) return replace_broken_utf8(path);
    return replace_broken_utf8(directory_ + "/" + std::string(path));
}

std::optional<std::string> AcpUpdates::id_of(std::string_view tool_call_id) const {
    const auto entry = ids_.find(tool_call_id);
    return entry == ids_.end() ? std::nullopt : std::optional(entry->second);
}

JsonObject AcpUpdates::describe(std::string_view tool, const JsonObject& args) {
    JsonObject call;
    call["toolCallId"] = "call-" + prefix_ + std::to_string(++calls_);
    call["name"] = tool;
    call["title"] = title_of(tool, args);
    const ToolLook* look = look_of(tool);
    call["kind"] = look ? look->kind : std::string_view("other");
    call["rawInput"] = args;
    JsonArray content;
    if (look && look->argument == "path") {
        const std::string path = absolute(detail::string_member(args, "path"));
        JsonObject location;
        location["path"] = path;
        JsonArray locations;
        locations.emplace_back(std::move(location));
        call["locations"] = std::move(locations);
        JsonObject diff;
        diff["type"] = "diff";
        diff["path"] = path;
        if (tool == "edit") {
            diff["oldText"] = replace_broken_utf8(detail::string_member(args, "old_text"));
            diff["newText"] = replace_broken_utf8(detail::string_member(args, "new_text"));
        } else {
            diff["newText"] = replace_broken_utf8(detail::string_member(args, "content"));
        }
        if (look->kind == "edit") content.emplace_back(std::move(diff));
    }
    call["content"] = std::move(content);
    return call;
}

JsonObject AcpUpdates::started(std::string_view call_id, std::string_view tool,
                               const JsonObject& args, std::string_view status) {
    JsonObject update = describe(tool, args);
    update["sessionUpdate"] = "tool_call";
    update["status"] = status;
    // Results that never come must not make the map grow.
    if (ids_.size() >= max_open_calls) ids_.clear();
    ids_.insert_or_assign(std::string(call_id), detail::text_member(update, "toolCallId"));
    return update;
}

std::optional<JsonObject> AcpUpdates::ended(std::string_view call_id, const AgentToolResult& result,
                                            bool is_error) {
    const auto entry = ids_.find(call_id);
    if (entry == ids_.end()) return std::nullopt;
    JsonObject update = update_of("tool_call_update");
    update["toolCallId"] = entry->second;
    update["status"] = is_error ? "failed" : "completed";
    update["content"] = result_content(result.content);
    ids_.erase(entry);
    return update;
}

std::optional<JsonObject> AcpUpdates::used(const AgentEvent& event, const Model* model) {
    if (const auto* end = event.get_if<AgentEndEvent>()) cost_ += end->cost.value_or(0);
    const auto* turn = event.get_if<TurnEndEvent>();
    const AssistantMessage* answer = turn ? turn->message.assistant() : nullptr;
    const Usage* usage = answer && answer->usage ? &*answer->usage : nullptr;
    if (!usage || !model || !model->context_window) return std::nullopt;
    std::int64_t tokens = 0;
    for (const TokenCount& count : {usage->input_tokens, usage->output_tokens,
                                    usage->cache_read_tokens, usage->cache_write_tokens})
        tokens += count.value_or(0);
    JsonObject update = update_of("usage_update");
    update["used"] = tokens;
    update["size"] = *model->context_window;
    if (cost_ > 0) {
        JsonObject cost;
        cost["amount"] = cost_;
        cost["currency"] = "USD";
        update["cost"] = std::move(cost);
    }
    return update;
}

std::vector<JsonObject> AcpUpdates::of(const AgentEvent& event, const Model* model) {
    std::vector<JsonObject> updates;
    if (const std::string_view* text = event.text_delta()) {
        updates.push_back(acp_text_update("agent_message_chunk", *text, message_));
    } else if (const std::string_view* thought = event.thinking_delta()) {
        updates.push_back(acp_text_update("agent_thought_chunk", *thought, message_));
    } else if (const auto* begun = event.get_if<MessageStartEvent>()) {
        if (begun->message.assistant()) began(begun->message);
    } else if (const auto* message = event.get_if<MessageEndEvent>()) {
        if (message->message.user()) found(message->message);
        // Before they run: a question may come first.
        const AssistantMessage* answer = message->message.assistant();
        if (!answer) return updates;
        for (const ToolCall* call : answer->tool_calls())
            updates.push_back(
                started(call->id.str(), call->name.str(), call->arguments, "pending"));
    } else if (const auto* start = event.get_if<ToolExecutionStartEvent>()) {
        const auto id = id_of(start->tool_call_id.str());
        if (id) {
            updates.push_back(status_of(*id, "in_progress"));
        } else {
            updates.push_back(started(start->tool_call_id.str(), start->tool_name.str(),
                                      start->args, "in_progress"));
        }
    } else if (const auto* progress = event.get_if<ToolExecutionUpdateEvent>()) {
        const auto id = id_of(progress->tool_call_id.str());
        if (!id || !progress->partial_result.is_string()) return updates;
        JsonObject update = update_of("tool_call_update");
        update["toolCallId"] = *id;
        JsonArray content;
        content.emplace_back(content_of(
            text_block(shortened(progress->partial_result.get_string(), max_result_bytes))));
        update["content"] = std::move(content);
        updates.push_back(std::move(update));
    } else if (const auto* end = event.get_if<ToolExecutionEndEvent>()) {
        if (auto update = ended(end->tool_call_id.str(), end->result, end->is_error))
            updates.push_back(std::move(*update));
        if (const auto todos = todos_set_by(*end)) updates.push_back(plan_of(*todos));
    } else if (const auto* notice = event.get_if<NoticeEvent>()) {
        // Separates what the editor shows of a discarded answer from the one that follows.
        if (notice->notice.details.contains("discarded"))
            updates.push_back(
                acp_text_update("agent_thought_chunk", notice->notice.text + "\n\n", message_));
    } else {
        if (event.get_if<AgentEndEvent>()) {
            // The calls of a run that was aborted.
            for (const auto& [call, id] : ids_) updates.push_back(status_of(id, "failed"));
            ids_.clear();
        }
        if (auto update = used(event, model)) updates.push_back(std::move(*update));
    }
    return updates;
}

std::vector<JsonObject> AcpUpdates::replay(
    const MessageList& messages,
    const std::function<std::string(const Message& message)>& prompt_of) {
    std::vector<JsonObject> updates;
    for (const Message& message : messages) {
        if (message.user() && !is_synthetic_message(message)) {
            began(message);
            updates.push_back(acp_text_update(
                "user_message_chunk", prompt_of ? prompt_of(message) : message.text(), message_));
        } else if (const AssistantMessage* answer = message.assistant()) {
            began(message);
            for (const AssistantContent& block : answer->content) {
                if (const auto* text = std::get_if<TextContent>(&block)) {
                    updates.push_back(acp_text_update("agent_message_chunk", text->text, message_));
                } else if (const auto* thought = std::get_if<ThinkingContent>(&block)) {
                    updates.push_back(
                        acp_text_update("agent_thought_chunk", thought->thinking, message_));
                }
            }
            for (const ToolCall* call : answer->tool_calls())
                updates.push_back(
                    started(call->id.str(), call->name.str(), call->arguments, "pending"));
        } else if (const ToolResultMessage* result = message.tool_result()) {
            AgentToolResult shown(result->content);
            if (auto update = ended(result->tool_call_id.str(), shown, result->is_error))
                updates.push_back(std::move(*update));
        }
    }
    return updates;
}

AcpStop acp_stop_of(const RunResult& result) {
    if (result.outcome == RunOutcome::aborted) return AcpStop::cancelled;
    if (result.outcome == RunOutcome::limited) return AcpStop::max_turn_requests;
    for (std::size_t i = result.new_messages.size(); i > 0; --i) {
        const AssistantMessage* answer = result.new_messages[i - 1].assistant();
        if (!answer) continue;
        if (answer->is_refusal()) return AcpStop::refusal;
        return answer->stop_reason.str() == stop_reason::length ? AcpStop::max_tokens
                                                                : AcpStop::end_turn;
    }
    return AcpStop::end_turn;
}

}  // namespace cubepi
