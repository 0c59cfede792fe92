#include <bub/channel/delivery_log.hpp>

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <optional>
#include <utility>

#include <bub/channel/channel_manager.hpp>
#include <bub/channel/delivery/delivery_records.hpp>
#include <bub/questions.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/parsed_number.hpp>

namespace bub::detail {

namespace {

using cubepi::detail::flag_member;
using cubepi::detail::object_member;
using cubepi::detail::text_member;

constexpr std::uint64_t version = 1;

std::optional<std::uint64_t> number_of(const std::string& id) {
    return cubepi::detail::parsed_number<std::uint64_t>(id);
}

std::optional<std::uint64_t> number_of(const Json* value) {
    if (!value) return std::nullopt;
    // Greater numbers are never assigned, because no number could follow the maximum.
    constexpr auto greatest = std::numeric_limits<std::int64_t>::max();
    if (value->is_uint64() && value->get_uint64() <= static_cast<std::uint64_t>(greatest))
        return value->get_uint64();
    if (value->is_int64() && value->get_int64() >= 0)
        return static_cast<std::uint64_t>(value->get_int64());
    return std::nullopt;
}

std::optional<std::uint64_t> number_in(const JsonObject& record, std::string_view key) {
    return number_of(record.if_contains(key));
}

std::vector<std::uint64_t> numbers_in(const JsonObject& record, std::string_view key) {
    std::vector<std::uint64_t> numbers;
    const Json* list = record.if_contains(key);
    if (!list || !list->is_array()) return numbers;
    for (const Json& item : list->get_array()) {
        if (const auto number = number_of(&item)) numbers.push_back(*number);
    }
    return numbers;
}

JsonArray list_of(const std::vector<std::string>& ids) {
    JsonArray list;
    for (const std::string& id : ids) {
        if (const auto number = number_of(id)) list.push_back(Json(*number));
    }
    return list;
}

}  // namespace

bool is_answer(const Envelope& output) {
    return output.kind != envelope_kind::error && output.kind != envelope_kind::file;
}

JsonObject DeliveryRecords::head() const {
    JsonObject record;
    record["deliveries"] = version;
    record["next"] = next_;
    return record;
}

JsonObject DeliveryRecords::received(const Envelope& message, const std::string& date) const {
    JsonObject record;
    record["in"] = next_;
    record["at"] = date;
    record["message"] = stored_form(message);
    return record;
}

JsonObject DeliveryRecords::intended(const TurnOutput& output,
                                     const std::vector<std::string>& answers,
                                     const std::string& date) const {
    JsonObject record;
    record["out"] = next_;
    record["at"] = date;
    const bool answers_turn = is_answer(output.message) && !answers.empty();
    if (answers_turn) record["for"] = list_of(answers);
    record["message"] = stored_form(output.message);
    if (answers_turn && output.count > 0) {
        record["part"] = output.index;
        record["of"] = output.count;
    }
    return record;
}

JsonObject DeliveryRecords::planned(const std::vector<TurnOutput>& outputs,
                                    const std::vector<std::string>& answers) {
    JsonArray list;
    for (const TurnOutput& output : outputs) {
        // The place of an output that is left out holds null.
        if (list.size() < output.count) list.resize(output.count);
        if (output.index < list.size()) list[output.index] = stored_form(output.message);
    }
    JsonObject record;
    record["plan"] = std::move(list);
    record["for"] = list_of(answers);
    return record;
}

JsonObject DeliveryRecords::about(std::string_view what, const std::vector<std::string>& ids) {
    JsonObject record;
    record[what] = list_of(ids);
    return record;
}

void DeliveryRecords::check_limit() const {
    if (open() < most_open_) return;
    throw cubepi::Error(
        cubepi::ErrorCode::storage_full,
        "the delivery log holds " + std::to_string(open()) +
            " unfinished messages and answers; release or discard those that are held");
}

bool DeliveryRecords::apply(const JsonObject& record) {
    if (const auto found = number_in(record, "deliveries")) {
        const std::uint64_t least = number_in(record, "readable_from").value_or(*found);
        if (*found < version || (*found > version && least > version)) {
            throw cubepi::Error(cubepi::ErrorCode::schema_mismatch,
                                "the delivery log was written by a later version (" +
                                    std::to_string(*found) + "); use that one");
        }
        next_ = std::max(next_, number_in(record, "next").value_or(1));
        return true;
    }
    return apply_inbound(record) || apply_outbound(record) || apply_to_inbounds(record) ||
           apply_plan(record) || apply_to_outbound(record) || apply_known(record);
}

bool DeliveryRecords::apply_plan(const JsonObject& record) {
    const Json* list = record.if_contains("plan");
    const std::vector<std::uint64_t> ids = numbers_in(record, "for");
    if (!list || !list->is_array()) return false;
    const auto inbound = ids.empty() ? inbounds_.end() : inbounds_.find(ids.front());
    if (inbound == inbounds_.end()) return true;
    inbound->second.planned.clear();
    inbound->second.parts = list->get_array().size();
    for (std::size_t number = 0; number < list->get_array().size(); ++number) {
        const JsonObject* message = list->get_array()[number].if_object();
        if (message) inbound->second.planned[number] = *message;
    }
    return true;
}

/// Applies a record that states which part of an answer is being sent.
void DeliveryRecords::apply_part(const JsonObject& record) {
    const auto number = number_in(record, "part");
    const auto count = number_in(record, "of");
    const std::vector<std::uint64_t> ids = numbers_in(record, "for");
    if (!number || !count || ids.empty()) return;
    const auto inbound = inbounds_.find(ids.front());
    if (inbound == inbounds_.end()) return;
    auto& planned = inbound->second.planned;
    planned.erase(planned.begin(), planned.upper_bound(*number));
    inbound->second.all_sent = *number + 1 == *count;
}

bool DeliveryRecords::apply_inbound(const JsonObject& record) {
    const auto id = number_in(record, "in");
    const JsonObject* message = object_member(record, "message");
    if (!id || !message) return false;
    next_ = std::max(next_, *id + 1);
    Inbound& inbound = inbounds_[*id];
    inbound.message = *message;
    inbound.key = text_member(*message, "inbound_id");
    inbound.date = text_member(record, "at");
    inbound.begun = number_in(record, "turns").value_or(0);
    inbound.turn = number_in(record, "with").value_or(0);
    inbound.answered = flag_member(record, "answered");
    inbound.parts = number_in(record, "parts").value_or(0);
    inbound.all_sent = flag_member(record, "said");  // words: allowed, a key of the file format
    if (const JsonObject* planned = object_member(record, "planned")) {
        for (const auto& [number, part] : *planned) {
            const auto key = number_of(std::string(number));
            if (key && part.is_object()) inbound.planned[*key] = part.get_object();
        }
    }
    const Envelope received = from_stored_form(*message);
    inbound.channel = received.channel.value_or("");
    inbound.chat = received.chat_id.value_or("");
    Remembered remembered;
    remembered.chat = inbound.chat;
    remembered.sender = sender_of(received);
    if (const Json* const stop = received.rest.if_contains(stop_key)) remembered.stop = *stop;
    if (!inbound.key.empty()) remember(inbound.channel, inbound.key, std::move(remembered));
    return true;
}

bool DeliveryRecords::apply_outbound(const JsonObject& record) {
    const auto id = number_in(record, "out");
    const JsonObject* message = object_member(record, "message");
    if (!id || !message) return false;
    next_ = std::max(next_, *id + 1);
    Outbound& outbound = outbounds_[*id];
    outbound.message = *message;
    outbound.answers = numbers_in(record, "for");
    outbound.date = text_member(record, "at");
    outbound.resent = number_in(record, "times").value_or(0);
    outbound.waits = flag_member(record, "waits");
    apply_part(record);
    return true;
}

bool DeliveryRecords::apply_to_inbounds(const JsonObject& record) {
    for (const std::string_view what : {"begun", "back", "done"}) {
        if (!record.contains(what)) continue;
        const std::vector<std::uint64_t> ids = numbers_in(record, what);
        for (const std::uint64_t id : ids) {
            const auto found = inbounds_.find(id);
            if (found == inbounds_.end()) continue;
            if (what == "begun") ++found->second.begun;
            if (what == "begun") found->second.turn = ids.front();
            if (what == "back" && found->second.begun > 0) --found->second.begun;
            if (what != "done") continue;
            note_stop(found->second, text_member(record, stop_key));
            inbounds_.erase(found);
        }
        return true;
    }
    return false;
}

void DeliveryRecords::note_stop(const Inbound& inbound, const std::string& result) {
    if (result.empty()) return;
    std::map<std::string, Remembered>& messages = channels_[inbound.channel].messages;
    const auto found = messages.find(inbound.key);
    if (found != messages.end() && found->second.stop != Json(false)) found->second.stop = result;
}

bool DeliveryRecords::apply_to_outbound(const JsonObject& record) {
    for (const std::string_view what : {"waiting", "trying", "again", "sent", "failed"}) {
        if (!record.contains(what)) continue;
        for (const std::uint64_t id : numbers_in(record, what)) {
            const auto found = outbounds_.find(id);
            if (found == outbounds_.end()) continue;
            if (what == "again") ++found->second.resent;
            if (what != "sent" && what != "failed") {
                found->second.waits = what == "waiting";
                continue;
            }
            for (const std::uint64_t answered : found->second.answers) {
                const auto inbound = inbounds_.find(answered);
                if (inbound == inbounds_.end()) continue;
                if (what == "sent") inbound->second.answered = true;
                // The last part was not sent after all.
                if (what == "failed") inbound->second.all_sent = false;
            }
            outbounds_.erase(found);
        }
        return true;
    }
    return false;
}

bool DeliveryRecords::apply_known(const JsonObject& record) {
    const Json* ids = record.if_contains("ids");
    if (!record.contains("known") || !ids || !ids->is_array()) return false;
    const std::string channel = text_member(record, "known");
    // Files of older versions do not have all of these lists.
    const JsonArray* const chats = cubepi::detail::array_member(record, "chats");
    const JsonArray* const senders = cubepi::detail::array_member(record, "senders");
    const JsonArray* const stops = cubepi::detail::array_member(record, "stops");
    const auto text_at = [](const JsonArray* list, std::size_t i) {
        const bool has_text = list && i < list->size() && (*list)[i].is_string();
        return has_text ? std::string((*list)[i].get_string()) : std::string();
    };
    for (std::size_t i = 0; i < ids->get_array().size(); ++i) {
        const Json& id = ids->get_array()[i];
        Remembered message;
        message.chat = text_at(chats, i);
        message.sender = text_at(senders, i);
        if (stops && i < stops->size()) message.stop = (*stops)[i];
        if (id.is_string()) remember(channel, std::string(id.get_string()), std::move(message));
    }
    return true;
}

void DeliveryRecords::remember(const std::string& channel, const std::string& inbound_id,
                               Remembered message) {
    Channel& known = channels_[channel];
    const auto [at, is_new] = known.messages.try_emplace(inbound_id, message);
    // A file of an earlier version has the sender of an open message in its own record only.
    if (at->second.sender.empty()) at->second.sender = std::move(message.sender);
    if (!is_new) return;
    known.order.push_back(inbound_id);
    while (known.order.size() > remembered_) {
        known.messages.erase(known.order.front());
        known.order.pop_front();
    }
}

Envelope DeliveryRecords::finished_message(const std::string& name, const Channel& channel,
                                           const std::string& inbound_id) {
    Envelope message;
    message.channel = name;
    const Remembered& known = channel.messages.at(inbound_id);
    message.chat_id = known.chat;
    message.inbound_id = inbound_id;
    if (!known.sender.empty()) message.context["sender_id"] = known.sender;
    if (known.stop != Json(false)) message.rest[stop_key] = known.stop;
    return message;
}

std::optional<KnownInbound> DeliveryRecords::find(const std::string& channel,
                                                  const std::string& inbound_id) const {
    std::optional<KnownInbound> found;
    if (inbound_id.empty()) return found;
    for (const auto& [id, inbound] : inbounds_) {
        if (inbound.key != inbound_id || inbound.channel != channel) continue;
        found.emplace();
        found->id = std::to_string(id);
        found->message = from_stored_form(inbound.message);
        return found;
    }
    const auto known = channels_.find(channel);
    if (known == channels_.end()) return found;
    if (!known->second.messages.contains(inbound_id)) return found;
    found.emplace();
    found->message = finished_message(channel, known->second, inbound_id);
    return found;
}

std::vector<Envelope> DeliveryRecords::finished() const {
    std::vector<Envelope> all;
    for (const auto& [name, channel] : channels_) {
        for (const std::string& id : channel.order)
            all.push_back(finished_message(name, channel, id));
    }
    return all;
}

bool DeliveryRecords::knows(const Envelope& message) const {
    return find(message.channel.value_or(""), message.inbound_id.value_or("")).has_value();
}

bool DeliveryRecords::is_being_answered(std::uint64_t id) const {
    return std::any_of(outbounds_.begin(), outbounds_.end(), [id](const auto& entry) {
        const std::vector<std::uint64_t>& answers = entry.second.answers;
        return std::find(answers.begin(), answers.end(), id) != answers.end();
    });
}

std::vector<StoredInbound> DeliveryRecords::unfinished() const {
    std::vector<StoredInbound> found;
    for (const auto& [id, inbound] : inbounds_) {
        StoredInbound& stored = found.emplace_back();
        stored.id = std::to_string(id);
        stored.message = inbound_from_stored_form(inbound.message);
        stored.date = inbound.date;
        stored.begun = inbound.begun;
        if (inbound.turn > 0) stored.turn = std::to_string(inbound.turn);
        stored.answered = inbound.answered || is_being_answered(id);
        stored.all_sent = inbound.all_sent;
        for (const auto& [number, message] : inbound.planned) {
            stored.planned.emplace_back(from_stored_form(message), static_cast<std::size_t>(number),
                                        static_cast<std::size_t>(inbound.parts));
        }
    }
    return found;
}

std::vector<Delivery> DeliveryRecords::unsettled() const {
    std::vector<Delivery> found;
    for (const auto& [id, outbound] : outbounds_) {
        Delivery& delivery = found.emplace_back();
        delivery.id = std::to_string(id);
        delivery.message = from_stored_form(outbound.message);
        delivery.date = outbound.date;
        delivery.resent = outbound.resent;
        delivery.waits = outbound.waits;
    }
    return found;
}

std::vector<JsonObject> DeliveryRecords::all() const {
    std::vector<JsonObject> records{head()};
    for (const auto& [name, channel] : channels_) {
        JsonObject record;
        record["known"] = name;
        JsonArray ids;
        JsonArray chats;
        JsonArray senders;
        JsonArray stops;
        for (const std::string& id : channel.order) {
            const Remembered& message = channel.messages.at(id);
            ids.push_back(Json(id));
            chats.push_back(Json(message.chat));
            senders.push_back(Json(message.sender));
            stops.push_back(message.stop);
        }
        record["ids"] = std::move(ids);
        record["chats"] = std::move(chats);
        record["senders"] = std::move(senders);
        record["stops"] = std::move(stops);
        records.push_back(std::move(record));
    }
    for (const auto& [id, inbound] : inbounds_) {
        JsonObject record;
        record["in"] = id;
        record["at"] = inbound.date;
        record["message"] = inbound.message;
        if (inbound.begun > 0) record["turns"] = inbound.begun;
        if (inbound.turn > 0) record["with"] = inbound.turn;
        if (inbound.answered) record["answered"] = true;
        if (inbound.parts > 0) record["parts"] = inbound.parts;
        if (inbound.all_sent) record["said"] = true;  // words: allowed, a key of the file format
        JsonObject planned;
        for (const auto& [number, message] : inbound.planned)
            planned[std::to_string(number)] = message;
        if (!planned.empty()) record["planned"] = std::move(planned);
        records.push_back(std::move(record));
    }
    for (const auto& [id, outbound] : outbounds_) {
        JsonObject record;
        record["out"] = id;
        record["at"] = outbound.date;
        JsonArray answers;
        for (const std::uint64_t answered : outbound.answers) answers.push_back(Json(answered));
        if (!answers.empty()) record["for"] = std::move(answers);
        record["message"] = outbound.message;
        if (outbound.resent > 0) record["times"] = outbound.resent;
        if (outbound.waits) record["waits"] = true;
        records.push_back(std::move(record));
    }
    return records;
}

}  // namespace bub::detail

