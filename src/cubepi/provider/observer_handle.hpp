#pragma once

#include <cstdint>
#include <memory>
#include <utility>

namespace cubepi {

/// The result of a provider's subscribe_...(): ends one observation; its destructor does not. Any thread may call it, also the
/// observer itself.
template <class Registry>
class BasicObserverHandle {
public:
    BasicObserverHandle() = default;
    BasicObserverHandle(std::weak_ptr<Registry> registry, std::uint64_t id)
        : registry_(std::move(registry)), id_(id) {}
    /// Further calls have no effect.
    void detach() const noexcept {
        if (const auto registry = registry_.lock()) registry->remove(id_);
    }
    /// The same: `auto unsubscribe = provider.subscribe_request(...); unsubscribe();`.
    void operator()() const noexcept { detach(); }

private:
    std::weak_ptr<Registry> registry_;
    std::uint64_t id_ = 0;
};

}  // namespace cubepi
