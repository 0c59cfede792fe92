// Keys and addresses from different places: a key goes to the origin that it was configured for.
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/provider/error_classification.hpp>

#include "attack.hpp"
#include "config/model_sources.hpp"

namespace cubepi::attack {

namespace {

using app::Endpoint;
using app::ModelSources;

constexpr const char* other = "https://other.example/v1";

struct Source {
    const char* name;
    std::function<void(ModelSources&)> set;
};

/// Each configures a key of the provider openai.
std::vector<Source> keys() {
    return {
        {"OPENAI_API_KEY", [](ModelSources& s) { s.environment["OPENAI_API_KEY"] = "k"; }},
        {"api_key of the file", [](ModelSources& s) { s.config.api_key = "k"; }},
        {"api_key_env of the file",
         [](ModelSources& s) {
             s.config.api_key_env = "COMPANY";
             s.environment["COMPANY"] = "k";
         }},
        {"Bub's settings",
         [](ModelSources& s) {
             s.bub.api_keys["openai"] = "k";
             s.bub.origins["api_keys.openai"] = "BUB_OPENAI_API_KEY";
         }},
    };
}

/// Each configures another address, in ascending order of precedence.
std::vector<Source> addresses() {
    return {
        {"Bub's settings",
         [](ModelSources& s) {
             s.bub.api_bases["openai"] = other;
             s.bub.origins["api_bases.openai"] = "BUB_OPENAI_API_BASE";
         }},
        {"base_url of the file", [](ModelSources& s) { s.config.base_url = other; }},
        {"OPENAI_BASE_URL", [](ModelSources& s) { s.environment["OPENAI_BASE_URL"] = other; }},
        {"--base-url", [](ModelSources& s) { s.flags.base_url = other; }},
    };
}

/// Whether the key and the address are configured in the same place.
bool belong_together(const std::string& key, const std::string& address) {
    return (key == "OPENAI_API_KEY" && address == "OPENAI_BASE_URL") ||
           (key.ends_with("of the file") && address.ends_with("of the file")) || key == address;
}

}  // namespace

TEST(KeyAttack, SendsAKeyOnlyToItsConfiguredOrigin) {
    Row row("keys", "a key and an address from different places");
    for (const Source& key : keys()) {
        for (const Source& address : addresses()) {
            ModelSources sources;
            sources.config.provider = "openai";
            key.set(sources);
            address.set(sources);
            const Endpoint endpoint = choose_endpoint(sources);
            const std::string what = std::string(key.name) + " with " + address.name;
            EXPECT_EQ(endpoint.base_url, other) << what;
            if (belong_together(key.name, address.name)) {
                EXPECT_EQ(endpoint.api_key, "k") << what;
            } else {
                row.attempt(endpoint.api_key.empty(), what);
                EXPECT_FALSE(endpoint.key_note().empty()) << what;
            }
        }
    }
}

TEST(KeyAttack, AnOriginIsSchemeHostAndPort) {
    Row row("keys", "an address that looks like the provider's");
    for (const char* address :
         {"http://api.openai.com/v1", "https://api.openai.com:444/v1",
          "https://api.openai.com.evil.example/v1", "https://evil.example/api.openai.com/v1",
          "https://api.openai.com@evil.example/v1", "https://api.openai.comm/v1",
          "https://api.openai.com%2eevil.example/v1", "http://localhost:11434/v1",
          "ftp://api.openai.com/v1", "api.openai.com/v1",
          "https://api.openai.com\\@evil.example/v1"}) {
        ModelSources sources;
        sources.environment["OPENAI_API_KEY"] = "k";
        sources.flags.base_url = address;
        const Endpoint endpoint = choose_endpoint(sources);
        row.attempt(endpoint.api_key.empty(), address);
    }
    for (const char* address : {"https://api.openai.com", "https://API.OpenAI.com:443/v2"}) {
        ModelSources sources;
        sources.environment["OPENAI_API_KEY"] = "k";
        sources.flags.base_url = address;
        EXPECT_EQ(choose_endpoint(sources).api_key, "k") << address;
    }
}

TEST(KeyAttack, DoesNotUseAKeyOfAnotherProvider) {
    Row row("keys", "a key of one provider at the address of another");
    for (const app::KnownProvider& has_key : app::known_providers()) {
        if (has_key.key_variable.empty()) continue;
        for (const app::KnownProvider& wanted : app::known_providers()) {
            if (app::same_service(has_key.name, wanted.name)) continue;
            ModelSources sources;
            sources.environment[std::string(has_key.key_variable)] = "k";
            sources.flags.provider = wanted.name;
            row.attempt(choose_endpoint(sources).api_key.empty(),
                        std::string(has_key.name) + " at " + std::string(wanted.name));
        }
    }
}

TEST(KeyAttack, WarnsAboutAKeyWithoutEncryption) {
    Row row("keys", "a key sent in clear without a note");
    for (const char* address :
         {"http://box:8000/v1", "http://192.168.1.2/v1", "http://10.0.0.1:1/v1",
          "http://127.evil.example/v1", "http://localhost.evil.example/v1"}) {
        ModelSources sources;
        sources.environment["COMPANY"] = "k";
        sources.flags.api_key_env = "COMPANY";
        sources.flags.base_url = address;
        const Endpoint endpoint = choose_endpoint(sources);
        EXPECT_EQ(endpoint.api_key, "k") << address;
        row.attempt(endpoint.key_note().find("in plain text") != std::string::npos, address);
    }
    for (const char* address :
         {"http://localhost:1/v1", "http://127.0.0.1:1/v1", "http://[::1]:1/v1"})
        EXPECT_FALSE(app::is_sent_in_clear(address)) << address;
}

namespace {

/// The key with each character plain or escaped in one of the ways that occur in answers.
std::string disguised(const std::string& key, std::mt19937_64& random) {
    constexpr const char* digits = "0123456789abcdef";
    std::string text;
    for (const char c : key) {
        const auto byte = static_cast<unsigned char>(c);
        const std::string hex = {digits[byte / 16U], digits[byte % 16U]};
        switch (random() % 5) {
            case 0: text += "\\u00" + hex; break;
            case 1: text += "%" + hex; break;
            case 2: text += "%25" + hex; break;
            case 3: text += c == '/' ? std::string("\\/") : std::string(1, c); break;
            default: text += c;
        }
    }
    return text;
}

}  // namespace

TEST(KeyAttack, RedactsAnEscapedKeyInAnErrorText) {
    Row row("keys", "a key that an endpoint repeats in escaped form");
    std::mt19937_64 random = generator("escaped keys");
    const std::string key = "sk-proj/AbC+dE=9_x";
    for (std::size_t i = 0; i < rounds(500); ++i) {
        const std::string text = disguised(key, random);
        row.attempt(without_secret("no: " + text + "!", key) == "no: ***!", text);
    }
}

}  // namespace cubepi::attack
