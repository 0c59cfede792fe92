#pragma once

#include <chrono>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/mcp/client.hpp>

#include "mcp_hub.hpp"

namespace cubepi::app {

/// Lists what one server offers.
template <class Entry>
using ListOne = Task<std::vector<Entry>> (*)(std::string server, std::shared_ptr<McpClient> client);

/// A server without such a list, or one that fails, has an empty one.
template <class Entry>
Task<> list_one(std::vector<Entry>* made, ListOne<Entry> list, std::string server,
                std::shared_ptr<McpClient> client, std::chrono::nanoseconds limit) {
    Task<std::vector<Entry>> listing = with_timeout(
        *Runtime::standard()->clock, limit, list(std::move(server), std::move(client)), "MCP list");
    Outcome<std::vector<Entry>> listed = co_await outcome_of(std::move(listing));
    if (!listed && listed.cancelled()) listed.rethrow();
    if (listed) *made = std::move(listed).value();
}

/// Returns what `list` returns for the servers that have answered, in the order of the configuration. All at once, so that the limit
/// holds for all.
template <class Entry>
Task<std::vector<Entry>> list_all_servers(std::shared_ptr<McpHub> servers, ListOne<Entry> list,
                                          std::chrono::nanoseconds limit) {
    const std::vector<McpServerStatus> status = servers->status();
    std::vector<std::vector<Entry>> found(status.size());
    std::vector<Task<>> listing;
    for (std::size_t i = 0; i < status.size(); ++i) {
        std::shared_ptr<McpClient> client = servers->client(status[i].name);
        if (client && !status[i].program.empty())
            listing.push_back(
                list_one<Entry>(&found[i], list, status[i].name, std::move(client), limit));
    }
    Task<> all = when_all(std::move(listing));
    co_await std::move(all);
    std::vector<Entry> made;
    for (std::vector<Entry>& one : found)
        made.insert(made.end(), std::make_move_iterator(one.begin()),
                    std::make_move_iterator(one.end()));
    co_return made;
}

}  // namespace cubepi::app
