#include <cubepi/mcp/auth/access_token.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <openssl/hmac.h>

#include <cubepi/mcp/auth/signed_token_test.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi {
namespace {

using detail::AccessToken;
using detail::AccessTokenRules;
using detail::TokenKeys;
using mcp_test::key_set;
using mcp_test::SigningKey;
using State = AccessToken::State;

constexpr std::int64_t now_seconds = 1'800'000'000;

/// A token of the issuer "https://auth.example" for the server "https://mcp.example/mcp", and what is tried with it.
struct AccessTokenTest : ::testing::Test {
    AccessTokenTest() {
        rules.issuer = "https://auth.example";
        rules.audience = "https://mcp.example/mcp";
        claims["iss"] = rules.issuer;
        claims["aud"] = rules.audience;
        claims["sub"] = "ann";
        claims["exp"] = now_seconds + 600;
        header["kid"] = "k1";
    }

    TokenKeys keys() const { return TokenKeys(key_set({key.jwk("k1")})); }
    AccessToken check(const std::string& token, const TokenKeys& with) const {
        return detail::check_access_token(
            token, with, rules,
            std::chrono::system_clock::time_point(std::chrono::seconds(now_seconds)));
    }
    AccessToken check(const std::string& token) const { return check(token, keys()); }
    AccessToken check_claims() const { return check(key.token(claims, header)); }
    /// Returns why the claims are refused after a change of one.
    std::string problem_with(const std::string& name, const Json& value) const {
        JsonObject changed = claims;
        if (value.is_null()) {
            changed.erase(name);
        } else {
            changed[name] = value;
        }
        const AccessToken checked = check(key.token(changed, header));
        EXPECT_EQ(checked.state, State::invalid) << name;
        return checked.problem;
    }

    SigningKey key{"ES256"};
    AccessTokenRules rules;
    JsonObject claims;
    JsonObject header;
};

TEST_F(AccessTokenTest, D224_EachAlgorithm_IsVerified) {
    for (const char* const algorithm : {"RS256", "PS256", "ES256", "ES384", "EdDSA"}) {
        const SigningKey own(algorithm);
        const TokenKeys own_keys(key_set({own.jwk("k1")}));
        const AccessToken checked = check(own.token(claims, header), own_keys);
        EXPECT_EQ(checked.state, State::valid) << algorithm << ": " << checked.problem;
        EXPECT_EQ(checked.subject, "ann");
        const SigningKey other(algorithm);
        EXPECT_EQ(check(other.token(claims, header), own_keys).state, State::invalid) << algorithm;
    }
}

TEST_F(AccessTokenTest, D224_AlgorithmNone_IsRefused) {
    for (const char* const name : {"none", "None", "NONE", ""}) {
        header["alg"] = name;
        const std::string token = key.token(claims, header);
        EXPECT_EQ(check(token).state, State::invalid);
        const std::string unsigned_token = token.substr(0, token.rfind('.') + 1);
        EXPECT_EQ(check(unsigned_token).state, State::invalid);
    }
}

/// The text of a public key as the secret of a symmetric signature.
TEST_F(AccessTokenTest, D224_PublicKeyAsSecret_IsRefused) {
    const JsonObject jwk = key.jwk("k1");
    const std::string secret = json_text(Json(jwk));
    header["alg"] = "HS256";
    std::string token = key.token(claims, header);
    const std::string text = token.substr(0, token.rfind('.'));
    std::vector<unsigned char> code(32);
    unsigned int size = 32;
    HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
         reinterpret_cast<const unsigned char*>(text.data()), text.size(), code.data(), &size);
    token = text + "." + detail::base64_url(std::string(code.begin(), code.end()));
    EXPECT_EQ(check(token).state, State::invalid);
    const JsonObject symmetric{
        {"kty", "oct"}, {"kid", "k1"}, {"alg", "HS256"}, {"k", detail::base64_url(secret)}};
    EXPECT_TRUE(TokenKeys(key_set({symmetric})).empty());
}

TEST_F(AccessTokenTest, D224_AlgorithmOfAnotherKind_IsRefused) {
    for (const char* const name : {"RS256", "PS256", "ES384", "EdDSA", "HS256"}) {
        header["alg"] = name;
        EXPECT_EQ(check_claims().state, State::invalid) << name;
    }
    JsonObject jwk = key.jwk("k1");
    jwk["alg"] = "ES384";
    EXPECT_TRUE(TokenKeys(key_set({jwk})).empty());
    jwk["alg"] = "ES256";
    jwk["use"] = "enc";
    EXPECT_TRUE(TokenKeys(key_set({jwk})).empty());
}

/// A token may name a key of its own in its header.
TEST_F(AccessTokenTest, D224_KeyInTheToken_IsIgnored) {
    const SigningKey own("ES256");
    header["jwk"] = own.jwk("k1");
    header["jku"] = "https://evil.example/keys";
    EXPECT_EQ(check(own.token(claims, header)).state, State::invalid);
}

