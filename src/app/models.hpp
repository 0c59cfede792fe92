#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/task.hpp>

#include "config/provider_kinds.hpp"

namespace cubepi::app {

/// A model as listed by its endpoint. Members that the endpoint does not report are empty.
struct OfferedModel {
    std::string id = {};
    std::string name = {};                            ///< "Claude Sonnet 4.5"
    std::string created = {};                         ///< a date, "2025-09-29"
    std::optional<std::int64_t> context_window = {};  ///< tokens
};

/// Lists the models of `endpoint`, in its order: GET /models, all pages. Throws Error: auth if the key is rejected,
/// protocol if the response is not a list, or a network error. No text contains the key.
Task<std::vector<OfferedModel>> list_models(std::shared_ptr<HttpTransport> transport,
                                            Endpoint endpoint);

/// Finds the endpoints of the local machine that answer with a list, all at once and for a second at most, with their
/// models. Does nothing with CUBEPI_LOCAL_SERVERS=off in the environment.
struct LocalServer {
    Endpoint endpoint = {};
    std::vector<OfferedModel> models = {};
};
Task<std::vector<LocalServer>> find_local_servers(std::shared_ptr<HttpTransport> transport);

}  // namespace cubepi::app
