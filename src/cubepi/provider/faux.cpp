#include <cubepi/provider/faux.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/ids.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/core/support/message_log.hpp>
#include <cubepi/provider/message_assembler.hpp>
#include <cubepi/provider/wire/user_hook.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi {

namespace detail {

namespace {

/// A small generator with the same results on every platform, unlike the distributions of the standard library
/// (splitmix64).
class FauxRandom {
public:
    explicit FauxRandom(std::uint64_t seed = 0) noexcept : state_(seed) {}
    std::uint64_t next() noexcept {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    int between(int low, int high) noexcept {
        const std::uint64_t drawn = next();
        return high == low
                   ? low
                   : low + static_cast<int>(drawn % static_cast<std::uint64_t>(high - low + 1));
    }
    FauxRandom split() noexcept { return FauxRandom(next()); }

private:
    std::uint64_t state_;
};

/// Data that a stream receives from the provider when it begins.
struct FauxCall {
    std::optional<FauxStep> step = {};  ///< empty: the script is used up
    Usage usage = {};
    FauxRandom random{};
    int token_size_min = 1;
    int token_size_max = 1;
    std::optional<double> tokens_per_second = {};
    bool yield_every_chunk = false;
};

/// Sizes in bytes of the parts of a prompt; ids and times are not counted, so that the sizes are reproducible.
std::size_t size_of(const Json& value);

std::size_t size_of(const JsonObject& object) {
    std::size_t size = 2;
    for (const auto& [key, value] : object) size += key.size() + 6 + size_of(value);
    return size;
}

std::size_t size_of(const Json& value) {
    switch (value.kind()) {
        case boost::json::kind::string: return value.get_string().size() + 2;
        case boost::json::kind::object: return size_of(value.get_object());
        case boost::json::kind::array: {
            std::size_t size = 2;
            for (const Json& item : value.get_array()) size += 2 + size_of(item);
            return size;
        }
        default: return 4;
    }
}

struct BlockSize {
    std::size_t operator()(const TextContent& block) const { return block.text.size(); }
    std::size_t operator()(const ThinkingContent& block) const { return block.thinking.size(); }
    std::size_t operator()(const ImageContent& block) const { return block.source.size(); }
    std::size_t operator()(const ToolCall& call) const {
        return call.name.size() + size_of(call.arguments);
    }
};

template <class Blocks>
std::size_t blocks_size(const Blocks& blocks) {
    std::size_t size = 0;
    for (const auto& block : blocks) size += std::visit(BlockSize(), block);
    return size;
}

std::size_t estimated_size(const AssistantMessage& message) { return blocks_size(message.content); }

std::size_t estimated_size(const Message& message) {
    constexpr std::size_t role_size = 8;
    if (const auto* user = message.user()) return role_size + blocks_size(user->content);
    if (const auto* assistant = message.assistant()) return role_size + estimated_size(*assistant);
    return role_size + blocks_size(message.tool_result()->content);
}

std::size_t estimated_size(const ToolDefinitions& tools) {
    std::size_t size = 0;
    for (const ToolDefinition& tool : tools) {
        size += tool.name.size() + tool.description.size();
        if (tool.parameters) size += size_of(*tool.parameters);
    }
    return size;
}

/// Returns whether two messages contribute the same text to a prompt.
bool same_content(const Message& a, const Message& b) {
    if (a.is_same(b)) return true;
    if (a.role() != b.role()) return false;
    if (a.user()) return a.user()->content == b.user()->content;
    if (a.assistant()) return a.assistant()->content == b.assistant()->content;
    return a.tool_result()->content == b.tool_result()->content;
}

JsonObject faux_body(const AssistantMessage& message) {
    JsonArray content;
    for (const AssistantContent& block : message.content) {
        if (const auto* call = std::get_if<ToolCall>(&block)) {
            JsonObject item;
            item["type"] = "tool_use";
            item["id"] = call->id.str();
            item["name"] = call->name.str();
            item["input"] = call->arguments;
            content.push_back(std::move(item));
        } else {
            content.push_back(to_json(block));
        }
    }
    JsonObject body;
    body["id"] = "faux";
    body["model"] = message.model_id.str();
    body["role"] = "assistant";
    body["content"] = std::move(content);
    body["stop_reason"] = message.stop_reason.str();
    body["usage"] = message.usage ? Json(to_json(*message.usage)) : Json(nullptr);
    return body;
}

/// The first `count` code points of a text.
std::string_view code_points(std::string_view text, std::size_t count) {
    if (text.size() <= count) return text;
    std::size_t at = 0;
    for (; at < text.size(); ++at) {
        const bool begins = (static_cast<unsigned char>(text[at]) & 0xc0u) != 0x80u;
        if (begins && count-- == 0) break;
    }
    return text.substr(0, at);
}

/// The payload that hooks and observers receive.
JsonObject observed_payload(const ModelRequest& request) {
    JsonArray messages;
    for (const Message& message : request.messages) messages.push_back(to_json(message));
    JsonObject payload;
    payload["model"] = request.model.id;
    payload["messages"] = std::move(messages);
    payload["system_prompt"] = request.system_prompt.str();
    return payload;
}

}  // namespace

}  // namespace detail

class FauxSource final : public StreamSource {
public:
    /// `observed` is null if there are no observers; otherwise the request is that of the observation.
    FauxSource(ModelRequest&& request, std::shared_ptr<ObservedCall> observed);
    /// Set by the provider before the first event is pulled.
    detail::FauxCall& call() noexcept { return call_; }
    const ModelRequest& request() const noexcept { return request_; }

