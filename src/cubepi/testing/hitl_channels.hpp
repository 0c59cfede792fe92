#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include <cubepi/agent/hitl_channel.hpp>

namespace cubepi::testing {

/// A channel that answers at once, for tests without a host. Nothing is ever pending; timeouts do not apply. Used on one
/// executor.
class ImmediateChannel : public HitlChannel {
public:
    Task<Json> request(HitlPayload payload, HitlOptions options) final;
    std::vector<HitlRequest> pending() const final { return {}; }
    HitlRequestStream subscribe() final { return feed_.subscribe(); }
    /// Throws Error(stale_answer).
    Task<> answer(std::string question_id, Json value, AnswerOrigin origin = {}) final;
    /// Throws Error(stale_answer).
    Task<> cancel(std::string question_id, std::string reason) final;

    /// Returns the requests so far.
    const std::vector<HitlRequest>& history() const noexcept { return history_; }

protected:
    /// Returns the answer to a request; it is checked like that of a user.
    virtual Json answer_to(const HitlRequest& request) = 0;

private:
    HitlRequestFeed feed_;
    std::vector<HitlRequest> history_;
};

/// Answers with a list of values, or of functions of the request. Throws Error(hitl) when they are used up.
class ScriptedChannel final : public ImmediateChannel {
public:
    using Answer = std::variant<Json, std::function<Json(const HitlRequest&)>>;

    explicit ScriptedChannel(std::vector<Answer> answers) : answers_(std::move(answers)) {}

private:
    Json answer_to(const HitlRequest& request) override;

    std::vector<Answer> answers_;
    std::size_t used_ = 0;
};

/// Agrees to everything: confirms, approves, and answers each question with its first option, or with an empty text.
class NoopChannel final : public ImmediateChannel {
private:
    Json answer_to(const HitlRequest& request) override;
};

}  // namespace cubepi::testing
