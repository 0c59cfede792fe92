#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/provider/fallback/fallback_chain.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

namespace cubepi::detail {

/// One call over a chain: calls one leg after the other until one of them produces content.
class FallbackSource final : public StreamSource {
public:
    FallbackSource(std::shared_ptr<FallbackChain> chain, ModelRequest request);

    std::optional<StreamEvent> ready() override;
    Task<StreamEvent> next() override;

private:
    /// A leg that failed in this call or was skipped permanently.
    struct Failed {
        std::size_t leg = 0;
        std::string text = {};
        ErrorInfo error = {};
    };

    struct Untold {
        std::size_t leg = 0;
        Failover failover = {};
    };

    bool stopped() const noexcept { return request_.options.stop_token().stop_requested(); }
    Clock::time_point now() const { return request_.options.runtime()->clock->now(); }

    Task<> next_leg();
    void choose();
    std::optional<std::size_t> take_candidate();
    bool too_small(std::size_t leg);
    void pass_over(std::size_t leg, Failover::Cause cause, std::string reason, ErrorInfo error);
    Task<> tell(Failover failover);
    void ask(std::size_t leg);

    void take(StreamEvent event);
    void take_failure(StreamEvent event);
    void settle();
    void end_aborted();
    void end_exhausted();
    StreamEvent with_history(StreamEvent event) const;
    std::string list_of_failures() const;

    std::shared_ptr<FallbackChain> chain_;
    ModelRequest request_;
    EventQueue queue_;
    std::optional<MessageStream> stream_;  ///< of the leg that is being called
    std::size_t leg_ = 0;
    std::uint32_t attempts_ = 0;        ///< models called
    std::optional<StreamEvent> start_;  ///< held back until the leg has produced content

    std::vector<std::size_t> order_;     ///< remaining legs, last one first
    std::vector<std::size_t> deferred_;  ///< those in their cool-down
    std::vector<Failed> failures_;
    std::vector<Untold> untold_;
    std::optional<std::size_t> chosen_;
    std::optional<StreamEvent> last_failure_;
    std::int64_t largest_refused_ =
        0;  ///< window of a leg whose endpoint rejected the prompt as too long
    std::optional<std::int64_t> tokens_;
    std::optional<std::size_t> own_;  ///< the leg that worked for this run before
    bool begun_ = false;
    bool has_chosen_ = false;
    bool settled_ = false;
    bool over_ = false;
};

}  // namespace cubepi::detail
