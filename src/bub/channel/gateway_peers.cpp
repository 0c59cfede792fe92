#include <bub/channel/gateway_peers.hpp>

#include <stop_token>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>

namespace bub {

namespace {

/// Calls one of several gateways; the first whose reply is enough ends the calls of the others.
Task<PeerReply> call_one(std::shared_ptr<GatewayPeers> peers, std::int64_t number,
                         std::string request, std::chrono::milliseconds limit,
                         std::function<bool(const PeerReply&)> is_enough, std::stop_source enough) {
    Task<PeerReply> calling =
        cubepi::cancel_on(enough.get_token(), peers->call(number, std::move(request), limit));
    PeerReply reply = co_await std::move(calling);
    if (is_enough && is_enough(reply)) enough.request_stop();
    co_return reply;
}

}  // namespace

Task<std::vector<PeerReply>> call_gateways(std::shared_ptr<GatewayPeers> peers,
                                           std::vector<std::int64_t> numbers, std::string request,
                                           std::chrono::milliseconds limit,
                                           std::function<bool(const PeerReply&)> is_enough) {
    const std::stop_source enough;
    std::vector<Task<PeerReply>> calls;
    for (const std::int64_t number : numbers)
        calls.push_back(call_one(peers, number, request, limit, is_enough, enough));
    std::vector<cubepi::Outcome<PeerReply>> called = co_await cubepi::collect_all(std::move(calls));
    std::vector<PeerReply> replies;
    for (cubepi::Outcome<PeerReply>& one : called) {
        PeerReply& reply = replies.emplace_back();
        reply.state = PeerReply::State::unknown;
        if (one) reply = std::move(one).value();
    }
    co_return replies;
}

}  // namespace bub
