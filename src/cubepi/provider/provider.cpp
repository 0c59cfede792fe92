#include <cubepi/provider/provider.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/provider/message_assembler.hpp>
#include <cubepi/provider/observers.hpp>
#include <cubepi/provider/stream_from.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi {

namespace {

/// Handles to one provider share its observers.
bool is_same(const Provider& a, const Provider& b) {
    const std::shared_ptr<ObserverRegistry> observers = a.observer_registry();
    return &a == &b || (observers && observers == b.observer_registry());
}

void collect_providers(const BoundModel& model, std::vector<std::shared_ptr<Provider>>& found) {
    const std::shared_ptr<Provider>& provider = model.provider();
    if (!provider) return;
    const std::vector<BoundModel> inner = provider->inner_models();
    for (const BoundModel& one : inner) collect_providers(one, found);
    const bool known = std::any_of(found.begin(), found.end(),
                                   [&](const auto& other) { return is_same(*other, *provider); });
    if (inner.empty() && !known) found.push_back(provider);
}

}  // namespace

const std::shared_ptr<const Runtime>& StreamOptions::runtime() const noexcept {
    if (runtime_) return runtime_;
    static const std::shared_ptr<const Runtime> standard = Runtime::standard();
    return standard;
}

void MessageStream::note(const StreamEvent& event) {
    ++events_since_yield_;
    if (!event.is_terminal()) return;
    final_ = event.partial;
    finished_ = true;
}

std::optional<StreamEvent> MessageStream::ready() {
    if (finished_ || !source_ || events_since_yield_ >= yield_interval) return std::nullopt;
    std::optional<StreamEvent> event = source_->ready();
    if (event) note(*event);
    return event;
}

Task<std::optional<StreamEvent>> MessageStream::next() {
    if (events_since_yield_ >= yield_interval) {
        events_since_yield_ = 0;
        co_await yield_now();
    }
    std::optional<StreamEvent> event = ready();
    if (event || finished_ || !source_) co_return event;
    std::exception_ptr failure;
    try {
        event.emplace(co_await source_->next());
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure) {
        if (is_cancellation(failure)) std::rethrow_exception(failure);
        MessageAssembler assembler{AssistantMessage()};
        event.emplace(assembler.error(failure));
    }
    note(*event);
    co_return event;
}

Task<AssistantMessage> MessageStream::result() {
    while (!finished_) {
        const std::optional<StreamEvent> event = co_await next();
        if (!event) break;
    }
    co_return final_.get();
}

const std::string& Provider::provider_id() const noexcept {
    static const std::string none;
    return none;
}

bool Provider::takes_response_format(const Model&) const { return false; }

Provider::Provider() : observers_(std::make_shared<ObserverRegistry>()) {}

std::shared_ptr<ObserverRegistry> Provider::observer_registry() const { return observers_; }

MessageStream Provider::call(ModelRequest request) {
    // Without observers if the class has a registry of its own, or if nothing subscribed.
    std::shared_ptr<ObservedCall> observed = observers_->observe(request);
    MessageStream started = stream(std::move(request));
    if (!observed) return started;
    // The body is unknown, but the call is announced when it begins.
    observed->build_payload = [](const ModelRequest&) { return JsonObject(); };
    return MessageStream(observe_stream(
        std::move(observed), detail::StreamAccess::source(std::move(started)), BodyBuilder()));
}

std::vector<BoundModel> Provider::inner_models() const { return {}; }

std::vector<std::shared_ptr<Provider>> chain_providers(const BoundModel& model) {
    std::vector<std::shared_ptr<Provider>> found;
    collect_providers(model, found);
    return found;
}

BoundModel::BoundModel(Model model) : model_(std::make_shared<const Model>(std::move(model))) {}

BoundModel::BoundModel(std::shared_ptr<Provider> provider, Model model)
    : provider_(std::move(provider)) {
    if (model.provider_id.empty() && provider_) model.provider_id = provider_->provider_id();
    model_ = std::make_shared<const Model>(std::move(model));
}

