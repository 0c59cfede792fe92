#include <cubepi/workspace/files/digest.hpp>

#include <array>
#include <new>

#include <openssl/crypto.h>
#include <openssl/evp.h>

namespace cubepi::detail {

struct Sha256::Context {
    EVP_MD_CTX* value = EVP_MD_CTX_new();
    Context() = default;
    ~Context() {
        EVP_MD_CTX_free(value);
        // The state of a thread that lives at the end of the process would not be freed.
        OPENSSL_thread_stop();
    }
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
    // The functions of OpenSSL fail only if there is no memory.
    if (!context_->value || EVP_DigestInit_ex(context_->value, EVP_sha256(), nullptr) != 1)
        throw std::bad_alloc();
}

Sha256::~Sha256() = default;

void Sha256::add(std::string_view bytes) {
    if (EVP_DigestUpdate(context_->value, bytes.data(), bytes.size()) != 1) throw std::bad_alloc();
}

std::string Sha256::hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned size = 0;
    if (EVP_DigestFinal_ex(context_->value, digest.data(), &size) != 1) throw std::bad_alloc();
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    for (unsigned i = 0; i < size; ++i) {
        text += digits[digest[i] >> 4];
        text += digits[digest[i] & 15];
    }
    return text;
}

std::string sha256_of(std::string_view bytes) {
    Sha256 digest;
    digest.add(bytes);
    return digest.hex();
}

}  // namespace cubepi::detail
