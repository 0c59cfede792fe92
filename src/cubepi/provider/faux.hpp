#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <cubepi/core/detail/async_function.hpp>
#include <cubepi/provider/base_provider.hpp>

namespace cubepi {

TextContent faux_text(std::string text);
ThinkingContent faux_thinking(std::string thinking);
/// A call without an id gets a random one.
ToolCall faux_tool_call(std::string_view name, JsonObject arguments = {}, std::string id = {});
/// An answer with one text block, or with the given blocks. The stop reason is used as passed: a message with tool
/// calls does not get "tool_use" automatically.
AssistantMessage faux_assistant_message(std::string text,
                                        std::string_view stop_reason = stop_reason::stop,
                                        std::string_view error_message = {});
AssistantMessage faux_assistant_message(const char* text,
                                        std::string_view stop_reason = stop_reason::stop,
                                        std::string_view error_message = {});
AssistantMessage faux_assistant_message(AssistantContent block,
                                        std::string_view stop_reason = stop_reason::stop,
                                        std::string_view error_message = {});
AssistantMessage faux_assistant_message(ContentList<AssistantContent> blocks,
                                        std::string_view stop_reason = stop_reason::stop,
                                        std::string_view error_message = {});

namespace detail {

CUBEPI_DETAIL_SLOT(
    faux_step,
    "the function of a FauxStep must be callable with (const ModelRequest&) or (const "
    "MessageList&, const Model&) and return an AssistantMessage or a Task of one")
using FauxFunction = AsyncFunction<AssistantMessage(const ModelRequest&), faux_step_slot>;

template <class F>
concept FauxRequestFunction = requires(F& function, const ModelRequest& request) {
    function(request);
} && !std::is_convertible_v<F, AssistantMessage>;

template <class F>
concept FauxHistoryFunction = requires(F& function, const ModelRequest& request) {
    function(request.messages, request.model);
};

/// The call of a function that takes the parts of a request.
struct FauxHistoryCall {
    template <class F, class Request>
    using Result = decltype(std::declval<F&>()(std::declval<Request>().messages,
                                               std::declval<Request>().model));
    template <class F>
    static Result<F, const ModelRequest&> call(F& function, const ModelRequest& request) {
        return function(request.messages, request.model);
    }
};

}  // namespace detail

/// The response to one call of a FauxProvider: a message, a text, a failure, or a function that creates the message
/// from the request. The function takes `(const ModelRequest&)` or `(const MessageList&, const Model&)` and returns
/// an AssistantMessage or a Task of one; an exception becomes the failure of the call. Copies share the function.
class FauxStep {
public:
    struct Failure {
        std::string message;
        std::optional<ErrorInfo> info = {};
    };

    FauxStep(AssistantMessage message);
    FauxStep(const char* text);
    FauxStep(Failure failure);
    template <detail::FauxRequestFunction F>
    FauxStep(F function) : FauxStep(detail::FauxFunction(std::move(function))) {}
    template <detail::FauxHistoryFunction F>
    FauxStep(F function)
        : FauxStep(detail::FauxFunction(detail::SharedCall<F, detail::FauxHistoryCall>{
              detail::SharedObject::make(std::move(function))})) {}

    // Not inline: tests construct many lists of steps.
    FauxStep(const FauxStep&);
    FauxStep(FauxStep&&) noexcept;
    FauxStep& operator=(const FauxStep&);
    FauxStep& operator=(FauxStep&&) noexcept;
    ~FauxStep();

private:
    friend class FauxProvider;
    friend class FauxSource;

    explicit FauxStep(detail::FauxFunction function);

    std::variant<AssistantMessage, Failure, detail::FauxFunction> answer_;
};

/// A step that fails before the answer starts, reported by an `error` event.
FauxStep faux_failure(std::string message, std::optional<ErrorInfo> info = {});

struct FauxOptions {
    /// Range of the length of a piece in tokens of four Unicode code points, chosen at random (by `seed`).
    int token_size_min = 3;
    int token_size_max = 5;
    std::uint64_t seed = 1;
    /// Waits before each piece, on the clock of the call's Runtime. Absent: no waiting.
    std::optional<double> tokens_per_second = {};
    std::string provider_id = {};
    /// Reports usage like an endpoint with a prompt cache.
    bool prompt_cache = true;
    /// Lets the event loop run before each piece. Without it (and tokens_per_second) all events are available at
    /// once.
    bool yield_every_chunk = false;
};

/// A scripted model without a network, for tests, examples and the demo. Copies are handles to the same script. Any
/// thread may call any member.
///
///     FauxProvider faux;
///     faux.set_responses({"Hello", faux_assistant_message(faux_tool_call("add", {{"a", 1}}), "tool_use")});
///     Agent agent({.model = faux.model("offline")});
///
/// An abort takes effect before each block and each piece. Token numbers are estimates of a quarter of the bytes.
class FauxProvider final : public BaseProvider {
public:
    explicit FauxProvider(FauxOptions options = {});

    /// Replaces the remaining steps of the script.
    void set_responses(std::vector<FauxStep> steps);
    void append_responses(std::vector<FauxStep> steps);
    std::size_t pending_response_count() const;
    /// Number of calls, including those with an empty script; calls that were aborted before they began are not
    /// counted.
    std::size_t call_count() const;
    void clear_prompt_cache();

    BoundModel model(std::string id = "faux") const;
    BoundModel model(Model model) const;

    MessageStream stream(ModelRequest request) override;

    struct State;

private:
    std::shared_ptr<State> state_;
};

}  // namespace cubepi
