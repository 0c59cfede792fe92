#pragma once

#include <memory>

#include <cubepi/provider/model_profile.hpp>
#include <cubepi/provider/provider.hpp>

namespace cubepi {

/// Optional interface of a provider that can show a request without sending it.
class RequestPreview {
public:
    virtual ~RequestPreview() = default;
    /// Returns the body as it would be sent, with the notices about it. The hook `on_payload` is not called. Throws
    /// like a call that fails before anything is sent. Any thread may call it.
    virtual PayloadPreview preview(const ModelRequest& request) const = 0;
};

/// Returns the whole body of a call without sending it. Throws Error(unsupported) if the provider cannot show it,
/// Error(invalid_argument) if the model has no provider.
PayloadPreview preview_request(const BoundModel& model, MessageList messages,
                               SharedString system_prompt = {},
                               std::shared_ptr<const ToolDefinitions> tools = {},
                               StreamOptions options = {});

}  // namespace cubepi
