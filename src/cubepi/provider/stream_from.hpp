#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <cubepi/core/notice.hpp>
#include <cubepi/provider/provider.hpp>

namespace cubepi {

/// Where the producer of stream_from() puts its answer. Blocks open and close by themselves: text after text goes
/// on with the same block, anything else begins a new one. Each member that is awaited waits while the consumer is
/// several events behind. Once the call was aborted they throw a cancellation: let it pass.
class StreamWriter {
public:
    const ModelRequest& request() const noexcept;

    Task<> text(std::string piece);
    Task<> thinking(std::string piece);
    /// A whole call.
    Task<> tool_call(std::string name, JsonObject arguments, std::string id = {});
    /// A call whose arguments arrive in pieces of raw JSON: begin, then arguments. The next block, or the
    /// end of the answer, ends it. Without an id it gets one.
    Task<> begin_tool_call(std::string name, std::string id = {});
    Task<> tool_call_arguments(std::string json);
    /// Adds to the open block what has to survive a round trip (a signature). Written at the block's end.
    void block_extra(std::string_view key, Json value);

    Task<> notice(Notice notice);
    void usage(Usage usage);
    void response_id(std::string id);
    /// Without it: "tool_use" for an answer with tool calls, else "stop".
    void stop_reason(std::string_view reason);

    struct State;
    explicit StreamWriter(State& state) noexcept : state_(&state) {}

private:
    State* state_;
};

/// Makes a stream of a coroutine that writes the answer, which is what most providers of one's own need:
///
///     MessageStream stream(ModelRequest request) override {
///         return stream_from(std::move(request), [](StreamWriter& out) -> Task<> {
///             co_await out.text("Hello ");
///             co_await out.text("world");
///         });
///     }
///
/// The producer starts when the first event is pulled and ends with the stream: when the call is aborted, or the
/// stream dropped, it is cancelled. What it throws ends the answer as failed, with all that was written before. It is
/// kept alive until its coroutine is over, so its captures may be used.
MessageStream stream_from(ModelRequest request, std::function<Task<>(StreamWriter& out)> producer);

/// The same as a source, for BaseProvider::observed().
std::unique_ptr<StreamSource> source_from(ModelRequest request,
                                          std::function<Task<>(StreamWriter& out)> producer);

}  // namespace cubepi
