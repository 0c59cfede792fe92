#include <bub/turn_error.hpp>

#include <array>
#include <utility>

#include <cubepi/core/cancellation.hpp>

namespace bub {

namespace {

constexpr std::array<std::string_view, 7> names = {"invalid_input", "config",    "provider", "tool",
                                                   "temporary",     "not_found", "unknown"};

cubepi::ErrorCode code_of(ErrorKind kind) noexcept {
    switch (kind) {
        case ErrorKind::invalid_input: return cubepi::ErrorCode::invalid_argument;
        case ErrorKind::config: return cubepi::ErrorCode::auth;
        case ErrorKind::provider: return cubepi::ErrorCode::provider;
        case ErrorKind::temporary: return cubepi::ErrorCode::unavailable;
        case ErrorKind::not_found: return cubepi::ErrorCode::not_found;
        case ErrorKind::tool:
        case ErrorKind::unknown: break;
    }
    return cubepi::ErrorCode::unknown;
}

std::string text_of(const cubepi::Json& value) {
    if (const auto* text = value.if_string()) return std::string(*text);
    return value.is_null() ? std::string() : boost::json::serialize(value);
}

}  // namespace

std::string_view to_string(ErrorKind kind) noexcept {
    return names[static_cast<std::size_t>(kind)];
}

ErrorKind parse_error_kind(std::string_view text) noexcept {
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (names[i] == text) return static_cast<ErrorKind>(i);
    }
    return ErrorKind::unknown;
}

TurnError::TurnError(ErrorKind kind, std::string message, cubepi::JsonObject details)
    : Error(code_of(kind), "[" + std::string(to_string(kind)) + "] " + message),
      kind_(kind),
      message_(std::move(message)),
      details_(std::move(details)) {}

TurnError error_from_event(const cubepi::JsonObject& data) {
    ErrorKind kind = ErrorKind::unknown;
    std::string message;
    cubepi::JsonObject details;
    cubepi::JsonObject others;
    for (const auto& [key, value] : data) {
        if (key == "kind") {
            kind = parse_error_kind(text_of(value));
        } else if (key == "message") {
            message = text_of(value);
        } else if (key == "details" && value.is_object()) {
            details = value.get_object();
        } else if (!(key == "details" && value.is_null())) {
            others[key] = value;
        }
    }
    for (auto& [key, value] : others) details.emplace(key, std::move(value));
    return TurnError(kind, std::move(message), std::move(details));
}

std::string describe(const std::exception_ptr& error) {
    if (!error) return {};
    if (cubepi::is_cancellation(error)) return "cancelled";
    return cubepi::exception_text(error);
}

}  // namespace bub
