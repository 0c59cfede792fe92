#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <cubepi/core/json.hpp>
#include <cubepi/core/notice.hpp>
#include <cubepi/provider/provider.hpp>

namespace cubepi {

/// Checks that each request of a conversation begins with the whole previous one, as prompt caches require (D56). It
/// compares the input of the model, in this order: tools, system prompt, messages; not ids, times, run ids, usage or
/// cache markers. An agent has one and reports breaks by a `notice`; callers of a provider without an agent can use
/// their own.
///
/// The cost of a turn that only adds messages does not depend on the length of the history. Used by one thread at a
/// time.
class PrefixGuard {
public:
    PrefixGuard() noexcept;
    PrefixGuard(PrefixGuard&&) noexcept;
    PrefixGuard& operator=(PrefixGuard&&) noexcept;
    ~PrefixGuard();

    /// Compares a request with the previous one, and stores its digests. Empty if the previous request is a prefix of
    /// this one, if there was none, or if it was for another model (which has another cache). The notice has the code
    /// "cache_prefix_break"; its details name the first block that differs (`block`: "tools/2", "system_prompt",
    /// "messages/3/content/0"), what happened to it (`change`: "changed", "removed"), the message's id, and how many
    /// tokens must be read again (`tokens`, an estimate).
    std::optional<Notice> check(const ModelRequest& request);
    /// Forgets the previous request.
    void reset() noexcept;

    /// Returns a digest of the last request, for restore() in another process. Null if there was none.
    Json digest() const;
    /// Compares the next request with that of the digest, unless this guard has seen a request. The messages are
    /// compared as a whole: a notice names the block "messages" without an index. An invalid digest is ignored.
    void restore(const Json& digest);

private:
    struct Sent;
    std::unique_ptr<Sent> sent_;
    std::uint64_t model_ = 0;  ///< the fingerprint of the model of the last request
};

}  // namespace cubepi
