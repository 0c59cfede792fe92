#pragma once

#include <string>
#include <utility>
#include <variant>

#include <cubepi/core/json.hpp>

namespace bub {

/// The input of the model: a text, or content parts in OpenAI's form (`{"type": "text", "text": ...}`, `{"type":
/// "image_url", "image_url": {"url": ...}}`, ...).
class Prompt {
public:
    Prompt() = default;
    Prompt(const char* text) : value_(std::string(text)) {}
    Prompt(std::string text) : value_(std::move(text)) {}
    Prompt(cubepi::JsonArray parts) : value_(std::move(parts)) {}

    bool is_text() const noexcept { return std::holds_alternative<std::string>(value_); }
    bool empty() const noexcept;
    /// Returns the text itself, or the texts of the parts joined with line feeds.
    std::string text() const;
    /// Returns the text or the parts; null if the prompt is of the other kind.
    const std::string* if_text() const noexcept { return std::get_if<std::string>(&value_); }
    const cubepi::JsonArray* if_parts() const noexcept {
        return std::get_if<cubepi::JsonArray>(&value_);
    }

private:
    std::variant<std::string, cubepi::JsonArray> value_;
};

cubepi::Json to_json(const Prompt& prompt);

}  // namespace bub
