#include <cubepi/mcp/tools/result_data.hpp>

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/mcp/content.hpp>
#include <cubepi/mcp/protocol.hpp>
#include <cubepi/provider/wire/encoding.hpp>

namespace cubepi::detail {

namespace {

/// Of one result; further ones are described only.
constexpr std::size_t max_stored = 16;

/// Data of a block that no model takes.
struct BlockData {
    std::string kind = {};  ///< "audio"
    std::string mime_type = {};
    std::string_view base64 = {};
};

std::optional<BlockData> data_of(const JsonObject& block) {
    const std::string_view type = string_member(block, "type");
    const JsonObject* const resource = object_member(block, "resource");
    BlockData data;
    data.kind = "audio";
    if (type == "audio") {
        data.mime_type = shown_mcp_text(string_member(block, "mimeType"), 64);
        data.base64 = string_member(block, "data");
    } else if (type == "resource" && resource) {
        data.kind = "resource " + shown_mcp_text(string_member(*resource, "uri"), 2000);
        data.mime_type = shown_mcp_text(string_member(*resource, "mimeType"), 64);
        data.base64 = string_member(*resource, "blob");
    }
    if (data.base64.empty() || data.mime_type.starts_with("image/")) return std::nullopt;
    return data;
}

/// Empty for a text that is not base64.
std::string bytes_of(std::string_view base64) {
    try {
        return from_base64(base64);
    } catch (const Error&) {
        return {};
    }
}

Task<> store_block(Json* block, BlockData data, McpDataLocation place) {
    auto work = [store = place.store, tool = place.tool, type = data.mime_type,
                 encoded = std::string(data.base64)] {
        const std::string content = bytes_of(encoded);
        std::string end;
        if (!content.empty())
            end = std::to_string(content.size()) + " bytes. " + (*store)(tool, type, content);
        return end;
    };
    Task<std::string> storing = offload(*place.runtime->workers, std::move(work));
    Outcome<std::string> stored = co_await outcome_of(std::move(storing));
    if (stored.cancelled()) stored.rethrow();
    // A store without space leaves the description.
    if (!stored || stored.value().empty()) co_return;
    const std::string text = "[" + data.kind + ", " + data.mime_type + ", " + stored.value() + "]";
    *block = mcp_content::text(text);
}

}  // namespace

Task<> store_data_of(JsonObject* result, McpDataLocation place) {
    Json* const content = result->if_contains("content");
    JsonArray* const blocks = content ? content->if_array() : nullptr;
    if (!blocks) co_return;
    std::size_t count = 0;
    for (Json& block : *blocks) {
        std::optional<BlockData> data;
        if (const JsonObject* const object = block.if_object()) data = data_of(*object);
        if (!data || count++ >= max_stored) continue;
        Task<> storing = store_block(&block, std::move(*data), place);
        co_await std::move(storing);
    }
}

}  // namespace cubepi::detail
