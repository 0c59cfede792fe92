#include <cubepi/mcp/auth/access_token.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/provider/wire/encoding.hpp>

namespace cubepi::detail {

namespace {

constexpr std::size_t max_token_bytes = std::size_t{16} << 10U;
constexpr std::size_t max_keys = 100;
constexpr std::size_t max_key_text = 4096;  // a number of an RSA key with 16384 bits is shorter
constexpr std::size_t max_audiences = 100;
constexpr int least_rsa_bits = 2048;
constexpr int most_rsa_bits = 16384;
constexpr double clock_skew_seconds = 60;
// Longer ones are not names of users.
constexpr std::size_t max_subject_bytes = 255;

struct Free {
    void operator()(BIGNUM* number) const { BN_free(number); }
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
    void operator()(ECDSA_SIG* signature) const { ECDSA_SIG_free(signature); }
    void operator()(OSSL_PARAM_BLD* builder) const { OSSL_PARAM_BLD_free(builder); }
    void operator()(OSSL_PARAM* parameters) const { OSSL_PARAM_free(parameters); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

const unsigned char* bytes_of(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
}

/// Decodes base64url without padding (RFC 4648, 5); nothing for any other text.
std::optional<std::string> decoded(std::string_view text) {
    constexpr std::string_view letters =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    if (text.find_first_not_of(letters) != std::string_view::npos || text.size() % 4 == 1)
        return std::nullopt;
    std::string standard(text);
    std::ranges::replace(standard, '-', '+');
    std::ranges::replace(standard, '_', '/');
    standard.append((4 - standard.size() % 4) % 4, '=');
    try {
        return from_base64(standard);
    } catch (const Error&) {
        return std::nullopt;
    }
}

std::optional<JsonObject> decoded_object(std::string_view text) {
    const std::optional<std::string> json = decoded(text);
    if (!json) return std::nullopt;
    boost::system::error_code failed;
    Json value = boost::json::parse(*json, failed);
    if (failed || !value.is_object()) return std::nullopt;
    return std::move(value.as_object());
}

/// Returns the bytes of a member of a key; empty if they are missing or too long.
std::string key_bytes(const JsonObject& key, std::string_view name) {
    const std::string_view text = string_member(key, name);
    if (text.size() > max_key_text) return {};
    return decoded(text).value_or(std::string());
}

Owned<EVP_PKEY> made_key(const char* type, OSSL_PARAM_BLD* builder) {
    const Owned<OSSL_PARAM> parameters(OSSL_PARAM_BLD_to_param(builder));
    const Owned<EVP_PKEY_CTX> context(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
    EVP_PKEY* key = nullptr;
    if (!parameters || !context || EVP_PKEY_fromdata_init(context.get()) != 1 ||
        EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, parameters.get()) != 1) {
        return nullptr;
    }
    return Owned<EVP_PKEY>(key);
}

Owned<EVP_PKEY> rsa_key(const JsonObject& key) {
    const std::string modulus = key_bytes(key, "n");
    const std::string exponent = key_bytes(key, "e");
    const Owned<BIGNUM> n(BN_bin2bn(bytes_of(modulus), static_cast<int>(modulus.size()), nullptr));
    const Owned<BIGNUM> e(
        BN_bin2bn(bytes_of(exponent), static_cast<int>(exponent.size()), nullptr));
    const Owned<OSSL_PARAM_BLD> builder(OSSL_PARAM_BLD_new());
    // A large exponent would make each verification expensive.
    if (!n || !e || !builder || exponent.size() > 4 || BN_num_bits(n.get()) < least_rsa_bits ||
        BN_num_bits(n.get()) > most_rsa_bits || BN_is_odd(e.get()) == 0 ||
        BN_is_one(e.get()) != 0 ||
        OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, n.get()) != 1 ||
        OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, e.get()) != 1) {
        return nullptr;
    }
    return made_key("RSA", builder.get());
}

Owned<EVP_PKEY> curve_key(const JsonObject& key, const char* group, std::size_t size) {
    const std::string x = key_bytes(key, "x");
    const std::string y = key_bytes(key, "y");
    const std::string point = "\x04" + x + y;
    const Owned<OSSL_PARAM_BLD> builder(OSSL_PARAM_BLD_new());
    if (!builder || x.size() != size || y.size() != size ||
        OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, group, 0) != 1 ||
        OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(),
                                         point.size()) != 1) {
        return nullptr;
    }
    return made_key("EC", builder.get());
}

