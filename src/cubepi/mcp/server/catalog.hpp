#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/tool.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/mcp/client.hpp>
#include <cubepi/mcp/server_features.hpp>

namespace cubepi::detail {

/// A template of URIs with expressions of one variable (RFC 6570): "{name}" and "{+name}".
class UriTemplate {
public:
    /// Throws Error(invalid_argument) for other expressions, for two variables without a text between them, and for repeated names.
    explicit UriTemplate(std::string_view text);

    /// Returns the variables of a URI, decoded; nothing if it does not match. A variable followed by a text ends at the first
    /// occurrence of the text.
    std::optional<std::map<std::string, std::string>> match(std::string_view uri) const;
    const std::vector<std::string>& variables() const noexcept { return names_; }

private:
    struct Part {
        std::string text = {};  ///< before the variable
        std::string name = {};  ///< empty: the end of the template
        bool takes_slashes = false;
    };
    std::vector<Part> parts_;
    std::vector<std::string> names_;
};

/// The offer of a server, and its lists as they are sent. A copy is replaced when the offer changes; requests in progress keep theirs.
class McpCatalog {
public:
    /// Throws Error(invalid_argument) if two tools have the same name.
    void set_tools(ToolList tools, std::vector<McpServerTool> server_tools);
    /// Throws Error(invalid_argument) for a repeated name or URI, a missing function, or a template that is invalid.
    void set_prompts(std::vector<McpServerPrompt> prompts);
    void set_resources(std::vector<McpServerResource> resources,
                       std::vector<McpServerResourceTemplate> templates);

    bool has_prompts() const noexcept { return !prompts_.empty(); }
    bool has_resources() const noexcept { return !resources_.empty() || !templates_.empty(); }
    bool has_server_tools() const noexcept { return !server_tools_.empty(); }
    bool has_completions() const noexcept;

    // The results of the lists.
    const JsonObject& tool_list() const noexcept { return tool_list_; }
    JsonObject prompt_list() const;
    JsonObject resource_list() const;
    JsonObject template_list() const;

    /// Returns null for a tool that is not offered.
    const AgentTool* tool(std::string_view name) const;
    /// Returns null for tools of agents.
    const McpServerTool* server_tool(std::string_view name) const;
    /// Returns the parameters of a tool that clients repeat as headers; null if there are none.
    const std::vector<McpHeaderParameter>* tool_headers(std::string_view name) const;
    const McpServerPrompt* prompt(std::string_view name) const;
    const McpServerResource* resource(std::string_view uri) const;
    struct Match {
        const McpServerResourceTemplate* found;
        McpVariables variables;
    };
    /// Returns the first template that matches.
    std::optional<Match> match(std::string_view uri) const;
    /// Returns the template that is spelled so.
    const McpServerResourceTemplate* resource_template(std::string_view text) const;

private:
    ToolList tools_;
    std::vector<McpServerTool> server_tools_;
    JsonObject tool_list_ = {{"tools", JsonArray()}};
    std::map<std::string, std::vector<McpHeaderParameter>, std::less<>> headers_;
    std::vector<McpServerPrompt> prompts_;
    std::vector<McpServerResource> resources_;
    std::vector<McpServerResourceTemplate> templates_;
    std::vector<UriTemplate> patterns_;  ///< of the templates
};

/// One call of a tool. Lets a McpServerTool run as the tool of an agent, under its hooks and limits, without losing the content that
/// agents do not have. Must outlive the execution of the call.
class ServerToolRun {
public:
    /// Returns the tool for this call. `tool` and `request` must outlive the call.
    AgentTool bind(const McpServerTool& tool, McpRequest& request);
    /// Returns the result for the client: that of the tool, unless a hook or a limit has changed it. Throws the McpRequestError of the tool.
    JsonObject result(const ToolResultMessage& message) const;

private:
    Task<AgentToolResult> run(const McpServerTool* tool, JsonObject arguments, ToolContext* context,
                              McpRequest* request);

    std::optional<McpToolResult> own_;
    std::optional<McpRequestError> failure_;
    ContentList<Content> converted_;
};

}  // namespace cubepi::detail
