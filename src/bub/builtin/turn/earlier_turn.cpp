#include <bub/builtin/turn/agent_turn.hpp>

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include <bub/builtin/recorded_reply.hpp>
#include <bub/session_tape.hpp>
#include <bub/tape/tape_context.hpp>
#include <bub/turn_error.hpp>
#include <bub/turn_usage.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/provider/answer_end.hpp>

namespace bub::detail {

bool is_broken_off(const cubepi::AssistantMessage& answer) noexcept {
    return answer.stop_reason == cubepi::stop_reason::error ||
           answer.stop_reason == cubepi::stop_reason::aborted;
}

namespace {

/// Returns whether the run that made the answer ended with it.
bool ends_run(const cubepi::AssistantMessage& answer) {
    return !answer.has_tool_calls() && !cubepi::is_paused(answer);
}

std::string problem_of(const cubepi::AssistantMessage& answer) {
    if (!is_broken_off(answer)) return {};
    if (answer.stop_reason == cubepi::stop_reason::aborted) return std::string(ended_turn_text);
    return answer.error_message.empty() ? "the model failed" : answer.error_message.str();
}

bool carries_messages(const TapeEntry& entry) {
    return entry.kind == entry_kind::message || entry.kind == entry_kind::tool_call ||
           entry.kind == entry_kind::tool_result || entry.kind == entry_kind::anchor;
}

/// The messages from the entry `first` on, and the preceding one.
struct Tail {
    cubepi::MessageList messages = {};
    std::string run_before = {};
};

Task<Tail> read_tail(std::shared_ptr<TapeStore> store, std::string tape, std::int64_t first) {
    std::vector<TapeEntry> entries;
    std::vector<TapeEntry> before;
    std::function<bool(const TapeEntry&)> take = [&](const TapeEntry& entry) {
        if (entry.id >= first) {
            entries.push_back(entry);
        } else if (carries_messages(entry)) {
            before.push_back(entry);
        }
        return before.empty();
    };
    TapeQuery newest = TapeQuery().newest_first();
    co_await store->visit(std::move(tape), std::move(newest), std::move(take));
    std::reverse(entries.begin(), entries.end());
    Tail tail;
    tail.messages = agent_messages(entries);
    for (const cubepi::Message& message : agent_messages(before)) {
        tail.run_before = message.run_id().str();
    }
    co_return tail;
}

}  // namespace

const JsonObject* data_of(const std::optional<TapeEntry>& event) noexcept {
    return event ? cubepi::detail::object_member(event->payload, "data") : nullptr;
}

namespace {

bool is_inherited(const cubepi::Message& message) {
    return message.id().starts_with(inherited_prefix);
}

/// Extracts the answers to the input from the messages that follow it. An input that was repeated after others (see
/// EarlierTurn::superseded) was answered there only. An answer to a question has no message: it has continued the run `turn.run_id`.
/// `older`: the runs that had begun before the input.
void read_answers(EarlierTurn& turn, const cubepi::MessageList& messages,
                  const std::vector<std::string>& ids, const std::set<std::string>& older = {}) {
    std::set<std::string> runs;
    if (!turn.run_id.empty()) runs.insert(turn.run_id);
    for (const cubepi::Message& message : messages) {
        const bool is_input = std::find(ids.begin(), ids.end(), message.id()) != ids.end();
        if (is_input) {
            if (std::exchange(turn.superseded, false)) turn.texts.clear();
            turn.run_id = message.run_id().str();
            turn.digest = cubepi::detail::text_member(message.metadata().get(), request_digest_key);
            runs.insert(turn.run_id);
        } else if (message.user() && !message.id().empty() && !is_inherited(message) &&
                   !runs.contains(message.run_id().str())) {
            turn.superseded = true;
        }
        const cubepi::AssistantMessage* answer = message.assistant();
        // A message that was recorded without a run is continued by the run of its first answer. A run that has begun before it answers
        // another input.
        const bool adopts = answer && turn.run_id.empty() && !turn.superseded && runs.contains("");
        if (adopts && older.contains(message.run_id().str())) {
            turn.superseded = true;
        } else if (adopts && !message.run_id().empty()) {
            turn.run_id = message.run_id().str();
            runs.insert(turn.run_id);
        }
        if (!runs.contains(message.run_id().str())) continue;
        // A run that failed after its answer has answered.
        if (turn.answered && answer && is_broken_off(*answer)) continue;
        turn.answered = answer && ends_run(*answer) && !is_broken_off(*answer);
        if (answer) turn.problem = problem_of(*answer);
        if (!answer || is_broken_off(*answer)) continue;
        turn.last = *answer;
        if (std::string text = answer->text(); !text.empty()) turn.texts.push_back(std::move(text));
    }
}

bool is_complete_run(const std::optional<TapeEntry>& run) {
    const JsonObject* data = data_of(run);
    return data && cubepi::detail::string_member(*data, "status") == "complete";
}

/// The entries of an input on the tape: its message, and those that repeat it.
struct InputIds {
    std::vector<std::string> ids = {};
    std::int64_t first = 0;
};

Task<InputIds> find_input(std::shared_ptr<TapeStore> store, std::string tape, std::string id) {
    InputIds found;
    for (; !id.empty(); id = next_message_id(id)) {
        const std::optional<TapeEntry> entry = co_await store->find_message_entry(tape, id);
        if (!entry) break;
        if (found.ids.empty()) found.first = entry->id;
        found.ids.push_back(id);
    }
    co_return found;
}

/// Returns the runs of the messages that precede the entry `first`, back to the newest input that has a run. Only these can continue
/// behind it.
Task<std::set<std::string>> runs_before(std::shared_ptr<TapeStore> store, std::string tape,
                                        std::int64_t first) {
    std::set<std::string> runs;
    std::function<bool(const TapeEntry&)> take = [&](const TapeEntry& entry) {
        bool continues = true;
        if (entry.id >= first || !carries_messages(entry)) return continues;
        for (const cubepi::Message& message : agent_messages({entry})) {
            if (message.run_id().empty()) continue;
            runs.insert(message.run_id().str());
            if (message.user() && !message.id().empty() && !is_inherited(message))
                continues = false;
        }
        return continues;
    };
    TapeQuery newest = TapeQuery().newest_first();
    co_await store->visit(std::move(tape), std::move(newest), std::move(take));
    co_return runs;
}

/// Returns whether the input was recorded without a run, but has one by its answer.
bool may_have_adopted(const EarlierTurn& turn, const cubepi::MessageList& messages,
                      const std::string& input_id) {
    if (turn.run_id.empty()) return false;
    return std::any_of(messages.begin(), messages.end(), [&](const cubepi::Message& message) {
        return message.id() == input_id && message.run_id().empty();
    });
}

Task<EarlierTurn> read_turn(Tape tape, InputIds input) {
    const Tail tail = co_await read_tail(tape.store(), tape.name(), input.first);
    EarlierTurn turn;
    turn.message_id = input.ids.back();
    read_answers(turn, tail.messages, input.ids);
    if (may_have_adopted(turn, tail.messages, input.ids.front())) {
        const std::set<std::string> older =
            co_await runs_before(tape.store(), tape.name(), input.first);
        turn = EarlierTurn();
        turn.message_id = input.ids.back();
        read_answers(turn, tail.messages, input.ids, older);
    }
    turn.joined = !turn.run_id.empty() && tail.run_before == turn.run_id;
    co_return turn;
}

}  // namespace

std::string request_digest(const Envelope* message) {
    return message ? cubepi::detail::text_member(message->rest, request_digest_key) : std::string();
}

void require_same_request(const EarlierTurn& earlier, const Envelope* message) {
    const std::string digest = request_digest(message);
    if (digest.empty() || earlier.digest.empty() || digest == earlier.digest) return;
    throw SenderError(cubepi::ErrorCode::invalid_argument,
                      "The id of this message belongs to another one.");
}

Task<std::optional<EarlierTurn>> find_earlier_turn(Tape tape, std::string input_id) {
    std::optional<EarlierTurn> found;
    const std::shared_ptr<TapeStore>& store = tape.store();
    if (!store) co_return found;
    const InputIds input = co_await find_input(store, tape.name(), std::move(input_id));
    if (input.ids.empty()) co_return found;
    found = co_await read_turn(tape, input);
    const std::optional<TapeEntry> run = co_await store->find_run(tape.name(), found->run_id);
    if (!is_complete_run(run)) co_return found;
    // Its last messages may have been written since they were read.
    if (!found->answered) found = co_await read_turn(tape, input);
    found->answered = true;
    co_return found;
}

namespace {

/// Returns the id of the newest message of the user in this run; empty if there is none.
Task<std::string> input_of_run(std::shared_ptr<TapeStore> store, std::string tape,
                               std::string run_id) {
    std::string found;
    std::function<bool(const TapeEntry&)> take = [&](const TapeEntry& entry) {
        const Json* role =
            entry.kind == entry_kind::message ? entry.payload.if_contains("role") : nullptr;
        if (!role || *role != Json("user")) return true;
        for (const cubepi::Message& message : agent_messages({entry}))
            if (message.run_id().str() == run_id) found = message.id();
        return found.empty();
    };
    TapeQuery newest = TapeQuery().newest_first();
    co_await store->visit(std::move(tape), std::move(newest), std::move(take));
    co_return found;
}

}  // namespace

Task<std::optional<EarlierAnswer>> find_earlier_answer(Tape tape, std::string input_id) {
    std::optional<EarlierAnswer> found;
    const std::shared_ptr<TapeStore>& store = tape.store();
    if (!store || input_id.empty()) co_return found;
    const std::optional<TapeEntry> entry =
        co_await store->find_event(tape.name(), std::string(answer_event));
    const JsonObject* event = data_of(entry);
    if (!event || cubepi::detail::text_member(*event, "input") != input_id) co_return found;
    found.emplace();
    found->question = cubepi::detail::text_member(*event, "question");
    if (found->question.empty())
        found->question = cubepi::detail::text_member(*event, "question_id");
    if (const Json* asker = event->if_contains("asker"); asker && asker->is_object())
        found->asker = asker->get_object();
    const Tail tail = co_await read_tail(store, tape.name(), entry->id);
    found->run_id = tail.run_before;
    // The results of the run's calls follow the record of the answer.
    const auto first =
        std::find_if(tail.messages.begin(), tail.messages.end(),
                     [](const cubepi::Message& message) { return !message.run_id().empty(); });
    if (first != tail.messages.end()) found->run_id = first->run_id().str();
    const std::string run_id = found->run_id;
    std::string message_id = co_await input_of_run(store, tape.name(), run_id);
    const InputIds input = co_await find_input(store, tape.name(), message_id);
    read_answers(*found, tail.messages, input.ids);
    found->message_id = input.ids.empty() ? message_id : input.ids.back();
    found->digest = cubepi::detail::text_member(*event, request_digest_key);
    co_return found;
}

namespace {

/// The number of entries that are searched for a command or for an answer to a question.
constexpr std::size_t searched_entries = 5'000;

/// Returns the event of a command or of an answer to a question that was the message with this id.
Task<std::optional<TapeEntry>> find_command(std::shared_ptr<TapeStore> store, std::string tape,
                                            std::string input_id) {
    std::optional<TapeEntry> found;
    std::size_t searched = 0;
    std::function<bool(const TapeEntry&)> take = [&](const TapeEntry& entry) {
        const bool is_command = entry_name(entry) == "command" || entry_name(entry) == answer_event;
        const JsonObject* const data =
            is_command ? cubepi::detail::object_member(entry.payload, "data") : nullptr;
        if (data && cubepi::detail::string_member(*data, "input") == input_id) found = entry;
        return !found && ++searched < searched_entries;
    };
    TapeQuery events = TapeQuery().kinds({std::string(entry_kind::event)}).newest_first();
    co_await store->visit(std::move(tape), std::move(events), std::move(take));
    co_return found;
}

/// Adds the answers to the messages up to the next one of a user.
void read_until_input(RecordedReply& reply, const cubepi::MessageList& messages,
                      std::vector<std::string>& texts) {
    for (const cubepi::Message& message : messages) {
        if (message.user()) return;
        const cubepi::AssistantMessage* answer = message.assistant();
        if (!answer) continue;
        reply.run_id = message.run_id().str();
        reply.failure = problem_of(*answer);
        reply.answered = ends_run(*answer) && reply.failure.empty();
        if (std::string text = answer->text(); !text.empty() && reply.failure.empty())
            texts.push_back(std::move(text));
    }
}

std::string joined(const std::vector<std::string>& texts) {
    std::string all;
    for (const std::string& text : texts) all += (all.empty() ? "" : "\n\n") + text;
    return all;
}

RecordedReply reply_to_command(const JsonObject& data) {
    RecordedReply reply;
    reply.is_command = true;
    reply.answered = cubepi::detail::string_member(data, "status") == "ok";
    std::string& output = reply.answered ? reply.text : reply.failure;
    output = cubepi::detail::text_member(data, "output");
    reply.digest = cubepi::detail::text_member(data, request_digest_key);
    return reply;
}

}  // namespace
}  // namespace bub::detail