/// Converts an ECDSA signature from both numbers at their full length (RFC 7518, 3.4) to ASN.1; empty if it is not one.
std::string asn1_signature(std::string_view joined, std::size_t size) {
    if (joined.size() != 2 * size) return {};
    const int count = static_cast<int>(size);
    Owned<BIGNUM> r(BN_bin2bn(bytes_of(joined), count, nullptr));
    Owned<BIGNUM> s(BN_bin2bn(bytes_of(joined) + size, count, nullptr));
    const Owned<ECDSA_SIG> signature(ECDSA_SIG_new());
    if (!r || !s || !signature || ECDSA_SIG_set0(signature.get(), r.get(), s.get()) != 1) return {};
    // The signature owns them now.
    (void)r.release();
    (void)s.release();
    unsigned char* made = nullptr;
    const int length = i2d_ECDSA_SIG(signature.get(), &made);
    if (length <= 0) return {};
    std::string text(made, made + length);
    OPENSSL_free(made);
    return text;
}

}  // namespace

struct TokenKeys::Key {
    std::string id = {};
    /// Those of its kind, or the one that it names. An algorithm belongs to the key and not to the token that uses it.
    std::vector<std::string> algorithms = {};
    Owned<EVP_PKEY> key = {};
    std::size_t coordinate_bytes = 0;  // of a signature; 0: not of a curve

    bool verifies(std::string_view algorithm, std::string_view text,
                  std::string_view signature) const;
};

bool TokenKeys::Key::verifies(std::string_view algorithm, std::string_view text,
                              std::string_view signature) const {
    if (std::ranges::find(algorithms, algorithm) == algorithms.end()) return false;
    const EVP_MD* digest = EVP_sha256();
    if (algorithm == "ES384") digest = EVP_sha384();
    if (algorithm == "EdDSA") digest = nullptr;
    std::string converted;
    if (coordinate_bytes > 0) {
        converted = asn1_signature(signature, coordinate_bytes);
        signature = converted;
    }
    const Owned<EVP_MD_CTX> context(EVP_MD_CTX_new());
    EVP_PKEY_CTX* settings = nullptr;
    if (signature.empty() || !context ||
        EVP_DigestVerifyInit(context.get(), &settings, digest, nullptr, key.get()) != 1) {
        return false;
    }
    if (algorithm == "PS256" &&
        (EVP_PKEY_CTX_set_rsa_padding(settings, RSA_PKCS1_PSS_PADDING) != 1 ||
         EVP_PKEY_CTX_set_rsa_pss_saltlen(settings, RSA_PSS_SALTLEN_DIGEST) != 1)) {
        return false;
    }
    return EVP_DigestVerify(context.get(), bytes_of(signature), signature.size(), bytes_of(text),
                            text.size()) == 1;
}

TokenKeys::TokenKeys() = default;
TokenKeys::~TokenKeys() = default;
TokenKeys::TokenKeys(TokenKeys&&) noexcept = default;
TokenKeys& TokenKeys::operator=(TokenKeys&&) noexcept = default;

TokenKeys::TokenKeys(const JsonObject& set) {
    const JsonArray* const all = array_member(set, "keys");
    if (!all) return;
    for (const Json& one : *all) {
        if (keys_.size() == max_keys) break;
        const JsonObject* const described = one.if_object();
        if (!described) continue;
        const std::string_view use = string_member(*described, "use");
        if (!use.empty() && use != "sig") continue;
        auto key = std::make_unique<Key>();
        key->id = text_member(*described, "kid");
        const std::string_view kind = string_member(*described, "kty");
        const std::string_view curve = string_member(*described, "crv");
        if (kind == "RSA") {
            key->algorithms = {"RS256", "PS256"};
            key->key = rsa_key(*described);
        } else if (kind == "EC" && curve == "P-256") {
            key->algorithms = {"ES256"};
            key->coordinate_bytes = 32;
            key->key = curve_key(*described, "P-256", key->coordinate_bytes);
        } else if (kind == "EC" && curve == "P-384") {
            key->algorithms = {"ES384"};
            key->coordinate_bytes = 48;
            key->key = curve_key(*described, "P-384", key->coordinate_bytes);
        } else if (kind == "OKP" && curve == "Ed25519") {
            key->algorithms = {"EdDSA"};
            const std::string bytes = key_bytes(*described, "x");
            key->key.reset(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, bytes_of(bytes),
                                                       bytes.size()));
        }
        const std::string_view only = string_member(*described, "alg");
        if (!only.empty())
            std::erase_if(key->algorithms,
                          [only](const std::string& name) { return name != only; });
        if (key->key && !key->algorithms.empty()) keys_.push_back(std::move(key));
    }
}

bool TokenKeys::has(std::string_view id) const {
    return std::ranges::any_of(keys_,
                               [id](const auto& key) { return id.empty() || key->id == id; });
}

bool TokenKeys::verify(std::string_view id, std::string_view algorithm, std::string_view text,
                       std::string_view signature) const {
    return std::ranges::any_of(keys_, [&](const auto& key) {
        return (id.empty() || key->id == id) && key->verifies(algorithm, text, signature);
    });
}

