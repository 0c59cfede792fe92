#include "session_page.hpp"

#include <algorithm>
#include <array>
#include <variant>

#include <bub/tape/prompt_context.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/schema/json_text.hpp>

#include "terminal/event_text.hpp"
#include "terminal/terminal_text.hpp"
#include "transcript.hpp"

namespace cubepi::app {

namespace {

constexpr std::string_view page_template =
#include "session_page_html.inc"
    ;

constexpr std::array<std::string_view, 4> shown_pictures = {"image/png", "image/jpeg", "image/gif",
                                                            "image/webp"};

bool is_base64(std::string_view text) {
    constexpr std::string_view allowed =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
    return !text.empty() && text.find_first_not_of(allowed) == std::string_view::npos;
}

/// Text with its fenced code blocks set off. The rest of its Markdown stays as written.
std::string prose(std::string_view text) {
    std::string html;
    std::string part;
    bool code = false;
    const auto end_part = [&] {
        if (part.find_first_not_of(" \n") != std::string::npos)
            html += (code ? "<pre>" : "<div class=\"text\">") + html_text(part) +
                    (code ? "</pre>\n" : "</div>\n");
        part.clear();
    };
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        if (line.starts_with("```")) {
            end_part();
            code = !code;
            continue;
        }
        part += std::string(line) + (text.empty() ? "" : "\n");
    }
    end_part();
    return html;
}

std::string folded(const std::string& summary, std::string_view text) {
    return "<details><summary>" + summary + "</summary><pre>" + html_text(text) +
           "</pre></details>\n";
}

std::string picture(const ImageContent& image) {
    const std::string type = image.media_type.str();
    const bool shown =
        std::find(shown_pictures.begin(), shown_pictures.end(), type) != shown_pictures.end();
    if (!shown || !is_base64(image.source)) return "<p class=\"facts\">[picture]</p>\n";
    return "<p><img alt=\"picture\" src=\"data:" + type + ";base64," + image.source + "\"></p>\n";
}

template <class Blocks>
std::string pictures(const Blocks& content) {
    std::string html;
    for (const auto& block : content) {
        if (const auto* image = std::get_if<ImageContent>(&block)) html += picture(*image);
    }
    return html;
}

std::string article(const char* kind, const std::string& heading, const std::string& content) {
    if (content.empty()) return {};
    return "<article class=\"" + std::string(kind) + "\"><h2>" + heading + "</h2>\n" + content +
           "</article>\n";
}

std::string answer_html(const AssistantMessage& answer) {
    std::string html;
    for (const AssistantContent& block : answer.content) {
        if (const auto* text = std::get_if<TextContent>(&block)) html += prose(text->text);
        if (const auto* image = std::get_if<ImageContent>(&block)) html += picture(*image);
        const auto* thinking = std::get_if<ThinkingContent>(&block);
        if (thinking && !thinking->thinking.empty()) html += folded("thinking", thinking->thinking);
        const auto* const call = std::get_if<ToolCall>(&block);
        if (!call) continue;
        const std::string asked =
            call->name == "ask_user" ? questions_text(call->arguments) : std::string();
        html += folded("call <code>" + html_text(call->name.str()) + "</code>",
                       asked.empty() ? json_text(call->arguments) : asked);
    }
    return html;
}

std::string message_html(const MessageList& messages, std::size_t position) {
    const Message& message = messages[position];
    if (const AssistantMessage* answer = message.assistant())
        return article("assistant", "Assistant", answer_html(*answer));
    if (const ToolResultMessage* result = message.tool_result()) {
        std::string summary = "result of <code>" + html_text(result->tool_name.str()) + "</code>";
        if (result->is_error) summary += " <span class=\"failed\">failed</span>";
        return folded(summary, result_text(messages, position)) + pictures(result->content);
    }
    if (message.role() != Role::user || is_synthetic_message(message)) return {};
    std::string html = prose(bub::without_context(message.text()));
    if (const UserMessage* user = message.user()) html += pictures(user->content);
    return article("user", "User", html);
}

}  // namespace

std::string html_text(std::string_view text) {
    std::string html;
    for (const char c : printable(text)) {
        switch (c) {
            case '&': html += "&amp;"; break;
            case '<': html += "&lt;"; break;
            case '>': html += "&gt;"; break;
            case '"': html += "&quot;"; break;
            case '\'': html += "&#39;"; break;
            default: html += c;
        }
    }
    return html;
}

std::string session_page(const MessageList& messages, const SessionPageHead& head) {
    std::string page;
    std::string_view rest = page_template;
    for (;;) {
        const std::size_t at = rest.find("{{");
        page += rest.substr(0, at);
        if (at == std::string_view::npos) return page;
        const std::size_t end = rest.find("}}", at);
        const std::string_view name = rest.substr(at + 2, end - at - 2);
        if (name == "title") page += html_text(head.title);
        if (name == "facts") page += html_text(head.facts);
        if (name == "messages") {
            for (std::size_t i = 0; i < messages.size(); ++i) page += message_html(messages, i);
        }
        rest.remove_prefix(end + 2);
    }
}

}  // namespace cubepi::app
