#include <cubepi/provider/http_provider.hpp>

#include <cstdlib>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

namespace cubepi {

std::string env(const char* name) {
    const char* value = std::getenv(name);
    return value ? std::string(value) : std::string();
}

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

HttpProvider::HttpProvider(std::string provider_id,
                           std::shared_ptr<const detail::WireProtocol> protocol)
    : BaseProvider(std::move(provider_id)), protocol_(std::move(protocol)) {}

Model HttpProvider::model_named(std::string id) {
    Model model;
    model.id = std::move(id);
    return model;
}

MessageStream HttpProvider::stream(ModelRequest request) {
    std::shared_ptr<const detail::WireProtocol> own = protocol_->of_one_call();
    return detail::http_stream(std::move(request), own ? std::move(own) : protocol_, observers());
}

PayloadPreview HttpProvider::preview(const ModelRequest& request) const {
    const std::shared_ptr<const detail::WireProtocol> own = protocol_->of_one_call();
    const detail::WireProtocol& protocol = own ? *own : *protocol_;
    detail::WireProtocol::Built built = protocol.build(request);
    protocol.finish_body(built.body);
    PayloadPreview preview;
    preview.payload = std::move(built.body);
    preview.notices = std::move(built.notices);
    return preview;
}

bool HttpProvider::takes_response_format(const Model& model) const {
    return protocol_->takes_response_format(model);
}

}  // namespace cubepi
