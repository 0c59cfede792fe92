#pragma once

#include <memory>
#include <optional>
#include <string>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/agent/hitl_inbox.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/hitl/channel/request_table.hpp>

namespace cubepi::detail {

/// The requests of one thread in a checkpointer. Uses the store's HitlInbox if it has one, so that of several processes
/// that answer a question one succeeds, and answers are recorded with their origin.
class StoredRequests final : public RequestStorage {
public:
    /// Throws Error(invalid_argument) if the store is not a HitlStore.
    StoredRequests(std::shared_ptr<Checkpointer> store, std::string thread_id,
                   std::shared_ptr<Clock> clock);

    Task<std::optional<StoredAnswer>> find_answer(std::string run_id, HitlRequest request) override;
    Task<PendingRequest> save(std::string run_id, bool continued, HitlRequest request) override;
    Task<> clear(std::string run_id, HitlRequest request) override;
    Task<> store_answer(std::string run_id, HitlRequest request, Json answer,
                        AnswerOrigin origin) override;

private:
    struct Answered;
    Task<Answered> answered_request(std::string run_id, std::string question_id);
    double now() const;

    const std::shared_ptr<Checkpointer> store_;
    const std::string thread_id_;
    const std::shared_ptr<Clock> clock_;
    HitlStore* const requests_;
    HitlInbox* const inbox_;  // null: the store has none
};

}  // namespace cubepi::detail
