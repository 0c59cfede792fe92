#pragma once

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cubepi/core/message_list.hpp>
#include <cubepi/core/model.hpp>
#include <cubepi/core/stream_event.hpp>
#include <cubepi/core/task.hpp>
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

namespace detail {
struct StreamAccess;
}

/// The producer of a model's answer, implemented by providers. Used by one consumer, on one
/// executor. Destroying it ends the call at once.
class StreamSource {
public:
    virtual ~StreamSource() = default;
    /// Waits for the next event. Failures are events, not exceptions; only cancellation of the awaiting
    /// coroutine throws, and next() may then be called again. Not called after a terminal event.
    /// (MessageStream turns an exception into an `error` event, without the content so far.)
    virtual Task<StreamEvent> next() = 0;
    /// Returns the next event if it is available already. Saves a coroutine per event.
    virtual std::optional<StreamEvent> ready() { return std::nullopt; }
    /// True if next() returns a terminal event by itself, at once and in every phase of the call, when the stop token
    /// of the request is stopped. The caller then needs no cancellable coroutine per wait.
    virtual bool honors_stop_token() const noexcept { return false; }
};

/// One answer of a model, pulled event by event. Failures are reported by an `error` event and a message with stop
/// reason "error" or "aborted". Dropping the stream ends the call.
class MessageStream {
public:
    explicit MessageStream(std::unique_ptr<StreamSource> source) : source_(std::move(source)) {}

    /// Returns the next event; empty after the terminal one, for every further call too.
    Task<std::optional<StreamEvent>> next();
    /// Returns the next event if it is available already. Empty means: no event yet, the end (see finished()), or
    /// that the event loop must run because many events were taken in a row: next() lets it run.
    std::optional<StreamEvent> ready();
    /// See StreamSource.
    bool honors_stop_token() const noexcept { return source_ && source_->honors_stop_token(); }
    /// True after the terminal event was taken.
    bool finished() const noexcept { return finished_; }
    /// Returns the final message. Reads the rest of the stream first.
    Task<AssistantMessage> result();

private:
    friend struct detail::StreamAccess;
    /// Number of events that may be taken in a row before the event loop runs, so that timers, signals and aborts of
    /// the same loop are served if the source always has the next event ready.
    static constexpr unsigned yield_interval = 1024;
    void note(const StreamEvent& event);

    std::unique_ptr<StreamSource> source_;
    PartialMessage final_;
    bool finished_ = false;
    unsigned events_since_yield_ = 0;
};

namespace detail {
struct StreamAccess {
    /// The final message of a finished stream.
    static const PartialMessage& final_message(const MessageStream& stream) noexcept {
        return stream.final_;
    }
    /// Returns the producer of a stream of which nothing was read.
    static std::unique_ptr<StreamSource> source(MessageStream&& stream) noexcept {
        return std::move(stream.source_);
    }
    /// Releases the final message, for a caller that took the terminal event and does not call result().
    static void drop_result(MessageStream& stream) noexcept { stream.final_ = PartialMessage(); }
};
}  // namespace detail

class BoundModel;
class ObserverRegistry;

/// An endpoint that answers model calls. Implement `stream` to write your own (docs/guides/providers/custom.md).
/// A provider may be shared by agents on several executors; `stream` must not touch shared state unlocked.
class Provider {
public:
    Provider();
    virtual ~Provider() = default;
    /// Starts one call and returns at once; nothing is sent before the first event is pulled. Throws only for misuse:
    /// failures of the endpoint or the network are events.
    virtual MessageStream stream(ModelRequest request) = 0;
    /// The name of the provider in models, prices and answers: "openai", "anthropic", ...; empty if not set.
    virtual const std::string& provider_id() const noexcept;
    /// Returns whether the endpoint can enforce a JSON Schema for the answers of this model
    /// (StreamOptions::response_format).
    virtual bool takes_response_format(const Model& model) const;
    /// Returns the observers of the provider's calls. By default they are called by call(), so that a provider needs nothing for
    /// them; a class that overrides this, such as BaseProvider, calls them itself. Null: the provider is not observed.
    virtual std::shared_ptr<ObserverRegistry> observer_registry() const;
    /// Returns the models to which this provider passes its calls, in order: those of a fallback chain. Empty for an endpoint.
    virtual std::vector<BoundModel> inner_models() const;

    /// Starts one call by stream(), which the observers receive in any case (D103). Agents, models and fallback chains use it.
    MessageStream call(ModelRequest request);

private:
    std::shared_ptr<ObserverRegistry> observers_;  // shared by copies
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
std::vector<std::shared_ptr<Provider>> chain_providers(const BoundModel& model);

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
