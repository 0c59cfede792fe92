#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/mcp/client.hpp>
#include <cubepi/mcp/client/client_state.hpp>
#include <cubepi/mcp/client/offer_list.hpp>
#include <cubepi/mcp/http/parameter_headers.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/validate.hpp>

namespace cubepi::detail {

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
    void leave_out(std::string_view name, const std::string& reason);

    const McpLimits limits_;
    McpToolList list_;
    std::set<std::string> names_;
    std::set<std::string> cursors_;
    std::size_t problems_ = 0;
    std::size_t over_limit_ = 0;
};

/// Problems that are listed one by one.
constexpr std::size_t max_listed_problems = 20;
constexpr std::size_t max_name_bytes = 256;
/// Schemas of models' endpoints are limited too; deeper ones are attacks or mistakes.
constexpr std::size_t max_schema_depth = 64;

bool is_printable_name(std::string_view name) {
    return !name.empty() && name.size() <= max_name_bytes && is_utf8(name) &&
           shown_mcp_text(name, max_name_bytes) == name;
}

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
    if (!is_printable_name(name))
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
    if (const Json* output = object->if_contains("outputSchema"))
        tool.output_schema = std::make_shared<const Json>(*output);
    if (const JsonObject* annotations = object_member(*object, "annotations"))
        tool.annotations = *annotations;
    try {
        tool.headers = header_parameters(*schema);
    } catch (const Error& error) {
        return leave_out(name, error.what());
    }
    tool.digest = digest_of(tool);
    names_.insert(tool.name);
    list_.tools.push_back(std::move(tool));
}

void McpToolListReader::leave_out(std::string_view name, const std::string& reason) {
    if (++problems_ > max_listed_problems) return;
    list_.problems.push_back("tool '" + shown_mcp_text(name, 64) +
                             "': " + shown_mcp_text(reason, 300));
}

McpToolList McpToolListReader::take() {
    if (problems_ > max_listed_problems) {
        list_.problems.push_back(std::to_string(problems_ - max_listed_problems) +
                                 " more tools cannot be used");
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
