#pragma once

#include <memory>
#include <string>

#include <cubepi/provider/openai/openai_endpoint.hpp>
#include <cubepi/provider/openai/responses_request.hpp>
#include <cubepi/provider/openai_responses.hpp>

namespace cubepi::detail {

/// An endpoint that speaks Responses. Immutable, shared by its calls.
struct OpenAIResponsesEndpoint {
    explicit OpenAIResponsesEndpoint(OpenAIResponsesOptions given)
        : endpoint("OpenAIResponses", given), options(std::move(given)) {}

    ModelProfile profile_of(const Model& model) const;

    OpenAIEndpoint endpoint;
    OpenAIResponsesOptions options;
};

/// One call. Decides what of the history must be sent, and learns from what the endpoint refuses (D57).
///
/// A finished answer carries, under the extra key "server_state", digests of what the endpoint then has: the items that
/// were its input, and its own. When the next request's history begins with just these, `previous_response_id` stands
/// for them; when it does not, whatever the reason, the whole history is sent. This needs no memory besides the messages,
/// and so holds across restarts and between providers.
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
    // What this call, which is on one executor, has learned.
    mutable std::string
        input_digest_;  ///< of the history that the request stands for; empty: not known
    mutable std::string sent_digest_;  ///< of what is in the body
    mutable bool refers_ = false;      ///< the body has a previous_response_id
    mutable bool may_refer_ = true;
    mutable bool encrypted_ = true;
};

}  // namespace cubepi::detail