const Model& BoundModel::spec() const noexcept {
    static const Model none;
    return model_ ? *model_ : none;
}

std::shared_ptr<const Model> BoundModel::shared_spec() const {
    return model_ ? model_ : std::make_shared<const Model>();
}

MessageStream BoundModel::stream(MessageList messages, SharedString system_prompt,
                                 std::shared_ptr<const ToolDefinitions> tools,
                                 StreamOptions options) const {
    if (!provider_) {
        throw Error(ErrorCode::invalid_argument,
                    "Model '" + spec().id +
                        "' has no provider: take it from one (provider.model(\"" + spec().id +
                        "\")) or give Agent a .provider");
    }
    ModelRequest request;
    request.model = spec();
    request.messages = std::move(messages);
    request.system_prompt = std::move(system_prompt);
    request.tools = std::move(tools);
    request.options = std::move(options);
    return provider_->call(std::move(request));
}

Task<AssistantMessage> BoundModel::generate(MessageList messages, SharedString system_prompt,
                                            std::shared_ptr<const ToolDefinitions> tools,
                                            StreamOptions options) const {
    MessageStream stream = this->stream(std::move(messages), std::move(system_prompt),
                                        std::move(tools), std::move(options));
    co_return co_await stream.result();
}

namespace {

constexpr std::size_t events_ahead = 4;

AssistantMessage head_of(const ModelRequest& request) {
    AssistantMessage head;
    head.id = request.options.message_id();
    head.provider_id = shared_name(request.model.provider_id);
    head.model_id = shared_name(request.model.id);
    const auto wall = request.options.runtime()->clock->wall().time_since_epoch();
    head.timestamp = std::chrono::duration<double>(wall).count();
    return head;
}

}  // namespace

/// Shared by the stream and the producer's coroutine, which may outlive it by a moment.
struct StreamWriter::State {
    enum class Open { none, text, thinking, call };

    State(ModelRequest call, std::function<Task<>(StreamWriter&)> written_by)
        : request(std::move(call)),
          producer(std::move(written_by)),
          assembler(head_of(request), request.options.max_answer_bytes()),
          writer(*this) {}

    Task<> push(StreamEvent event) {
        const bool taken = co_await events.push(std::move(event));
        if (!taken) throw_cancelled();
    }

    Task<> close_block() {
        const Open was = std::exchange(open, Open::none);
        StreamEvent event;
        switch (was) {
            case Open::none: co_return;
            case Open::text: event = assembler.text_end(index, std::move(extra)); break;
            case Open::thinking: event = assembler.thinking_end(index, std::move(extra)); break;
            case Open::call: event = assembler.toolcall_end(index); break;
        }
        extra = LazyObject();
        co_await push(std::move(event));
    }

    Task<> open_block(Open kind) {
        if (open == kind && kind != Open::call) co_return;
        co_await close_block();
        StreamEvent event =
            kind == Open::text ? assembler.text_start() : assembler.thinking_start();
        index = event.content_index;
        open = kind;
        co_await push(std::move(event));
    }

    Task<> open_call(std::string name, std::string id) {
        co_await close_block();
        has_calls = true;
        if (id.empty()) id = "call_" + request.options.runtime()->ids->next();
        StreamEvent event = assembler.toolcall_start(std::move(id), SharedString(std::move(name)));
        index = event.content_index;
        open = Open::call;
        co_await push(std::move(event));
    }

    ModelRequest request;
    std::function<Task<>(StreamWriter&)> producer;
    MessageAssembler assembler;
    StreamWriter writer;
    AsyncQueue<StreamEvent> events{events_ahead};
    LazyObject extra;
    std::string stop_reason;
    std::int32_t index = -1;
    Open open = Open::none;
    bool has_calls = false;
    bool over = false;
};

const ModelRequest& StreamWriter::request() const noexcept { return state_->request; }

Task<> StreamWriter::text(std::string piece) {
    co_await state_->open_block(State::Open::text);
    StreamEvent event = state_->assembler.text_delta(state_->index, piece);
    co_await state_->push(std::move(event));
}

