#include <cubepi/mcp/client/offer_list.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/mcp/client.hpp>
#include <cubepi/mcp/client/client_state.hpp>
#include <cubepi/mcp/http/parameter_headers.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/validate.hpp>

// The tools, prompts and resources of a server, which are read page by page.

namespace cubepi::detail {

namespace {

constexpr std::size_t max_uri_bytes = 2048;
constexpr std::size_t max_name_bytes = 256;
constexpr std::size_t max_arguments = 64;
constexpr std::size_t max_shown_bytes = 500;
/// Problems that are listed one by one.
constexpr std::size_t max_problems = 20;

/// Returns true for a text that can be sent back to the server, and shown, as it is.
bool is_plain(std::string_view text, std::size_t max_bytes) {
    return !text.empty() && text.size() <= max_bytes && is_utf8(text) &&
           shown_mcp_text(text, max_bytes) == text;
}

std::string shown_member(const JsonObject& object, std::string_view key) {
    return shown_mcp_text(string_member(object, key), max_shown_bytes);
}

std::optional<McpPrompt> read_prompt(const JsonObject& json) {
    McpPrompt prompt;
    prompt.name = string_member(json, "name");
    if (!is_plain(prompt.name, max_name_bytes)) return std::nullopt;
    prompt.title = shown_member(json, "title");
    prompt.description = shown_member(json, "description");
    const JsonArray* arguments = array_member(json, "arguments");
    if (!arguments) return prompt;
    if (arguments->size() > max_arguments) return std::nullopt;
    for (const Json& entry : *arguments) {
        const JsonObject* object = entry.if_object();
        McpPromptArgument argument;
        if (object) argument.name = string_member(*object, "name");
        if (!is_plain(argument.name, max_name_bytes)) return std::nullopt;
        argument.description = shown_member(*object, "description");
        argument.is_required = flag_member(*object, "required");
        prompt.arguments.push_back(std::move(argument));
    }
    return prompt;
}

void read_labels(const JsonObject& json, McpResourceLabels& labels) {
    labels.name = shown_member(json, "name");
    labels.title = shown_member(json, "title");
    labels.description = shown_member(json, "description");
    labels.mime_type = shown_member(json, "mimeType");
}

std::optional<McpResource> read_resource(const JsonObject& json) {
    McpResource resource;
    resource.uri = string_member(json, "uri");
    if (!is_plain(resource.uri, max_uri_bytes)) return std::nullopt;
    read_labels(json, resource);
    resource.size = integer_member(json, "size");
    return resource;
}

std::optional<McpResourceTemplate> read_template(const JsonObject& json) {
    McpResourceTemplate read;
    read.uri_template = string_member(json, "uriTemplate");
    if (!is_plain(read.uri_template, max_uri_bytes)) return std::nullopt;
    read_labels(json, read);
    return read;
}

}  // namespace

template <class Entry, class Read>
std::string McpOfferReader::add(const JsonObject& page, std::string_view member,
                                std::vector<Entry>& entries, std::vector<std::string>& problems,
                                Read read) {
    const JsonArray* list = array_member(page, member);
    if (!list) throw Error(ErrorCode::protocol, "the list has no `" + std::string(member) + "`");
    const std::string what(member);
    for (const Json& json : *list) {
        if (entries.size() >= limits_.max_offers) {
            problems.push_back("only the first " + std::to_string(limits_.max_offers) + " " + what +
                               " are used (limit max_offers)");
            return {};
        }
        const JsonObject* object = json.if_object();
        std::optional<Entry> entry;
        if (object) entry = read(*object);
        if (entry) {
            entries.push_back(std::move(*entry));
        } else if (problems.size() < max_problems) {
            problems.push_back("one of the " + what + " is invalid");
        }
    }
    std::string cursor = text_member(page, "nextCursor");
    if (cursor.empty()) return {};
    if (!cursors_.insert(what + " " + cursor).second || cursors_.size() > limits_.max_offers) {
        problems.push_back("the server repeats pages of its " + what);
        return {};
    }
    return cursor;
}

std::string McpOfferReader::add_prompts(const JsonObject& page) {
    return add(page, "prompts", prompts.prompts, prompts.problems, read_prompt);
}

std::string McpOfferReader::add_resources(const JsonObject& page) {
    return add(page, "resources", resources.resources, resources.problems, read_resource);
}

std::string McpOfferReader::add_templates(const JsonObject& page) {
    return add(page, "resourceTemplates", resources.templates, resources.problems, read_template);
}

std::vector<McpResourceContent> mcp_contents_from_json(const JsonObject& result) {
    const JsonArray* list = array_member(result, "contents");
    if (!list) throw Error(ErrorCode::protocol, "the resource has no `contents`");
    std::vector<McpResourceContent> contents;
    for (const Json& entry : *list) {
        const JsonObject* object = entry.if_object();
        if (!object) throw Error(ErrorCode::protocol, "the content of the resource is invalid");
        McpResourceContent content;
        content.uri = shown_mcp_text(string_member(*object, "uri"), max_uri_bytes);
        content.mime_type = shown_member(*object, "mimeType");
        content.text = replace_broken_utf8(string_member(*object, "text"));
        content.blob = string_member(*object, "blob");
        contents.push_back(std::move(content));
    }
    return contents;
}

McpPromptText mcp_prompt_text_from_json(const JsonObject& result) {
    const JsonArray* list = array_member(result, "messages");
    if (!list) throw Error(ErrorCode::protocol, "the prompt has no `messages`");
    McpPromptText text;
    text.description = shown_member(result, "description");
    for (const Json& entry : *list) {
        const JsonObject* object = entry.if_object();
        const JsonObject* content = object ? object_member(*object, "content") : nullptr;
        if (!content) throw Error(ErrorCode::protocol, "a message of the prompt is invalid");
        McpPromptMessage message;
        message.role = string_member(*object, "role") == "assistant" ? "assistant" : "user";
        message.content = *content;
        text.messages.push_back(std::move(message));
    }
    return text;
}

namespace {

/// Collects the pages of `tools/list`, and leaves out what cannot be used.
class McpToolListReader {
public:
    explicit McpToolListReader(const McpLimits& limits) : limits_(limits) {}

