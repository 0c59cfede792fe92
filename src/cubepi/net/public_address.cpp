#include <cubepi/net/public_address.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include <arpa/inet.h>

namespace cubepi {

namespace {

using V6 = std::array<std::uint8_t, 16>;

struct Block4 {
    std::uint32_t base;
    int bits;
};

constexpr std::uint32_t v4(unsigned a, unsigned b, unsigned c, unsigned d) {
    return a << 24 | b << 16 | c << 8 | d;
}

// IANA IPv4 special-purpose address registry, and multicast.
constexpr std::array special4 = {
    Block4{v4(0, 0, 0, 0), 8},        // this network
    Block4{v4(10, 0, 0, 0), 8},       // private
    Block4{v4(100, 64, 0, 0), 10},    // carrier-grade NAT
    Block4{v4(127, 0, 0, 0), 8},      // loopback
    Block4{v4(169, 254, 0, 0), 16},   // link-local, and metadata services of clouds
    Block4{v4(172, 16, 0, 0), 12},    // private
    Block4{v4(192, 0, 0, 0), 24},     // protocol assignments
    Block4{v4(192, 0, 2, 0), 24},     // documentation
    Block4{v4(192, 88, 99, 0), 24},   // 6to4 relays
    Block4{v4(192, 168, 0, 0), 16},   // private
    Block4{v4(198, 18, 0, 0), 15},    // benchmarking
    Block4{v4(198, 51, 100, 0), 24},  // documentation
    Block4{v4(203, 0, 113, 0), 24},   // documentation
    Block4{v4(224, 0, 0, 0), 4},      // multicast
    Block4{v4(240, 0, 0, 0), 4},      // reserved, broadcast
};

bool is_public4(std::uint32_t address) {
    return std::none_of(special4.begin(), special4.end(), [&](const Block4& block) {
        return (address ^ block.base) >> (32 - block.bits) == 0;
    });
}

std::uint32_t v4_at(const V6& address, std::size_t at) {
    return v4(address[at], address[at + 1], address[at + 2], address[at + 3]);
}

bool starts_with(const V6& address, std::initializer_list<unsigned> bytes) {
    return std::equal(bytes.begin(), bytes.end(), address.begin());
}

bool is_public6(const V6& address) {
    // NAT64 embeds the IPv4 address at its end.
    if (starts_with(address, {0x00, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0}))
        return is_public4(v4_at(address, 12));
    // Only 2000::/3 is allocated; this excludes loopback, mapped, link-local, unique-local and multicast addresses.
    if ((address[0] & 0xe0) != 0x20) return false;
    if (starts_with(address, {0x20, 0x02})) return is_public4(v4_at(address, 2));  // 6to4
    if (starts_with(address, {0x20, 0x01, 0x0d, 0xb8})) return false;              // documentation
    if (starts_with(address, {0x3f, 0xff}) && (address[2] & 0xf0) == 0) return false;
    // 2001::/23: protocol assignments, among them Teredo.
    return !(starts_with(address, {0x20, 0x01}) && (address[2] & 0xfe) == 0);
}

std::optional<V6> v6_of(const std::string& text) {
    in6_addr six{};
    if (::inet_pton(AF_INET6, text.c_str(), &six) != 1) return std::nullopt;
    V6 bytes{};
    std::copy(std::begin(six.s6_addr), std::end(six.s6_addr), bytes.begin());
    return bytes;
}

bool is_metadata4(std::uint32_t address) {
    return (address ^ v4(169, 254, 0, 0)) >> 16U == 0 || address == v4(100, 100, 100, 200);
}

}  // namespace

bool is_public_address(std::string_view address) {
    const std::string text(address.substr(0, address.find('%')));
    in_addr four{};
    if (::inet_pton(AF_INET, text.c_str(), &four) == 1) return is_public4(ntohl(four.s_addr));
    const std::optional<V6> six = v6_of(text);
    return six && is_public6(*six);
}

bool is_metadata_address(std::string_view address) {
    const std::string text(address.substr(0, address.find('%')));
    in_addr four{};
    if (::inet_pton(AF_INET, text.c_str(), &four) == 1) return is_metadata4(ntohl(four.s_addr));
    const std::optional<V6> six = v6_of(text);
    if (!six) return false;
    const bool is_mapped = starts_with(*six, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff});
    const bool is_nat64 = starts_with(*six, {0x00, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0});
    if (is_mapped || is_nat64) return is_metadata4(v4_at(*six, 12));
    if (starts_with(*six, {0x20, 0x02})) return is_metadata4(v4_at(*six, 2));  // 6to4
    const bool is_link_local = (*six)[0] == 0xfe && ((*six)[1] & 0xc0U) == 0x80;
    return is_link_local ||
           starts_with(*six, {0xfd, 0x00, 0x0e, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54});
}

bool detail::is_ip_address(const std::string& host) noexcept {
    in6_addr unused{};
    return ::inet_pton(AF_INET, host.c_str(), &unused) == 1 ||
           ::inet_pton(AF_INET6, host.c_str(), &unused) == 1;
}

}  // namespace cubepi
