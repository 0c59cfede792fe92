#pragma once

#include <chrono>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace cubepi::detail {

/// Encodes bytes as base64url without padding (RFC 4648, 5).
std::string base64_url(std::string_view bytes);

/// Returns 32 random bytes as base64url: a secret (43 characters). Throws Error(unsupported) if the system has no random bytes.
std::string random_secret();

/// Returns the challenge for a verifier of PKCE by the method S256 (RFC 7636).
std::string pkce_challenge(std::string_view verifier);

/// Returns a signed assertion of a client's identity (RFC 7523, 2.2). The algorithm follows from the key: ES256, ES384, RS256,
/// EdDSA. Throws Error(invalid_argument) for a key that cannot be used; the error does not contain it.
std::string client_assertion(const std::string& client_id, const std::string& audience,
                             const std::string& private_key_pem,
                             std::chrono::system_clock::time_point now);

/// The secrets that a server is sent, which it may repeat in what becomes an error, a record of the log or a text for a model (D58).
class McpSecrets {
public:
    /// Adds the value of a header, a variable or a parameter of a URL, if its name or the value itself tells that it is a secret.
    void add(std::string_view name, std::string_view value);
    /// Adds the parameters of a URL, and its password.
    void add_parameters(std::string_view url);
    /// Adds a key that expires. Only the latest ones are remembered.
    void add_latest(std::string_view value);
    /// Returns the beginning of a text, at most 64 KiB, with "***" in place of the secrets.
    std::string without(std::string text) const;
    /// Returns the end of a text that continues, without the secrets: 1,024 bytes, and what a secret needs that is not complete.
    std::string end_without(std::string text) const;

private:
    void add_password(std::string_view url);
    std::vector<std::string_view> longest_first() const;

    std::vector<std::string> values_;
    std::deque<std::string> latest_;
};

}  // namespace cubepi::detail