namespace bub {

using detail::DeliveryRecords;
using detail::DeliveryStep;
using detail::DeliveryStepPtr;

namespace {

constexpr std::size_t remembered = 1000;

}  // namespace

bool is_session_taken(const std::exception_ptr& failure) noexcept {
    if (!failure) return false;
    try {
        std::rethrow_exception(failure);
    } catch (const SessionTakenError&) {
        return true;
    } catch (...) {
        return false;
    }
}

bool excludes_message(const std::exception_ptr& failure, std::string_view session_id) {
    if (!failure) return false;
    try {
        std::rethrow_exception(failure);
    } catch (const MessageUnreadError& error) {
        return error.excludes(session_id);
    } catch (...) {
        return false;
    }
}

std::string_view stop_record(StopOutcome outcome) noexcept {
    switch (outcome) {
        case StopOutcome::stopped: return stop_succeeded;
        case StopOutcome::refused: return stop_was_refused;
        case StopOutcome::idle: break;
    }
    return {};
}

Task<bool> DeliveryLog::has_unfinished(Envelope) { co_return false; }

Task<std::optional<KnownInbound>> DeliveryLog::find(std::string, std::string) {
    std::optional<KnownInbound> none;
    co_return none;
}

Task<std::vector<StoredInbound>> DeliveryLog::unfinished_of(std::vector<std::string> ids) {
    std::vector<StoredInbound> all = co_await unfinished();
    std::erase_if(all, [&ids](const StoredInbound& one) {
        return std::find(ids.begin(), ids.end(), one.id) == ids.end();
    });
    co_return all;
}

Task<bool> DeliveryLog::wait_finished(Envelope, std::chrono::milliseconds limit) {
    constexpr std::chrono::milliseconds soon{200};
    co_await cubepi::Runtime::standard()->clock->sleep_for(std::min(limit, soon));
    co_return true;
}

Task<> DeliveryLog::plan(std::vector<TurnOutput>, std::vector<std::string>) { co_return; }

Task<std::string> DeliveryLog::intend(Envelope message, std::vector<std::string> answers) {
    TurnOutput output(std::move(message));
    return intend_output(std::move(output), std::move(answers));
}

Task<UnfinishedRecords> DeliveryLog::take() {
    UnfinishedRecords records;
    records.answers = co_await unsettled();
    records.inbounds = co_await unfinished();
    co_return records;
}

Task<> DeliveryLog::release() { co_return; }

Task<> SendProgress::wait() {
    if (state_ != State::fresh) co_return;
    Task<> writing = log_->wait(id_, true);
    const cubepi::Outcome<> written = co_await cubepi::outcome_of(std::move(writing));
    if (written.cancelled() || is_session_taken(written.failure())) written.rethrow();
    // Otherwise the answer counts as one that may have arrived.
    if (written) state_ = State::waits;
}

Task<bool> SendProgress::begin() {
    // While it waited, another process may have taken the answer.
    const bool may_be_taken = std::exchange(was_begun_, log_->poll_interval().has_value());
    if (state_ == State::waits || may_be_taken) {
        Task<> writing = log_->wait(id_, false);
        const cubepi::Outcome<> written = co_await cubepi::outcome_of(std::move(writing));
        if (written.cancelled() || is_session_taken(written.failure())) written.rethrow();
        if (!written) co_return false;
        if (state_ == State::waits) state_ = State::fresh;
    }
    before_ = std::exchange(state_, State::may_have_arrived);
    co_return true;
}

MemoryDeliveryLog::MemoryDeliveryLog() : records_(std::make_unique<DeliveryRecords>(remembered)) {}
MemoryDeliveryLog::~MemoryDeliveryLog() = default;

Task<> MemoryDeliveryLog::perform(detail::DeliveryStepPtr step) {
    perform_later(std::move(step));
    co_return;
}

void MemoryDeliveryLog::perform_later(detail::DeliveryStepPtr step) {
    if (const std::optional<JsonObject> record = step->make(*records_)) records_->apply(*record);
}

std::string MemoryDeliveryLog::date() const { return {}; }

namespace {

DeliveryStepPtr step_of(std::function<std::optional<JsonObject>(DeliveryRecords&)> make,
                        bool must_last) {
    auto step = std::make_shared<DeliveryStep>();
    step->make = std::move(make);
    step->must_last = must_last;
    return step;
}

/// The caller no longer waits for an answer to be recorded, so it will not be sent.
DeliveryStepPtr withdrawal_step(std::shared_ptr<std::string> id) {
    auto make = [id = std::move(id)](DeliveryRecords&) {
        return std::optional<JsonObject>(
            DeliveryRecords::about("failed", std::vector<std::string>(1, *id)));
    };
    return step_of(std::move(make), false);
}

/// A step that only reads.
template <class Read>
DeliveryStepPtr reading_step(Read read) {
    auto make = [read = std::move(read)](DeliveryRecords& records) {
        read(records);
        return std::optional<JsonObject>();
    };
    return step_of(std::move(make), false);
}

}  // namespace

Task<std::optional<std::string>> RecordedDeliveryLog::receive(Envelope message) {
    auto id = std::make_shared<std::optional<std::string>>();
    auto make = [id, message = std::move(message), date = date()](DeliveryRecords& records) {
        std::optional<JsonObject> record;
        if (records.knows(message)) return record;
        records.check_limit();
        *id = records.next_id();
        record = records.received(message, date);
        return record;
    };
    DeliveryStepPtr step = step_of(std::move(make), true);
    co_await perform(std::move(step));
    co_return std::move(*id);
}

Task<> RecordedDeliveryLog::record(DeliveryNote note, std::vector<std::string> ids,
                                   std::string detail) {
    // A held message is one with another turn whose end is not recorded.
    constexpr std::array keys{"begun",   "back",   "begun", "done", "",      "",
                              "waiting", "trying", "again", "sent", "failed"};
    static_assert(keys.size() == static_cast<std::size_t>(DeliveryNote::failed) + 1);
    auto make = [note, key = keys.at(static_cast<std::size_t>(note)), ids = std::move(ids),
                 detail = std::move(detail)](DeliveryRecords&) {
        std::optional<JsonObject> nothing;
        if (note == DeliveryNote::left || note == DeliveryNote::answer_held) return nothing;
        JsonObject about = DeliveryRecords::about(key, ids);
        if (note == DeliveryNote::failed) about["reason"] = detail;
        if (note == DeliveryNote::finished && !detail.empty()) about[stop_key] = detail;
        return std::optional<JsonObject>(std::move(about));
    };
    // If one of the others is lost, a message is processed once more, or an answer marked as resent.
    const bool must_last = note == DeliveryNote::begun || note == DeliveryNote::held ||
                           note == DeliveryNote::trying || note == DeliveryNote::resent;
    return perform(step_of(std::move(make), must_last));
}

Task<std::vector<StoredInbound>> RecordedDeliveryLog::unfinished() {
    auto found = std::make_shared<std::vector<StoredInbound>>();
    auto read = [found](DeliveryRecords& records) { *found = records.unfinished(); };
    DeliveryStepPtr step = reading_step(std::move(read));
    co_await perform(std::move(step));
    co_return std::move(*found);
}

Task<std::optional<KnownInbound>> RecordedDeliveryLog::find(std::string channel,
                                                            std::string inbound_id) {
    auto found = std::make_shared<std::optional<KnownInbound>>();
    auto read = [found, channel = std::move(channel), id = std::move(inbound_id)](
                    DeliveryRecords& records) { *found = records.find(channel, id); };
    DeliveryStepPtr step = reading_step(std::move(read));
    co_await perform(std::move(step));
    co_return std::move(*found);
}

Task<> RecordedDeliveryLog::plan(std::vector<TurnOutput> outputs,
                                 std::vector<std::string> answers) {
    auto make = [outputs = std::move(outputs), answers = std::move(answers)](DeliveryRecords&) {
        return std::optional<JsonObject>(DeliveryRecords::planned(outputs, answers));
    };
    return perform(step_of(std::move(make), true));
}

Task<std::string> RecordedDeliveryLog::intend_output(TurnOutput output,
                                                     std::vector<std::string> answers) {
    auto id = std::make_shared<std::string>();
    auto make = [id, output = std::move(output), answers = std::move(answers),
                 date = date()](DeliveryRecords& records) {
        *id = records.next_id();
        return std::optional<JsonObject>(records.intended(output, answers, date));
    };
    Task<> writing = perform(step_of(std::move(make), true));
    const cubepi::Outcome<> written = co_await cubepi::outcome_of(std::move(writing));
    if (written.cancelled()) perform_later(withdrawal_step(id));
    written.rethrow();
    co_return std::move(*id);
}

Task<std::vector<Delivery>> RecordedDeliveryLog::unsettled() {
    auto found = std::make_shared<std::vector<Delivery>>();
    auto read = [found](DeliveryRecords& records) { *found = records.unsettled(); };
    DeliveryStepPtr step = reading_step(std::move(read));
    co_await perform(std::move(step));
    co_return std::move(*found);
}

}  // namespace bub
