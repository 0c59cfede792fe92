#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/task.hpp>

#include "endpoint.hpp"

namespace cubepi::app {

/// A model as its endpoint lists it. What the endpoint does not say is empty.
struct OfferedModel {
    std::string id = {};
    std::string name = {};                            ///< "Claude Sonnet 4.5"
    std::string created = {};                         ///< a date, "2025-09-29"
    std::optional<std::int64_t> context_window = {};  ///< tokens
};

/// What `endpoint` offers, in its order: GET /models, all pages of it. Throws Error: auth when the key is refused, protocol
/// when the answer is no list, what the network did. No text has the key in it.
Task<std::vector<OfferedModel>> list_models(std::shared_ptr<HttpTransport> transport,
                                            Endpoint endpoint);

/// The endpoints of this machine that answer with a list, asked all at once for a second at most, with what they offer.
/// None is asked with CUBEPI_LOCAL_SERVERS=off in the environment.
struct LocalServer {
    Endpoint endpoint = {};
    std::vector<OfferedModel> models = {};
};
Task<std::vector<LocalServer>> find_local_servers(std::shared_ptr<HttpTransport> transport);

}  // namespace cubepi::app
