#include <cubepi/provider/openai.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/support/json_member.hpp>
#include <cubepi/provider/openai/chat_api.hpp>
#include <cubepi/provider/openai/responses_api.hpp>
#include <cubepi/provider/openai_responses.hpp>
#include <cubepi/provider/wire/encoding.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

namespace cubepi {

namespace {

using detail::Endpoint;

/// The endpoint and its settings. Immutable, shared by its calls.
struct ChatEndpoint {
    explicit ChatEndpoint(OpenAIOptions given)
        : endpoint(detail::openai_vendor("OpenAI", given.api_key), given),
          options(std::move(given)) {}

    /// True for OpenAI's own endpoint, also at Azure; false for compatible servers.
    bool is_openai() const noexcept {
        return endpoint.host() == "api.openai.com" ||
               endpoint.host().ends_with(".openai.azure.com");
    }

    Endpoint endpoint;
    OpenAIOptions options;
};

/// One call of Chat Completions.
class ChatCall final : public detail::WireProtocol {
public:
    explicit ChatCall(std::shared_ptr<const ChatEndpoint> at) : at_(std::move(at)) {}

    std::shared_ptr<const WireProtocol> of_one_call() const override {
        return std::make_shared<const ChatCall>(at_);
    }

    bool takes_response_format(const Model& model) const override {
        const OpenAIOptions& options = at_->options;
        const ProviderCapability configured{options.capability, options.model_capability_overrides,
                                            options.base_url};
        const ModelProfile profile = effective_profile(ModelApi::openai_chat, model, configured);
        return profile.capability.response_format.value_or(
            at_->is_openai() && detail::openai_takes_response_format(model.id));
    }

    Built build(const ModelRequest& request) const override {
        const OpenAIOptions& options = at_->options;
        const auto own = options.model_capability_overrides.find(request.model.id);
        detail::OpenAIChatSettings settings;
        settings.capability =
            own == options.model_capability_overrides.end() ? options.capability : own->second;
        settings.base_url = options.base_url;
        settings.openai_endpoint = at_->is_openai();
        settings.extra_body = options.extra_body;
        settings.requires_thinking = requires_thinking_;
        Built built = detail::build_openai_chat(request, settings);
        sends_thinking_ = false;
        for (const Json& message : built.body["messages"].as_array())
            sends_thinking_ = sends_thinking_ || message.get_object().contains("reasoning_content");
        return built;
    }

    /// A server that names the field although the request has none wants it (D89).
    std::string build_differently(const EndpointFailure& failure) const override {
        const int status = failure.status.value_or(400);
        const bool is_wanted =
            (status == 400 || status == 422) && !sends_thinking_ &&
            (failure.message + failure.param).find("reasoning_content") != std::string::npos;
        if (!is_wanted || requires_thinking_) return {};
        requires_thinking_ = true;
        return "The endpoint requires the thinking of earlier answers: the history is sent with it";
    }

    const Endpoint& endpoint() const noexcept override { return at_->endpoint; }
    HttpRequest http_request(const ModelRequest&) const override {
        return at_->endpoint.post("/chat/completions");
    }

    std::unique_ptr<detail::WireDecoder> decoder(MessageAssembler& assembler,
                                                 IdSource& ids) const override {
        return std::make_unique<detail::OpenAIChatDecoder>(
            assembler, ids, at_->options.accept_missing_finish, at_->options.thinking_tag);
    }

