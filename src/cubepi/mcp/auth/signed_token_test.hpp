#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#include <cubepi/core/json.hpp>
#include <cubepi/mcp/auth/secrets.hpp>
#include <cubepi/schema/json_text.hpp>

// The keys of an authorization server and the tokens that it signs, for tests.

namespace cubepi::mcp_test {

/// A key pair of one algorithm.
class SigningKey {
public:
    /// `algorithm`: RS256, PS256, ES256, ES384 or EdDSA.
    explicit SigningKey(std::string algorithm, int rsa_bits = 2048)
        : algorithm_(std::move(algorithm)) {
        EVP_PKEY* made = nullptr;
        if (algorithm_ == "ES256") made = EVP_EC_gen("P-256");
        if (algorithm_ == "ES384") made = EVP_EC_gen("P-384");
        if (algorithm_ == "EdDSA") made = EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
        if (!made) made = EVP_RSA_gen(static_cast<unsigned>(rsa_bits));
        key_.reset(made);
    }

    /// Returns the public key as a member of a JWK set.
    JsonObject jwk(const std::string& id) const {
        JsonObject jwk;
        jwk["kid"] = id;
        jwk["use"] = "sig";
        if (algorithm_ == "EdDSA") {
            std::array<unsigned char, 32> bytes = {};
            std::size_t size = bytes.size();
            EVP_PKEY_get_raw_public_key(key_.get(), bytes.data(), &size);
            jwk["kty"] = "OKP";
            jwk["crv"] = "Ed25519";
            jwk["x"] = detail::base64_url(std::string(bytes.begin(), bytes.end()));
        } else if (curve_bytes() > 0) {
            jwk["kty"] = "EC";
            jwk["crv"] = curve_bytes() == 32 ? "P-256" : "P-384";
            jwk["x"] = number(OSSL_PKEY_PARAM_EC_PUB_X, curve_bytes());
            jwk["y"] = number(OSSL_PKEY_PARAM_EC_PUB_Y, curve_bytes());
        } else {
            jwk["kty"] = "RSA";
            jwk["n"] = number(OSSL_PKEY_PARAM_RSA_N, 0);
            jwk["e"] = number(OSSL_PKEY_PARAM_RSA_E, 0);
        }
        return jwk;
    }

    /// Returns a token. `header` adds to `alg` and `typ`, and replaces them.
    std::string token(const JsonObject& claims, const JsonObject& header = {}) const {
        JsonObject whole{{"alg", algorithm_}, {"typ", "at+jwt"}};
        for (const auto& member : header) whole[member.key()] = member.value();
        const std::string text = detail::base64_url(json_text(Json(whole))) + "." +
                                 detail::base64_url(json_text(Json(claims)));
        return text + "." + detail::base64_url(signature(text));
    }

    /// Returns the signature as a token has it.
    std::string signature(const std::string& text) const {
        const std::string plain = plain_signature(text);
        if (curve_bytes() == 0) return plain;
        const auto* at = reinterpret_cast<const unsigned char*>(plain.data());
        ECDSA_SIG* const both = d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(plain.size()));
        std::vector<unsigned char> joined(2 * curve_bytes());
        const int size = static_cast<int>(curve_bytes());
        BN_bn2binpad(ECDSA_SIG_get0_r(both), joined.data(), size);
        BN_bn2binpad(ECDSA_SIG_get0_s(both), joined.data() + curve_bytes(), size);
        ECDSA_SIG_free(both);
        return {joined.begin(), joined.end()};
    }

    /// Returns the signature as OpenSSL has it.
    std::string plain_signature(const std::string& text) const {
        const EVP_MD* digest = algorithm_ == "EdDSA" ? nullptr : EVP_sha256();
        if (algorithm_ == "ES384") digest = EVP_sha384();
        EVP_MD_CTX* const context = EVP_MD_CTX_new();
        EVP_PKEY_CTX* settings = nullptr;
        EVP_DigestSignInit(context, &settings, digest, nullptr, key_.get());
        if (algorithm_ == "PS256") {
            EVP_PKEY_CTX_set_rsa_padding(settings, RSA_PKCS1_PSS_PADDING);
            EVP_PKEY_CTX_set_rsa_pss_saltlen(settings, RSA_PSS_SALTLEN_DIGEST);
        }
        const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
        std::size_t size = 0;
        EVP_DigestSign(context, nullptr, &size, bytes, text.size());
        std::vector<unsigned char> made(size);
        EVP_DigestSign(context, made.data(), &size, bytes, text.size());
        EVP_MD_CTX_free(context);
        return {made.begin(), made.begin() + static_cast<std::ptrdiff_t>(size)};
    }

private:
    struct Free {
        void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    };

    std::size_t curve_bytes() const {
        if (algorithm_ == "ES256") return 32;
        return algorithm_ == "ES384" ? 48 : 0;
    }
    std::string number(const char* name, std::size_t size) const {
        BIGNUM* value = nullptr;
        EVP_PKEY_get_bn_param(key_.get(), name, &value);
        if (size == 0) size = static_cast<std::size_t>(BN_num_bytes(value));
        std::vector<unsigned char> bytes(size);
        BN_bn2binpad(value, bytes.data(), static_cast<int>(size));
        BN_free(value);
        return detail::base64_url(std::string(bytes.begin(), bytes.end()));
    }

    std::string algorithm_;
    std::unique_ptr<EVP_PKEY, Free> key_;
};

inline JsonObject key_set(std::vector<JsonObject> keys) {
    JsonArray all;
    for (JsonObject& key : keys) all.push_back(std::move(key));
    JsonObject set;
    set["keys"] = std::move(all);
    return set;
}

}  // namespace cubepi::mcp_test
