#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>

#include <cubepi/mcp/client.hpp>

namespace cubepi::detail {

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

}  // namespace cubepi::detail
