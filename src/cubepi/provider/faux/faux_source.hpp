#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/support/message_log.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/provider/message_assembler.hpp>

namespace cubepi::detail {

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
std::size_t estimated_size(const Message& message);
std::size_t estimated_size(const AssistantMessage& message);
std::size_t estimated_size(const ToolDefinitions& tools);
/// Returns whether two messages contribute the same text to a prompt.
bool same_content(const Message& a, const Message& b);

JsonObject faux_body(const AssistantMessage& message);
/// The payload that hooks and observers receive.
JsonObject observed_payload(const ModelRequest& request);

}  // namespace cubepi::detail

namespace cubepi {

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

}  // namespace cubepi
