#include "console_sessions.hpp"

#include <array>
#include <tuple>

#include <openssl/rand.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/digest.hpp>

namespace cubepi::app {

namespace {

constexpr std::size_t id_size = 12;

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
    entry.session.id = new_secret().substr(0, id_size);
    entry.since = unix_now();
    entries.emplace(detail::sha256_hex(secret), std::move(entry));
    return secret;
}

double ConsoleSessions::unix_now() const {
    return std::chrono::duration<double>(clock_->wall().time_since_epoch()).count();
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
    session.used = unix_now();
    return insert(sessions_, max_sessions, std::move(session));
}

std::optional<ConsoleSession> ConsoleSessions::find(std::string_view secret) {
    erase_ended(sessions_);
    const auto found = sessions_.find(detail::sha256_hex(secret));
    if (found == sessions_.end()) return std::nullopt;
    found->second.idle_end = clock_->now() + idle_lifetime;
    found->second.used = unix_now();
    return found->second.session;
}

void ConsoleSessions::log_out(std::string_view secret) {
    sessions_.erase(detail::sha256_hex(secret));
}

std::vector<ConsoleLogin> ConsoleSessions::logins() const {
    const Clock::time_point now = clock_->now();
    std::vector<ConsoleLogin> all;
    for (const Entries* entries : {&links_, &sessions_}) {
        for (const auto& [digest, entry] : *entries) {
            if (entry.ends() <= now) continue;
            ConsoleLogin login;
            login.id = entry.session.id;
            login.name = entry.session.name;
            login.role = entry.session.role == GatewayRole::operator_ ? "operator" : "viewer";
            login.since = entry.since;
            if (entry.used > 0) login.used = entry.used;
            all.push_back(std::move(login));
        }
    }
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
        return std::tie(a.since, a.id) < std::tie(b.since, b.id);
    });
    return all;
}

bool ConsoleSessions::end(std::string_view id) {
    const auto has_id = [id](const auto& one) { return one.second.session.id == id; };
    return std::erase_if(links_, has_id) + std::erase_if(sessions_, has_id) > 0;
}

void ConsoleSessions::end_all() {
    links_.clear();
    sessions_.clear();
}

}  // namespace cubepi::app