TEST_F(AccessTokenTest, D224_OtherClaims_AreRefused) {
    EXPECT_EQ(check_claims().state, State::valid);
    const std::string long_name(300, 'a');
    EXPECT_EQ(problem_with("iss", "https://auth.example/"), "the token is of another issuer");
    EXPECT_EQ(problem_with("iss", nullptr), "the token is of another issuer");
    EXPECT_EQ(problem_with("aud", "https://mcp.example/other"), "the token is for another server");
    EXPECT_EQ(problem_with("aud", JsonArray()), "the token is for another server");
    EXPECT_EQ(problem_with("aud", nullptr), "the token is for another server");
    EXPECT_EQ(problem_with("exp", now_seconds - 61), "the token has expired");
    EXPECT_EQ(problem_with("exp", nullptr), "the token has no end");
    EXPECT_EQ(problem_with("exp", "9999999999"), "the token has no end");
    EXPECT_EQ(problem_with("nbf", now_seconds + 61), "the token is not valid yet");
    EXPECT_EQ(problem_with("sub", nullptr), "the token names neither a user nor a client");
    EXPECT_EQ(problem_with("sub", Json(std::string_view(long_name))),
              "the token names neither a user nor a client");
}

TEST_F(AccessTokenTest, D224_SeveralAudiences_MayHaveThisOne) {
    JsonArray several;
    several.emplace_back("https://other.example");
    several.emplace_back(rules.audience);
    claims["aud"] = std::move(several);
    claims["exp"] = static_cast<double>(now_seconds) - 59.5;  // clocks differ
    claims.erase("sub");
    claims["client_id"] = "robot";
    EXPECT_EQ(check_claims().state, State::valid);
    EXPECT_EQ(check_claims().subject, "client robot");
}

TEST_F(AccessTokenTest, D224_Scopes_AreRequired) {
    rules.scopes = {"tools", "mcp:read"};
    EXPECT_EQ(check_claims().state, State::lacks_scope);
    claims["scope"] = "tools:all mcp:read";
    EXPECT_EQ(check_claims().state, State::lacks_scope);
    claims["scope"] = "mcp:read openid tools";
    EXPECT_EQ(check_claims().state, State::valid);
    claims.erase("scope");
    JsonArray list;
    list.emplace_back("tools");
    list.emplace_back("mcp:read");
    claims["scp"] = std::move(list);
    EXPECT_EQ(check_claims().state, State::valid);
}

TEST_F(AccessTokenTest, D224_OtherHeaders_AreRefused) {
    header["typ"] = "JWT";
    EXPECT_EQ(check_claims().state, State::valid);
    header["typ"] = "dpop+jwt";
    EXPECT_EQ(check_claims().state, State::invalid);
    header.erase("typ");
    header["crit"] = JsonArray();
    EXPECT_EQ(check_claims().state, State::invalid);
    header.erase("crit");
    header["kid"] = "k2";
    EXPECT_EQ(check_claims().state, State::unknown_key);
    header.erase("kid");
    EXPECT_EQ(check_claims().state, State::valid);
}

TEST_F(AccessTokenTest, D224_ChangedTokens_AreRefused) {
    const std::string token = key.token(claims, header);
    const TokenKeys known = keys();
    for (std::size_t i = 0; i < token.size(); ++i) {
        std::string changed = token;
        changed[i] = changed[i] == 'A' ? 'B' : 'A';
        // The last letter of a part has bits that mean nothing.
        const bool is_last = i + 1 == token.size() || token[i + 1] == '.';
        if (!is_last) {
            EXPECT_NE(check(changed, known).state, State::valid) << i;
        }
        EXPECT_NE(check(token.substr(0, i), known).state, State::valid) << i;
    }
    EXPECT_NE(check(token + "=", known).state, State::valid);
    EXPECT_NE(check(token + ".", known).state, State::valid);
    EXPECT_NE(check(token + std::string(20'000, 'A'), known).state, State::valid);
    EXPECT_NE(check("..", known).state, State::valid);
    EXPECT_NE(check(std::string(1, '\0'), known).state, State::valid);
}

/// The form in which OpenSSL writes a signature has a length of its own.
TEST_F(AccessTokenTest, D224_SignatureInAsn1_IsRefused) {
    const std::string token = key.token(claims, header);
    const std::string text = token.substr(0, token.rfind('.'));
    const std::string plain = key.plain_signature(text);
    EXPECT_EQ(check(text + "." + detail::base64_url(plain)).state, State::invalid);
    const std::string zeros(64, '\0');
    EXPECT_EQ(check(text + "." + detail::base64_url(zeros)).state, State::invalid);
}

TEST_F(AccessTokenTest, D224_HostileKeys_AreSkipped) {
    JsonObject off_curve = key.jwk("k1");
    off_curve["y"] = detail::base64_url(std::string(32, '\x01'));
    JsonObject short_point = key.jwk("k1");
    short_point["x"] = "AQ";
    const SigningKey short_rsa("RS256", 1024);
    const SigningKey rsa("RS256");
    JsonObject large_exponent = rsa.jwk("k1");
    large_exponent["e"] = detail::base64_url(std::string(256, '\xff'));
    JsonObject even_exponent = rsa.jwk("k1");
    even_exponent["e"] = "Ag";
    JsonObject huge = rsa.jwk("k1");
    huge["n"] = std::string(1'000'000, 'A');
    JsonObject no_key{{"kty", "OKP"}, {"crv", "Ed25519"}, {"x", "AQ"}};
    EXPECT_TRUE(TokenKeys(key_set({off_curve, short_point, short_rsa.jwk("k1"), large_exponent,
                                   even_exponent, huge, no_key}))
                    .empty());
    for (const char* const text :
         {"{}", R"({"keys": 1})", R"({"keys": [1, null, {}, {"kty": 3}]})"})
        EXPECT_TRUE(TokenKeys(parse_json(text).as_object()).empty()) << text;
}

}  // namespace
}  // namespace cubepi