    std::optional<StreamEvent> ready() override;
    Task<StreamEvent> next() override;

private:
    enum class Phase : std::uint8_t { unprepared, begin, block, pieces, end, failed };

    bool stopped() const noexcept { return request_.options.stop_token().stop_requested(); }
    bool needs_waiting() const noexcept;
    Task<> prepare();
    Task<> announce();
    Task<> make_message(detail::FauxFunction function);
    /// The function of the step if it may return a task; else null.
    const detail::FauxFunction* async_function() const noexcept;
    void prepare_now();
    void fail(std::string message, std::optional<ErrorInfo> info = {});
    void fail(const std::exception_ptr& failure);
    Task<> pace();

    StreamEvent step();
    AssistantMessage head() const;
    StreamEvent event(StreamEventType type, std::int32_t index, std::string_view delta = {}) const;
    std::int32_t index() const noexcept { return static_cast<std::int32_t>(block_); }
    StreamEvent begin();
    StreamEvent next_block();
    StreamEvent next_piece();
    StreamEvent close_block();
    StreamEvent finish();
    StreamEvent abort();
    StreamEvent aborted(AssistantMessage message);
    std::string_view next_chunk() const;

    ModelRequest own_request_;
    std::shared_ptr<ObservedCall> observed_;
    const ModelRequest& request_;
    detail::FauxCall call_;
    Message final_;  ///< from the start on: the log plays it
    detail::LogRef log_;
    std::vector<StreamEvent> notices_;
    std::string arguments_;
    std::string_view rest_;
    std::uint32_t block_ = 0;
    std::size_t streamed_ = 0;
    int chunk_size_ = 0;
    Phase phase_ = Phase::unprepared;
    bool cancelled_ = false;
};

FauxSource::FauxSource(ModelRequest&& request, std::shared_ptr<ObservedCall> observed)
    : own_request_(std::move(request)),
      observed_(std::move(observed)),
      request_(observed_ ? observed_->call.request : own_request_) {}

bool FauxSource::needs_waiting() const noexcept {
    if (call_.tokens_per_second || call_.yield_every_chunk) return true;
    if (phase_ != Phase::unprepared) return false;
    return async_function() || request_.options.on_payload();
}

const detail::FauxFunction* FauxSource::async_function() const noexcept {
    if (!call_.step) return nullptr;
    const auto* function = std::get_if<detail::FauxFunction>(&call_.step->answer_);
    return function && function->is_async() ? function : nullptr;
}

std::optional<StreamEvent> FauxSource::ready() {
    if (needs_waiting()) return std::nullopt;
    if (!notices_.empty()) {
        StreamEvent event = std::move(notices_.front());
        notices_.erase(notices_.begin());
        return event;
    }
    if (phase_ == Phase::unprepared) prepare_now();
    return step();
}

Task<StreamEvent> FauxSource::next() {
    if (phase_ == Phase::unprepared) co_await prepare();
    if (!notices_.empty()) {
        StreamEvent event = std::move(notices_.front());
        notices_.erase(notices_.begin());
        co_return event;
    }
    if (phase_ == Phase::pieces && chunk_size_ != 0) co_await pace();
    co_return step();
}

Task<> FauxSource::prepare() {
    if (!stopped()) co_await announce();
    const detail::FauxFunction* function = async_function();
    if (!function || stopped()) {
        prepare_now();
        co_return;
    }
    co_await make_message(*function);
}

/// Shows the request to the hook, and to the observers what the hook returns. Nothing they do changes what a script
/// answers. Without a hook the observers have received the request already.
Task<> FauxSource::announce() {
    if (!request_.options.on_payload()) co_return;
    JsonObject payload = detail::observed_payload(request_);
    Task<std::optional<JsonObject>> hook = detail::call_user_hook(
        "on_payload", request_.options.on_payload(), payload, request_.model, HttpHeaders());
    std::optional<JsonObject> changed = co_await std::move(hook);
    if (changed) payload = std::move(*changed);
    if (!observed_) co_return;
    Task<std::vector<Notice>> observing = observe_request(observed_, RequestPayload(payload));
    std::vector<Notice> notices = co_await std::move(observing);
    for (Notice& notice : notices) notices_.push_back(MessageAssembler::notice(std::move(notice)));
}

Task<> FauxSource::make_message(detail::FauxFunction function) {
    const ModelRequest request = request_;
    std::exception_ptr failure;
    std::optional<AssistantMessage> message;
    try {
        Task<AssistantMessage> made =
            detail::await_call<AssistantMessage, detail::FauxFunction, const ModelRequest&>(
                function, request);
        Task<AssistantMessage> stoppable =
            cancel_on(request_.options.stop_token(), std::move(made));
        message.emplace(co_await std::move(stoppable));
    } catch (...) {
        failure = std::current_exception();
    }
    if (!failure) {
        call_.step = FauxStep(std::move(*message));
        phase_ = Phase::begin;
    } else if (!is_cancellation(failure)) {
        fail(failure);
    } else if (stopped()) {
        phase_ = Phase::begin;
    } else {
        cancelled_ = true;
        phase_ = Phase::begin;
        std::rethrow_exception(failure);
    }
}

void FauxSource::prepare_now() {
    phase_ = Phase::begin;
    if (stopped()) return;
    if (!call_.step) return fail("No more faux responses queued");
    auto& answer = call_.step->answer_;
    if (std::holds_alternative<FauxStep::Failure>(answer)) {
        phase_ = Phase::failed;
    } else if (auto* function = std::get_if<detail::FauxFunction>(&answer)) {
        try {
            call_.step = FauxStep((*function)(request_).value());
        } catch (...) {
            fail(std::current_exception());
        }
    }
}

void FauxSource::fail(std::string message, std::optional<ErrorInfo> info) {
    call_.step = faux_failure(std::move(message), std::move(info));
    phase_ = Phase::failed;
}

void FauxSource::fail(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const ProviderError& error) {
        fail(error.what(), error.info());
    } catch (const std::exception& error) {
        fail(error.what());
    } catch (...) {
        fail("The faux factory threw an exception that is not a std::exception");
    }
}

