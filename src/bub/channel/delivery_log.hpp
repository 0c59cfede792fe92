#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <bub/channel.hpp>
#include <bub/envelope.hpp>

namespace bub {

/// An answer on its way out of a channel.
struct Delivery {
    std::string id = {};
    Envelope message = {};
};

/// Remembers what was to be sent and what was (B18): the port behind which a gateway keeps it on disk. The manager calls it
/// on its executor, around each send.
class DeliveryLog {
public:
    virtual ~DeliveryLog() = default;
    /// Returns when it is safe that this was intended; gives its id.
    virtual Task<std::string> intend(Envelope message) = 0;
    virtual Task<> sent(std::string id) = 0;
    /// The channel said that it was not sent, and why.
    virtual Task<> failed(std::string id, std::string reason) = 0;
    /// Intended by somebody who ended before the fate was known, oldest first.
    virtual Task<std::vector<Delivery>> unsettled() = 0;
};

/// Forgets with the process: for programs whose channels die with them.
class MemoryDeliveryLog final : public DeliveryLog {
public:
    Task<std::string> intend(Envelope message) override;
    Task<> sent(std::string id) override;
    Task<> failed(std::string id, std::string reason) override;
    Task<std::vector<Delivery>> unsettled() override;

private:
    std::uint64_t next_ = 0;
    std::map<std::uint64_t, Envelope> open_;
};

/// What becomes of an answer whose fate is unknown.
enum class UnsettledPolicy : std::uint8_t {
    resend,  ///< sent again, with `resent: true` in its context
    hold,    ///< kept for the operator, who is told
};

/// Something a channel can have an opinion on; without it answers are held.
class SettlesDeliveries {
public:
    virtual ~SettlesDeliveries() = default;
    virtual UnsettledPolicy unsettled_policy() const noexcept = 0;
};

}  // namespace bub
