#include <cubepi/mcp/tools/tool_list.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/mcp/http/parameter_headers.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/validate.hpp>

namespace cubepi::detail {

namespace {

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

}  // namespace

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

}  // namespace cubepi::detail