Task<> FauxSource::pace() {
    if (call_.yield_every_chunk) co_await yield_now();
    if (!call_.tokens_per_second || stopped()) co_return;
    const std::size_t length = next_chunk().size();
    const double seconds = std::ceil(static_cast<double>(length) / 4.0) / *call_.tokens_per_second;
    const std::chrono::nanoseconds delay(static_cast<std::int64_t>(seconds * 1e9));
    std::exception_ptr failure;
    try {
        Task<> sleep = request_.options.runtime()->clock->sleep_for(delay);
        Task<> stoppable = cancel_on(request_.options.stop_token(), std::move(sleep));
        co_await std::move(stoppable);
    } catch (...) {
        failure = std::current_exception();
    }
    if (!failure || stopped()) co_return;
    cancelled_ = true;
    std::rethrow_exception(failure);
}

StreamEvent FauxSource::step() {
    switch (phase_) {
        case Phase::unprepared:
        case Phase::begin: return begin();
        case Phase::block: return next_block();
        case Phase::pieces: return next_piece();
        case Phase::end: return finish();
        case Phase::failed: break;
    }
    auto& failure = std::get<FauxStep::Failure>(call_.step->answer_);
    MessageAssembler assembler(head());
    return assembler.error(failure.message, std::move(failure.info));
}

AssistantMessage FauxSource::head() const {
    AssistantMessage head;
    head.id = request_.options.message_id();
    head.provider_id = shared_name(request_.model.provider_id);
    head.model_id = shared_name(request_.model.id);
    return head;
}