    /// Adds the tools of a page. Returns the cursor of the next page; empty at the end, at the limit of tools, and when the server
    /// repeats a cursor.
    std::string add_page(const JsonObject& page);
    /// Returns the list; call it once.
    McpToolList take();

private:
    void add_tool(const Json& json);
    /// Returns a member that the tool can do without; null if it is absent or beyond the limits of schemas.
    const Json* optional_member(const JsonObject& tool, std::string_view key);
    void leave_out(std::string_view name, const std::string& reason);

    const McpLimits limits_;
    McpToolList list_;
    std::set<std::string> names_;
    std::set<std::string> cursors_;
    std::size_t problems_ = 0;
    std::size_t over_limit_ = 0;
};

/// Schemas of models' endpoints are limited too; deeper ones are attacks or mistakes.
constexpr std::size_t max_schema_depth = 64;

/// Returns why a schema cannot be used; empty if it can.
std::string schema_problem(const Json* schema, const McpLimits& limits) {
    if (!schema) return "it has no input schema";
    if (!schema->is_object()) return "its input schema is not an object";
    if (is_nested_deeper(*schema, max_schema_depth)) return "its input schema is nested too deep";
    if (json_text(*schema).size() > limits.max_schema_bytes) {
        return "its input schema has more than " + std::to_string(limits.max_schema_bytes) +
               " bytes";
    }
    if (string_member(schema->get_object(), "type") != "object")
        return "its input schema is not that of an object";
    try {
        JsonSchema(*schema).compile();
    } catch (const Error& error) {
        return std::string("its input schema is invalid: ") + error.what();
    }
    return {};
}

std::string digest_of(const McpTool& tool) {
    JsonArray parts;
    parts.emplace_back(tool.name);
    parts.emplace_back(tool.description);
    parts.push_back(*tool.input_schema);
    parts.push_back(tool.output_schema ? *tool.output_schema : Json());
    parts.emplace_back(tool.annotations);
    return sha256_hex(json_text(Json(std::move(parts))));
}

std::string McpToolListReader::add_page(const JsonObject& page) {
    const JsonArray* tools = array_member(page, "tools");
    if (!tools) throw Error(ErrorCode::protocol, "the list of tools has no `tools`");
    for (const Json& tool : *tools) add_tool(tool);
    std::string cursor = text_member(page, "nextCursor");
    if (cursor.empty() || over_limit_ > 0) return {};
    if (!cursors_.insert(cursor).second || cursors_.size() > limits_.max_tools) {
        list_.problems.emplace_back("the server repeats pages of its list of tools");
        return {};
    }
    return cursor;
}

void McpToolListReader::add_tool(const Json& json) {
    if (list_.tools.size() >= limits_.max_tools) {
        ++over_limit_;
        return;
    }
    const JsonObject* object = json.if_object();
    if (!object) return leave_out("", "it is not an object");
    const std::string_view name = string_member(*object, "name");
    if (!is_plain(name, max_name_bytes))
        return leave_out(name, "its name is empty, too long, or has control characters");
    if (names_.contains(std::string(name)))
        return leave_out(name, "the server has another tool of this name");
    const Json* schema = object->if_contains("inputSchema");
    std::string problem = schema_problem(schema, limits_);
    if (!problem.empty()) return leave_out(name, problem);

    McpTool tool;
    tool.name = name;
    tool.title = shown_mcp_text(string_member(*object, "title"));
    const std::string_view description = string_member(*object, "description");
    tool.description = replace_broken_utf8(description.substr(
        0, complete_utf8_prefix(description.substr(0, limits_.max_description_bytes))));
    tool.input_schema = std::make_shared<const Json>(*schema);
    if (const Json* output = optional_member(*object, "outputSchema"))
        tool.output_schema = std::make_shared<const Json>(*output);
    if (const Json* annotations = optional_member(*object, "annotations");
        annotations && annotations->is_object())
        tool.annotations = annotations->get_object();
    try {
        tool.headers = header_parameters(*schema);
    } catch (const Error& error) {
        return leave_out(name, error.what());
    }
    tool.digest = digest_of(tool);
    names_.insert(tool.name);
    list_.tools.push_back(std::move(tool));
}

const Json* McpToolListReader::optional_member(const JsonObject& tool, std::string_view key) {
    const Json* member = tool.if_contains(key);
    if (!member || (!is_nested_deeper(*member, max_schema_depth) &&
                    json_text(*member).size() <= limits_.max_schema_bytes))
        return member;
    leave_out(string_member(tool, "name"),
              "its `" + std::string(key) + "` is not used, because it is too long or too deep");
    return nullptr;
}

void McpToolListReader::leave_out(std::string_view name, const std::string& reason) {
    if (++problems_ > max_problems) return;
    list_.problems.push_back("tool '" + shown_mcp_text(name, 64) +
                             "': " + shown_mcp_text(reason, 300));
}

McpToolList McpToolListReader::take() {
    if (problems_ > max_problems) {
        list_.problems.push_back(std::to_string(problems_ - max_problems) +
                                 " more problems of tools");
    }
    if (over_limit_ > 0) {
        list_.problems.push_back("only the first " + std::to_string(limits_.max_tools) +
                                 " tools are used (limit max_tools)");
    }
    return std::move(list_);
}

}  // namespace

}  // namespace cubepi::detail

