#include <cubepi/mcp/server/catalog.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/percent_decoded.hpp>
#include <cubepi/mcp/http/parameter_headers.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::detail {

namespace {

/// Refuses names that are empty or repeated.
class Names {
public:
    explicit Names(std::string kind) : kind_(std::move(kind)) {}
    void add(const std::string& name) {
        if (name.empty()) throw Error(ErrorCode::invalid_argument, kind_ + " has no name");
        if (!names_.insert(name).second)
            throw Error(ErrorCode::invalid_argument, kind_ + " '" + name + "' occurs twice");
    }
    void need(bool has_function, const std::string& name) const {
        if (!has_function)
            throw Error(ErrorCode::invalid_argument, kind_ + " '" + name + "' has no function");
    }

private:
    std::string kind_;
    std::set<std::string> names_;
};

JsonObject described_tool(const AgentTool& tool) {
    JsonObject described;
    described["name"] = tool.name.str();
    if (!tool.label.empty()) described["title"] = tool.label;
    described["description"] = tool.description.str();
    described["inputSchema"] = tool.parameters.source();
    JsonObject annotations;
    annotations["readOnlyHint"] = tool.risk_level == ToolRisk::read_only;
    annotations["destructiveHint"] = tool.risk_level == ToolRisk::irreversible;
    annotations["openWorldHint"] = tool.risk_level == ToolRisk::network;
    described["annotations"] = std::move(annotations);
    return described;
}

JsonObject content_block(const Content& content) {
    JsonObject block;
    if (const auto* text = std::get_if<TextContent>(&content)) {
        block["type"] = "text";
        block["text"] = text->text;
        return block;
    }
    const ImageContent& image = std::get<ImageContent>(content);
    if (image.source.starts_with("http://") || image.source.starts_with("https://")) {
        block["type"] = "resource_link";
        block["uri"] = image.source;
        block["name"] = "image";
        return block;
    }
    block["type"] = "image";
    block["data"] = image.source;
    block["mimeType"] = image.media_type.str();
    return block;
}

JsonObject result_of(const ToolResultMessage& message) {
    JsonArray content;
    for (const Content& block : message.content) content.emplace_back(content_block(block));
    JsonObject result;
    result["content"] = std::move(content);
    if (message.is_error) result["isError"] = true;
    return result;
}

/// Returns the block as an agent sees it.
Content agent_content(const JsonObject& block) {
    const std::string_view type = string_member(block, "type");
    if (type == "image") {
        ImageContent image;
        image.source = string_member(block, "data");
        image.media_type = SharedString(text_member(block, "mimeType"));
        return image;
    }
    if (type == "text") return TextContent{text_member(block, "text")};
    if (type == "resource") {
        const JsonObject* resource = object_member(block, "resource");
        if (resource && resource->contains("text"))
            return TextContent{text_member(*resource, "text")};
    }
    return TextContent{"[" + std::string(type) + "]"};
}

}  // namespace

void McpCatalog::set_tools(ToolList tools, std::vector<McpServerTool> server_tools) {
    for (const McpServerTool& tool : server_tools) {
        if (!tool.run)
            throw Error(ErrorCode::invalid_argument,
                        "the tool '" + tool.definition.name.str() + "' has no function");
        tools.push_back(tool.definition);
    }
    tools_ = std::move(tools);
    server_tools_ = std::move(server_tools);
    headers_.clear();
    JsonArray listed;
    for (const AgentTool& tool : tools_) {
        if (!tool.expose_to_model) continue;
        JsonObject described = described_tool(tool);
        const McpServerTool* own = server_tool(tool.name.str());
        if (own && own->output_schema) described["outputSchema"] = *own->output_schema;
        listed.emplace_back(std::move(described));
        std::vector<McpHeaderParameter> parameters = header_parameters(tool.parameters.source());
        if (!parameters.empty()) headers_.emplace(tool.name.str(), std::move(parameters));
    }
    tool_list_ = JsonObject();
    tool_list_["tools"] = std::move(listed);
}

