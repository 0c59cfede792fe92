#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/core/task.hpp>

#include "../terminal/popup.hpp"
#include "mcp_resource.hpp"

namespace cubepi::app {

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
