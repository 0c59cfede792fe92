#include <cubepi/net/curl/name_cache.hpp>

#include <cubepi/net/network_error.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace cubepi::detail {
namespace {

constexpr std::chrono::seconds fresh_for{10};
constexpr std::chrono::minutes usable_for{5};
constexpr std::size_t max_names = 1000;

std::vector<std::string> beginning_with(std::vector<std::string> addresses, std::size_t first) {
    const auto shift = static_cast<std::ptrdiff_t>(first % addresses.size());
    std::rotate(addresses.begin(), addresses.begin() + shift, addresses.end());
    return addresses;
}

}  // namespace

NameCache::NameCache(std::shared_ptr<Clock> clock, Resolver resolver)
    : clock_(std::move(clock)), resolver_(std::move(resolver)) {}

bool NameCache::fresh_locked(const Entry& entry) const {
    return !entry.addresses.empty() && clock_->now() - entry.since < fresh_for;
}

NameCache::Answer NameCache::find(const std::string& host) {
    Answer answer;
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(host);
    if (found == entries_.end()) return answer;
    Entry& entry = found->second;
    if (entry.addresses.empty() || clock_->now() - entry.since >= usable_for) return answer;
    answer.addresses = beginning_with(entry.addresses, entry.first);
    answer.refresh = !fresh_locked(entry) && !std::exchange(entry.refreshing, true);
    return answer;
}

std::vector<std::string> NameCache::resolve(const std::string& host) {
    {
        // Many requests may have queued up after the first one for the same name.
        const std::lock_guard lock(mutex_);
        const auto found = entries_.find(host);
        if (found != entries_.end() && fresh_locked(found->second)) {
            return beginning_with(found->second.addresses, found->second.first);
        }
    }
    std::vector<std::string> addresses;
    try {
        addresses = resolver_(host);
    } catch (...) {
        const std::lock_guard lock(mutex_);
        if (const auto found = entries_.find(host); found != entries_.end())
            found->second.refreshing = false;
        throw;
    }
    if (addresses.empty()) {
        throw NetworkError(ErrorCode::dns, host, false,
                           "Cannot find the server " + host + ": the name has no address.");
    }
    const std::lock_guard lock(mutex_);
    if (entries_.size() >= max_names && entries_.find(host) == entries_.end()) entries_.clear();
    Entry& entry = entries_[host];
    entry.addresses = addresses;
    entry.since = clock_->now();
    entry.refreshing = false;
    return beginning_with(std::move(addresses), entry.first);
}

void NameCache::failed(const std::string& host) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(host);
    if (found == entries_.end()) return;
    found->second.addresses.clear();
    ++found->second.first;
}

}  // namespace cubepi::detail
