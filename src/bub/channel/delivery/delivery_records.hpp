#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <bub/channel/delivery_log.hpp>
#include <cubepi/checkpoint/store_report.hpp>

namespace bub::detail {

/// Returns the message as stored: includes fields that to_json omits, except the lifespan and the fetch functions of
/// media.
JsonObject stored_form(const Envelope& message);
Envelope from_stored_form(const JsonObject& form);
/// The same for an inbound message: one that an earlier version has stored becomes an answer here, if it is one.
Envelope inbound_from_stored_form(const JsonObject& form);

/// Returns false for an error message or a file, which a turn sends but which is not its answer, nor an output of it.
bool is_answer(const Envelope& output);

/// The delivery log as a fold of its records. Every change is made by applying a record, whether it was just written or
/// is read back, so that both have the same result.
class DeliveryRecords {
public:
    /// `remembered`: the number of inbound ids remembered per channel, in addition to those of unfinished messages.
    explicit DeliveryRecords(std::size_t remembered,
                             std::size_t most_open = std::numeric_limits<std::size_t>::max())
        : remembered_(remembered), most_open_(most_open) {}

    // Records. Those that create an id use the next one.
    JsonObject head() const;
    JsonObject received(const Envelope& message, const std::string& date) const;
    JsonObject intended(const TurnOutput& output, const std::vector<std::string>& answers,
                        const std::string& date) const;
    /// The outputs planned by the turn of `answers`.
    static JsonObject planned(const std::vector<TurnOutput>& outputs,
                              const std::vector<std::string>& answers);
    /// `what`: begun, back, done, waiting, trying, again, sent, failed. Invalid ids are omitted.
    static JsonObject about(std::string_view what, const std::vector<std::string>& ids);

    /// Returns false, without effect, if this is not a valid record. Throws Error(schema_mismatch) for the head of a
    /// later version.
    bool apply(const JsonObject& record);

    std::string next_id() const { return std::to_string(next_); }
    bool knows(const Envelope& message) const;
    std::optional<KnownInbound> find(const std::string& channel,
                                     const std::string& inbound_id) const;
    std::size_t open() const { return inbounds_.size() + outbounds_.size(); }
    /// Throws Error(storage_full) if no more messages may be received.
    void check_limit() const;
    std::vector<StoredInbound> unfinished() const;
    std::vector<Delivery> unsettled() const;
    /// Returns channel, chat, sender and id of the finished messages whose ids are remembered, oldest first in each channel.
    std::vector<Envelope> finished() const;
    /// Returns records that recreate this state in a new object.
    std::vector<JsonObject> all() const;

private:
    struct Inbound {
        JsonObject message;
        std::string channel;
        std::string chat;
        std::string key;  // its inbound_id
        std::string date;
        std::uint64_t begun = 0;
        std::uint64_t turn = 0;  // the first message of those on which the last turn began
        bool answered = false;   // by an answer that was sent
        std::map<std::uint64_t, JsonObject> planned = {};  // by number
        std::uint64_t parts = 0;
        bool all_sent = false;
    };
    struct Outbound {
        JsonObject message;
        std::vector<std::uint64_t> answers;
        std::string date;
        std::uint64_t resent = 0;
        bool waits = false;
    };
    /// The part of a finished message that find() returns.
    struct Remembered {
        std::string chat = {};
        std::string sender = {};
        Json stop = false;  // the value of stop_key; false: the message has none
    };
    struct Channel {
        std::deque<std::string> order;
        std::map<std::string, Remembered> messages;  // by id
    };

    bool apply_inbound(const JsonObject& record);
    bool apply_outbound(const JsonObject& record);
    bool apply_to_inbounds(const JsonObject& record);
    bool apply_plan(const JsonObject& record);
    void apply_part(const JsonObject& record);
    bool apply_to_outbound(const JsonObject& record);
    bool apply_known(const JsonObject& record);
    void remember(const std::string& channel, const std::string& inbound_id, Remembered message);
    void note_stop(const Inbound& inbound, const std::string& result);
    static Envelope finished_message(const std::string& name, const Channel& channel,
                                     const std::string& inbound_id);
    bool is_being_answered(std::uint64_t id) const;

    const std::size_t remembered_;
    const std::size_t most_open_;
    std::uint64_t next_ = 1;
    std::map<std::uint64_t, Inbound> inbounds_;
    std::map<std::uint64_t, Outbound> outbounds_;
    std::map<std::string, Channel> channels_;
};

/// A call of a RecordedDeliveryLog.
struct DeliveryStep {
    /// Inspects the records and returns the one to write; nothing if there is none. Its exception is this step's
    /// failure.
    std::function<std::optional<JsonObject>(DeliveryRecords& records)> make;
    bool must_last = false;  ///< must be synced before the call returns

    // Set by the queue.
    bool over = false;
    std::exception_ptr failure = {};
};
using DeliveryStepPtr = std::shared_ptr<DeliveryStep>;

// The parts of a check that are the same for files and tables.

/// Counts an unfinished message, and notes that a turn has begun on it.
void note_inbound(const StoredInbound& inbound, cubepi::StoreReport& report);
/// Counts and notes an unsettled answer.
void note_answer(const Delivery& delivery, cubepi::StoreReport& report);

}  // namespace bub::detail
