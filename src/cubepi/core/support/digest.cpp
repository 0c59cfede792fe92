#include <cubepi/core/support/digest.hpp>

#include <array>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <cubepi/core/error.hpp>

namespace cubepi::detail {

namespace {

void check(bool succeeded) {
    if (!succeeded) {
        throw Error(ErrorCode::unsupported,
                    "OpenSSL does not offer a digest that is needed (a FIPS configuration?)");
    }
}

std::string digest(const EVP_MD* kind, std::string_view bytes) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> made = {};
    unsigned int size = 0;
    check(EVP_Digest(bytes.data(), bytes.size(), made.data(), &size, kind, nullptr) == 1);
    return std::string(made.begin(), made.begin() + size);
}

std::string hex(std::string_view bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    text.reserve(bytes.size() * 2);
    for (const char c : bytes) {
        const auto byte = static_cast<unsigned char>(c);
        text += digits[byte >> 4U];
        text += digits[byte & 15U];
    }
    return text;
}

}  // namespace

std::string sha256_bytes(std::string_view bytes) { return digest(EVP_sha256(), bytes); }
std::string sha256_hex(std::string_view bytes) { return hex(sha256_bytes(bytes)); }
std::string md5_hex(std::string_view bytes) { return hex(digest(EVP_md5(), bytes)); }

struct Sha256::Context {
    EVP_MD_CTX* value = EVP_MD_CTX_new();
    Context() = default;
    ~Context() {
        EVP_MD_CTX_free(value);
        OPENSSL_thread_stop();
    }
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
    check(context_->value && EVP_DigestInit_ex(context_->value, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::add(std::string_view bytes) {
    check(EVP_DigestUpdate(context_->value, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> made = {};
    unsigned int size = 0;
    check(EVP_DigestFinal_ex(context_->value, made.data(), &size) == 1);
    return detail::hex(std::string(made.begin(), made.begin() + size));
}

std::string Sha256::of(std::string_view bytes) {
    Sha256 digest;
    digest.add(bytes);
    return digest.hex();
}

}  // namespace cubepi::detail