StreamEvent FauxSource::begin() {
    AssistantMessage head = this->head();
    auto* answer = call_.step ? std::get_if<AssistantMessage>(&call_.step->answer_) : nullptr;
    if (answer) {
        head.response_id = answer->response_id;
        head.timestamp = answer->timestamp;
    }
    if (!head.timestamp) {
        const auto wall = request_.options.runtime()->clock->wall().time_since_epoch();
        head.timestamp = std::chrono::duration<double>(wall).count();
    }
    if (stopped() || cancelled_ || !answer) return aborted(std::move(head));
    answer->usage = call_.usage;
    answer->usage->output_tokens =
        static_cast<std::int64_t>((detail::estimated_size(*answer) + 3) / 4);
    answer->id = head.id;
    answer->provider_id = head.provider_id;
    answer->model_id = head.model_id;
    answer->timestamp = head.timestamp;
    if (answer->run_id.empty()) answer->run_id = request_.options.run_id();
    final_ = Message(std::move(*answer));
    log_ = detail::MessageLog::make(std::move(head));
    log_->play(final_);
    phase_ = Phase::block;
    return event(StreamEventType::start, -1);
}

StreamEvent FauxSource::event(StreamEventType type, std::int32_t index,
                              std::string_view delta) const {
    StreamEvent made;
    made.type = type;
    made.content_index = index;
    made.delta = delta;
    made.partial = log_->snapshot();
    return made;
}

StreamEvent FauxSource::next_block() {
    const ContentList<AssistantContent>& content = final_.assistant()->content;
    for (; block_ < content.size(); ++block_) {
        if (!std::holds_alternative<ImageContent>(content[block_])) break;
        log_->replace_played(block_, content[block_]);
    }
    if (block_ == content.size()) return finish();
    if (stopped() || cancelled_) return abort();
    phase_ = Phase::pieces;
    const AssistantContent& block = content[block_];
    log_->open_played(block_, block);
    StreamEventType type = StreamEventType::text_start;
    if (const auto* text = std::get_if<TextContent>(&block)) {
        rest_ = text->text;
    } else if (const auto* deep = std::get_if<ThinkingContent>(&block)) {
        type = StreamEventType::thinking_start;
        rest_ = deep->thinking;
    } else {
        type = StreamEventType::toolcall_start;
        arguments_ = to_python_json(std::get<ToolCall>(block).arguments);
        rest_ = arguments_;
    }
    chunk_size_ = 4 * call_.random.between(call_.token_size_min, call_.token_size_max);
    return event(type, index());
}

std::string_view FauxSource::next_chunk() const {
    return detail::code_points(rest_, static_cast<std::size_t>(chunk_size_));
}

StreamEvent FauxSource::next_piece() {
    if (chunk_size_ == 0) return close_block();
    if (stopped() || cancelled_) return abort();
    const std::string_view piece = next_chunk();
    rest_.remove_prefix(piece.size());
    streamed_ += piece.size();
    chunk_size_ =
        rest_.empty() ? 0 : 4 * call_.random.between(call_.token_size_min, call_.token_size_max);
    const AssistantContent& block = final_.assistant()->content[block_];
    if (std::holds_alternative<ToolCall>(block)) {
        // The arguments' text is ours and goes with us.
        const std::string_view stored = log_->delta(block_, piece);
        return event(StreamEventType::toolcall_delta, index(), stored);
    }
    log_->delta_played(block_, piece);
    const bool text = std::holds_alternative<TextContent>(block);
    return event(text ? StreamEventType::text_delta : StreamEventType::thinking_delta, index(),
                 piece);
}

StreamEvent FauxSource::close_block() {
    const ContentList<AssistantContent>& content = final_.assistant()->content;
    const AssistantContent& block = content[block_];
    const std::int32_t closed = index();
    if (std::holds_alternative<ToolCall>(block)) {
        log_->replace_played(block_, block);
    } else {
        log_->end(block_);
    }
    ++block_;
    phase_ = block_ == content.size() ? Phase::end : Phase::block;
    if (std::holds_alternative<TextContent>(block)) return event(StreamEventType::text_end, closed);
    if (std::holds_alternative<ToolCall>(block))
        return event(StreamEventType::toolcall_end, closed);
    return event(StreamEventType::thinking_end, closed);
}

