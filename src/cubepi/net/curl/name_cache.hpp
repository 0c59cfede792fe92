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

/// The last addresses of names. Thread-safe.
///
/// An entry is fresh for ten seconds. For five more minutes it is still returned, and the caller is told to refresh it
/// in the background: a request on a pooled connection should not wait for a name that it does not need.
class NameCache {
public:
    NameCache(std::shared_ptr<Clock> clock, Resolver resolver);

    struct Answer {
        std::vector<std::string> addresses;  ///< empty: resolve now
        bool refresh = false;                ///< call resolve() soon
    };
    Answer find(const std::string& host);

    /// Resolves on the calling thread, which may take long, and caches the result. Rethrows exceptions of the resolver.
    std::vector<std::string> resolve(const std::string& host);

    /// Reports that no connection could be established: the next request resolves again and starts with another
    /// address.
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
