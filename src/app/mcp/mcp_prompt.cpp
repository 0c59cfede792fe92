#include "mcp_prompt.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/mcp/tools.hpp>

#include "all_servers.hpp"

namespace cubepi::app {

namespace {

/// The chat takes no input meanwhile.
constexpr auto longest_wait = std::chrono::seconds(15);

bool is_word(std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '_' || c == '.';
    });
}

Task<McpPromptText> ask(std::shared_ptr<McpClient> client, McpPromptInput input) {
    const std::shared_ptr<const McpPromptList> listed = co_await client->prompts();
    const auto found = std::ranges::find(listed->prompts, input.prompt, &McpPrompt::name);
    if (found == listed->prompts.end()) {
        std::string names;
        for (const McpPrompt& prompt : listed->prompts)
            names += (names.empty() ? "" : ", ") + prompt.name;
        throw Error(ErrorCode::not_found, "the MCP server " + input.server + " has no prompt '" +
                                              input.prompt + "'; " +
                                              (names.empty() ? "it has none" : "it has " + names));
    }
    auto arguments = mcp_prompt_arguments(*found, input.arguments);
    co_return co_await client->prompt(input.prompt, std::move(arguments));
}

}  // namespace

std::optional<McpPromptInput> mcp_prompt_input(std::string_view text) {
    if (!text.starts_with('/')) return std::nullopt;
    const std::size_t end = std::min(text.find_first_of(" \t\r\n"), text.size());
    const std::string_view word = text.substr(1, end - 1);
    const std::size_t colon = word.find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    McpPromptInput input;
    input.server = word.substr(0, colon);
    input.prompt = word.substr(colon + 1);
    if (!is_word(input.server) || !is_word(input.prompt)) return std::nullopt;
    input.arguments = cubepi::detail::trimmed(text.substr(end));
    return input;
}

std::map<std::string, std::string> mcp_prompt_arguments(const McpPrompt& prompt,
                                                        std::string_view words) {
    constexpr std::string_view space = " \t\r\n";
    std::map<std::string, std::string> values;
    words = cubepi::detail::trimmed(words);
    for (std::size_t i = 0; i < prompt.arguments.size(); ++i) {
        const McpPromptArgument& argument = prompt.arguments[i];
        if (words.empty()) {
            if (!argument.is_required) continue;
            std::string usage;
            for (const McpPromptArgument& one : prompt.arguments)
                usage += one.is_required ? " " + one.name : " [" + one.name + "]";
            throw Error(ErrorCode::invalid_argument,
                        "the prompt " + prompt.name + " needs" + usage);
        }
        const bool is_last = i + 1 == prompt.arguments.size();
        const std::size_t end =
            is_last ? words.size() : std::min(words.find_first_of(space), words.size());
        values.emplace(argument.name, words.substr(0, end));
        words = cubepi::detail::trimmed(words.substr(end));
    }
    if (!words.empty())
        throw Error(ErrorCode::invalid_argument, "the prompt " + prompt.name + " has no arguments");
    return values;
}

namespace {

Task<std::vector<McpPromptName>> prompts_of(std::string server, std::shared_ptr<McpClient> client) {
    const std::shared_ptr<const McpPromptList> listed = co_await client->prompts();
    std::vector<McpPromptName> made;
    for (const McpPrompt& prompt : listed->prompts) {
        McpPromptName one;
        one.server = server;
        one.text = "/" + server + ":" + prompt.name;
        if (!mcp_prompt_input(one.text)) continue;  // it could not be entered
        one.help = prompt.description.substr(0, prompt.description.find('\n'));
        one.takes_arguments = !prompt.arguments.empty();
        one.needs_arguments =
            std::ranges::any_of(prompt.arguments, &McpPromptArgument::is_required);
        made.push_back(std::move(one));
    }
    co_return made;
}

}  // namespace

Task<std::vector<McpPromptName>> list_mcp_prompts(std::shared_ptr<McpHub> servers,
                                                  std::chrono::nanoseconds limit) {
    Task<std::vector<McpPromptName>> listing =
        list_all_servers<McpPromptName>(std::move(servers), prompts_of, limit);
    co_return co_await std::move(listing);
}

Task<std::string> fill_in_mcp_prompt(std::shared_ptr<McpHub> servers, McpPromptInput input) {
    const std::shared_ptr<McpClient> client = servers ? servers->client(input.server) : nullptr;
    if (!client) {
        throw Error(ErrorCode::not_found, "there is no MCP server '" + input.server +
                                              "'; /mcp lists them, and //... sends the text");
    }
    const std::string heading =
        "The prompt " + input.prompt + " of the MCP server " + input.server + ":\n\n";
    Task<McpPromptText> asking = with_timeout(*Runtime::standard()->clock, longest_wait,
                                              ask(client, std::move(input)), "MCP prompt");
    const McpPromptText text = co_await std::move(asking);
    JsonArray blocks;
    for (const McpPromptMessage& message : text.messages) blocks.emplace_back(message.content);
    JsonObject result;
    result["content"] = std::move(blocks);
    const std::size_t limit = client->limits().max_result_bytes;
    co_return heading + mcp_tool_result(client->server(), result, limit).text();
}

}  // namespace cubepi::app
