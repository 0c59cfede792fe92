#include <cubepi/mcp/auth/secrets.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/support/base64.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/support/percent_decoded.hpp>
#include <cubepi/process/environment.hpp>
#include <cubepi/provider/error_classification.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::detail {

namespace {

constexpr auto assertion_lifetime = std::chrono::minutes(5);
/// Errors are shown much shorter.
constexpr std::size_t max_cleaned_bytes = std::size_t{64} << 10U;

std::string replaced(std::string text, const std::vector<std::string_view>& secrets) {
    for (const std::string_view secret : secrets) text = without_secret(std::move(text), secret);
    return text;
}

struct Free {
    void operator()(BIO* bio) const { BIO_free(bio); }
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
    void operator()(ECDSA_SIG* signature) const { ECDSA_SIG_free(signature); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

[[noreturn]] void refuse_key(const std::string& reason) {
    throw Error(ErrorCode::invalid_argument, "The private key of the OAuth client " + reason + ".");
}

/// A key with an encrypted form would ask for its password on the terminal.
int no_password(char*, int, int, void*) { return -1; }

Owned<EVP_PKEY> read_key(const std::string& pem) {
    const Owned<BIO> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
    Owned<EVP_PKEY> key(bio ? PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr)
                            : nullptr);
    if (!key) refuse_key("is not a PEM key without a password");
    return key;
}

struct Algorithm {
    std::string name;
    const EVP_MD* digest = nullptr;    ///< null: the key has its own
    std::size_t coordinate_bytes = 0;  ///< of an ECDSA signature; 0: another kind
};

Algorithm algorithm_of(const EVP_PKEY* key) {
    Algorithm algorithm;
    const int bits = EVP_PKEY_get_bits(key);
    switch (EVP_PKEY_get_base_id(key)) {
        case EVP_PKEY_RSA:
            if (bits < 2048) refuse_key("has less than 2048 bits");
            algorithm.name = "RS256";
            algorithm.digest = EVP_sha256();
            return algorithm;
        case EVP_PKEY_EC:
            if (bits != 256 && bits != 384) refuse_key("is on a curve other than P-256 and P-384");
            algorithm.name = bits == 256 ? "ES256" : "ES384";
            algorithm.digest = bits == 256 ? EVP_sha256() : EVP_sha384();
            algorithm.coordinate_bytes = static_cast<std::size_t>(bits) / 8;
            return algorithm;
        case EVP_PKEY_ED25519: algorithm.name = "EdDSA"; return algorithm;
        default: refuse_key("is neither an RSA, an EC nor an Ed25519 key");
    }
}

/// A JWT has both numbers of an ECDSA signature at their full length (RFC 7518, 3.4), not as ASN.1.
std::string joined_coordinates(const std::vector<unsigned char>& der, std::size_t bytes) {
    const unsigned char* at = der.data();
    const Owned<ECDSA_SIG> signature(d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(der.size())));
    if (!signature) refuse_key("cannot sign");
    std::vector<unsigned char> joined(2 * bytes);
    const int size = static_cast<int>(bytes);
    if (BN_bn2binpad(ECDSA_SIG_get0_r(signature.get()), joined.data(), size) != size ||
        BN_bn2binpad(ECDSA_SIG_get0_s(signature.get()), joined.data() + bytes, size) != size) {
        refuse_key("cannot sign");
    }
    return {joined.begin(), joined.end()};
}

std::string signature_of(EVP_PKEY* key, const Algorithm& algorithm, const std::string& text) {
    const Owned<EVP_MD_CTX> context(EVP_MD_CTX_new());
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    std::size_t size = 0;
    if (!context ||
        EVP_DigestSignInit(context.get(), nullptr, algorithm.digest, nullptr, key) != 1 ||
        EVP_DigestSign(context.get(), nullptr, &size, bytes, text.size()) != 1) {
        refuse_key("cannot sign");
    }
    std::vector<unsigned char> signature(size);
    if (EVP_DigestSign(context.get(), signature.data(), &size, bytes, text.size()) != 1)
        refuse_key("cannot sign");
    signature.resize(size);
    if (algorithm.coordinate_bytes > 0)
        return joined_coordinates(signature, algorithm.coordinate_bytes);
    return {signature.begin(), signature.end()};
}

}  // namespace

std::string base64_url(std::string_view bytes) {
    std::string text = base64(bytes);
    while (text.ends_with('=')) text.pop_back();
    for (char& c : text) {
        if (c == '+') c = '-';
        if (c == '/') c = '_';
    }
    return text;
}

