#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>

#include <cubepi/mcp/client.hpp>
#include <cubepi/mcp/protocol.hpp>

namespace cubepi::detail {

/// Follows the pages of a list of a server, and collects the entries that can be used.
class McpOfferReader {
public:
    explicit McpOfferReader(const McpLimits& limits) : limits_(limits) {}

    // Add the entries of a page. Return the cursor of the next page; empty at the end, at the limit, and when the server repeats a
    // cursor. Throw Error(protocol) if there is no list.
    std::string add_prompts(const JsonObject& page);
    std::string add_resources(const JsonObject& page);
    std::string add_templates(const JsonObject& page);

    McpPromptList prompts = {};
    McpResourceList resources = {};

private:
    template <class Entry, class Read>
    std::string add(const JsonObject& page, std::string_view member, std::vector<Entry>& entries,
                    std::vector<std::string>& problems, Read read);

    const McpLimits limits_;
    std::set<std::string> cursors_;
};

/// Reads the results of "resources/read" and "prompts/get". Throw Error(protocol).
std::vector<McpResourceContent> mcp_contents_from_json(const JsonObject& result);
McpPromptText mcp_prompt_text_from_json(const JsonObject& result);

}  // namespace cubepi::detail