void McpCatalog::set_prompts(std::vector<McpServerPrompt> prompts) {
    Names names("the prompt");
    for (const McpServerPrompt& prompt : prompts) {
        names.add(prompt.prompt.name);
        names.need(static_cast<bool>(prompt.get), prompt.prompt.name);
    }
    prompts_ = std::move(prompts);
}

void McpCatalog::set_resources(std::vector<McpServerResource> resources,
                               std::vector<McpServerResourceTemplate> templates) {
    Names uris("the resource");
    for (const McpServerResource& resource : resources) {
        uris.add(resource.resource.uri);
        uris.need(static_cast<bool>(resource.read), resource.resource.uri);
    }
    Names texts("the resource template");
    std::vector<UriTemplate> patterns;
    for (const McpServerResourceTemplate& one : templates) {
        texts.add(one.resource_template.uri_template);
        texts.need(static_cast<bool>(one.read), one.resource_template.uri_template);
        patterns.emplace_back(one.resource_template.uri_template);
    }
    resources_ = std::move(resources);
    templates_ = std::move(templates);
    patterns_ = std::move(patterns);
}

bool McpCatalog::has_completions() const noexcept {
    return std::ranges::any_of(prompts_,
                               [](const auto& prompt) { return bool(prompt.complete); }) ||
           std::ranges::any_of(templates_, [](const auto& one) { return bool(one.complete); });
}

namespace {

/// Returns the result of a request for a list: `member` of each offer.
template <class Offer, class Member>
JsonObject list_of(const char* name, const std::vector<Offer>& offers, Member Offer::* member) {
    JsonArray list;
    for (const Offer& one : offers) list.emplace_back(to_json(one.*member));
    JsonObject result;
    result[name] = std::move(list);
    return result;
}

}  // namespace

JsonObject McpCatalog::prompt_list() const {
    return list_of("prompts", prompts_, &McpServerPrompt::prompt);
}

JsonObject McpCatalog::resource_list() const {
    return list_of("resources", resources_, &McpServerResource::resource);
}

JsonObject McpCatalog::template_list() const {
    return list_of("resourceTemplates", templates_, &McpServerResourceTemplate::resource_template);
}

const AgentTool* McpCatalog::tool(std::string_view name) const {
    const AgentTool* found = tools_.find(name);
    return found && found->expose_to_model ? found : nullptr;
}

const McpServerTool* McpCatalog::server_tool(std::string_view name) const {
    const auto found = std::ranges::find_if(
        server_tools_, [name](const auto& tool) { return tool.definition.name.str() == name; });
    return found == server_tools_.end() ? nullptr : &*found;
}

const std::vector<McpHeaderParameter>* McpCatalog::tool_headers(std::string_view name) const {
    const auto found = headers_.find(name);
    return found == headers_.end() ? nullptr : &found->second;
}

const McpServerPrompt* McpCatalog::prompt(std::string_view name) const {
    const auto found = std::ranges::find_if(
        prompts_, [name](const auto& prompt) { return prompt.prompt.name == name; });
    return found == prompts_.end() ? nullptr : &*found;
}

const McpServerResource* McpCatalog::resource(std::string_view uri) const {
    const auto found = std::ranges::find_if(
        resources_, [uri](const auto& resource) { return resource.resource.uri == uri; });
    return found == resources_.end() ? nullptr : &*found;
}

std::optional<McpCatalog::Match> McpCatalog::match(std::string_view uri) const {
    for (std::size_t i = 0; i < templates_.size(); ++i) {
        if (auto variables = patterns_[i].match(uri))
            return Match{&templates_[i], std::move(*variables)};
    }
    return std::nullopt;
}

const McpServerResourceTemplate* McpCatalog::resource_template(std::string_view text) const {
    const auto found = std::ranges::find_if(
        templates_, [text](const auto& one) { return one.resource_template.uri_template == text; });
    return found == templates_.end() ? nullptr : &*found;
}

namespace {

bool is_name(std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_';
    });
}

}  // namespace

