#pragma once

#include <cstddef>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/net/http_server.hpp>

namespace bub::shared {

/// A code that a user sends to the bot in a private chat, which makes the user its operator.
class PairingCode {
public:
    explicit PairingCode(std::string code) : code_(std::move(code)) {}

    /// Returns a new code of eight digits, from the system's source of randomness.
    static std::string make() {
        std::random_device device;
        std::uniform_int_distribution<int> digit(0, 9);
        std::string code;
        while (code.size() < code_size) code += static_cast<char>('0' + digit(device));
        return code;
    }
    /// Returns the code in a message: typed, or sent by a link that starts the bot. Nothing for any other text.
    static std::optional<std::string> find(std::string_view text) {
        text = cubepi::detail::trimmed(text);
        if (text.starts_with("/start ")) text = cubepi::detail::trimmed(text.substr(7));
        const bool is_code =
            text.size() == code_size && text.find_first_not_of("0123456789") == text.npos;
        return is_code ? std::optional<std::string>(text) : std::nullopt;
    }
    /// Throws Error(limit) for the tenth wrong code.
    bool accepts(std::string_view sent) {
        if (cubepi::equal_secrets(sent, code_)) return true;
        if (++wrong_ < max_wrong) return false;
        throw cubepi::Error(
            cubepi::ErrorCode::limit,
            "ten wrong codes were sent to the bot; run the command again for a new code");
    }

private:
    static constexpr std::size_t code_size = 8;
    static constexpr std::size_t max_wrong = 10;
    const std::string code_;
    std::size_t wrong_ = 0;
};

}  // namespace bub::shared
