#include <cubepi/agent/detail/tool_output.hpp>

#include <utility>

#include <cubepi/core/offload.hpp>

namespace cubepi::detail {

namespace {

bool is_continuation(char byte) noexcept {
    return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

std::size_t code_points(std::string_view text) noexcept {
    std::size_t count = 0;
    for (const char byte : text) count += is_continuation(byte) ? 0 : 1;
    return count;
}

/// The bytes of the first `count` code points.
std::size_t prefix_bytes(std::string_view text, std::size_t count) noexcept {
    std::size_t at = 0;
    while (at < text.size()) {
        if (!is_continuation(text[at])) {
            if (count == 0) break;
            --count;
        }
        ++at;
    }
    return at;
}

}  // namespace

bool is_longer(const AgentToolResult& result, std::size_t limit) {
    std::size_t bytes = 0;
    for (const Content& block : result.content) {
        if (const auto* text = std::get_if<TextContent>(&block)) bytes += text->text.size();
    }
    return bytes > limit && code_points(result.text()) > limit;
}

Task<void> cut_tool_output(std::shared_ptr<const Runtime> runtime, std::shared_ptr<SpillSink> spill,
                           SharedString tool_name, std::string tool_call_id, std::size_t limit,
                           AgentToolResult& result) {
    const std::string whole = result.text();
    std::string where;
    if (spill) {
        auto write = [spill, tool_name, tool_call_id, whole] {
            return spill->spill(tool_name, tool_call_id, whole);
        };
        try {
            where = co_await offload(*runtime->workers, std::move(write));
        } catch (const std::exception& error) {
            where = std::string("The whole could not be kept: ") + error.what();
        }
    }
    ContentList<Content> kept;
    std::size_t room = limit;
    for (Content& block : result.content) {
        auto* text = std::get_if<TextContent>(&block);
        if (!text) {
            kept.push_back(std::move(block));
            continue;
        }
        const std::size_t bytes = prefix_bytes(text->text, room);
        room -= code_points(std::string_view(text->text).substr(0, bytes));
        text->text.resize(bytes);
        if (!text->text.empty()) kept.push_back(std::move(block));
    }
    std::string notice = "\n[Output cut: the first " + std::to_string(limit) + " of " +
                         std::to_string(code_points(whole)) + " characters are shown.";
    if (!where.empty()) notice += " " + where;
    kept.emplace_back(TextContent{notice + "]"});
    result.content = std::move(kept);
}

Json with_trace(Json details, const Json& trace) {
    if (trace.is_null()) return details;
    JsonObject object;
    if (details.is_object()) {
        object = std::move(details.get_object());
    } else if (!details.is_null()) {
        object["_non_dict_details"] = std::move(details);
    }
    object["hitl"] = trace;
    return object;
}

}  // namespace cubepi::detail
