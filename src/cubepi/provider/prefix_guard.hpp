#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include <cubepi/core/notice.hpp>
#include <cubepi/provider/provider.hpp>

namespace cubepi {

/// Watches whether each request of a conversation begins with the whole of the one before, as prompt caches need it
/// (D56). What is compared is what a model reads, in this order: tools, system prompt, messages; not ids, times, run
/// ids, usage or cache markers. An agent has one and tells of breaks by a `notice`; use it yourself around a provider
/// of your own.
///
/// A turn that only adds messages costs the same whatever the length of the history. Used by one thread at a time.
class PrefixGuard {
public:
    PrefixGuard() noexcept;
    PrefixGuard(PrefixGuard&&) noexcept;
    PrefixGuard& operator=(PrefixGuard&&) noexcept;
    ~PrefixGuard();

    /// Compares with the request before, and remembers this one. Empty when that one was a prefix of this one, when
    /// there was none, or when it was for another model (whose cache is another). The notice has the code
    /// "cache_prefix_break"; its details name the first block that differs (`block`: "tools/2",
    /// "system_prompt", "messages/3/content/0"), what happened to it (`change`: "changed", "removed"), the
    /// message's id, and how many tokens must be read again (`tokens`, an estimate).
    std::optional<Notice> check(const ModelRequest& request);
    /// Forgets the request before.
    void reset() noexcept;

private:
    struct Sent;
    std::unique_ptr<Sent> sent_;
    std::size_t model_ = 0;  ///< which model that was for
};

}  // namespace cubepi