Task<> StreamWriter::thinking(std::string piece) {
    co_await state_->open_block(State::Open::thinking);
    StreamEvent event = state_->assembler.thinking_delta(state_->index, piece);
    co_await state_->push(std::move(event));
}

Task<> StreamWriter::tool_call(std::string name, JsonObject arguments, std::string id) {
    std::string json = to_python_json(arguments);
    co_await begin_tool_call(std::move(name), std::move(id));
    co_await tool_call_arguments(std::move(json));
    co_await state_->close_block();
}

Task<> StreamWriter::begin_tool_call(std::string name, std::string id) {
    co_await state_->open_call(std::move(name), std::move(id));
}

Task<> StreamWriter::tool_call_arguments(std::string json) {
    if (state_->open != State::Open::call) {
        throw Error(ErrorCode::invalid_state,
                    "tool_call_arguments: no tool call is open; begin_tool_call comes first");
    }
    StreamEvent event = state_->assembler.toolcall_delta(state_->index, json);
    co_await state_->push(std::move(event));
}

void StreamWriter::block_extra(std::string_view key, Json value) {
    state_->extra[key] = std::move(value);
}

Task<> StreamWriter::notice(Notice notice) {
    StreamEvent event = MessageAssembler::notice(std::move(notice));
    co_await state_->push(std::move(event));
}

void StreamWriter::usage(Usage usage) { state_->assembler.head().usage = usage; }
void StreamWriter::response_id(std::string id) {
    state_->assembler.head().response_id = SharedString(std::move(id));
}
void StreamWriter::stop_reason(std::string_view reason) { state_->stop_reason = reason; }

namespace {

using WriterState = StreamWriter::State;

Task<> write(std::shared_ptr<WriterState> state) {
    StreamEvent start = state->assembler.start();
    co_await state->push(std::move(start));
    co_await state->producer(state->writer);
    co_await state->close_block();
}

/// Runs the producer and closes the queue with the terminal event.
Task<> produce(std::shared_ptr<WriterState> state) {
    std::exception_ptr failure;
    try {
        Task<> written = write(state);
        co_await cancel_on(state->request.options.stop_token(), std::move(written));
    } catch (...) {
        failure = std::current_exception();
    }
    if (state->over) co_return;
    StreamEvent last;
    if (!failure) {
        std::string_view reason = state->stop_reason;
        if (reason.empty()) reason = state->has_calls ? stop_reason::tool_use : stop_reason::stop;
        last = state->assembler.done(reason);
    } else if (is_cancellation(failure)) {
        last = state->assembler.aborted();
    } else {
        last = state->assembler.error(failure);
    }
    state->events.force_push(std::move(last));
}

class WriterSource final : public StreamSource {
public:
    explicit WriterSource(std::shared_ptr<WriterState> state) : state_(std::move(state)) {}
    ~WriterSource() override {
        state_->over = true;
        state_->events.close();
    }

    std::optional<StreamEvent> ready() override { return state_->events.try_next(); }

    Task<StreamEvent> next() override {
        if (!scope_) {
            const std::stop_token& token = state_->request.options.stop_token();
            if (token.stop_requested()) co_return state_->assembler.aborted();
            scope_.emplace(co_await this_executor);
            scope_->spawn(produce(state_));
        }
        std::optional<StreamEvent> event = co_await state_->events.next();
        co_return std::move(*event);
    }

private:
    std::shared_ptr<WriterState> state_;
    std::optional<BackgroundScope> scope_;
};

}  // namespace

std::unique_ptr<StreamSource> source_from(ModelRequest request,
                                          std::function<Task<>(StreamWriter& out)> producer) {
    auto state = std::make_shared<WriterState>(std::move(request), std::move(producer));
    return std::make_unique<WriterSource>(std::move(state));
}

MessageStream stream_from(ModelRequest request, std::function<Task<>(StreamWriter& out)> producer) {
    return MessageStream(source_from(std::move(request), std::move(producer)));
}

}  // namespace cubepi