std::string random_secret() {
    std::array<unsigned char, 32> bytes = {};
    if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
        throw Error(ErrorCode::unsupported, "OpenSSL has no random bytes.");
    return base64_url(std::string(bytes.begin(), bytes.end()));
}

std::string pkce_challenge(std::string_view verifier) { return base64_url(sha256_bytes(verifier)); }

std::string client_assertion(const std::string& client_id, const std::string& audience,
                             const std::string& private_key_pem,
                             std::chrono::system_clock::time_point now) {
    const Owned<EVP_PKEY> key = read_key(private_key_pem);
    const Algorithm algorithm = algorithm_of(key.get());
    const std::int64_t seconds =
        std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
    JsonObject header;
    header["alg"] = algorithm.name;
    header["typ"] = "JWT";
    JsonObject claims;
    claims["iss"] = client_id;
    claims["sub"] = client_id;
    claims["aud"] = audience;
    claims["iat"] = seconds;
    claims["exp"] = seconds + std::chrono::seconds(assertion_lifetime).count();
    claims["jti"] = random_secret();
    const std::string text = base64_url(json_text(Json(std::move(header)))) + "." +
                             base64_url(json_text(Json(std::move(claims))));
    return text + "." + base64_url(signature_of(key.get(), algorithm, text));
}

void McpSecrets::add(std::string_view name, std::string_view value) {
    std::string words(name);
    std::replace(words.begin(), words.end(), '-', '_');
    const bool is_named = is_secret_variable(words) || lower_case(words).ends_with("authorization");
    add_password(value);
    if (!is_named && !has_password(value)) return;
    values_.emplace_back(value);
    // "Bearer KEY": a server that repeats it repeats the key.
    if (const std::size_t blank = value.rfind(' '); blank != std::string_view::npos)
        values_.emplace_back(value.substr(blank + 1));
}

void McpSecrets::add_parameters(std::string_view url) {
    add_password(url);
    url = url.substr(0, url.find('#'));
    std::size_t next = url.find('?');
    while (next != std::string_view::npos) {
        url.remove_prefix(next + 1);
        next = url.find('&');
        const std::string_view one = url.substr(0, next);
        const std::size_t equals = one.find('=');
        if (equals == std::string_view::npos) continue;
        const std::string_view value = one.substr(equals + 1);
        add(one.substr(0, equals), value);
        if (const auto decoded = percent_decoded(value)) add(one.substr(0, equals), *decoded);
    }
}

void McpSecrets::add_password(std::string_view url) {
    if (!has_password(url)) return;
    url.remove_prefix(url.find("://") + 3);
    url = url.substr(0, url.find_first_of("/?# "));
    url = url.substr(0, url.rfind('@'));
    url.remove_prefix(url.find(':') + 1);
    values_.emplace_back(url);
    if (auto decoded = percent_decoded(url)) values_.push_back(*std::move(decoded));
}

void McpSecrets::add_latest(std::string_view value) {
    constexpr std::size_t most = 64;
    value.remove_prefix(value.rfind(' ') + 1);
    std::erase(latest_, value);
    latest_.emplace_back(value);
    if (latest_.size() > most) latest_.pop_front();
}

std::string McpSecrets::without(std::string text) const {
    const std::vector<std::string_view> secrets = longest_first();
    if (text.size() <= max_cleaned_bytes) return replaced(std::move(text), secrets);
    text.resize(max_cleaned_bytes);
    text = replaced(std::move(text), secrets);
    // A secret that was cut is not recognized.
    const std::size_t longest = secrets.empty() ? 0 : secrets.front().size();
    text.resize(text.size() - std::min(text.size(), longest));
    return text;
}

std::string McpSecrets::end_without(std::string text) const {
    const std::vector<std::string_view> secrets = longest_first();
    text = replaced(std::move(text), secrets);
    const std::size_t longest = secrets.empty() ? 0 : secrets.front().size();
    const std::size_t most = std::min(longest + 1024, max_cleaned_bytes);
    if (text.size() > most) text.erase(0, text.size() - most);
    return text;
}

/// One secret may be the beginning of another one.
std::vector<std::string_view> McpSecrets::longest_first() const {
    std::vector<std::string_view> secrets(values_.begin(), values_.end());
    secrets.insert(secrets.end(), latest_.begin(), latest_.end());
    std::sort(secrets.begin(), secrets.end(), [](std::string_view left, std::string_view right) {
        return left.size() > right.size();
    });
    return secrets;
}

}  // namespace cubepi::detail
