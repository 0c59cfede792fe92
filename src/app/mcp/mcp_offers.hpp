#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/task.hpp>
#include <cubepi/mcp/client.hpp>

#include "../conversation/attachments.hpp"
#include "../terminal/popup.hpp"
#include "mcp_hub.hpp"

namespace cubepi::app {

/// An input of the user that names a prompt of an MCP server: "/git:review monday".
struct McpPromptInput {
    std::string server = {};
    std::string prompt = {};
    std::string arguments = {};
};

/// Returns nothing for any other text.
std::optional<McpPromptInput> mcp_prompt_input(std::string_view text);

/// A prompt of a server, as the user may enter it.
struct McpPromptName {
    std::string server = {};
    std::string text = {};  ///< "/git:review"
    std::string help = {};  ///< of the server, one line
    bool takes_arguments = false;
    bool needs_arguments = false;
};

/// Returns the prompts of the servers that answer within `limit`, in the order of the configuration.
Task<std::vector<McpPromptName>> list_mcp_prompts(std::shared_ptr<McpHub> servers,
                                                  std::chrono::nanoseconds limit);

/// Returns the message for the model: the text of the prompt, which names the server that has written it. The words of `arguments` are
/// the values of the prompt's arguments, in their order; the last argument takes the rest. Throws Error that states what is wrong.
Task<std::string> fill_in_mcp_prompt(std::shared_ptr<McpHub> servers, McpPromptInput input);

/// Throws Error(invalid_argument) that names a missing argument, or states that there are too many words.
std::map<std::string, std::string> mcp_prompt_arguments(const McpPrompt& prompt,
                                                        std::string_view words);

// Resources of MCP servers that are part of a message (D188).

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

/// The resources of MCP servers that the popup of a prompt offers after `@`, and the completion of templates while one is typed. Used
/// on one executor; outlives its tasks.
class McpResourceOffers {
public:
    using Show = std::function<void(std::vector<Command> entries)>;
    /// `servers` null: none. `show` receives the entries whenever they have changed.
    McpResourceOffers(std::shared_ptr<McpHub> servers, Show show);

    /// Lists the resources of the servers again, which send lists that are still fresh only once.
    Task<> list();
    /// Asks the servers of the templates to which `word` belongs for its possible ends. Words of later calls replace one that has not
    /// been sent yet.
    Task<> complete(std::string word);

private:
    void show_all();

    const std::shared_ptr<McpHub> servers_;
    const Show show_;
    std::vector<McpResourceOffer> listed_;
    std::vector<McpResourceOffer> completed_;
    bool is_listing_ = false;
    bool is_completing_ = false;
    std::string wanted_;  ///< the word of the last complete()
};

}  // namespace cubepi::app
