#include <cubepi/mcp/authorizer.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/mcp/auth/secrets.hpp>

namespace cubepi {
namespace {

using detail::read_mcp_challenge;

McpChallenge challenge_of(const std::string& value) {
    HttpHeaders headers;
    headers.add("WWW-Authenticate", value);
    return read_mcp_challenge(401, headers);
}

TEST(McpChallengeTest, Parameters_AreRead) {
    const McpChallenge challenge = challenge_of(
        R"(Basic YWJj=, BEARER realm="a, b=\"c\"", scope = "x y" ,error=invalid_token, resource_metadata="https://h/m")");
    EXPECT_EQ(challenge.scope, "x y");
    EXPECT_EQ(challenge.error, "invalid_token");
    EXPECT_EQ(challenge.resource_metadata, "https://h/m");
}

TEST(McpChallengeTest, OtherSchemes_AreLeftOut) {
    EXPECT_EQ(challenge_of(R"(Digest scope="x")").scope, "");
    EXPECT_EQ(challenge_of(R"(Bearer scope="x", DPoP scope="y")").scope, "x");
    EXPECT_EQ(challenge_of("Bearer").scope, "");
    EXPECT_EQ(challenge_of("").scope, "");
}

TEST(McpChallengeTest, BrokenValues_AreRead) {
    for (const char* value : {"Bearer scope=\"x", "Bearer scope=", "Bearer =,=", "\"\\",
                              "Bearer \xff\x01 scope=x", "Bearer scope=\"\\"}) {
        (void)challenge_of(value);
    }
    EXPECT_EQ(challenge_of("Bearer scope=\"x").scope, "x");
    EXPECT_EQ(challenge_of("Bearer scope=\"" + std::string(20'000, 'x') + "\"").scope, "");
}

TEST(McpSecrets, PkceChallenge_AgreesWithTheStandard) {
    EXPECT_EQ(detail::pkce_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
              "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    EXPECT_EQ(detail::random_secret().size(), 43U);
    EXPECT_NE(detail::random_secret(), detail::random_secret());
}

TEST(McpSecrets, D58_LongestSecret_IsReplacedFirst) {
    detail::McpSecrets secrets;
    secrets.add("API_KEY", "abcdef");
    secrets.add("OTHER_KEY", "abcdef-longer");
    secrets.add("DATABASE", "db://me:pass%2Fword@host/x");
    secrets.add_parameters("https://host/?key=a%20b%20c-d");
    EXPECT_EQ(secrets.without("abcdef-longer abcdef"), "*** ***");
    EXPECT_EQ(secrets.without("pass%2Fword, pass/word, a b c-d"), "***, ***, ***");
}

TEST(McpSecrets, D58_LatestKeys_AreThoseUsedLast) {
    detail::McpSecrets secrets;
    secrets.add_latest("first-key");
    secrets.add_latest("second-key");
    for (int i = 0; i < 63; ++i) {
        secrets.add_latest("key-number-" + std::to_string(i));
        secrets.add_latest("first-key");
    }
    EXPECT_EQ(secrets.without("first-key, second-key"), "***, second-key");
}

TEST(McpSecrets, D58_LargeText_IsCutWithoutPartsOfSecrets) {
    detail::McpSecrets secrets;
    const std::string token(16 << 10, 't');
    secrets.add_latest(token + "oken");
    std::string text;
    while (text.size() < (16U << 20U)) text += token + "oken ";
    EXPECT_EQ(secrets.without(text).find("tttt"), std::string::npos);
    EXPECT_LE(secrets.without(std::string(16 << 20, '\\')).size(), 64U << 10U);
    EXPECT_EQ(secrets.without(std::string(16 << 20, 't')), "");
}

TEST(McpSecrets, D58_SecretInTwoPieces_IsNotInEnd) {
    detail::McpSecrets secrets;
    std::string token;
    while (token.size() < 3000) token += std::to_string(1000 + token.size());
    secrets.add("TOKEN", token);
    std::string end = secrets.end_without("the token " + token.substr(0, 2999));
    end = secrets.end_without(end + token.substr(2999) + " is invalid");
    EXPECT_EQ(end, "the token *** is invalid");
    end = secrets.end_without(end + std::string(9000, 'x'));
    EXPECT_EQ(end, std::string(token.size() + 1024, 'x'));
}

std::string new_key(const char* type, const char* group) {
    const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(
        group ? EVP_PKEY_Q_keygen(nullptr, nullptr, type, group)
              : EVP_PKEY_Q_keygen(nullptr, nullptr, type),
        EVP_PKEY_free);
    const std::unique_ptr<BIO, int (*)(BIO*)> bio(BIO_new(BIO_s_mem()), BIO_free);
    PEM_write_bio_PrivateKey(bio.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    char* text = nullptr;
    const long size = BIO_get_mem_data(bio.get(), &text);
    return {text, static_cast<std::size_t>(size)};
}

std::vector<std::string> parts_of(const std::string& token) {
    std::vector<std::string> parts(1);
    for (const char c : token) {
        if (c == '.') {
            parts.emplace_back();
        } else {
            parts.back() += c;
        }
    }
    return parts;
}

TEST(McpSecrets, Assertion_HasTheAlgorithmOfItsKey) {
    const auto now = std::chrono::system_clock::time_point(std::chrono::seconds(1000));
    const auto assertion = [&](const std::string& key) {
        return parts_of(detail::client_assertion("me", "https://auth.example", key, now));
    };
    const std::vector<std::string> p256 = assertion(new_key("EC", "P-256"));
    ASSERT_EQ(p256.size(), 3U);
    EXPECT_EQ(p256.at(0), detail::base64_url(R"({"alg":"ES256","typ":"JWT"})"));
    EXPECT_EQ(p256.at(2).size(), 86U);  // two numbers of 32 bytes
    const std::vector<std::string> p384 = assertion(new_key("EC", "P-384"));
    EXPECT_EQ(p384.at(2).size(), 128U);
    const std::vector<std::string> edwards = assertion(new_key("ED25519", nullptr));
    EXPECT_EQ(edwards.at(0), detail::base64_url(R"({"alg":"EdDSA","typ":"JWT"})"));
}

TEST(McpSecrets, UnusableKeys_AreRefusedWithoutTheirText) {
    for (const std::string& key : {std::string("secret"), new_key("EC", "P-521"), std::string()}) {
        try {
            (void)detail::client_assertion("me", "you", key, {});
            ADD_FAILURE();
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
            EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos);
        }
    }
}

}  // namespace
}  // namespace cubepi
