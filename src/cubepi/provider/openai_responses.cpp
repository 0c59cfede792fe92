#include <cubepi/provider/openai_responses.hpp>

#include <cubepi/provider/openai/responses_call.hpp>
#include <cubepi/provider/wire/http_stream.hpp>

namespace cubepi {

OpenAIResponsesProvider::OpenAIResponsesProvider(OpenAIResponsesOptions options)
    : BaseProvider(options.provider_id),
      endpoint_(std::make_shared<const detail::OpenAIResponsesEndpoint>(std::move(options))) {}

BoundModel OpenAIResponsesProvider::model(std::string id) const {
    Model spec;
    spec.id = std::move(id);
    return model(std::move(spec));
}

BoundModel OpenAIResponsesProvider::model(Model model) const {
    return BoundModel(std::make_shared<OpenAIResponsesProvider>(*this), std::move(model));
}

BoundModel openai_responses_model(std::string id) {
    OpenAIResponsesOptions options;
    options.api_key = env("OPENAI_API_KEY");
    if (std::string url = env("OPENAI_BASE_URL"); !url.empty()) options.base_url = std::move(url);
    return OpenAIResponsesProvider(std::move(options)).model(std::move(id));
}

bool OpenAIResponsesProvider::takes_response_format(const Model& model) const {
    return endpoint_->profile_of(model).capability.response_format.value_or(true);
}

PayloadPreview OpenAIResponsesProvider::preview(const ModelRequest& request) const {
    return detail::preview_of(detail::OpenAIResponsesCall(endpoint_), request);
}

MessageStream OpenAIResponsesProvider::stream(ModelRequest request) {
    return detail::http_stream(std::move(request),
                               std::make_shared<const detail::OpenAIResponsesCall>(endpoint_),
                               observers());
}

}  // namespace cubepi
