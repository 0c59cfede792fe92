#pragma once

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cubepi/core/message_list.hpp>
#include <cubepi/core/model.hpp>
#include <cubepi/provider/message_stream.hpp>
#include <cubepi/provider/stream_options.hpp>

namespace cubepi {

/// One call of a model: its input and options. Copies share the messages and tools.
struct ModelRequest {
    ModelRequest() {}
    Model model = {};
    MessageList messages = {};
    SharedString system_prompt = {};
    std::shared_ptr<const ToolDefinitions> tools = {};  ///< null: none
    StreamOptions options = {};
};

class BoundModel;
class ObserverRegistry;

/// An endpoint that answers model calls. Implement `stream` to write your own (docs/guides/providers/custom.md).
/// A provider may be shared by agents on several executors; `stream` must not touch shared state unlocked.
class Provider {
public:
    virtual ~Provider() = default;
    /// Starts one call and returns at once; nothing is sent before the first event is pulled. Throws only for misuse:
    /// failures of the endpoint or the network are events.
    virtual MessageStream stream(ModelRequest request) = 0;
    /// The name of the provider in models, prices and answers: "openai", "anthropic", ...; empty if not set.
    virtual const std::string& provider_id() const noexcept;
    /// Returns whether the endpoint can enforce a JSON Schema for the answers of this model
    /// (StreamOptions::response_format).
    virtual bool takes_response_format(const Model& model) const;
    /// Returns the observers of the provider's calls; null if it cannot be observed (BaseProvider can).
    virtual std::shared_ptr<ObserverRegistry> observer_registry() const;
    /// Returns the models to which this provider passes its calls, in order: those of a fallback chain. Empty for an endpoint.
    virtual std::vector<BoundModel> inner_models() const;
};

/// A model with its provider, as passed to an agent. Immutable and cheap to copy.
class BoundModel {
public:
    BoundModel() = default;
    /// A model whose provider is not set yet, for Agent({.provider = ..., .model = Model{...}}).
    BoundModel(Model model);
    BoundModel(std::shared_ptr<Provider> provider, Model model);
    /// The same, sharing `model`, which must not be null.
    BoundModel(std::shared_ptr<Provider> provider, std::shared_ptr<const Model> model) noexcept
        : provider_(std::move(provider)), model_(std::move(model)) {}

    const std::shared_ptr<Provider>& provider() const noexcept { return provider_; }
    const Model& spec() const noexcept;
    /// The same, shared. Never null.
    std::shared_ptr<const Model> shared_spec() const;
    explicit operator bool() const noexcept { return provider_ != nullptr; }

    /// Starts a call. Throws Error(invalid_argument) if there is no provider.
    MessageStream stream(MessageList messages, SharedString system_prompt = {},
                         std::shared_ptr<const ToolDefinitions> tools = {},
                         StreamOptions options = {}) const;
    /// Returns the whole answer. A failure is reported in the message (stop reason "error").
    Task<AssistantMessage> generate(MessageList messages, SharedString system_prompt = {},
                                    std::shared_ptr<const ToolDefinitions> tools = {},
                                    StreamOptions options = {}) const;

private:
    std::shared_ptr<Provider> provider_;
    std::shared_ptr<const Model> model_;
};

/// Returns the providers that may be called for `model`, each once: its own, or those of all models of a fallback chain
/// (D70). Subscribe to these to observe all calls of the model.
std::vector<std::shared_ptr<Provider>> providers_of(const BoundModel& model);

/// The type of Agent's `.provider`: a shared provider, or a provider handle such as OpenAIProvider by value.
class ProviderRef {
public:
    ProviderRef() = default;
    template <class P>
        requires std::is_base_of_v<Provider, P>
    ProviderRef(std::shared_ptr<P> provider) : provider_(std::move(provider)) {}
    template <class P>
        requires std::is_base_of_v<Provider, P> && std::is_copy_constructible_v<P>
    ProviderRef(P provider) : provider_(std::make_shared<P>(std::move(provider))) {}
    const std::shared_ptr<Provider>& get() const noexcept { return provider_; }

private:
    std::shared_ptr<Provider> provider_;
};

}  // namespace cubepi
