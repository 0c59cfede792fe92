#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/task.hpp>

#include "../conversation/attachments.hpp"
#include "mcp_hub.hpp"

// Resources of MCP servers that are part of a message (D188).

namespace cubepi::app {

/// A resource that a prompt names: "@docs:file:///notes.md".
struct McpResourceName {
    std::string server = {};
    std::string uri = {};

    bool operator==(const McpResourceName&) const = default;
};

/// Returns the resources of `servers` that `prompt` names with `@SERVER:URI`, or `@"SERVER:URI"`, at the beginning of a word, each
/// once. Punctuation at the end of an unquoted word is not part of the URI.
std::vector<McpResourceName> named_mcp_resources(std::string_view prompt,
                                                 const std::vector<std::string>& servers);

/// Returns the word that names the resource; empty if none can, because the URI has a quotation mark.
std::string mcp_resource_word(std::string_view server, std::string_view uri);

/// A resource of a server, or a template of resources, as the user may name it.
struct McpResourceOffer {
    std::string server = {};
    std::string text = {};          ///< "@docs:file:///notes.md"; of a template: up to its variable
    std::string help = {};          ///< of the server, one line
    std::string uri_template = {};  ///< empty: a resource
};

/// Returns the resources and templates of the servers that answer within `limit`, in the order of the configuration.
Task<std::vector<McpResourceOffer>> list_mcp_resources(std::shared_ptr<McpHub> servers,
                                                       std::chrono::nanoseconds limit);

/// Returns the resources that begin with `word`, which is incomplete and belongs to a template, as the template's server completes its
/// variable. Empty if the server has no completions, or fails.
Task<std::vector<McpResourceOffer>> complete_mcp_resource(std::shared_ptr<McpHub> servers,
                                                          McpResourceOffer offered,
                                                          std::string word);

/// Reads the resources that `typed` names and adds them to `made`: texts, stated to be words of their server, and pictures. Why one was
/// not added is a part of the remark. `servers` null: none. Takes a quarter of a minute at most.
Task<Attachments> attach_mcp_resources(Attachments made, std::string typed,
                                       std::shared_ptr<McpHub> servers);

}  // namespace cubepi::app
