#include <cubepi/acp/wire/messages.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/core/support/enclosed.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/schema/json/visible_text.hpp>

namespace cubepi::detail {

namespace {

constexpr std::size_t max_listed = 1000;  // of directories, servers, variables, blocks

[[noreturn]] void refuse(const std::string& reason) {
    throw AcpError(acp_error::invalid_params, reason);
}

/// The objects of a list; absent: none.
std::vector<const JsonObject*> objects(const JsonObject& params, std::string_view key) {
    std::vector<const JsonObject*> found;
    const Json* value = params.if_contains(key);
    if (!value || value->is_null()) return found;
    const JsonArray* list = value->if_array();
    if (!list || list->size() > max_listed)
        refuse("`" + std::string(key) + "` must be a list of at most " +
               std::to_string(max_listed) + " items");
    for (const Json& one : *list) {
        if (!one.is_object()) refuse("`" + std::string(key) + "` must be a list of objects");
        found.push_back(&one.get_object());
    }
    return found;
}

std::vector<std::pair<std::string, std::string>> pairs(const JsonObject& params,
                                                       std::string_view key) {
    std::vector<std::pair<std::string, std::string>> found;
    for (const JsonObject* one : objects(params, key))
        found.emplace_back(required_text(*one, "name"), text_member(*one, "value"));
    return found;
}

std::vector<std::string> texts(const JsonObject& params, std::string_view key) {
    std::vector<std::string> found;
    const Json* value = params.if_contains(key);
    if (!value || value->is_null()) return found;
    const JsonArray* list = value->if_array();
    if (!list || list->size() > max_listed) refuse("`" + std::string(key) + "` must be a list");
    for (const Json& one : *list) {
        if (!one.is_string()) refuse("`" + std::string(key) + "` must be a list of texts");
        found.emplace_back(one.get_string());
    }
    return found;
}

std::string checked_path(std::string path, std::string_view key) {
    if (!path.starts_with('/') || path.find('\0') != std::string::npos)
        refuse("`" + std::string(key) + "` must be an absolute path");
    return path;
}

AcpMcpServer read_server(const JsonObject& params) {
    AcpMcpServer server;
    server.name = required_text(params, "name");
    const std::string_view type = string_member(params, "type");
    if (type == "http" || type == "sse") {
        server.url = required_text(params, "url");
        server.headers = pairs(params, "headers");
    } else {
        server.command = required_text(params, "command");
        server.arguments = texts(params, "args");
        server.environment = pairs(params, "env");
    }
    return server;
}

/// A resource of the prompt in a form that models know. Its text is that of a file, which must not continue as the words of the user.
std::string embedded_text(std::string_view uri, std::string_view text) {
    std::string attribute = "uri=\"" + visible(uri) + "\"";
    std::replace(attribute.begin() + 5, attribute.end() - 1, '"', '_');
    return "\n" + enclosed("resource", attribute, text) + "\n";
}

void add_image(AcpPrompt& prompt, const JsonObject& block, std::string_view data, bool allowed) {
    const std::string_view type = string_member(block, "mimeType");
    if (!allowed) refuse("this agent does not accept pictures in prompts");
    if (!type.starts_with("image/")) refuse("a picture must have an image type as `mimeType`");
    ImageContent image;
    image.source = std::string(data);
    image.media_type = SharedString(type);
    prompt.images.push_back(std::move(image));
}

void add_resource(AcpPrompt& prompt, const JsonObject& block, bool images) {
    const JsonObject* resource = object_member(block, "resource");
    if (!resource) refuse("an embedded resource must have `resource`");
    const std::string uri = required_text(*resource, "uri");
    const Json* text = resource->if_contains("text");
    if (text && text->is_string()) {
        prompt.text += embedded_text(uri, text->get_string());
    } else if (string_member(*resource, "mimeType").starts_with("image/")) {
        add_image(prompt, *resource, required_text(*resource, "blob"), images);
    } else {
        refuse("an embedded resource that is neither text nor a picture cannot be read");
    }
}

JsonObject choice_json(const AcpChoice& choice, std::string_view id_key) {
    JsonObject json;
    json[id_key] = choice.id;
    json["name"] = choice.name;
    if (!choice.description.empty()) json["description"] = choice.description;
    return json;
}

}  // namespace

std::string required_text(const JsonObject& params, std::string_view key) {
    const std::string_view text = string_member(params, key);
    if (text.empty()) refuse("`" + std::string(key) + "` must be a text that is not empty");
    return std::string(text);
}

AcpSetup read_setup(const JsonObject& params) {
    AcpSetup setup;
    setup.directory = checked_path(required_text(params, "cwd"), "cwd");
    for (std::string& path : texts(params, "additionalDirectories"))
        setup.more_directories.push_back(checked_path(std::move(path), "additionalDirectories"));
    for (const JsonObject* one : objects(params, "mcpServers"))
        setup.servers.push_back(read_server(*one));
    return setup;
}

AcpPrompt read_prompt(const JsonObject& params, bool images) {
    AcpPrompt prompt;
    if (!array_member(params, "prompt")) refuse("`prompt` must be a list of content blocks");
    for (const JsonObject* block : objects(params, "prompt")) {
        const std::string_view type = string_member(*block, "type");
        if (type == "text") {
            prompt.text += string_member(*block, "text");
            prompt.typed += string_member(*block, "text");
        } else if (type == "image") {
            add_image(prompt, *block, required_text(*block, "data"), images);
        } else if (type == "resource_link") {
            prompt.text +=
                "[" + text_member(*block, "name") + "](" + required_text(*block, "uri") + ")";
        } else if (type == "resource") {
            add_resource(prompt, *block, images);
        } else {
            refuse("this agent does not accept content of the type '" + std::string(type) + "'");
        }
    }
    if (prompt.text.empty() && prompt.images.empty()) refuse("the prompt is empty");
    return prompt;
}

AcpEditorInfo read_editor(const JsonObject& params) {
    AcpEditorInfo info;
    // An editor that has asked for version 2 names itself in `info`.
    const JsonObject* client = object_member(params, "clientInfo");
    if (!client) client = object_member(params, "info");
    if (client) {
        info.name = text_member(*client, "name");
        info.version = text_member(*client, "version");
    }
    const JsonObject* offers = object_member(params, "clientCapabilities");
    if (!offers) return info;
    info.has_terminals = flag_member(*offers, "terminal");
    if (const JsonObject* files = object_member(*offers, "fs")) {
        info.reads_files = flag_member(*files, "readTextFile");
        info.writes_files = flag_member(*files, "writeTextFile");
    }
    return info;
}

JsonObject initialize_result(const AcpAbilities& abilities) {
    JsonObject prompts;
    prompts["image"] = abilities.images;
    prompts["audio"] = false;
    prompts["embeddedContext"] = true;
    JsonObject servers;
    servers["http"] = abilities.takes_servers;
    servers["sse"] = false;
    JsonObject sessions;
    sessions["close"].emplace_object();
    if (abilities.lists) sessions["list"].emplace_object();
    if (abilities.opens) sessions["resume"].emplace_object();
    if (abilities.removes) sessions["delete"].emplace_object();
    if (abilities.more_directories) sessions["additionalDirectories"].emplace_object();
    JsonObject offers;
    offers["loadSession"] = abilities.opens;
    offers["promptCapabilities"] = std::move(prompts);
    offers["mcpCapabilities"] = std::move(servers);
    offers["sessionCapabilities"] = std::move(sessions);
    JsonObject result;
    result["protocolVersion"] = 1;
    result["agentCapabilities"] = std::move(offers);
    result["agentInfo"] = agent_info(abilities);
    result["authMethods"].emplace_array();
    return result;
}

JsonObject agent_info(const AcpAbilities& abilities) {
    JsonObject agent;
    agent["name"] = abilities.name;
    agent["title"] = abilities.title.empty() ? abilities.name : abilities.title;
    agent["version"] = abilities.version;
    return agent;
}

JsonArray options_json(const std::vector<AcpOption>& options) {
    JsonArray list;
    for (const AcpOption& option : options) {
        JsonObject json;
        json["id"] = option.id;
        json["name"] = option.name;
        if (!option.category.empty()) json["category"] = option.category;
        json["type"] = "select";
        json["currentValue"] = option.current;
        JsonArray choices;
        for (const AcpChoice& choice : option.choices)
            choices.emplace_back(choice_json(choice, "value"));
        json["options"] = std::move(choices);
        list.emplace_back(std::move(json));
    }
    return list;
}

void add_modes(JsonObject& result, const AcpSession& session) {
    const std::vector<AcpChoice> modes = session.modes();
    if (modes.empty()) return;
    JsonArray list;
    for (const AcpChoice& mode : modes) list.emplace_back(choice_json(mode, "id"));
    JsonObject state;
    state["currentModeId"] = session.mode();
    state["availableModes"] = std::move(list);
    result["modes"] = std::move(state);
}

JsonObject list_result(const AcpSessionList& list) {
    JsonArray sessions;
    for (const AcpListedSession& one : list.sessions) {
        JsonObject json;
        json["sessionId"] = one.id;
        json["cwd"] = one.directory;
        if (!one.title.empty()) json["title"] = one.title;
        if (!one.updated_at.empty()) json["updatedAt"] = one.updated_at;
        sessions.emplace_back(std::move(json));
    }
    JsonObject result;
    result["sessions"] = std::move(sessions);
    if (!list.next_cursor.empty()) result["nextCursor"] = list.next_cursor;
    return result;
}

}  // namespace cubepi::detail
