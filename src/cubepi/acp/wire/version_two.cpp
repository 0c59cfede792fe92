#include <cubepi/acp/wire/messages.hpp>

#include <algorithm>
#include <set>
#include <utility>

#include <cubepi/acp/editor.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/random_word.hpp>

namespace cubepi::detail {

namespace {

constexpr std::string_view plan_id = "todos";

[[noreturn]] void refuse(const std::string& reason) {
    throw AcpError(acp_error::invalid_params, reason);
}

/// A path as git writes it in a patch.
std::string quoted_path(const std::string& path) {
    const bool is_plain = std::ranges::all_of(
        path, [](unsigned char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
    if (is_plain) return path;
    std::string quoted = "\"";
    for (const char one : path) {
        const auto c = static_cast<unsigned char>(one);
        if (c == '"' || c == '\\') {
            quoted += '\\';
            quoted += one;
        } else if (c < 0x20 || c >= 0x7f) {
            quoted += '\\';
            for (const unsigned shift : {6U, 3U, 0U})
                quoted += static_cast<char>('0' + ((c >> shift) & 7U));
        } else {
            quoted += one;
        }
    }
    return quoted + "\"";
}

/// The lines of a text, each with `mark`, as a part of a hunk. Adds their number to `count`.
std::string marked(std::string_view text, char mark, std::size_t& count) {
    std::string lines;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        const bool is_last = end == std::string_view::npos;
        lines += mark;
        lines += text.substr(0, end);
        lines += is_last ? "\n\\ No newline at end of file\n" : "\n";
        text = is_last ? std::string_view() : text.substr(end + 1);
        ++count;
    }
    return lines;
}

/// Shows a replacement whose place in the file is unknown, so that it cannot be a patch.
JsonObject replacement(std::string_view before, std::string_view after) {
    std::size_t count = 0;
    std::string lines = marked(before, '-', count) + marked(after, '+', count);
    std::string fence = "```";
    while (lines.find(fence) != std::string::npos) fence += '`';
    JsonObject block;
    block["type"] = "text";
    block["text"] = fence + "diff\n" + lines + fence;
    JsonObject content;
    content["type"] = "content";
    content["content"] = std::move(block);
    return content;
}

/// The blocks of version 2 for a difference of version 1.
void add_diff(JsonArray& content, const JsonObject& diff) {
    const std::string path = text_member(diff, "path");
    const std::string_view after = string_member(diff, "newText");
    if (diff.contains("oldText")) {
        content.emplace_back(diff_two(path, {}, false));
        content.emplace_back(replacement(string_member(diff, "oldText"), after));
        return;
    }
    std::size_t count = 0;
    const std::string lines = marked(after, '+', count);
    const std::string range = count == 1 ? "1" : "1," + std::to_string(count);
    content.emplace_back(
        diff_two(path, count == 0 ? lines : "@@ -0,0 +" + range + " @@\n" + lines, true));
}

JsonArray commands_two(const JsonArray& commands) {
    JsonArray list;
    for (const Json& one : commands) {
        JsonObject command = one.as_object();
        command["type"] = "command";
        if (Json* input = command.if_contains("input")) input->as_object()["type"] = "text";
        list.emplace_back(std::move(command));
    }
    return list;
}

}  // namespace

AcpEditorInfo read_editor_two(const JsonObject& params, bool strict) {
    AcpEditorInfo info;
    info.protocol = 2;
    const JsonObject* client = object_member(params, "info");
    if (client) {
        info.name = text_member(*client, "name");
        info.version = text_member(*client, "version");
    }
    if (strict && (info.name.empty() || info.version.empty()))
        refuse("`info` must have a `name` and a `version`");
    return info;
}

JsonObject initialize_result_two(const AcpAbilities& abilities) {
    JsonObject prompts;
    if (abilities.images) prompts["image"].emplace_object();
    prompts["embeddedContext"].emplace_object();
    JsonObject servers;
    servers["stdio"].emplace_object();
    if (abilities.takes_servers) servers["http"].emplace_object();
    JsonObject sessions;
    sessions["prompt"] = std::move(prompts);
    sessions["mcp"] = std::move(servers);
    if (abilities.removes) sessions["delete"].emplace_object();
    if (abilities.more_directories) sessions["additionalDirectories"].emplace_object();
    JsonObject offers;
    offers["session"] = std::move(sessions);
    JsonObject result;
    result["protocolVersion"] = 2;
    result["info"] = agent_info(abilities);
    result["capabilities"] = std::move(offers);
    return result;
}

std::optional<JsonObject> update_two(JsonObject update) {
    const std::string kind = text_member(update, "sessionUpdate");
    // The mode is an option.
    if (kind == "current_mode_update") return std::nullopt;
    if (kind == "tool_call" || kind == "tool_call_update") {
        update["sessionUpdate"] = "tool_call_update";
        return tool_call_two(std::move(update));
    }
    if (kind == "plan") {
        JsonObject plan;
        plan["type"] = "items";
        plan["planId"] = plan_id;
        plan["entries"] = std::move(update["entries"]);
        JsonObject made;
        made["sessionUpdate"] = "plan_update";
        made["plan"] = std::move(plan);
        return made;
    }
    if (kind.ends_with("_message_chunk") || kind.ends_with("_thought_chunk")) {
        if (!update.contains("messageId"))
            update["messageId"] = "note-" + std::to_string(random_word());
    }
    if (kind == "config_option_update")
        update["configOptions"] = options_two(std::move(update["configOptions"].as_array()));
    if (kind == "available_commands_update")
        update["availableCommands"] = commands_two(update["availableCommands"].as_array());
    return update;
}

JsonObject tool_call_two(JsonObject call) {
    Json* found = call.if_contains("content");
    if (!found || !found->is_array()) return call;
    JsonArray content;
    for (Json& block : found->get_array()) {
        const JsonObject* object = block.if_object();
        if (object && string_member(*object, "type") == "diff" && !object->contains("changes")) {
            add_diff(content, *object);
        } else {
            content.emplace_back(std::move(block));
        }
    }
    *found = std::move(content);
    return call;
}

JsonObject diff_two(const std::string& path, std::string_view hunks, bool is_new) {
    JsonObject change;
    change["operation"] = is_new ? "add" : "modify";
    change["path"] = path;
    JsonArray changes;
    changes.emplace_back(std::move(change));
    JsonObject diff;
    diff["type"] = "diff";
    diff["changes"] = std::move(changes);
    if (is_new || !hunks.empty()) {
        const std::string name = quoted_path(path);
        // As git does, so that a tool does not end the name at a space.
        const std::string line = name.find(' ') == std::string::npos ? name : name + "\t";
        std::string text = "diff --git " + name + " " + name + "\n";
        if (is_new) text += "new file mode 100644\n";
        if (!hunks.empty())
            text += "--- " + (is_new ? std::string("/dev/null") : line) + "\n+++ " + line + "\n";
        text += hunks;
        if (!text.ends_with('\n')) text += '\n';
        JsonObject patch;
        patch["format"] = "git_patch";
        patch["text"] = std::move(text);
        diff["patch"] = std::move(patch);
    }
    return diff;
}

JsonArray options_two(JsonArray options) {
    for (Json& one : options) {
        JsonObject& option = one.as_object();
        option["configId"] = std::move(option["id"]);
        option.erase("id");
    }
    return options;
}

bool replays_from_start(const JsonObject& params) {
    const Json* from = params.if_contains("replayFrom");
    if (!from || from->is_null()) return false;
    const JsonObject* cursor = from->if_object();
    if (!cursor || string_member(*cursor, "type") != "start")
        refuse("`replayFrom` must be of the type 'start'");
    return true;
}

void check_servers_two(const JsonObject& params) {
    const JsonArray* servers = array_member(params, "mcpServers");
    if (!servers) return;
    std::set<std::string> names;
    for (const Json& one : *servers) {
        const JsonObject& server = one.as_object();
        const std::string name = text_member(server, "name");
        const std::string_view type = string_member(server, "type");
        if (!names.insert(name).second) refuse("`mcpServers` has the name '" + name + "' twice");
        if (type != "stdio" && type != "http")
            refuse("the transport '" + std::string(type) + "' of '" + name + "' is not offered");
        if (type == "stdio" && !string_member(server, "command").starts_with('/'))
            refuse("the command of '" + name + "' must be an absolute path");
    }
}

void check_option_two(const JsonObject& params) {
    if (string_member(params, "type") != "id")
        refuse("`type` must be 'id': this agent has no other options");
}

JsonObject state_update(std::string_view state) {
    JsonObject update;
    update["sessionUpdate"] = "state_update";
    update["state"] = state;
    return update;
}

JsonObject user_message_update(std::string_view id, JsonArray content) {
    JsonObject update;
    update["sessionUpdate"] = "user_message";
    update["messageId"] = id;
    update["content"] = std::move(content);
    return update;
}

}  // namespace cubepi::detail
