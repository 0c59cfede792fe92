#include <cubepi/provider/wire/prompt_text.hpp>

#include <algorithm>
#include <cctype>
#include <cstdint>

namespace cubepi::detail {

ContentList<Content> with_sender(const UserMessage& message) {
    ContentList<Content> content = message.content;
    const Json* name = message.metadata.find("sender_display_name");
    if (!name || !name->is_string() || name->get_string().empty()) return content;
    const std::string sender = "[" + std::string(name->get_string()) + "]";
    for (Content& block : content) {
        auto* text = std::get_if<TextContent>(&block);
        if (!text || text->text.empty()) continue;
        text->text.insert(0, sender + ": ");
        return content;
    }
    TextContent sent;
    sent.text = sender + " sent:";
    content.insert(content.begin(), Content(std::move(sent)));
    return content;
}

bool has_images(const ContentList<Content>& content) noexcept {
    return std::any_of(content.begin(), content.end(), [](const Content& block) {
        return std::holds_alternative<ImageContent>(block);
    });
}

std::string joined_text(const ContentList<Content>& content, std::string_view separator) {
    std::string joined;
    bool first = true;
    for (const Content& block : content) {
        const auto* text = std::get_if<TextContent>(&block);
        if (!text) continue;
        if (!first) joined += separator;
        joined += text->text;
        first = false;
    }
    return joined;
}

std::string image_url(const ImageContent& image) {
    if (image.source.starts_with("http://") || image.source.starts_with("https://"))
        return image.source;
    return "data:" + image.media_type.str() + ";base64," + image.source;
}

std::string shortened_id(std::string_view id, std::size_t longest) {
    if (id.size() <= longest) return std::string(id);
    std::uint64_t hash = 14695981039346656037u;
    for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    constexpr std::size_t longest_number = 20;
    std::string shorter(id.substr(0, longest - longest_number - 1));
    // Half a character at the cut would be no UTF-8.
    while (!shorter.empty() && (static_cast<unsigned char>(shorter.back()) & 0x80u) != 0)
        shorter.pop_back();
    return shorter + "_" + std::to_string(hash);
}

std::string marked_error(std::string text) {
    constexpr std::string_view word = "error";
    const bool says_so =
        text.size() >= word.size() &&
        std::equal(word.begin(), word.end(), text.begin(), [](char a, char b) {
            return a == static_cast<char>(std::tolower(static_cast<unsigned char>(b)));
        });
    return says_so ? text : "Error: " + text;
}

}  // namespace cubepi::detail
