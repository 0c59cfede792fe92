#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <cubepi/core/notice.hpp>
#include <cubepi/provider/provider.hpp>

namespace cubepi {

/// The output of the producer of stream_from(). Blocks open and close automatically: text after text continues the
/// same block, anything else begins a new one. Members that return a Task wait while the consumer is several events
/// behind. After an abort they throw a cancellation, which must not be caught.
class StreamWriter {
public:
    const ModelRequest& request() const noexcept;

    Task<> text(std::string piece);
    Task<> thinking(std::string piece);
    /// A whole call.
    Task<> tool_call(std::string name, JsonObject arguments, std::string id = {});
    /// A call whose arguments arrive in pieces of raw JSON: begin, then arguments. The next block, or the
    /// end of the answer, ends it. A call without an id gets one.
    Task<> begin_tool_call(std::string name, std::string id = {});
    Task<> tool_call_arguments(std::string json);
    /// Adds data to the open block that later requests must return (a signature). Written at the end of the block.
    void block_extra(std::string_view key, Json value);

    Task<> notice(Notice notice);
    void usage(Usage usage);
    void response_id(std::string id);
    /// Default: "tool_use" for an answer with tool calls, else "stop".
    void stop_reason(std::string_view reason);

    struct State;
    explicit StreamWriter(State& state) noexcept : state_(&state) {}

private:
    State* state_;
};

/// Creates a stream from a coroutine that writes the answer, which is sufficient for most custom providers:
///
///     MessageStream stream(ModelRequest request) override {
///         return stream_from(std::move(request), [](StreamWriter& out) -> Task<> {
///             co_await out.text("Hello ");
///             co_await out.text("world");
///         });
///     }
///
/// The producer starts when the first event is pulled and ends with the stream: when the call is aborted, or the
/// stream dropped, it is cancelled. An exception ends the answer as failed, with everything that was written before.
/// The producer lives until its coroutine has ended, so it may use its captures.
MessageStream stream_from(ModelRequest request, std::function<Task<>(StreamWriter& out)> producer);

/// The same as a source, for BaseProvider::observed().
std::unique_ptr<StreamSource> source_from(ModelRequest request,
                                          std::function<Task<>(StreamWriter& out)> producer);

}  // namespace cubepi
