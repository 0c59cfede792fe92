#include <bub/prompt.hpp>

namespace bub {

bool Prompt::empty() const noexcept {
    if (const std::string* text = if_text()) return text->empty();
    return if_parts()->empty();
}

std::string Prompt::text() const {
    if (const std::string* text = if_text()) return *text;
    std::string joined;
    for (const cubepi::Json& part : *if_parts()) {
        const cubepi::JsonObject* object = part.if_object();
        const cubepi::Json* text = object ? object->if_contains("text") : nullptr;
        if (!text || !text->is_string()) continue;
        if (!joined.empty()) joined += '\n';
        joined += text->get_string();
    }
    return joined;
}

cubepi::Json to_json(const Prompt& prompt) {
    if (const std::string* text = prompt.if_text()) return cubepi::Json(*text);
    return cubepi::Json(*prompt.if_parts());
}

}  // namespace bub
