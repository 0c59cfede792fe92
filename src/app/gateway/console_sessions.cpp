#include "console_sessions.hpp"

#include <array>

#include <openssl/rand.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/digest.hpp>

namespace cubepi::app {

namespace {

std::string new_secret() {
    std::array<unsigned char, 32> bytes = {};
    if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
        throw Error(ErrorCode::unsupported, "OpenSSL has no random bytes");
    return detail::hex_of(std::string(bytes.begin(), bytes.end()));
}

}  // namespace

void ConsoleSessions::erase_ended(Entries& entries) const {
    const Clock::time_point now = clock_->now();
    std::erase_if(entries, [now](const auto& one) { return one.second.ends() <= now; });
}

std::string ConsoleSessions::insert(Entries& entries, std::size_t most, Entry entry) const {
    erase_ended(entries);
    while (entries.size() >= most) {
        entries.erase(std::min_element(
            entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.second.ends() < b.second.ends(); }));
    }
    std::string secret = new_secret();
    entries.emplace(detail::sha256_hex(secret), std::move(entry));
    return secret;
}

std::string ConsoleSessions::make_link(GatewayRole role, std::string name) {
    Entry link;
    link.session.role = role;
    link.session.name = std::move(name);
    link.end = clock_->now() + link_lifetime;
    link.idle_end = link.end;
    return insert(links_, max_links, std::move(link));
}

std::optional<std::string> ConsoleSessions::log_in(std::string_view link) {
    erase_ended(links_);
    const auto found = links_.find(detail::sha256_hex(link));
    if (found == links_.end()) return std::nullopt;
    Entry session;
    session.session = std::move(found->second.session);
    links_.erase(found);
    session.session.csrf_token = new_secret();
    session.end = clock_->now() + longest_lifetime;
    session.idle_end = clock_->now() + idle_lifetime;
    return insert(sessions_, max_sessions, std::move(session));
}

std::optional<ConsoleSession> ConsoleSessions::find(std::string_view secret) {
    erase_ended(sessions_);
    const auto found = sessions_.find(detail::sha256_hex(secret));
    if (found == sessions_.end()) return std::nullopt;
    found->second.idle_end = clock_->now() + idle_lifetime;
    return found->second.session;
}

void ConsoleSessions::log_out(std::string_view secret) {
    sessions_.erase(detail::sha256_hex(secret));
}

void ConsoleSessions::end_all() {
    links_.clear();
    sessions_.clear();
}

}  // namespace cubepi::app
