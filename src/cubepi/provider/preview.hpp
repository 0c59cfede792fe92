#pragma once

#include <memory>

#include <cubepi/provider/model_profile.hpp>
#include <cubepi/provider/provider.hpp>

namespace cubepi {

/// What a provider is besides when it can show a request without sending it.
class RequestPreview {
public:
    virtual ~RequestPreview() = default;
    /// The body as it would be sent, and what would be said of it. The hook `on_payload` is not asked. Throws what
    /// the call would fail with before anything is sent. Any thread.
    virtual PayloadPreview preview(const ModelRequest& request) const = 0;
};

/// The whole body of a call that is not made. Throws Error(unsupported) when the provider cannot show it,
/// Error(invalid_argument) when the model has no provider.
PayloadPreview preview_request(const BoundModel& model, MessageList messages,
                               SharedString system_prompt = {},
                               std::shared_ptr<const ToolDefinitions> tools = {},
                               StreamOptions options = {});

}  // namespace cubepi