namespace {

AccessToken refused(std::string problem) {
    AccessToken token;
    token.problem = std::move(problem);
    return token;
}

bool has_audience(const JsonObject& claims, std::string_view audience) {
    const Json* const stated = claims.if_contains("aud");
    if (!stated) return false;
    if (stated->is_string()) return std::string_view(stated->get_string()) == audience;
    const JsonArray* const several = stated->if_array();
    if (!several || several->size() > max_audiences) return false;
    return std::ranges::any_of(*several, [audience](const Json& one) {
        return one.is_string() && std::string_view(one.get_string()) == audience;
    });
}

/// Returns the seconds of a time, which may have a fraction; nothing if there is none or it is not a number.
std::optional<double> seconds_of(const JsonObject& claims, std::string_view name) {
    const Json* const value = claims.if_contains(name);
    if (!value || !value->is_number()) return std::nullopt;
    const double seconds = value->to_number<double>();
    return std::isfinite(seconds) ? std::optional(seconds) : std::nullopt;
}

/// Returns the scopes of a token: a text (RFC 9068), or the list that some servers write.
std::vector<std::string> scopes_of(const JsonObject& claims) {
    std::vector<std::string> scopes;
    const auto add = [&scopes](std::string_view text) {
        while (!text.empty()) {
            const std::size_t end = std::min(text.find(' '), text.size());
            if (end > 0) scopes.emplace_back(text.substr(0, end));
            text.remove_prefix(std::min(end + 1, text.size()));
        }
    };
    for (const char* const name : {"scope", "scp"}) {
        add(string_member(claims, name));
        const JsonArray* const list = array_member(claims, name);
        if (!list) continue;
        for (const Json& one : *list)
            if (one.is_string()) scopes.emplace_back(one.get_string());
    }
    return scopes;
}

/// Returns why the claims do not allow the use of a token; empty if they do.
std::string claims_problem(const JsonObject& claims, const AccessTokenRules& rules, double now) {
    if (string_member(claims, "iss") != rules.issuer) return "the token is of another issuer";
    if (!has_audience(claims, rules.audience)) return "the token is for another server";
    const std::optional<double> end = seconds_of(claims, "exp");
    if (!end) return "the token has no end";
    if (now >= *end + clock_skew_seconds) return "the token has expired";
    if (claims.contains("nbf")) {
        const std::optional<double> begin = seconds_of(claims, "nbf");
        if (!begin || now + clock_skew_seconds < *begin) return "the token is not valid yet";
    }
    return {};
}

}  // namespace

AccessToken check_access_token(std::string_view token, const TokenKeys& keys,
                               const AccessTokenRules& rules,
                               std::chrono::system_clock::time_point now) {
    if (token.size() > max_token_bytes) return refused("the token is too long");
    const std::size_t first = token.find('.');
    const std::size_t last = token.rfind('.');
    if (first == std::string_view::npos || first == last || token.find('.', first + 1) != last) {
        return refused("the token is not a JSON Web Token");
    }
    const std::optional<JsonObject> header = decoded_object(token.substr(0, first));
    const std::optional<std::string> signature = decoded(token.substr(last + 1));
    if (!header || !signature) return refused("the token is not a JSON Web Token");
    const std::string type = lower_case(string_member(*header, "typ"));
    if (!type.empty() && type != "at+jwt" && type != "application/at+jwt" && type != "jwt")
        return refused("the token is not an access token");
    // Extensions that must be understood.
    if (header->contains("crit")) return refused("the token has unknown extensions");
    const std::string_view algorithm = string_member(*header, "alg");
    const std::string_view key = string_member(*header, "kid");
    if (!keys.has(key)) {
        AccessToken unknown = refused("the key of the token is unknown");
        unknown.state = AccessToken::State::unknown_key;
        return unknown;
    }
    if (!keys.verify(key, algorithm, token.substr(0, last), *signature)) {
        AccessToken invalid = refused("the signature of the token is invalid");
        // A key without a name may have been replaced.
        if (key.empty()) invalid.state = AccessToken::State::unknown_key;
        return invalid;
    }
    const std::optional<JsonObject> claims =
        decoded_object(token.substr(first + 1, last - first - 1));
    if (!claims) return refused("the token has no claims");
    const double seconds = std::chrono::duration<double>(now.time_since_epoch()).count();
    if (std::string problem = claims_problem(*claims, rules, seconds); !problem.empty())
        return refused(std::move(problem));
    AccessToken checked;
    checked.subject = text_member(*claims, "sub");
    if (const std::string client = text_member(*claims, "client_id");
        checked.subject.empty() && !client.empty())
        checked.subject = "client " + client;  // not the name of a user
    if (checked.subject.empty() || checked.subject.size() > max_subject_bytes)
        return refused("the token names neither a user nor a client");
    const std::vector<std::string> scopes = scopes_of(*claims);
    const bool is_allowed = std::ranges::all_of(rules.scopes, [&](const std::string& scope) {
        return std::ranges::find(scopes, scope) != scopes.end();
    });
    checked.state = is_allowed ? AccessToken::State::valid : AccessToken::State::lacks_scope;
    return checked;
}

}  // namespace cubepi::detail
