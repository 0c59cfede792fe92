#include <bub/channel/shards/shard_router.hpp>

#include <bub/channel/shards/foreign_envelope.hpp>
#include <bub/channel/shards/relayed_stream.hpp>
#include <cubepi/core/async/post.hpp>
#include <cubepi/core/task_scope.hpp>

namespace bub::detail {

namespace {

using Target = std::shared_ptr<OutboundChannelRouter>;

// Coroutines, so that the members of the target are called on its executor.

Task<> plan(Target target, std::string session_id, std::vector<TurnOutput> outputs) {
    co_await target->plan_outputs(std::move(session_id), std::move(outputs));
}

Task<bool> dispatch(Target target, TurnOutput output) {
    co_return co_await target->dispatch_output(std::move(output));
}

Task<> quit_session(Target target, std::string session_id) {
    co_await target->quit(std::move(session_id));
}

}  // namespace

EventStream ShardRouter::wrap_stream(const Envelope& message, EventStream stream) {
    return relay_stream(front_, target_, message, std::move(stream));
}

Task<> ShardRouter::plan_outputs(std::string session_id, std::vector<TurnOutput> outputs) {
    for (TurnOutput& output : outputs) keep_on(shard_, output.message);
    return cubepi::run_on(front_, plan(target_, std::move(session_id), std::move(outputs)));
}

Task<bool> ShardRouter::dispatch_output(TurnOutput output) {
    keep_on(shard_, output.message);
    return cubepi::run_on(front_, dispatch(target_, std::move(output)));
}

Task<> ShardRouter::quit(std::string session_id) {
    return cubepi::run_on(front_, quit_session(target_, std::move(session_id)));
}

bool ShardRouter::cancel_turn(const std::string& session_id) {
    cubepi::detail::post_to(
        front_, [target = target_, session_id] { (void)target->cancel_turn(session_id); });
    return true;
}

}  // namespace bub::detail
