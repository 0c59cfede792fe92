#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/core/task.hpp>

namespace bub {

using cubepi::Task;

/// A gateway that uses a shared delivery log and renews its lease.
struct GatewayPeer {
    std::int64_t number = 0;  ///< unique in the database
    std::string host = {};
    std::int64_t pid = 0;
    bool is_here = false;    ///< this gateway
    std::string facts = {};  ///< its last report; empty: none yet
};

/// A request of another gateway to this one.
struct PeerCall {
    std::int64_t id = 0;
    std::string request = {};
};

/// The result of a request to another gateway.
struct PeerReply {
    enum class State : std::uint8_t {
        answered,
        ignored,  ///< it has not begun in time, and does not begin
        unknown,  ///< it has begun, and may have had its effect
    };
    State state = State::ignored;
    std::string result = {};
};

/// The gateways that share a delivery log, and requests between them (D237). A gateway takes each request once. Used on one executor;
/// throws what the log throws.
class GatewayPeers {
public:
    virtual ~GatewayPeers() = default;
    /// Returns the gateways that are alive, also this one, in the order of their starts.
    virtual Task<std::vector<GatewayPeer>> list() = 0;
    /// Returns how many there were at the last DeliveryLog::take(); 1 before it. Does not read the database. Thread-safe.
    virtual std::size_t count() const noexcept = 0;
    /// Reports facts about this gateway, and takes the requests to it.
    virtual Task<std::vector<PeerCall>> receive(std::string facts) = 0;
    virtual Task<> answer(std::int64_t call, std::string result) = 0;
    /// Waits until another gateway has stored something for this one: a request, or a message for one of its sessions (D238). That may
    /// never return, so callers also look from time to time. One call at a time.
    virtual Task<> wait() = 0;
    /// Sends a request to a gateway, and waits for its answer.
    virtual Task<PeerReply> call(std::int64_t number, std::string request,
                                 std::chrono::milliseconds limit) = 0;
};

/// Sends a request to several gateways at the same time, and returns their replies in the order of `numbers`. When one is enough, the
/// others are not waited for: their state is ignored or unknown.
Task<std::vector<PeerReply>> call_gateways(std::shared_ptr<GatewayPeers> peers,
                                           std::vector<std::int64_t> numbers, std::string request,
                                           std::chrono::milliseconds limit,
                                           std::function<bool(const PeerReply&)> is_enough = {});

}  // namespace bub