UriTemplate::UriTemplate(std::string_view text) {
    const std::string quoted = "'" + std::string(text) + "'";
    std::size_t position = 0;
    while (true) {
        const std::size_t open = text.find('{', position);
        Part part;
        part.text = text.substr(position, open - position);
        if (part.text.find('}') != std::string::npos)
            throw Error(ErrorCode::invalid_argument, quoted + " has a '}' without a '{'");
        if (open == std::string_view::npos) {
            parts_.push_back(std::move(part));
            return;
        }
        const std::size_t close = text.find('}', open);
        std::string_view name = text.substr(open + 1, close - open - 1);
        part.takes_slashes = name.starts_with('+');
        if (part.takes_slashes) name.remove_prefix(1);
        if (close == std::string_view::npos || !is_name(name))
            throw Error(ErrorCode::invalid_argument,
                        quoted + " is not a template with variables such as {name} or {+name}");
        if (std::ranges::find(names_, name) != names_.end())
            throw Error(ErrorCode::invalid_argument, quoted + " has a variable twice");
        if (part.text.empty() && !parts_.empty())
            throw Error(ErrorCode::invalid_argument,
                        quoted + " needs a text between two variables");
        part.name = name;
        names_.push_back(part.name);
        parts_.push_back(std::move(part));
        position = close + 1;
    }
}

std::optional<std::map<std::string, std::string>> UriTemplate::match(std::string_view uri) const {
    std::map<std::string, std::string> variables;
    if (!uri.starts_with(parts_.front().text)) return std::nullopt;
    uri.remove_prefix(parts_.front().text.size());
    for (std::size_t i = 0; i + 1 < parts_.size(); ++i) {
        const Part& part = parts_[i];
        const std::string& next = parts_[i + 1].text;
        const bool is_last = i + 2 == parts_.size();
        std::size_t size = 0;
        if (is_last) {
            // The text at the end of the template is the end of the URI.
            if (!uri.ends_with(next)) return std::nullopt;
            size = uri.size() - next.size();
        } else {
            size = uri.find(next, 1);
            if (size == std::string_view::npos) return std::nullopt;
        }
        const std::string_view value = uri.substr(0, size);
        if (value.empty()) return std::nullopt;
        if (!part.takes_slashes && value.find('/') != std::string_view::npos) return std::nullopt;
        std::optional<std::string> decoded = percent_decoded(value);
        if (!decoded) return std::nullopt;
        variables.emplace(part.name, std::move(*decoded));
        uri.remove_prefix(size + next.size());
    }
    if (!uri.empty()) return std::nullopt;
    return variables;
}

AgentTool ServerToolRun::bind(const McpServerTool& tool, McpRequest& request) {
    AgentTool bound = tool.definition;
    bound.execute = [this, &tool, &request](JsonObject arguments, ToolContext& context) {
        return MaybeTask<AgentToolResult>(run(&tool, std::move(arguments), &context, &request));
    };
    return bound;
}

Task<AgentToolResult> ServerToolRun::run(const McpServerTool* tool, JsonObject arguments,
                                         ToolContext* context, McpRequest* request) {
    McpToolResult own;
    try {
        own = co_await tool->run(std::move(arguments), *context, *request);
    } catch (const McpRequestError& error) {
        failure_ = error;
        throw;
    }
    // Clients that do not read the structured form need it as text.
    if (own.structured && own.content.empty())
        own.content.push_back(mcp_content::text(json_text(Json(*own.structured))));
    AgentToolResult result;
    for (const JsonObject& block : own.content) result.content.push_back(agent_content(block));
    if (own.is_error) result.is_error = true;
    converted_ = result.content;
    own_ = std::move(own);
    co_return result;
}

JsonObject ServerToolRun::result(const ToolResultMessage& message) const {
    if (failure_) throw McpRequestError(*failure_);
    if (!own_ || message.content != converted_ || message.is_error != own_->is_error)
        return result_of(message);
    JsonArray content;
    for (const JsonObject& block : own_->content) content.emplace_back(block);
    JsonObject result;
    result["content"] = std::move(content);
    if (own_->structured) result["structuredContent"] = *own_->structured;
    if (own_->is_error) result["isError"] = true;
    return result;
}

}  // namespace cubepi::detail
