#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/json.hpp>

// Resources, prompts and content blocks, as servers offer them and clients read them.

namespace cubepi {

/// The words that describe a resource or a template.
struct McpResourceLabels {
    std::string name = {};
    std::string title = {};  ///< for display; empty: none
    std::string description = {};
    std::string mime_type = {};  ///< empty: unknown

    McpResourceLabels() = default;
    McpResourceLabels(std::string its_name, std::string its_description, std::string its_mime_type)
        : name(std::move(its_name)),
          description(std::move(its_description)),
          mime_type(std::move(its_mime_type)) {}
};

/// Data that a server offers under a URI.
struct McpResource : McpResourceLabels {
    std::string uri = {};
    std::optional<std::int64_t> size = {};

    McpResource() = default;
    McpResource(std::string its_uri, std::string its_name, std::string its_description = {},
                std::string its_mime_type = {})
        : McpResourceLabels(std::move(its_name), std::move(its_description),
                            std::move(its_mime_type)),
          uri(std::move(its_uri)) {}
};

/// Resources whose URIs have variables: "file:///logs/{day}". `{name}` stands for one or more characters other than '/', and
/// `{+name}` for any characters (RFC 6570, expressions of one variable).
struct McpResourceTemplate : McpResourceLabels {
    std::string uri_template = {};

    McpResourceTemplate() = default;
    McpResourceTemplate(std::string its_template, std::string its_name,
                        std::string its_description = {}, std::string its_mime_type = {})
        : McpResourceLabels(std::move(its_name), std::move(its_description),
                            std::move(its_mime_type)),
          uri_template(std::move(its_template)) {}
};

/// The content of a resource: text, or other bytes.
struct McpResourceContent {
    std::string uri = {};
    std::string mime_type = {};
    std::string text = {};  ///< UTF-8
    std::string blob = {};  ///< base64; if not empty, `text` is not used

    static McpResourceContent of_text(std::string uri, std::string mime_type, std::string text);
    /// Encodes `bytes`.
    static McpResourceContent of_bytes(std::string uri, std::string mime_type,
                                       std::string_view bytes);
};

/// An argument of a prompt; values are texts.
struct McpPromptArgument {
    std::string name = {};
    std::string description = {};
    bool is_required = false;
};

/// A prompt that a server offers to users, for example as a slash command.
struct McpPrompt {
    std::string name = {};
    std::string title = {};
    std::string description = {};
    std::vector<McpPromptArgument> arguments = {};
};

/// A message of a prompt. `content` is a content block, see below.
struct McpPromptMessage {
    std::string role = "user";  ///< or "assistant"
    JsonObject content = {};
};

/// A prompt with its arguments filled in.
struct McpPromptText {
    std::string description = {};
    std::vector<McpPromptMessage> messages = {};
};

JsonObject to_json(const McpResource& resource);
JsonObject to_json(const McpResourceTemplate& resource_template);
JsonObject to_json(const McpResourceContent& content);
JsonObject to_json(const McpPrompt& prompt);
JsonObject to_json(const McpPromptText& text);

/// Content blocks of results of tools and of prompts.
namespace mcp_content {
JsonObject text(std::string_view text);
/// `data` is base64.
JsonObject image(std::string_view data, std::string_view mime_type);
JsonObject audio(std::string_view data, std::string_view mime_type);
/// Returns a block that contains the resource.
JsonObject embedded(const McpResourceContent& resource);
/// Returns a block that names the resource; the client may read it.
JsonObject link(const McpResource& resource);
}  // namespace mcp_content

}  // namespace cubepi