    JsonObject answer_body(const AssistantMessage& message) const override {
        return detail::openai_chat_completion(message);
    }

private:
    std::shared_ptr<const ChatEndpoint> at_;
    // State of this call, which runs on one executor.
    mutable bool requires_thinking_ = false;
    mutable bool sends_thinking_ = false;
};

/// The model `id` of a provider with the key and the address in the environment.
template <class Provider, class Options>
BoundModel model_from_environment(std::string id) {
    Options options;
    options.api_key = env("OPENAI_API_KEY");
    if (std::string url = env("OPENAI_BASE_URL"); !url.empty()) options.base_url = std::move(url);
    return Provider(std::move(options)).model(std::move(id));
}

}  // namespace

// The Responses API: a call can continue a conversation that the endpoint stores.

namespace detail {

namespace {

constexpr std::string_view state_key = "server_state";

const JsonObject* state_of(const AssistantMessage& message) {
    const Json* state = message.extra.find(state_key);
    return state && state->is_object() ? &state->get_object() : nullptr;
}

const AssistantMessage* last_answer(const MessageList& messages) {
    const AssistantMessage* last = nullptr;
    for (const Message& message : messages) {
        if (const AssistantMessage* assistant = message.assistant()) last = assistant;
    }
    return last;
}

/// The endpoint once knew this conversation.
bool had_state(const MessageList& messages, std::string_view provider_id) {
    for (const Message& message : messages) {
        const AssistantMessage* assistant = message.assistant();
        if (assistant && state_of(*assistant) && is_own_answer(*assistant, provider_id))
            return true;
    }
    return false;
}

Notice dropped(const std::string& why) {
    Notice notice;
    notice.code = "server_state_dropped";
    notice.text = "The conversation stored by the endpoint differs from the history (" + why +
                  "); the whole history is sent";
    notice.details["reason"] = why;
    return notice;
}

bool matches(const EndpointFailure& failure, std::string_view code, std::string_view words) {
    return failure.code == code || failure.message.find(words) != std::string::npos;
}

/// The endpoint and its settings. Immutable, shared by its calls.
struct ResponsesEndpoint {
    explicit ResponsesEndpoint(OpenAIResponsesOptions given)
        : endpoint(openai_vendor("OpenAIResponses", given.api_key), given),
          options(std::move(given)) {}

    Endpoint endpoint;
    OpenAIResponsesOptions options;
};

/// One call. Decides which part of the history must be sent, and adapts to rejections of the endpoint (D57).
///
/// A finished answer has, under the extra key "server_state", digests of the state of the endpoint: of the input
/// items and of its own items. If the history of the next request begins with exactly these, `previous_response_id`
/// stands for them; otherwise the whole history is sent. This needs no state besides the messages, and so works
/// across restarts and between providers.
class ResponsesCall final : public WireProtocol {
public:
    explicit ResponsesCall(std::shared_ptr<const ResponsesEndpoint> at) : at_(std::move(at)) {}

    std::shared_ptr<const WireProtocol> of_one_call() const override {
        return std::make_shared<const ResponsesCall>(at_);
    }
    bool takes_response_format(const Model& model) const override {
        return profile_of(model).capability.response_format.value_or(true);
    }

    Built build(const ModelRequest& request) const override;
    void finish_body(JsonObject& body) const override;
    std::string build_differently(const EndpointFailure& failure) const override;
    const Endpoint& endpoint() const noexcept override { return at_->endpoint; }
    HttpRequest http_request(const ModelRequest&) const override {
        return at_->endpoint.post("/responses");
    }
    std::unique_ptr<WireDecoder> decoder(MessageAssembler& assembler, IdSource& ids) const override;
    JsonObject answer_body(const AssistantMessage& message) const override {
        return openai_response(message);
    }

private:
    ModelProfile profile_of(const Model& model) const;
    std::string digest(const JsonArray& items, std::size_t begin, std::size_t end) const;
    const AssistantMessage* usable_answer(const ModelRequest& request, const ResponsesInput& input,
                                          std::string& why_not) const;
    bool refuses_reasoning(const EndpointFailure& failure) const;
    void note_reasoning(const JsonObject& body) const;
    void remember(MessageAssembler& assembler, std::string input) const;