namespace cubepi {

namespace {

/// Of a list whose changes the server does not report, although it has stated that it does.
constexpr std::chrono::nanoseconds max_unnoticed_age = std::chrono::minutes(5);

}  // namespace

Task<std::shared_ptr<const McpToolList>> McpClient::State::list_tools() {
    co_await ensure_connected();
    if (!tools.is_current(*runtime->clock)) {
        // One limit for all pages: a server could send pages for ever.
        Task<> reading = limited(options.request_timeout, read_tool_pages());
        co_await std::move(reading);
    }
    co_return tools.list;
}

Task<std::shared_ptr<const McpPromptList>> McpClient::State::list_prompts() {
    co_await ensure_connected();
    if (!prompts.is_current(*runtime->clock)) {
        Task<> reading = limited(options.request_timeout, read_prompt_pages());
        co_await std::move(reading);
    }
    co_return prompts.list;
}

Task<std::shared_ptr<const McpResourceList>> McpClient::State::list_resources() {
    co_await ensure_connected();
    if (!resources.is_current(*runtime->clock)) {
        Task<> reading = limited(options.request_timeout, read_resource_pages());
        co_await std::move(reading);
    }
    co_return resources.list;
}

Task<std::chrono::nanoseconds> McpClient::State::read_pages(std::string method, AddPage add) {
    std::string cursor;
    std::chrono::nanoseconds fresh =
        notices_changes ? std::chrono::nanoseconds::max() : max_unnoticed_age;
    do {
        JsonObject params;
        if (!cursor.empty()) params["cursor"] = cursor;
        const JsonObject page = co_await send_within(std::chrono::nanoseconds::zero(), method,
                                                     std::move(params), RequestExtras());
        cursor = add(page);
        // Without a time the list is valid until the server reports a change.
        if (const auto ttl = detail::integer_member(page, "ttlMs")) {
            const std::int64_t bounded = std::clamp<std::int64_t>(*ttl, 0, 86'400'000);
            fresh = std::min<std::chrono::nanoseconds>(fresh, std::chrono::milliseconds(bounded));
        }
    } while (!cursor.empty());
    co_return fresh;
}

Task<> McpClient::State::read_tool_pages() {
    const std::uint64_t revision = tools.revision;
    detail::McpToolListReader reader(options.limits);
    AddPage add = [&reader](const JsonObject& page) { return reader.add_page(page); };
    const std::chrono::nanoseconds fresh = co_await read_pages("tools/list", std::move(add));
    tools.list = std::make_shared<const McpToolList>(reader.take());
    tools.listed = revision;
    tools.fresh_until = deadline_after(runtime->clock->now(), fresh);
    if (!tools.list->problems.empty()) {
        runtime->log.write(LogLevel::warning, "mcp.tools_left_out",
                           {{"server", options.server}, {"problems", tools.list->problems.size()}});
    }
}

Task<> McpClient::State::read_prompt_pages() {
    const std::uint64_t revision = prompts.revision;
    detail::McpOfferReader reader(options.limits);
    std::chrono::nanoseconds fresh = std::chrono::nanoseconds::max();
    if (offers("prompts")) {
        AddPage add = [&reader](const JsonObject& page) { return reader.add_prompts(page); };
        fresh = co_await read_pages("prompts/list", std::move(add));
    }
    prompts.list = std::make_shared<const McpPromptList>(std::move(reader.prompts));
    prompts.listed = revision;
    prompts.fresh_until = deadline_after(runtime->clock->now(), fresh);
}

Task<> McpClient::State::read_resource_pages() {
    const std::uint64_t revision = resources.revision;
    detail::McpOfferReader reader(options.limits);
    std::chrono::nanoseconds fresh = std::chrono::nanoseconds::max();
    if (offers("resources")) {
        AddPage add = [&reader](const JsonObject& page) { return reader.add_resources(page); };
        fresh = co_await read_pages("resources/list", std::move(add));
        AddPage add_more = [&reader](const JsonObject& page) { return reader.add_templates(page); };
        // Servers that have resources but no templates may not know this list.
        Task<std::chrono::nanoseconds> reading =
            read_pages("resources/templates/list", std::move(add_more));
        Outcome<std::chrono::nanoseconds> read = co_await outcome_of(std::move(reading));
        try {
            fresh = std::min(fresh, std::move(read).value());
        } catch (const McpError& error) {
            if (error.rpc_code() != mcp_error::method_not_found) throw;
        }
    }
    resources.list = std::make_shared<const McpResourceList>(std::move(reader.resources));
    resources.listed = revision;
    resources.fresh_until = deadline_after(runtime->clock->now(), fresh);
}

}  // namespace cubepi
