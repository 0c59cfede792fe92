#include <cubepi/provider/faux.hpp>

#include <algorithm>
#include <cmath>
#include <mutex>

#include <cubepi/core/ids.hpp>
#include <cubepi/provider/faux/faux_source.hpp>

namespace cubepi {

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