    std::shared_ptr<const ResponsesEndpoint> at_;
    // State of this call, which runs on one executor.
    mutable std::string
        input_digest_;  ///< of the history that the request represents; empty: unknown
    mutable std::string sent_digest_;  ///< of the items in the body
    mutable bool refers_ = false;      ///< the body has a previous_response_id
    mutable bool may_refer_ = true;
    mutable bool encrypted_ = true;
    mutable bool may_compact_ = true;
    mutable bool asks_to_compact_ = false;
    mutable bool sends_reasoning_ = false;  ///< of earlier answers
    /// Ids of items of earlier answers; places of reasoning items in the input, beginnings of what they have encrypted.
    mutable std::vector<std::string> sent_names_;
};

ModelProfile ResponsesCall::profile_of(const Model& model) const {
    const ProviderCapability configured{
        at_->options.capability, at_->options.model_capability_overrides, at_->options.base_url};
    return effective_profile(ModelApi::openai_responses, model, configured);
}

std::string ResponsesCall::digest(const JsonArray& items, std::size_t begin,
                                  std::size_t end) const {
    Fingerprint fingerprint;
    fingerprint.add(at_->endpoint.shown_url());
    for (std::size_t i = begin; i < end; ++i) fingerprint.add(boost::json::serialize(items[i]));
    return fingerprint.text();
}

/// The answer that stands for the history up to it, or null and why there is none.
const AssistantMessage* ResponsesCall::usable_answer(const ModelRequest& request,
                                                     const ResponsesInput& input,
                                                     std::string& why_not) const {
    const AssistantMessage* answer = last_answer(request.messages);
    if (!answer) {
        why_not = "the history was shortened";
        return nullptr;
    }
    const JsonObject* state = state_of(*answer);
    const bool own = is_own_answer(*answer, request.model.provider_id);
    if (!state || !own || answer->response_id.empty()) {
        why_not =
            own ? "the last answer was not finished" : "the last answer is another provider's";
    } else if (!may_refer_) {
        why_not = "the endpoint does not have the response";
    } else if (input.repaired) {
        why_not = "the history was repaired";
    } else if (string_member(*state, "input") != digest(input.items, 0, input.answer_begin) ||
               string_member(*state, "output") !=
                   digest(input.items, input.answer_begin, input.answer_end)) {
        why_not = "the history was changed";
    }
    return why_not.empty() ? answer : nullptr;
}

WireProtocol::Built ResponsesCall::build(const ModelRequest& request) const {
    std::vector<Notice> notices;
    ResponsesInput input = responses_input(request, encrypted_, notices);
    OpenAIResponsesSettings settings;
    settings.profile = profile_of(request.model);
    const bool keeps = at_->options.server_state;
    settings.store = at_->options.store || keeps;
    settings.prompt_as_instructions = keeps;
    settings.extra_body = at_->options.extra_body;
    const bool is_openai = at_->endpoint.host() == "api.openai.com" && settings.profile.known();
    settings.compacts = may_compact_ && settings.profile.capability.compaction.value_or(is_openai);
    asks_to_compact_ = settings.compacts && request.options.compact_at() > 0;

    sends_reasoning_ = false;
    sent_names_.clear();
    for (const Json& item : input.items) {
        const JsonObject& sent = item.get_object();
        const std::string_view type = string_member(sent, "type");
        sends_reasoning_ = sends_reasoning_ || type == "reasoning" || type == "compaction";
        if (const std::string_view id = string_member(sent, "id"); !id.empty())
            sent_names_.emplace_back(id);
    }

    const AssistantMessage* before = nullptr;
    if (keeps) {
        input_digest_ = digest(input.items, 0, input.items.size());
        std::string why_not;
        before = usable_answer(request, input, why_not);
        if (!before && had_state(request.messages, request.model.provider_id))
            notices.push_back(dropped(why_not));
    }
    refers_ = before != nullptr;
    // The endpoint has what it stores, and does not need what it has compacted.
    const std::size_t known = before ? input.answer_end : input.needed_from;
    const auto first = input.items.begin();
    input.items.erase(first, first + static_cast<std::ptrdiff_t>(known));
    if (keeps) sent_digest_ = digest(input.items, 0, input.items.size());
    Built built = build_openai_responses(request, settings, std::move(input.items));
    if (before) built.body["previous_response_id"] = before->response_id.str();
    note_reasoning(built.body);
    append(notices, std::move(built.notices));
    built.notices = std::move(notices);
    return built;
}

void ResponsesCall::finish_body(JsonObject& body) const {
    WireProtocol::finish_body(body);
    if (!at_->options.server_state) return;
    // The endpoint stores input that a hook added and the history does not; an id set by a hook refers to unknown
    // input. The id of the answer cannot stand for the history then.
    const Json* input = body.if_contains("input");
    const Json* store = body.if_contains("store");
    const bool ours = input && input->is_array() && store && *store == Json(true) &&
                      body.contains("previous_response_id") == refers_ &&
                      !body.contains("conversation") &&
                      digest(input->get_array(), 0, input->get_array().size()) == sent_digest_;
    if (!ours) input_digest_.clear();
}

std::string ResponsesCall::build_differently(const EndpointFailure& failure) const {
    if (refers_ && may_refer_ &&
        (matches(failure, "previous_response_not_found", "Previous response") ||
         failure.status == 404)) {
        may_refer_ = false;
        return "The endpoint no longer has the response that the request continued; "
               "the whole history is sent";
    }
    if (asks_to_compact_ && failure.message.find("context_management") != std::string::npos) {
        may_compact_ = false;
        return "The endpoint does not compact conversations; it is not asked to";
    }
    if (encrypted_ && refuses_reasoning(failure)) {
        encrypted_ = false;
        may_refer_ = false;
        return "The endpoint cannot read the reasoning of earlier answers: the history is sent "
               "without it";
    }
    return {};
}

/// Notes the words by which a refusal may refer to the reasoning in a request.
void ResponsesCall::note_reasoning(const JsonObject& body) const {
    constexpr std::size_t shortest_quote = 4;
    const Json* input = body.if_contains("input");
    if (!input || !input->is_array()) return;
    const JsonArray& items = input->get_array();
    for (std::size_t i = 0; i < items.size(); ++i) {
        const JsonObject& item = items[i].get_object();
        if (string_member(item, "type") != "reasoning") continue;
        sent_names_.push_back("input[" + std::to_string(i) + "]");
        const std::string_view content = string_member(item, "encrypted_content");
        if (content.size() >= shortest_quote)
            sent_names_.emplace_back(content.substr(0, shortest_quote));
    }
}

/// Returns whether the endpoint rejected a request because of the reasoning of earlier answers (D89).
bool ResponsesCall::refuses_reasoning(const EndpointFailure& failure) const {
    const int status = failure.status.value_or(400);
    if (status != 400 && status != 404 && status != 422) return false;
    if (sends_reasoning_ && refuses_thinking(failure)) return true;
    const std::string words = failure.code + " " + failure.param + " " + failure.message;
    return std::any_of(sent_names_.begin(), sent_names_.end(), [&words](const std::string& id) {
        return words.find(id) != std::string::npos;
    });
}

/// Notes with the answer what the endpoint has now.
void ResponsesCall::remember(MessageAssembler& assembler, std::string input) const {
    const JsonArray items = responses_items(assembler.message(), true);
    JsonObject state;
    state["input"] = std::move(input);
    state["output"] = digest(items, 0, items.size());
    assembler.head().extra[state_key] = std::move(state);
}

std::unique_ptr<WireDecoder> ResponsesCall::decoder(MessageAssembler& assembler,
                                                    IdSource& ids) const {
    std::function<void(MessageAssembler&)> at_end;
    if (!input_digest_.empty() && encrypted_) {
        at_end = [this](MessageAssembler& made) { remember(made, input_digest_); };
    }
    return std::make_unique<OpenAIResponsesDecoder>(assembler, ids, std::move(at_end));
}

}  // namespace

}  // namespace detail

OpenAIProvider::OpenAIProvider(OpenAIOptions options)
    : HttpProvider(options.provider_id, std::make_shared<const ChatCall>(
                                            std::make_shared<const ChatEndpoint>(options))) {}

BoundModel OpenAIProvider::model(std::string id) const { return model(model_named(std::move(id))); }

BoundModel OpenAIProvider::model(Model model) const {
    return BoundModel(std::make_shared<OpenAIProvider>(*this), std::move(model));
}

OpenAIResponsesProvider::OpenAIResponsesProvider(OpenAIResponsesOptions options)
    : HttpProvider(options.provider_id,
                   std::make_shared<const detail::ResponsesCall>(
                       std::make_shared<const detail::ResponsesEndpoint>(options))) {}

BoundModel OpenAIResponsesProvider::model(std::string id) const {
    return model(model_named(std::move(id)));
}

BoundModel OpenAIResponsesProvider::model(Model model) const {
    return BoundModel(std::make_shared<OpenAIResponsesProvider>(*this), std::move(model));
}

BoundModel openai_model(std::string id) {
    return model_from_environment<OpenAIProvider, OpenAIOptions>(std::move(id));
}

BoundModel openai_responses_model(std::string id) {
    return model_from_environment<OpenAIResponsesProvider, OpenAIResponsesOptions>(std::move(id));
}

}  // namespace cubepi
