#include "listed_windows.hpp"

#include <utility>

#include <cubepi/core/error.hpp>

#include "../models.hpp"

namespace cubepi::app {

std::optional<std::int64_t> ListedWindows::find(const Endpoint& endpoint) const {
    const std::lock_guard lock(mutex_);
    const auto list = windows_.find(endpoint.base_url);
    if (list == windows_.end()) return std::nullopt;
    const auto found = list->second.find(endpoint.model);
    if (found != list->second.end()) return found->second;
    // The alias of a dated model: "claude-sonnet-4-5" of "claude-sonnet-4-5-20250929".
    const std::string dated = endpoint.model + "-20";
    const auto other = list->second.lower_bound(dated);
    if (other == list->second.end() || !other->first.starts_with(dated)) return std::nullopt;
    return other->second;
}

void ListedWindows::note(const Endpoint& endpoint, const std::vector<OfferedModel>& models) {
    const std::lock_guard lock(mutex_);
    for (const OfferedModel& model : models) {
        if (model.context_window && *model.context_window > 0)
            windows_[endpoint.base_url][model.id] = *model.context_window;
    }
}

bool ListedWindows::begin_asking(const Endpoint& endpoint) {
    const std::lock_guard lock(mutex_);
    return asked_.insert(endpoint.base_url).second;
}

Task<std::optional<std::int64_t>> listed_window(std::shared_ptr<ListedWindows> windows,
                                                std::shared_ptr<HttpTransport> transport,
                                                Endpoint endpoint) {
    if (!windows->find(endpoint) && windows->begin_asking(endpoint)) {
        try {
            const std::vector<OfferedModel> models = co_await list_models(transport, endpoint);
            windows->note(endpoint, models);
        } catch (const Error& error) {
            if (error.code() == ErrorCode::cancelled) throw;
        }
    }
    co_return windows->find(endpoint);
}

}  // namespace cubepi::app
