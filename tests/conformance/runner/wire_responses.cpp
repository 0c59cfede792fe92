#include <utility>

#include <cubepi/provider/openai_responses.hpp>

#include "wire_provider.hpp"

namespace conformance {

std::shared_ptr<cubepi::Provider> make_responses_provider(const JsonObject& constructor,
                                                          std::uint16_t port) {
    cubepi::OpenAIResponsesOptions made;
    made.api_key = "sk-test";
    made.base_url = "http://127.0.0.1:" + std::to_string(port) + "/v1";
    // The cases contain the original's words for effort, regardless of what a model accepts.
    made.capability.reasoning = cubepi::openai_responses_reasoning();
    only_keys(constructor, "constructor", {"extra_body", "extra_headers", "capability"});
    read_extras(constructor, made);
    read_capability(constructor, made.capability);
    return std::make_shared<cubepi::OpenAIResponsesProvider>(std::move(made));
}

}  // namespace conformance
