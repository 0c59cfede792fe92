#include <algorithm>
#include <utility>

#include <cubepi/core/outcome.hpp>
#include <cubepi/mcp/client/client_state.hpp>
#include <cubepi/mcp/client/offer_list.hpp>
#include <cubepi/mcp/tools/tool_list.hpp>

namespace cubepi {

namespace {

/// Of a list whose changes the server does not report, although it has stated that it does.
constexpr std::chrono::nanoseconds max_unnoticed_age = std::chrono::minutes(5);

}  // namespace

Task<std::shared_ptr<const McpToolList>> McpClient::State::list_tools() {
    co_await ensure_connected();
    if (!tools.is_current(*runtime->clock)) {
        // One limit for all pages: a server could send pages for ever.
        Task<> reading = limited(options.request_timeout, read_tool_pages());
        co_await std::move(reading);
    }
    co_return tools.list;
}

Task<std::shared_ptr<const McpPromptList>> McpClient::State::list_prompts() {
    co_await ensure_connected();
    if (!prompts.is_current(*runtime->clock)) {
        Task<> reading = limited(options.request_timeout, read_prompt_pages());
        co_await std::move(reading);
    }
    co_return prompts.list;
}

Task<std::shared_ptr<const McpResourceList>> McpClient::State::list_resources() {
    co_await ensure_connected();
    if (!resources.is_current(*runtime->clock)) {
        Task<> reading = limited(options.request_timeout, read_resource_pages());
        co_await std::move(reading);
    }
    co_return resources.list;
}

Task<std::chrono::nanoseconds> McpClient::State::read_pages(std::string method, AddPage add) {
    std::string cursor;
    std::chrono::nanoseconds fresh =
        notices_changes ? std::chrono::nanoseconds::max() : max_unnoticed_age;
    do {
        JsonObject params;
        if (!cursor.empty()) params["cursor"] = cursor;
        const JsonObject page = co_await send_within(std::chrono::nanoseconds::zero(), method,
                                                     std::move(params), RequestExtras());
        cursor = add(page);
        // Without a time the list is valid until the server reports a change.
        if (const auto ttl = detail::integer_member(page, "ttlMs")) {
            const std::int64_t bounded = std::clamp<std::int64_t>(*ttl, 0, 86'400'000);
            fresh = std::min<std::chrono::nanoseconds>(fresh, std::chrono::milliseconds(bounded));
        }
    } while (!cursor.empty());
    co_return fresh;
}

Task<> McpClient::State::read_tool_pages() {
    const std::uint64_t revision = tools.revision;
    detail::McpToolListReader reader(options.limits);
    AddPage add = [&reader](const JsonObject& page) { return reader.add_page(page); };
    const std::chrono::nanoseconds fresh = co_await read_pages("tools/list", std::move(add));
    tools.list = std::make_shared<const McpToolList>(reader.take());
    tools.listed = revision;
    tools.fresh_until = deadline_after(runtime->clock->now(), fresh);
    if (!tools.list->problems.empty()) {
        runtime->log.write(LogLevel::warning, "mcp.tools_left_out",
                           {{"server", options.server}, {"problems", tools.list->problems.size()}});
    }
}

Task<> McpClient::State::read_prompt_pages() {
    const std::uint64_t revision = prompts.revision;
    detail::McpOfferReader reader(options.limits);
    std::chrono::nanoseconds fresh = std::chrono::nanoseconds::max();
    if (offers("prompts")) {
        AddPage add = [&reader](const JsonObject& page) { return reader.add_prompts(page); };
        fresh = co_await read_pages("prompts/list", std::move(add));
    }
    prompts.list = std::make_shared<const McpPromptList>(std::move(reader.prompts));
    prompts.listed = revision;
    prompts.fresh_until = deadline_after(runtime->clock->now(), fresh);
}

Task<> McpClient::State::read_resource_pages() {
    const std::uint64_t revision = resources.revision;
    detail::McpOfferReader reader(options.limits);
    std::chrono::nanoseconds fresh = std::chrono::nanoseconds::max();
    if (offers("resources")) {
        AddPage add = [&reader](const JsonObject& page) { return reader.add_resources(page); };
        fresh = co_await read_pages("resources/list", std::move(add));
        AddPage add_more = [&reader](const JsonObject& page) { return reader.add_templates(page); };
        // Servers that have resources but no templates may not know this list.
        Task<std::chrono::nanoseconds> reading =
            read_pages("resources/templates/list", std::move(add_more));
        Outcome<std::chrono::nanoseconds> read = co_await outcome_of(std::move(reading));
        try {
            fresh = std::min(fresh, std::move(read).value());
        } catch (const McpError& error) {
            if (error.rpc_code() != mcp_error::method_not_found) throw;
        }
    }
    resources.list = std::make_shared<const McpResourceList>(std::move(reader.resources));
    resources.listed = revision;
    resources.fresh_until = deadline_after(runtime->clock->now(), fresh);
}

}  // namespace cubepi
