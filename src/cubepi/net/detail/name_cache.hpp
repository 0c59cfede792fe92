#pragma once

#include <cubepi/core/clock.hpp>
#include <cubepi/net/name_resolver.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace cubepi::detail {

/// What names were last resolved to. Any thread may call any member.
///
/// An entry is fresh for ten seconds. For five minutes more it is still handed out, and the caller is told to
/// have it looked up again in the background: a request on a kept connection should not wait for a name
/// that it does not even need.
class NameCache {
public:
    NameCache(std::shared_ptr<Clock> clock, Resolver resolver);

    struct Answer {
        std::vector<std::string> addresses;  ///< empty: resolve now
        bool refresh = false;                ///< call resolve() some time soon
    };
    Answer find(const std::string& host);

    /// Resolves on the calling thread, which may take long, and remembers. Throws what the resolver throws.
    std::vector<std::string> resolve(const std::string& host);

    /// No connection could be made: the next request asks again and begins with another address.
    void failed(const std::string& host);

private:
    struct Entry {
        std::vector<std::string> addresses;
        Clock::time_point since;
        bool refreshing = false;
        std::size_t first = 0;
    };

    bool fresh_locked(const Entry& entry) const;

    const std::shared_ptr<Clock> clock_;
    const Resolver resolver_;
    std::mutex mutex_;
    std::map<std::string, Entry> entries_;
};

}  // namespace cubepi::detail