StreamEvent FauxSource::abort() {
    AssistantMessage message = log_->build(log_->count());
    // A call whose arguments were still streaming is dropped (D34).
    const bool cut_short = phase_ == Phase::pieces;
    if (cut_short && std::holds_alternative<ToolCall>(message.content.back()))
        message.content.pop_back();
    message.usage = call_.usage;
    message.usage->output_tokens = static_cast<std::int64_t>((streamed_ + 3) / 4);
    return aborted(std::move(message));
}

StreamEvent FauxSource::aborted(AssistantMessage message) {
    message.stop_reason = stop_reason::shared(stop_reason::aborted);
    message.error_message = "Request was aborted";
    return MessageAssembler::finish(StreamEventType::error, std::move(message));
}

StreamEvent FauxSource::finish() {
    const SharedString& reason = final_.assistant()->stop_reason;
    const bool failed = reason == stop_reason::error || reason == stop_reason::aborted;
    StreamEvent made;
    made.type = failed ? StreamEventType::error : StreamEventType::done;
    made.partial = PartialMessage(std::move(final_));
    return made;
}

TextContent faux_text(std::string text) {
    TextContent block;
    block.text = std::move(text);
    return block;
}

ThinkingContent faux_thinking(std::string thinking) {
    ThinkingContent block;
    block.thinking = std::move(thinking);
    return block;
}

ToolCall faux_tool_call(std::string_view name, JsonObject arguments, std::string id) {
    static RandomIds ids;
    ToolCall call;
    call.id = id.empty() ? "call_" + ids.next() : std::move(id);
    call.name = SharedString(name);
    call.arguments = std::move(arguments);
    return call;
}

AssistantMessage faux_assistant_message(ContentList<AssistantContent> blocks,
                                        std::string_view stop_reason,
                                        std::string_view error_message) {
    AssistantMessage message;
    message.content = std::move(blocks);
    message.stop_reason = stop_reason::shared(stop_reason);
    message.error_message = SharedString(error_message);
    return message;
}

AssistantMessage faux_assistant_message(AssistantContent block, std::string_view stop_reason,
                                        std::string_view error_message) {
    ContentList<AssistantContent> blocks;
    blocks.push_back(std::move(block));
    return faux_assistant_message(std::move(blocks), stop_reason, error_message);
}

AssistantMessage faux_assistant_message(std::string text, std::string_view stop_reason,
                                        std::string_view error_message) {
    return faux_assistant_message(AssistantContent(faux_text(std::move(text))), stop_reason,
                                  error_message);
}

AssistantMessage faux_assistant_message(const char* text, std::string_view stop_reason,
                                        std::string_view error_message) {
    return faux_assistant_message(std::string(text), stop_reason, error_message);
}

FauxStep::FauxStep(AssistantMessage message) : answer_(std::move(message)) {}
FauxStep::FauxStep(const char* text) : answer_(faux_assistant_message(text)) {}
FauxStep::FauxStep(Failure failure) : answer_(std::move(failure)) {}
FauxStep::FauxStep(detail::FauxFunction function) : answer_(std::move(function)) {}
FauxStep::FauxStep(const FauxStep&) = default;
FauxStep::FauxStep(FauxStep&&) noexcept = default;
FauxStep& FauxStep::operator=(const FauxStep&) = default;
FauxStep& FauxStep::operator=(FauxStep&&) noexcept = default;
FauxStep::~FauxStep() = default;

FauxStep faux_failure(std::string message, std::optional<ErrorInfo> info) {
    FauxStep::Failure failure;
    failure.message = std::move(message);
    failure.info = std::move(info);
    return failure;
}

namespace {

std::int64_t tokens(std::size_t bytes) { return static_cast<std::int64_t>((bytes + 3) / 4); }

FauxOptions normalised(FauxOptions options) {
    const int a = options.token_size_min;
    const int b = options.token_size_max;
    options.token_size_min = std::max(1, std::min(a, b));
    options.token_size_max = std::max(options.token_size_min, std::max(a, b));
    return options;
}

}  // namespace

namespace detail {

/// The prompt of the last call: the next one's common prefix with it counts as cached.
struct FauxPrompt {
    SharedString system_prompt;
    std::shared_ptr<const ToolDefinitions> tools;
    MessageList messages;
    std::size_t head_bytes = 0;
    std::size_t tool_bytes = 0;
    std::size_t total_bytes = 0;
};

}  // namespace detail

/// State shared by all handles.
struct FauxProvider::State {
    explicit State(FauxOptions given)
        : options(normalised(std::move(given))), random(options.seed) {}

    void begin(const ModelRequest& request, detail::FauxCall& call);
    Usage count_prompt(const ModelRequest& request);

