#include <bub/channel/delivery_log_suite_test.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/channel_test_support.hpp>
#include <bub/channel/debounce.hpp>
#include <bub/questions.hpp>
#include <cubepi/core/cancellation.hpp>

namespace bub::channel_tests {

UnfinishedRecords DeliveryLogSuite::restart() {
    log.reset();
    log = storage->open();
    return cubepi::run(log->take());
}

namespace {

using Texts = std::vector<std::string>;

Envelope update(const std::string& text, const std::string& id) {
    Envelope message = from("chat", "1", text);
    message.inbound_id = id;
    return message;
}

std::string store(DeliveryLog& log, const std::string& text) {
    return cubepi::run(log.receive(update(text, text))).value_or("known");
}

std::string intend(DeliveryLog& log, const std::string& text, Texts answers = {}) {
    return cubepi::run(log.intend(from("chat", "1", text), std::move(answers)));
}

Texts texts_of(const UnfinishedRecords& records) {
    Texts all;
    for (const StoredInbound& inbound : records.inbounds)
        all.push_back(inbound.message.content_text());
    for (const Delivery& answer : records.answers) all.push_back(answer.message.content_text());
    return all;
}

/// The records that this process has.
UnfinishedRecords records_of(DeliveryLog& log) {
    return {cubepi::run(log.unfinished()), cubepi::run(log.unsettled())};
}

TEST_P(DeliveryLogSuite, B18_UnfinishedRecords_SurviveTheProcess) {
    const std::string one = store(*log, "one");
    const std::string two = store(*log, "two");
    cubepi::run(log->begin({one}));
    const std::string answer = intend(*log, "re: one", {one});
    const std::string notice = intend(*log, "a notice");
    cubepi::run(log->resend(notice));
    cubepi::run(log->finish({two}));
    EXPECT_EQ(texts_of(records_of(*log)), (Texts{"one", "re: one", "a notice"}));
    const UnfinishedRecords records = restart();
    ASSERT_EQ(texts_of(records), (Texts{"one", "re: one", "a notice"}));
    EXPECT_EQ(texts_of(records_of(*log)), texts_of(records));
    const StoredInbound& inbound = records.inbounds[0];
    EXPECT_EQ(inbound.begun, 1u);
    EXPECT_EQ(inbound.turn, inbound.id);
    EXPECT_TRUE(inbound.answered);
    EXPECT_TRUE(inbound.date.ends_with("+00:00")) << inbound.date;
    EXPECT_EQ(inbound.message.inbound_id, "one");
    EXPECT_EQ(records.answers[0].resent, 0u);
    EXPECT_EQ(records.answers[1].resent, 1u);
    EXPECT_NE(store(*log, "three"), inbound.id) << "ids are not used twice";
}

/// The number of processes that have ended in turns of the only message.
std::uint64_t ends(const std::vector<StoredInbound>& inbounds) {
    EXPECT_EQ(inbounds.size(), 1u);
    return inbounds.empty() ? 0 : inbounds.front().begun - inbounds.front().outlived;
}

TEST_P(DeliveryLogSuite, B18_D264_EndsOfProcesses_AreCounted) {
    std::string id = store(*log, "one");
    cubepi::run(log->begin({id}));
    UnfinishedRecords records = restart();
    EXPECT_EQ(ends(records.inbounds), 1u);
    id = records.inbounds.at(0).id;
    cubepi::run(log->begin({id}));
    cubepi::run(log->put_back({id}));
    cubepi::run(log->begin({id}));
    records = restart();
    EXPECT_EQ(ends(records.inbounds), 2u);
}

TEST_P(DeliveryLogSuite, B18_D264_HeldMessage_StaysHeld) {
    const std::string id = store(*log, "one");
    cubepi::run(log->begin({id}));
    cubepi::run(log->hold({id}));
    EXPECT_GE(ends(restart().inbounds), 2u);
}

TEST_P(DeliveryLogSuite, B18_SettledAnswer_LeavesItsMark) {
    const std::string one = store(*log, "one");
    cubepi::run(log->failed(intend(*log, "re: one", {one}), "no connection \xff"));
    EXPECT_FALSE(records_of(*log).inbounds.at(0).answered);
    Envelope error = from("chat", "1", "sorry");
    error.kind = envelope_kind::error;
    cubepi::run(log->sent(cubepi::run(log->intend(std::move(error), {one}))));
    EXPECT_FALSE(records_of(*log).inbounds.at(0).answered) << "an error message is not the answer";
    cubepi::run(log->sent(intend(*log, "re: one", {one})));
    EXPECT_TRUE(records_of(*log).inbounds.at(0).answered);
    const UnfinishedRecords records = restart();
    EXPECT_EQ(texts_of(records), Texts{"one"});
    EXPECT_TRUE(records.inbounds.at(0).answered);
}

TEST_P(DeliveryLogSuite, B18_SameMessage_IsReceivedOnce) {
    const Texts ids{"one",        std::string("nul\0byte", 8), std::string("nul\0other", 9),
                    "two\nlines", std::string(10'000, 'x'),    "ключ'; DROP TABLE x; --"};
    Texts stored;
    for (const std::string& id : ids) {
        const auto first = cubepi::run(log->receive(update("text", id)));
        ASSERT_TRUE(first) << id;
        stored.push_back(*first);
        EXPECT_FALSE(cubepi::run(log->receive(update("text", id)))) << id;
    }
    EXPECT_TRUE(cubepi::run(log->receive(from("chat", "1", "text")))) << "without an id";
    EXPECT_TRUE(cubepi::run(log->receive(from("chat", "1", "text")))) << "without an id";
    Envelope other = from("other", "1", "text");
    other.inbound_id = "one";
    EXPECT_TRUE(cubepi::run(log->receive(std::move(other))));
    cubepi::run(log->finish(stored));
    (void)restart();
    for (const std::string& id : ids)
        EXPECT_FALSE(cubepi::run(log->receive(update("text", id)))) << id;
}

TEST_P(DeliveryLogSuite, B18_StoredMessage_KeepsAllItsParts) {
    Envelope message = update("tschüß \xff", "u1");
    message.session_id = "s";
    message.output_channel = "elsewhere";
    message.from_operator = false;
    message.context["thread_id"] = 7;
    message.context["text"] = std::string("a\0b", 3);
    message.rest["sender"] = "alice";
    message.rest["answer_to"] = "a member of a plugin, not an answer";
    MediaItem picture;
    picture.mime_type = "image/png";
    picture.url = "https://example.org/a.png";
    message.media.push_back(picture);
    cubepi::run(log->receive(std::move(message)));
    const Envelope stored = restart().inbounds.at(0).message;
    EXPECT_EQ(stored.content_text(), "tschüß \uFFFD");
    EXPECT_EQ(stored.session_id, "s");
    EXPECT_EQ(stored.output_channel, "elsewhere");
    EXPECT_EQ(stored.from_operator, false);
    EXPECT_TRUE(stored.is_active);
    EXPECT_EQ(stored.context.at("thread_id"), 7);
    EXPECT_EQ(stored.context.at("text"), Json(std::string("a\0b", 3)));
    EXPECT_EQ(stored.rest.at("sender"), "alice");
    EXPECT_TRUE(stored.rest.contains("answer_to"));
    EXPECT_FALSE(stored.answer);
    ASSERT_EQ(stored.media.size(), 1u);
    EXPECT_EQ(stored.media[0].url, picture.url);
}

TEST_P(DeliveryLogSuite, B18_PlannedOutputs_SurviveTheProcess) {
    const std::string one = store(*log, "one");
    std::vector<TurnOutput> outputs;
    outputs.emplace_back(from("chat", "1", "a"), 0, 3);
    outputs.emplace_back(from("chat", "1", "c"), 2, 3);
    cubepi::run(log->plan(outputs, {one}));
    cubepi::run(log->sent(cubepi::run(log->intend_output(outputs.front(), {one}))));
    for (const bool last : {false, true}) {
        const std::vector<StoredInbound> inbounds = restart().inbounds;
        ASSERT_EQ(inbounds.size(), 1u);
        EXPECT_TRUE(inbounds[0].answered);
        EXPECT_EQ(inbounds[0].all_sent, last);
        ASSERT_EQ(inbounds[0].planned.size(), last ? 0u : 1u);
        if (last) break;
        EXPECT_EQ(inbounds[0].planned[0].index, 2u);
        EXPECT_EQ(inbounds[0].planned[0].message.content_text(), "c");
        EXPECT_EQ(inbounds[0].planned[0].count, 3u);
        (void)cubepi::run(log->intend_output(inbounds[0].planned[0], {inbounds[0].id}));
    }
}

TEST_P(DeliveryLogSuite, B18_WaitingAnswer_SurvivesTheProcess) {
    (void)intend(*log, "new");
    const std::string waits = intend(*log, "waits");
    const std::string tried = intend(*log, "was tried");
    for (const std::string& id : {waits, tried}) cubepi::run(log->wait(id, true));
    cubepi::run(log->wait(tried, false));
    for (int reads = 0; reads < 2; ++reads) {
        const std::vector<Delivery> all = restart().answers;
        ASSERT_EQ(all.size(), 3u);
        EXPECT_FALSE(all[0].waits);
        EXPECT_TRUE(all[1].waits);
        EXPECT_FALSE(all[2].waits);
    }
}

TEST_P(DeliveryLogSuite, D42_MessagesOfATurn_StayTogether) {
    Texts ids;
    for (const char* text : {"a", "b", "c"}) ids.push_back(store(*log, text));
    cubepi::run(log->begin({ids[0], ids[1]}));
    cubepi::run(log->put_back({ids[0], ids[1]}));
    const std::vector<StoredInbound> inbounds = restart().inbounds;
    ASSERT_EQ(inbounds.size(), 3u);
    EXPECT_EQ(inbounds[0].begun, 0u);
    EXPECT_EQ(inbounds[0].turn, inbounds[0].id) << "also when the turn was ended in good order";
    EXPECT_EQ(inbounds[1].turn, inbounds[0].id);
    EXPECT_EQ(inbounds[2].turn, "");
}

TEST_P(DeliveryLogSuite, D97_FinishedMessage_IsFound) {
    const auto find = [this](const std::string& id) { return cubepi::run(log->find("chat", id)); };
    Envelope one = update("one", "one");
    one.context["sender_id"] = "ann";
    const std::string id = cubepi::run(log->receive(std::move(one))).value();
    EXPECT_EQ(find("one")->id, id);
    EXPECT_EQ(find("one")->message.content_text(), "one");
    cubepi::run(log->finish({id}));
    (void)restart();
    ASSERT_TRUE(find("one"));
    EXPECT_EQ(find("one")->id, "");
    EXPECT_EQ(find("one")->message.chat_id, "1");
    EXPECT_EQ(find("one")->message.inbound_id, "one");
    EXPECT_EQ(sender_of(find("one")->message), "ann");
    EXPECT_FALSE(find("one")->message.content);
    EXPECT_FALSE(find("two"));
    EXPECT_FALSE(find(""));
    EXPECT_FALSE(cubepi::run(log->find("other", "one")));
}

TEST_P(DeliveryLogSuite, B24_StoredAnswer_IsReadAsItWas) {
    Envelope message = update("", "7");
    Answer& answer = message.answer.emplace();
    answer.action = AnswerAction::deny;
    answer.question = "0123456789";
    answer.text = ",approve c1";
    answer.value = JsonObject{{"decision", "deny"}};
    answer.choices.emplace().emplace_back(1, 2);
    answer.user = "ann";
    answer.place = "chat:1";
    (void)cubepi::run(log->receive(message));
    const Answer read = restart().inbounds.at(0).message.answer.value();
    EXPECT_EQ(read.action, answer.action);
    EXPECT_EQ(read.question, answer.question);
    EXPECT_EQ(read.text, answer.text);
    EXPECT_EQ(read.value, answer.value);
    EXPECT_EQ(read.choices, answer.choices);
    EXPECT_EQ(read.user, answer.user);
    EXPECT_EQ(read.place, answer.place);
}

TEST_P(DeliveryLogSuite, UnknownIds_AreIgnored) {
    const std::string one = store(*log, "one");
    for (const std::string& id : Texts{"", "x", "7000000", "7000000.1", "1.1.1", "-1"}) {
        cubepi::run(log->begin({id, one}));
        cubepi::run(log->put_back({id, one}));
        cubepi::run(log->finish({id}));
        cubepi::run(log->wait(id, true));
        cubepi::run(log->sent(id));
        cubepi::run(log->failed(id, "lost"));
    }
    EXPECT_EQ(texts_of(restart()), Texts{"one"});
}

Task<> store_named(DeliveryLog& log, std::string text, Texts& order) {
    Envelope message = update(text, text);
    (void)co_await log.receive(std::move(message));
    order.push_back(std::move(text));
}

TEST_P(DeliveryLogSuite, Calls_TakeEffectInTheirOrder) {
    Texts expected;
    Texts order;
    const auto together = [&]() -> Task<> {
        std::vector<Task<>> tasks;
        for (int i = 0; i < 200; ++i) {
            expected.push_back("message " + std::to_string(i));
            tasks.push_back(store_named(*log, expected.back(), order));
        }
        co_await cubepi::when_all(std::move(tasks));
    };
    cubepi::run(together());
    EXPECT_EQ(order, expected);
    EXPECT_EQ(texts_of(restart()), expected);
}

TEST_P(DeliveryLogSuite, D265_ResultOfStop_OutlivesTheProcess) {
    const auto found = [this](const std::string& id) {
        const std::optional<KnownInbound> known = cubepi::run(log->find("chat", id));
        return known && known->id.empty() ? known->message.rest.at(stop_key) : Json();
    };
    const std::vector<StopOutcome> outcomes{StopOutcome::stopped, StopOutcome::refused,
                                            StopOutcome::idle};
    for (const StopOutcome outcome : outcomes) {
        const std::string name = "stop " + std::string(stop_record(outcome));
        const std::optional<std::string> id =
            cubepi::run(log->receive(withdrawal_of(update("/stop", name))));
        ASSERT_TRUE(id);
        cubepi::run(log->finish_stop({*id}, outcome));
    }
    // A process may rewrite what the one before has stored.
    for (int processes = 0; processes < 3; ++processes) {
        EXPECT_EQ(found("stop stopped"), "stopped");
        EXPECT_EQ(found("stop refused"), "refused");
        EXPECT_EQ(found("stop "), true);
        (void)restart();
    }
}

Task<> intend_and_cancel(DeliveryLog& log) {
    std::stop_source stop;
    Envelope message = from("chat", "1", "abandoned");
    Task<std::string> intending = log.intend(std::move(message), Texts());
    stop.request_stop();
    std::exception_ptr failure;
    try {
        (void)co_await cubepi::cancel_on(stop.get_token(), std::move(intending));
    } catch (...) {
        failure = std::current_exception();
    }
    EXPECT_TRUE(cubepi::is_cancellation(failure));
}

TEST_P(DeliveryLogSuite, B18_AnswerCancelledBeforeStorage_IsNotUnsettled) {
    cubepi::run(intend_and_cancel(*log));
    // A later call takes effect after the withdrawal.
    (void)store(*log, "one");
    EXPECT_EQ(texts_of(records_of(*log)), Texts{"one"});
}

}  // namespace
}  // namespace bub::channel_tests
