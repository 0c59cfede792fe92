#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/detail/async_function.hpp>
#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/model.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/shared_string.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi {

/// The head of a response, for on_response.
struct ProviderResponse {
    int status = 0;
    std::vector<std::pair<std::string, std::string>> headers = {};
};

/// Details that an endpoint states about an answer and the message does not contain. Empty: unknown.
struct ResponseDetails {
    /// The model that answered, for example with its date, where the request names an alias.
    std::string model = {};
    /// Why the answer ended, as the endpoint calls it.
    std::string finish_reason = {};
    /// Of OpenAI's endpoints: "chat_completions" or "responses".
    std::string api_type = {};
    std::string service_tier = {};        ///< of OpenAI's endpoints
    std::string system_fingerprint = {};  ///< of Chat Completions
};

namespace detail {
CUBEPI_DETAIL_SLOT(on_payload,
                   "on_payload must be callable as Task<std::optional<JsonObject>> (JsonObject "
                   "payload, Model model, HttpHeaders headers); it may leave out the headers")
CUBEPI_DETAIL_SLOT(on_response,
                   "on_response must be callable as Task<void> (ProviderResponse response, Model "
                   "model)")
}  // namespace detail

/// Called with the request body before it is sent, and with the headers of the request, without those that hold keys; an
/// object that it returns replaces the body. It may leave out the headers. RequestSigner changes headers.
using PayloadHook = detail::SlotFunction<Task<std::optional<JsonObject>>(
                                             JsonObject payload, Model model, HttpHeaders headers),
                                         detail::on_payload_slot>;
/// Called with status and headers of each response.
using ResponseHook = detail::SlotFunction<Task<void>(ProviderResponse response, Model model),
                                          detail::on_response_slot>;

/// The required form of an answer, for endpoints that can enforce it (see Provider::takes_response_format). Sent by
/// generate_structured(); rarely set by hand.
struct ResponseFormat {
    SharedString name = {};                   ///< letters, digits, "_" and "-"
    SharedString description = {};            ///< may be empty
    std::shared_ptr<const Json> schema = {};  ///< of an object; never null
};

/// Name of the limit in a LimitReachedError of StreamOptions::max_answer_bytes, and the `provider_code` of its
/// ErrorInfo.
inline constexpr std::string_view max_answer_bytes_name = "max_answer_bytes";
/// The default of StreamOptions::max_answer_bytes and AgentLimits::max_answer_bytes: 64 MiB.
inline constexpr std::size_t default_max_answer_bytes = std::size_t{64} << 20U;

/// Options of one model call. Setters chain: `StreamOptions().reasoning(control).stop_token(token)`.
/// (A user-declared constructor keeps g++ 12 from destroying it twice inside an awaited expression.)
class StreamOptions {
public:
    StreamOptions() {}

    StreamOptions&& reasoning(ReasoningControl value) && {
        reasoning_ = value;
        return std::move(*this);
    }
    StreamOptions&& tool_choice(ToolChoice value) && {
        tool_choice_ = std::move(value);
        return std::move(*this);
    }
    StreamOptions&& stop_token(std::stop_token value) && {
        stop_token_ = std::move(value);
        return std::move(*this);
    }
    StreamOptions&& on_payload(PayloadHook value) && {
        on_payload_ = std::move(value);
        return std::move(*this);
    }
    StreamOptions&& on_response(ResponseHook value) && {
        on_response_ = std::move(value);
        return std::move(*this);
    }
    StreamOptions&& message_id(std::string value) && {
        message_id_ = std::move(value);
        return std::move(*this);
    }
    StreamOptions&& run_id(SharedString value) && {
        run_id_ = std::move(value);
        return std::move(*this);
    }
    StreamOptions&& purpose(SharedString value) && {
        purpose_ = std::move(value);
        return std::move(*this);
    }
    StreamOptions&& tool_call_id(SharedString value) && {
        tool_call_id_ = std::move(value);
        return std::move(*this);
    }
    StreamOptions&& attempt(std::uint32_t value) && {
        attempt_ = value;
        return std::move(*this);
    }
    StreamOptions&& response_format(ResponseFormat value) && {
        response_format_ = std::make_shared<const ResponseFormat>(std::move(value));
        return std::move(*this);
    }
    StreamOptions&& max_answer_bytes(std::size_t value) && {
        max_answer_bytes_ = value;
        return std::move(*this);
    }
    StreamOptions&& compact_at(std::int64_t value) && {
        compact_at_ = value;
        return std::move(*this);
    }
    StreamOptions&& runtime(std::shared_ptr<const Runtime> value) && {
        runtime_ = std::move(value);
        return std::move(*this);
    }

    /// Absent: nothing is sent.
    const std::optional<ReasoningControl>& reasoning() const noexcept { return reasoning_; }
    const std::optional<ToolChoice>& tool_choice() const noexcept { return tool_choice_; }
    /// Ends the call from any thread; the terminal `error` event has the answer so far, with stop reason "aborted".
    const std::stop_token& stop_token() const noexcept { return stop_token_; }
    const PayloadHook& on_payload() const noexcept { return on_payload_; }
    const ResponseHook& on_response() const noexcept { return on_response_; }
    /// Id that the answer's message gets from its first event on (D41); empty: none.
    const std::string& message_id() const noexcept { return message_id_; }
    /// The run of the call, for state that lasts for a run (the model that a fallback chain selected); empty: none.
    /// Never sent.
    const SharedString& run_id() const noexcept { return run_id_; }
    /// The reason of a model call that does not produce an answer of its run, for example "compaction". Empty:
    /// an answer. For observers; never sent.
    const SharedString& purpose() const noexcept { return purpose_; }
    /// The tool call that makes this model call; empty: none. For observers; never sent.
    const SharedString& tool_call_id() const noexcept { return tool_call_id_; }
    /// From 1: the position of this call among the models that a fallback chain calls for one answer.
    std::uint32_t attempt() const noexcept { return attempt_; }
    /// Null: free text.
    const std::shared_ptr<const ResponseFormat>& response_format() const noexcept {
        return response_format_;
    }
    /// The maximum memory of one answer: text, thinking, arguments, vendor details, and a few bytes for each received
    /// piece. An answer that needs more ends with an `error` event of code `limit` and the first 64 KiB of its
    /// content. Zero: no limit.
    std::size_t max_answer_bytes() const noexcept { return max_answer_bytes_; }
    /// Asks an endpoint that compacts conversations itself to do so once a request has this many tokens. What it makes is part of
    /// the answer (has_compacted()), and stands for everything before in later requests to models of that family. Endpoints
    /// that do not compact are not asked. Zero: never.
    std::int64_t compact_at() const noexcept { return compact_at_; }
    /// Clock, ids, worker pool and transport of this call; never null.
    const std::shared_ptr<const Runtime>& runtime() const noexcept;

private:
    std::optional<ReasoningControl> reasoning_;
    std::optional<ToolChoice> tool_choice_;
    std::stop_token stop_token_;
    PayloadHook on_payload_;
    ResponseHook on_response_;
    std::string message_id_;
    std::size_t max_answer_bytes_ = default_max_answer_bytes;
    std::int64_t compact_at_ = 0;
    SharedString run_id_;
    SharedString purpose_;
    SharedString tool_call_id_;
    std::uint32_t attempt_ = 1;
    std::shared_ptr<const ResponseFormat> response_format_;
    std::shared_ptr<const Runtime> runtime_;
};

}  // namespace cubepi
