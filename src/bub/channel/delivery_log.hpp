#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <bub/channel.hpp>
#include <bub/envelope.hpp>

namespace bub {

namespace detail {
class DeliveryRecords;
}

/// A part of what a turn was about to say, and had not begun to send.
struct PlannedAnswer {
    std::size_t number = 0;  ///< among the parts, from 0
    Envelope message = {};
};

/// A message that was taken in and is not dealt with.
struct StoredInbound {
    std::string id = {};
    Envelope message = {};
    std::string date = {};
    std::uint64_t begun = 0;  ///< turns that began on it, and were not heard of again
    std::string turn = {};    ///< the same for all on which one turn began; empty: none did
    bool answered = false;    ///< an answer to it was on its way, or had arrived
    /// What its turn has still to say, and of how many parts; where several were one message, the first of them has it.
    std::vector<PlannedAnswer> planned = {};
    std::size_t parts = 0;
    bool said_all = false;  ///< the last part was on its way, or had arrived
};

/// An answer on its way out of a channel.
struct Delivery {
    std::string id = {};
    Envelope message = {};
    std::string date = {};
    std::uint64_t resent = 0;  ///< how often it was sent again
};

/// Remembers what came in until its turn is over, and what was to be sent until it was (B18): the port behind which a gateway
/// keeps it on disk. The manager calls it on its executor. Each call is one step: after a crash all of it has happened, or
/// nothing. Calls take effect in the order in which they are made.
class DeliveryLog {
public:
    virtual ~DeliveryLog() = default;

    /// Returns when the message is safe; gives its id. Nothing: one of the same channel and inbound_id was stored before.
    virtual Task<std::optional<std::string>> receive(Envelope message) = 0;
    /// A turn begins on these messages. Returns when that is safe.
    virtual Task<> begin(std::vector<std::string> ids) = 0;
    /// That turn was ended in good order, and is to be taken anew.
    virtual Task<> put_back(std::vector<std::string> ids) = 0;
    /// Nothing more is to be done about these messages.
    virtual Task<> finish(std::vector<std::string> ids) = 0;
    /// In the order in which they came.
    virtual Task<std::vector<StoredInbound>> unfinished() = 0;

    /// Returns when it is safe that this was intended; gives its id. `answers`: the messages that it is the answer to.
    virtual Task<std::string> intend(Envelope message, std::vector<std::string> answers) = 0;
    /// It is about to be sent again. Returns when that is safe.
    virtual Task<> resend(std::string id) = 0;
    virtual Task<> sent(std::string id) = 0;
    /// The channel said that it was not sent, and why; or nobody wants it any more.
    virtual Task<> failed(std::string id, std::string reason) = 0;
    /// Intended, and never heard of again; oldest first.
    virtual Task<std::vector<Delivery>> unsettled() = 0;
};

/// Optional for a delivery log: knows all that a turn has to say before the first of it is sent, so that after a crash the
/// rest is sent and nothing has to be made up anew.
class PlansAnswers {
public:
    virtual ~PlansAnswers() = default;
    /// Returns when it is safe. Of a part without a value nothing is to be sent after a crash.
    virtual Task<> plan(std::vector<std::optional<Envelope>> parts,
                        std::vector<std::string> answers) = 0;
    /// intend() for the part of this number, of `count`: it and those before it are not planned any more.
    virtual Task<std::string> intend_part(Envelope message, std::vector<std::string> answers,
                                          std::size_t number, std::size_t count) = 0;
};

/// Forgets with the process: for programs whose channels die with them, and for tests.
class MemoryDeliveryLog final : public DeliveryLog, public PlansAnswers {
public:
    MemoryDeliveryLog();
    ~MemoryDeliveryLog() override;
    Task<std::optional<std::string>> receive(Envelope message) override;
    Task<> begin(std::vector<std::string> ids) override;
    Task<> put_back(std::vector<std::string> ids) override;
    Task<> finish(std::vector<std::string> ids) override;
    Task<std::vector<StoredInbound>> unfinished() override;
    Task<std::string> intend(Envelope message, std::vector<std::string> answers) override;
    Task<> plan(std::vector<std::optional<Envelope>> parts,
                std::vector<std::string> answers) override;
    Task<std::string> intend_part(Envelope message, std::vector<std::string> answers,
                                  std::size_t number, std::size_t count) override;
    Task<> resend(std::string id) override;
    Task<> sent(std::string id) override;
    Task<> failed(std::string id, std::string reason) override;
    Task<std::vector<Delivery>> unsettled() override;

private:
    std::unique_ptr<detail::DeliveryRecords> records_;
};

/// What becomes of an answer whose fate is unknown.
enum class UnsettledPolicy : std::uint8_t {
    resend,  ///< sent again, with `resent: true` in its context
    hold,    ///< kept for the operator, who is told
    none,  ///< nothing of this channel is recorded: a person sits before it, and sees what arrived
};

/// What a channel can say about messages that outlive the process. Without it, those of a user interface are not recorded,
/// and those of others are held.
class SettlesDeliveries {
public:
    virtual ~SettlesDeliveries() = default;
    virtual UnsettledPolicy unsettled_policy() const noexcept = 0;
    /// Gives a message that comes again what could not be stored: its lifespan, and how its media are fetched. Called
    /// before start().
    virtual void restore(Envelope& message) { (void)message; }
};

}  // namespace bub
