#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/task.hpp>

#include "endpoint.hpp"

namespace cubepi::app {

struct OfferedModel;

/// The context windows of models, in tokens, as the lists of their servers have them. Thread-safe.
class ListedWindows {
public:
    /// Returns the window of the model that the endpoint names; absent: no list that was read has it.
    std::optional<std::int64_t> find(const Endpoint& endpoint) const;
    /// Takes the windows from a list that was read.
    void note(const Endpoint& endpoint, const std::vector<OfferedModel>& models);
    /// Returns true for the first call with this endpoint, which then asks for its list.
    bool begin_asking(const Endpoint& endpoint);

private:
    mutable std::mutex mutex_;
    std::map<std::string, std::map<std::string, std::int64_t>> windows_;  // by address and model
    std::set<std::string> asked_;                                         // addresses
};

/// Returns the window of the model that the endpoint names, for which its server is asked once in a process. A server that does not
/// answer, or lists no window, leaves it unknown.
Task<std::optional<std::int64_t>> listed_window(std::shared_ptr<ListedWindows> windows,
                                                std::shared_ptr<HttpTransport> transport,
                                                Endpoint endpoint);

}  // namespace cubepi::app
