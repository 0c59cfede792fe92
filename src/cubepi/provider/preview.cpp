#include <cubepi/provider/preview.hpp>

#include <utility>

#include <cubepi/core/error.hpp>

namespace cubepi {

PayloadPreview preview_request(const BoundModel& model, MessageList messages,
                               SharedString system_prompt,
                               std::shared_ptr<const ToolDefinitions> tools,
                               StreamOptions options) {
    if (!model.provider()) {
        throw Error(ErrorCode::invalid_argument,
                    "Model '" + model.spec().id + "' has no provider: take it from one");
    }
    const auto* shows = dynamic_cast<const RequestPreview*>(model.provider().get());
    if (!shows) {
        throw Error(ErrorCode::unsupported, "The provider of model '" + model.spec().id +
                                                "' cannot show a request without sending it");
    }
    ModelRequest request;
    request.model = model.spec();
    request.messages = std::move(messages);
    request.system_prompt = std::move(system_prompt);
    request.tools = std::move(tools);
    request.options = std::move(options);
    return shows->preview(request);
}

}  // namespace cubepi
