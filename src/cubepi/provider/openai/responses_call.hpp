#pragma once

#include <memory>
#include <string>

#include <cubepi/provider/openai/openai_endpoint.hpp>
#include <cubepi/provider/openai/responses_request.hpp>
#include <cubepi/provider/openai_responses.hpp>

namespace cubepi::detail {

/// An endpoint with the Responses API. Immutable, shared by its calls.
struct OpenAIResponsesEndpoint {
    explicit OpenAIResponsesEndpoint(OpenAIResponsesOptions given)
        : endpoint("OpenAIResponses", given), options(std::move(given)) {}

    ModelProfile profile_of(const Model& model) const;

    OpenAIEndpoint endpoint;
    OpenAIResponsesOptions options;
};

/// One call. Decides which part of the history must be sent, and adapts to rejections of the endpoint (D57).
///
/// A finished answer has, under the extra key "server_state", digests of the state of the endpoint: of the input
/// items and of its own items. If the history of the next request begins with exactly these, `previous_response_id`
/// stands for them; otherwise the whole history is sent. This needs no state besides the messages, and so works
/// across restarts and between providers.
class OpenAIResponsesCall final : public WireProtocol {
public:
    explicit OpenAIResponsesCall(std::shared_ptr<const OpenAIResponsesEndpoint> at)
        : at_(std::move(at)) {}

    Built build(const ModelRequest& request) const override;
    void finish_body(JsonObject& body) const override;
    std::string build_differently(const EndpointFailure& failure) const override;
    HttpRequest http_request() const override { return at_->endpoint.post("/responses"); }
    std::unique_ptr<WireDecoder> decoder(MessageAssembler& assembler, IdSource& ids) const override;
    JsonObject answer_body(const AssistantMessage& message) const override {
        return openai_response(message);
    }
    const std::string& base_url() const noexcept override { return at_->endpoint.shown_url(); }
    const RetryPolicy& retry() const noexcept override { return at_->options.retry; }
    const RequestSigner& signer() const noexcept override { return at_->options.sign_request; }
    const CallTimeouts& timeouts() const noexcept override { return at_->endpoint.timeouts(); }
    std::string without_secrets(std::string text) const override {
        return at_->endpoint.without_secrets(std::move(text));
    }

private:
    std::string digest(const JsonArray& items, std::size_t begin, std::size_t end) const;
    const AssistantMessage* usable_answer(const ModelRequest& request, const ResponsesInput& input,
                                          std::string& why_not) const;
    void remember(MessageAssembler& assembler, std::string input) const;

    std::shared_ptr<const OpenAIResponsesEndpoint> at_;
    // State of this call, which runs on one executor.
    mutable std::string
        input_digest_;  ///< of the history that the request represents; empty: unknown
    mutable std::string sent_digest_;  ///< of the items in the body
    mutable bool refers_ = false;      ///< the body has a previous_response_id
    mutable bool may_refer_ = true;
    mutable bool encrypted_ = true;
};

}  // namespace cubepi::detail
