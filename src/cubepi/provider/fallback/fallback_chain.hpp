#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <cubepi/core/clock.hpp>
#include <cubepi/provider/fallback.hpp>

namespace cubepi::detail {

/// State shared by the runs over one chain. Any thread may call any member.
class FallbackChain {
public:
    FallbackChain(std::vector<BoundModel> legs, FallbackOptions options);

    const std::vector<BoundModel>& legs() const noexcept { return legs_; }
    const FallbackOptions& options() const noexcept { return options_; }
    bool triggers(const ErrorInfo& error) const;

    /// The leg that worked for this run, if one did.
    std::optional<std::size_t> leg_of(const std::string& run_id) const;
    void worked(std::size_t leg, const std::string& run_id);
    void failed(std::size_t leg, const ErrorInfo& error, const std::string& text,
                Clock::time_point now);

    struct CoolDown {
        Clock::time_point until = {};
        std::string why = {};
        ErrorInfo error = {};
    };
    /// Empty if the leg is not cooling down.
    std::optional<CoolDown> cooling(std::size_t leg, Clock::time_point now) const;

private:
    const std::vector<BoundModel> legs_;
    const FallbackOptions options_;
    mutable std::mutex mutex_;
    std::vector<CoolDown> cool_downs_;
    std::unordered_map<std::string, std::size_t> leg_of_run_;
    std::deque<std::string> runs_;  ///< keys of leg_of_run_, oldest first
};

/// Estimates the tokens of the text of the request as a quarter of its bytes.
std::int64_t estimate_request_tokens(const ModelRequest& request);

/// "provider/model"
std::string name_of(const Model& model);

}  // namespace cubepi::detail