    const FauxOptions options;
    mutable std::mutex mutex;
    std::vector<FauxStep> steps;
    std::size_t next_step = 0;
    std::size_t calls = 0;
    detail::FauxRandom random;
    std::optional<detail::FauxPrompt> prompt;
};

void FauxProvider::State::begin(const ModelRequest& request, detail::FauxCall& call) {
    const std::lock_guard lock(mutex);
    ++calls;
    call.random = random.split();
    if (options.prompt_cache) call.usage = count_prompt(request);
    if (next_step == steps.size()) return;
    call.step.emplace(std::move(steps[next_step++]));
    if (next_step < steps.size()) return;
    steps.clear();
    next_step = 0;
}

Usage FauxProvider::State::count_prompt(const ModelRequest& request) {
    const bool first = !prompt;
    if (first) prompt.emplace();
    detail::FauxPrompt& last = *prompt;
    bool same_head = !first;
    if (first || last.tools != request.tools) {
        last.tools = request.tools;
        last.tool_bytes = request.tools ? detail::estimated_size(*request.tools) : 0;
        same_head = false;
    }
    if (!(last.system_prompt == request.system_prompt)) {
        last.system_prompt = request.system_prompt;
        same_head = false;
    }
    last.head_bytes = last.system_prompt.size() + last.tool_bytes;

    const MessageList& now = request.messages;
    std::size_t same = 0;
    if (same_head) {
        const std::size_t most = std::min(last.messages.size(), now.size());
        while (same < most && detail::same_content(last.messages[same], now[same])) ++same;
    }
    std::size_t cached = 0;
    if (same_head && same == last.messages.size()) {
        cached = last.total_bytes;
    } else if (same_head) {
        cached = last.head_bytes;
        for (std::size_t i = 0; i < same; ++i) cached += detail::estimated_size(now[i]);
    }
    std::size_t fresh = same_head ? 0 : last.head_bytes;
    for (std::size_t i = same; i < now.size(); ++i) fresh += detail::estimated_size(now[i]);

    last.messages = now;
    last.total_bytes = cached + fresh;
    Usage usage;
    usage.cache_read_tokens = tokens(cached);
    usage.cache_write_tokens = tokens(fresh);
    usage.input_tokens = std::max<std::int64_t>(0, tokens(cached + fresh) - tokens(cached));
    return usage;
}

FauxProvider::FauxProvider(FauxOptions options)
    : BaseProvider(options.provider_id), state_(std::make_shared<State>(options)) {}

void FauxProvider::set_responses(std::vector<FauxStep> steps) {
    const std::lock_guard lock(state_->mutex);
    state_->steps = std::move(steps);
    state_->next_step = 0;
}

void FauxProvider::append_responses(std::vector<FauxStep> steps) {
    const std::lock_guard lock(state_->mutex);
    for (FauxStep& step : steps) state_->steps.push_back(std::move(step));
}

std::size_t FauxProvider::pending_response_count() const {
    const std::lock_guard lock(state_->mutex);
    return state_->steps.size() - state_->next_step;
}

std::size_t FauxProvider::call_count() const {
    const std::lock_guard lock(state_->mutex);
    return state_->calls;
}

void FauxProvider::clear_prompt_cache() {
    const std::lock_guard lock(state_->mutex);
    state_->prompt.reset();
}

BoundModel FauxProvider::model(std::string id) const {
    Model spec;
    spec.id = std::move(id);
    return model(std::move(spec));
}

BoundModel FauxProvider::model(Model model) const {
    return BoundModel(std::make_shared<FauxProvider>(*this), std::move(model));
}

MessageStream FauxProvider::stream(ModelRequest request) {
    const bool begins = !request.options.stop_token().stop_requested();
    std::shared_ptr<ObservedCall> observation = observers()->take(request);
    auto source = std::make_unique<FauxSource>(std::move(request), observation);
    detail::FauxCall& call = source->call();
    if (begins) state_->begin(source->request(), call);
    call.token_size_min = state_->options.token_size_min;
    call.token_size_max = state_->options.token_size_max;
    call.tokens_per_second = state_->options.tokens_per_second;
    call.yield_every_chunk = state_->options.yield_every_chunk;
    const bool has_hook = static_cast<bool>(source->request().options.on_payload());
    if (observation && !has_hook) observation->build_payload = detail::observed_payload;
    return observed(std::move(source), std::move(observation), detail::faux_body);
}

}  // namespace cubepi