namespace bub {

Task<std::optional<RecordedReply>> find_reply(Tape tape, std::string input_id) {
    using namespace detail;
    std::optional<RecordedReply> found;
    if (!tape.store() || input_id.empty()) co_return found;
    const std::optional<EarlierTurn> turn = co_await find_earlier_turn(tape, input_id);
    std::optional<TapeEntry> event;
    // Earlier versions may have recorded the message of a command, without a run.
    if (!turn || (turn->run_id.empty() && !turn->answered))
        event = co_await find_command(tape.store(), tape.name(), std::move(input_id));
    if (turn && !event) {
        found.emplace();
        found->digest = turn->digest;
        found->run_id = turn->run_id;
        found->text = joined(turn->texts);
        found->answered = turn->answered;
        found->failure = turn->problem;
        if (turn->last && turn->answered) {
            const cubepi::AnswerEnd end = cubepi::answer_end(*turn->last);
            if (end != cubepi::AnswerEnd::complete) found->finish = cubepi::to_string(end);
        }
        co_return found;
    }
    const JsonObject* const data = data_of(event);
    if (!data) co_return found;
    found = reply_to_command(*data);
    if (entry_name(*event) != answer_event) co_return found;
    found.emplace();
    found->digest = cubepi::detail::text_member(*data, request_digest_key);
    const Tail tail = co_await read_tail(tape.store(), tape.name(), event->id);
    std::vector<std::string> texts;
    read_until_input(*found, tail.messages, texts);
    found->text = joined(texts);
    co_return found;
}

}  // namespace bub

