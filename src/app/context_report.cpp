#include "context_report.hpp"

#include <utility>
#include <vector>

#include <cubepi/core/message_json.hpp>
#include <cubepi/middleware/compaction.hpp>
#include <cubepi/schema/json_text.hpp>

#include "terminal/event_text.hpp"

namespace cubepi::app {

namespace {

constexpr std::int64_t bytes_per_token = 4;

std::int64_t tokens_in(std::size_t bytes) {
    return (static_cast<std::int64_t>(bytes) + bytes_per_token - 1) / bytes_per_token;
}

/// A picture costs about this much, not by its bytes.
constexpr std::int64_t picture_tokens = 1500;

std::int64_t tokens_of(const Message& message) {
    std::int64_t tokens = tokens_in(message.text().size());
    if (const AssistantMessage* answer = message.assistant()) {
        for (const AssistantContent& block : answer->content) {
            if (const auto* call = std::get_if<ToolCall>(&block))
                tokens += tokens_in(json_text(call->arguments).size() + call->name.str().size());
            if (const auto* thinking = std::get_if<ThinkingContent>(&block))
                tokens += tokens_in(thinking->thinking.size());
        }
    }
    const auto count_pictures = [&](const auto& content) {
        for (const auto& block : content) {
            if (std::get_if<ImageContent>(&block)) tokens += picture_tokens;
        }
    };
    if (const UserMessage* user = message.user()) count_pictures(user->content);
    if (const ToolResultMessage* result = message.tool_result()) count_pictures(result->content);
    return tokens;
}

/// The tokens of a part of the system prompt; 0 if it does not have the part.
std::int64_t tokens_within(const std::string& prompt, const std::string& part) {
    return !part.empty() && prompt.find(part) != std::string::npos ? tokens_in(part.size()) : 0;
}

std::string share_text(std::int64_t tokens, std::int64_t window) {
    if (window <= 0) return {};
    const std::int64_t tenths = 1000 * tokens / window;
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + "%";
}

std::string padded_left(std::string text, std::size_t width) {
    return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

}  // namespace

RequestParts parts_of(const ModelRequest& request, std::size_t omitted, const PromptFiles& files,
                      std::int64_t counted) {
    RequestParts parts;
    const std::string prompt(request.system_prompt.str());
    parts.instructions = tokens_within(prompt, files.instructions);
    parts.skills = tokens_within(prompt, files.skills);
    parts.system_prompt = tokens_in(prompt.size()) - parts.instructions - parts.skills;
    if (request.tools) {
        for (const ToolDefinition& tool : *request.tools) {
            parts.tools += tokens_in(tool.name.size() + tool.description.size() +
                                     (tool.parameters ? json_text(*tool.parameters).size() : 0));
            ++parts.tool_count;
        }
    }
    const std::size_t count =
        request.messages.size() > omitted ? request.messages.size() - omitted : 0;
    for (std::size_t i = 0; i < count; ++i) {
        const Message& message = request.messages[i];
        const std::int64_t tokens = tokens_of(message);
        if (message.role() == Role::user && message.text().starts_with(summary_prefix)) {
            parts.summary += tokens;
            continue;
        }
        ++parts.message_count;
        if (message.role() == Role::user) parts.prompts += tokens;
        if (message.role() == Role::assistant) parts.answers += tokens;
        if (message.role() == Role::tool_result) parts.results += tokens;
    }
    std::int64_t* const all[] = {&parts.system_prompt, &parts.instructions, &parts.skills,
                                 &parts.tools,         &parts.summary,      &parts.prompts,
                                 &parts.answers,       &parts.results};
    for (const std::int64_t* one : all) parts.total += *one;
    if (counted <= 0 || parts.total <= 0) return parts;
    for (std::int64_t* one : all)
        *one = static_cast<std::int64_t>(static_cast<double>(*one) * static_cast<double>(counted) /
                                         static_cast<double>(parts.total));
    parts.total = counted;
    return parts;
}

std::string context_text(const RequestParts& parts, std::int64_t window, bool is_counted) {
    std::string text = "The next request has about " + count_text(parts.total) + " tokens";
    if (window > 0)
        text += ", " + share_text(parts.total, window) + " of the window of " + count_text(window);
    text += is_counted ? " (as the server counted; the parts are estimates).\n"
                       : " (estimated; the server has not counted yet).\n";
    const auto row = [&](const char* label, std::int64_t tokens, const std::string& more = {}) {
        if (tokens <= 0) return;
        std::string line = "  " + std::string(label);
        line.resize(18, ' ');
        line += padded_left(count_text(tokens), 11) + padded_left(share_text(tokens, window), 8);
        text += line + (more.empty() ? "" : "  " + more) + "\n";
    };
    row("system prompt", parts.system_prompt);
    row("instructions", parts.instructions, "AGENTS.md");
    row("skills", parts.skills);
    row("tools", parts.tools,
        std::to_string(parts.tool_count) + (parts.tool_count == 1 ? " tool" : " tools"));
    row("summary", parts.summary, "in place of earlier messages");
    row("prompts", parts.prompts);
    row("answers", parts.answers, "with their calls");
    row("tool results", parts.results);
    if (window > parts.total) row("free", window - parts.total);
    return text;
}

}  // namespace cubepi::app
