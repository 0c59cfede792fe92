#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <cubepi/core/agent_event.hpp>
#include <cubepi/provider/observers.hpp>
#include <cubepi/tracing/attribute.hpp>

// Facts about model calls and turns that recorders need, without content. They are cheap to collect, and may outlive the call.

namespace cubepi::detail {

/// The texts of a model in the spans of its calls.
struct ModelTexts {
    std::string provider_id = {};
    SharedString span_name = {};  ///< "chat gpt-5.1"
    AttributeValue provider = {};
    SharedString model = {};
};

/// The start of a model call.
struct ChatStart {
    const ProviderCall* call = nullptr;  ///< identifies the call; it may have ended
    std::shared_ptr<const ModelTexts> texts = {};
    SharedString purpose = {};
    SharedString tool_call_id = {};
    SharedString system_prompt = {};
    std::shared_ptr<const ToolDefinitions> tools = {};  ///< null: none
    /// Settings in the body of the request, such as the temperature; null: there is no body.
    std::unique_ptr<const Attributes> settings = {};
    std::uint32_t attempt = 1;
};

/// Facts about an answer.
struct AnswerFacts {
    AnswerFacts() = default;
    explicit AnswerFacts(const AssistantMessage& answer)
        : stop_reason(answer.stop_reason),
          response_id(answer.response_id),
          model_id(answer.model_id),
          usage(answer.usage) {}

    SharedString stop_reason = {};
    SharedString response_id = {};
    SharedString model_id = {};
    std::optional<Usage> usage = {};
};

/// The end of a model call.
struct ChatEnd {
    /// Facts that most calls do not have.
    struct Rare {
        SharedValue<ErrorInfo> error = {};  ///< null: none
        ResponseDetails details = {};
        std::optional<Model> model = {};  ///< of a stream that was dropped
    };
    /// A stream that was dropped.
    ChatEnd(const ProviderCall& ended, const ProviderOutcome& outcome);
    /// `message`: that of the outcome.
    ChatEnd(const ProviderCall& ended, const ProviderOutcome& outcome,
            const AssistantMessage& message);

    const ProviderCall* call = nullptr;  ///< that of the start
    AnswerFacts answer = {};
    std::optional<double> cost = {};  ///< USD; absent: unknown
    double first_chunk = -1;          ///< seconds since the start; negative: none came
    std::unique_ptr<Rare> rare = {};  ///< null: nothing of it
    bool has_answer = false;          ///< false: the stream was dropped
};

/// The end of a turn.
struct TurnEnd {
    /// The answer, if it may be that of a stream that was dropped.
    Message partial = {};
    SharedString stop_reason = {};
    SharedValue<ErrorInfo> error = {};  ///< null: none
    std::uint32_t tool_calls = 0;
    bool has_answer = false;
};

/// `payload`: the body, if it was built.
ChatStart start_of(const ProviderCall& call, const RequestPayload& payload);
ChatEnd end_of(const ProviderCall& call, const ProviderOutcome& outcome);
/// `with_answer`: sets TurnEnd::partial.
TurnEnd end_of(const TurnEndEvent& event, bool with_answer);

}  // namespace cubepi::detail
