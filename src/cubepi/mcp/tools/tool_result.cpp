#include <cubepi/mcp/tools/tool_result.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/base64.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/mcp/content.hpp>
#include <cubepi/mcp/protocol.hpp>
#include <cubepi/mcp/tools.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/provider/wire/encoding.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi {

namespace {

using detail::object_member;
using detail::shown_mcp_text;
using detail::string_member;

constexpr std::array<std::string_view, 4> image_types = {"image/png", "image/jpeg", "image/gif",
                                                         "image/webp"};
constexpr std::size_t max_images = 16;

/// Collects the content of a result up to a limit.
class ResultReader {
public:
    explicit ResultReader(std::size_t max_bytes) : left_(max_bytes) {}

    void add_block(const JsonObject& block) {
        const std::string_view type = string_member(block, "type");
        if (type == "text") {
            add_text(string_member(block, "text"));
        } else if (type == "image") {
            add_image(string_member(block, "data"), string_member(block, "mimeType"));
        } else if (type == "audio") {
            describe("audio", block, string_member(block, "data").size() / 4 * 3);
        } else if (type == "resource") {
            if (const JsonObject* resource = object_member(block, "resource"))
                add_resource(*resource);
        } else if (type == "resource_link") {
            add_link(block);
        } else {
            add_text("[content of the unknown type '" + shown_mcp_text(type, 64) + "']");
        }
    }

    void add_text(std::string_view text) {
        if (text.size() > left_) {
            text = text.substr(0, left_);
            text = text.substr(0, complete_utf8_prefix(text));
            is_cut_ = true;
        }
        left_ -= text.size();
        if (!text.empty()) content_.emplace_back(TextContent{replace_broken_utf8(text)});
    }

    bool empty() const noexcept { return content_.empty(); }

    ContentList<Content> take() {
        if (is_cut_) {
            content_.emplace_back(
                TextContent{"[The result of the server is longer; the rest was left out.]"});
        }
        if (content_.empty()) content_.emplace_back(TextContent{"[The result is empty.]"});
        return std::move(content_);
    }

private:
    void add_image(std::string_view data, std::string_view media_type) {
        const bool is_known = std::ranges::find(image_types, media_type) != image_types.end();
        if (!is_known || !detail::is_base64(data)) {
            add_text("[an image that cannot be shown: " + shown_mcp_text(media_type, 64) + "]");
        } else if (data.size() > left_ || images_ == max_images) {
            is_cut_ = true;
        } else {
            left_ -= data.size();
            ++images_;
            ImageContent image;
            image.source = data;
            image.media_type = SharedString(std::string(media_type));
            content_.emplace_back(std::move(image));
        }
    }

    void add_resource(const JsonObject& resource) {
        if (resource.contains("text")) {
            add_text(string_member(resource, "text"));
            return;
        }
        const std::string_view blob = string_member(resource, "blob");
        const std::string_view media_type = string_member(resource, "mimeType");
        if (media_type.starts_with("image/")) {
            add_image(blob, media_type);
        } else {
            describe("resource", resource, blob.size() / 4 * 3);
        }
    }

    void add_link(const JsonObject& link) {
        std::string text = "[resource: " + shown_mcp_text(string_member(link, "uri"), 2000);
        for (const std::string_view key : {"title", "name", "mimeType", "description"}) {
            const std::string_view value = string_member(link, key);
            if (!value.empty()) text += "; " + shown_mcp_text(value, 500);
        }
        add_text(text + "]");
    }

    void describe(std::string_view kind, const JsonObject& block, std::size_t bytes) {
        std::string text = "[" + std::string(kind) + " that cannot be shown: ";
        const std::string_view uri = string_member(block, "uri");
        if (!uri.empty()) text += shown_mcp_text(uri, 2000) + ", ";
        text += shown_mcp_text(string_member(block, "mimeType"), 64);
        add_text(text + ", " + std::to_string(bytes) + " bytes]");
    }

    std::size_t left_;
    std::size_t images_ = 0;
    bool is_cut_ = false;
    ContentList<Content> content_;
};

}  // namespace

AgentToolResult mcp_tool_result(std::string_view server, const JsonObject& result,
                                std::size_t max_bytes) {
    ResultReader reader(max_bytes);
    if (const JsonArray* content = detail::array_member(result, "content")) {
        for (const Json& block : *content) {
            if (const JsonObject* object = block.if_object()) reader.add_block(*object);
        }
    }
    const Json* structured = result.if_contains("structuredContent");
    std::string structured_text;
    if (structured) structured_text = json_text(*structured);
    if (structured && reader.empty()) reader.add_text(structured_text);

    AgentToolResult converted;
    converted.content = reader.take();
    if (detail::flag_member(result, "isError")) converted.is_error = true;
    JsonObject origin;
    origin["server"] = shown_mcp_text(server);
    if (structured && structured_text.size() <= max_bytes)
        origin["structuredContent"] = *structured;
    converted.details = JsonObject{{"mcp", std::move(origin)}};
    return converted;
}

}  // namespace cubepi

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
