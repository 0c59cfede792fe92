#include <cubepi/net/name_resolver.hpp>

#include <cubepi/net/network_error.hpp>

#include <array>
#include <memory>

#include <netdb.h>
#include <sys/socket.h>

namespace cubepi {

std::vector<std::string> resolve_with_system(const std::string& host) {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_ADDRCONFIG;
    addrinfo* found = nullptr;
    const int code = getaddrinfo(host.c_str(), nullptr, &hints, &found);
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
    std::vector<std::string> addresses;
    for (const addrinfo* entry = found; code == 0 && entry != nullptr; entry = entry->ai_next) {
        std::array<char, 64> text{};
        if (getnameinfo(entry->ai_addr, entry->ai_addrlen, text.data(), text.size(), nullptr, 0,
                        NI_NUMERICHOST) == 0) {
            addresses.emplace_back(text.data());
        }
    }
    if (addresses.empty()) {
        throw NetworkError(ErrorCode::dns, host, code == EAI_AGAIN,
                           "Cannot find the server " + host + ": " +
                               (code == 0 ? "the name has no address" : gai_strerror(code)) +
                               ". Check the spelling of the address and the network connection.");
    }
    return addresses;
}

}  // namespace cubepi
