#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>

namespace cubepi::detail {

/// The public keys with which an authorization server's tokens are verified.
class TokenKeys {
public:
    TokenKeys();
    /// Reads a JWK set (RFC 7517). Keys are skipped that do not verify signatures: symmetric ones, private ones, those for encryption, short
    /// ones, and those of other algorithms than RS256, PS256, ES256, ES384 and EdDSA (Ed25519).
    explicit TokenKeys(const JsonObject& set);
    ~TokenKeys();
    TokenKeys(TokenKeys&&) noexcept;
    TokenKeys& operator=(TokenKeys&&) noexcept;

    bool empty() const noexcept { return keys_.empty(); }
    /// Returns true if there is a key with this id; for an empty id, if there is any key.
    bool has(std::string_view id) const;
    /// Returns true if a key with this id (empty: any key) verifies the signature by the algorithm, which must be one for keys of its kind.
    bool verify(std::string_view id, std::string_view algorithm, std::string_view text,
                std::string_view signature) const;

private:
    struct Key;
    std::vector<std::unique_ptr<Key>> keys_;
};

/// The requirements of a server for the tokens of its clients.
struct AccessTokenRules {
    std::string issuer = {};
    std::string audience = {};
    std::vector<std::string> scopes = {};  ///< that every token must have
};

/// An access token after its check.
struct AccessToken {
    enum class State : std::uint8_t {
        valid,
        invalid,
        unknown_key,  ///< the keys do not have the one that it names
        lacks_scope,
    };
    State state = State::invalid;
    std::string problem = {};  ///< of an invalid one, for its client; without parts of the token
    std::string subject = {};  ///< of a valid one: its user, or its client if it has no user
};

/// Checks a JSON Web Token as RFC 9068 and RFC 8725 require: the signature by one of the keys, the issuer, the audience, the times and the
/// scopes. Thread-safe.
AccessToken check_access_token(std::string_view token, const TokenKeys& keys,
                               const AccessTokenRules& rules,
                               std::chrono::system_clock::time_point now);

}  // namespace cubepi::detail
