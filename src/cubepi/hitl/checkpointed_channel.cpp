#include <cubepi/hitl/checkpointed_channel.hpp>

#include <utility>

#include <cubepi/hitl/channel/request_table.hpp>
#include <cubepi/hitl/channel/stored_requests.hpp>

namespace cubepi {

CheckpointedChannel::CheckpointedChannel(std::shared_ptr<Checkpointer> store, std::string thread_id,
                                         CheckpointedChannelOptions options)
    : thread_id_(std::move(thread_id)),
      allow_inside_custom_tool_(options.allow_inside_custom_tool),
      extra_(std::move(options.extra)) {
    if (thread_id_.empty())
        throw Error(ErrorCode::invalid_argument, "CheckpointedChannel needs a thread id");
    detail::RequestTable::Settings settings;
    settings.default_timeout = options.default_timeout;
    settings.thread_id = thread_id_;
    settings.clock = options.clock;
    auto storage =
        std::make_shared<detail::StoredRequests>(std::move(store), thread_id_, options.clock);
    table_ = std::make_shared<detail::RequestTable>(std::move(settings), std::move(storage));
}

CheckpointedChannel::~CheckpointedChannel() { table_->close("the channel was closed"); }

void CheckpointedChannel::connect(std::shared_ptr<HitlRun> run) {
    if (run->thread_id() != thread_id_) {
        throw Error(ErrorCode::invalid_argument, "the channel is for thread '" + thread_id_ +
                                                     "', the agent has thread '" +
                                                     run->thread_id() + "'");
    }
    HitlChannel::connect(std::move(run));
    table_->restart_ids();
}

Task<Json> CheckpointedChannel::request(HitlPayload payload, HitlOptions options) {
    if (!run()) {
        throw HitlError(ErrorCode::hitl,
                        "a request was made outside of a run of the channel's agent: pass the "
                        "channel as AgentOptions::channel");
    }
    if (!allow_inside_custom_tool_ && !run()->can_ask_again(options)) {
        throw HitlDurabilityNotGuaranteed(
            "a question was asked in the body of a tool, which would begin again after a restart: "
            "set replay_policy = ReplayPolicy::idempotent if that is harmless, ask in "
            "before_tool_call instead, or set "
            "CheckpointedChannelOptions::allow_inside_custom_tool");
    }
    for (const auto& [key, value] : extra_) options.extra[key] = value;
    return detail::RequestTable::ask(table_, run(), std::move(payload), std::move(options));
}

std::vector<HitlRequest> CheckpointedChannel::pending() const { return table_->pending(); }

HitlRequestStream CheckpointedChannel::subscribe() { return table_->subscribe(); }

Task<> CheckpointedChannel::answer(std::string question_id, Json value, AnswerOrigin origin) {
    return detail::RequestTable::answer(table_, std::move(question_id), std::move(value),
                                        std::move(origin));
}

Task<> CheckpointedChannel::cancel(std::string question_id, std::string reason) {
    const std::shared_ptr<detail::RequestTable> table = table_;
    table->cancel(question_id, std::move(reason));
    co_return;
}

}  // namespace cubepi
