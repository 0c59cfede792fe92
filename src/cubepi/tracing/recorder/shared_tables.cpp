#include <cubepi/tracing/recorder/shared_tables.hpp>

#include <algorithm>
#include <utility>

namespace cubepi::detail {

ProviderWatch::~ProviderWatch() {
    for (auto& [registry, entry] : entries_) {
        entry.request.detach();
        entry.response.detach();
    }
}

void ProviderWatch::add(const std::shared_ptr<ObserverRegistry>& registry) {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[registry.get()];
    if (entry.users++ != 0) return;
    if (on_request_) entry.request = ObserverHandle(registry, registry->add(on_request_));
    entry.response = ObserverHandle(registry, registry->add(on_response_));
}

void ProviderWatch::remove(const std::shared_ptr<ObserverRegistry>& registry) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(registry.get());
    if (found == entries_.end() || --found->second.users != 0) return;
    found->second.request.detach();
    found->second.response.detach();
    entries_.erase(found);
}

ProviderWatch::Lease ProviderWatch::watch(const std::shared_ptr<ProviderWatch>& self,
                                          const std::vector<BoundModel>& models) {
    std::vector<std::shared_ptr<ObserverRegistry>> registries;
    for (const BoundModel& model : models) {
        for (const std::shared_ptr<Provider>& provider : chain_providers(model)) {
            std::shared_ptr<ObserverRegistry> registry = provider->observer_registry();
            const bool known =
                std::find(registries.begin(), registries.end(), registry) != registries.end();
            if (registry && !known) registries.push_back(std::move(registry));
        }
    }
    for (const auto& registry : registries) self->add(registry);
    return Lease(self, std::move(registries));
}

ProviderWatch::Lease& ProviderWatch::Lease::operator=(Lease&& other) noexcept {
    if (this == &other) return *this;
    release();
    watch_ = std::move(other.watch_);
    registries_ = std::move(other.registries_);
    other.registries_.clear();
    return *this;
}

void ProviderWatch::Lease::release() noexcept {
    for (const auto& registry : registries_) watch_->remove(registry);
    registries_.clear();
}

}  // namespace cubepi::detail