namespace bub::detail {

cubepi::MessageList without_inherited(cubepi::MessageList messages) {
    if (std::none_of(messages.begin(), messages.end(), is_inherited)) return messages;
    std::set<std::string> inherited;
    std::string last_run;
    bool is_over = true;
    for (const cubepi::Message& message : messages) {
        std::string run = message.run_id().str();
        if (is_inherited(message)) inherited.insert(run);
        if (inherited.contains(run)) continue;
        last_run = std::move(run);
        const cubepi::AssistantMessage* answer = message.assistant();
        is_over = answer && ends_run(*answer) && !is_broken_off(*answer);
    }
    if (is_over) return messages;
    cubepi::MessageList retained;
    bool is_in_run = false;
    for (const cubepi::Message& message : messages) {
        const std::string run = message.run_id().str();
        is_in_run = is_in_run || run == last_run;
        if (!is_in_run || !inherited.contains(run)) retained.push_back(message);
    }
    return retained;
}

cubepi::MessageList WithoutInterrupted::transform_context(cubepi::MessageList messages,
                                                          cubepi::HookContext&) {
    const auto input = std::find_if(messages.begin(), messages.end(),
                                    [this](const auto& one) { return one.id() == after_; });
    // After a hand-off the input is not found; all messages then came after it.
    const auto from = input == messages.end() ? messages.begin() : input;
    cubepi::MessageList retained(messages.begin(), from);
    for (auto message = from; message != messages.end(); ++message) {
        const cubepi::AssistantMessage* answer = message->assistant();
        if (answer && is_broken_off(*answer) && !answer->has_tool_calls()) continue;
        retained.push_back(*message);
    }
    return retained;
}

}  // namespace bub::detail
