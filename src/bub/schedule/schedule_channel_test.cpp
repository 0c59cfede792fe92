// The source of firings, in a channel manager: each firing becomes one turn of its session, or the schedule says why not.

#include <bub/schedule/schedule_channel.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/channel_test_support.hpp>
#include <bub/questions.hpp>
#include <bub/schedule/schedule_tool.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/log.hpp>

namespace bub::channel_tests {
namespace {

/// A store in memory, whose writes fail on request.
class MemoryStore final : public ScheduleStore {
public:
    explicit MemoryStore(std::shared_ptr<ManualClock> clock) : clock_(std::move(clock)) {}

    Task<std::int64_t> now() override { co_return time(); }
    Task<bool> add(Schedule schedule) override {
        check_schedule(schedule);
        const std::string id = schedule.id;
        co_return all.emplace(id, std::move(schedule)).second;
    }
    Task<std::vector<Schedule>> list(std::string session) override {
        std::vector<Schedule> found;
        for (const auto& [id, one] : all)
            if (session.empty() || one.session == session) found.push_back(one);
        co_return found;
    }
    Task<std::optional<Schedule>> find(std::string id) override {
        const auto found = all.find(id);
        co_return found == all.end() ? std::nullopt : std::optional(found->second);
    }
    Task<bool> remove(std::string id) override { co_return all.erase(id) > 0; }
    Task<DueSchedules> due(DuePlace after) override {
        DueSchedules due;
        due.now = time();
        for (const auto& [id, one] : all) {
            if (!detail::is_due(one, due.now) || id <= after.id) continue;
            if (due.schedules.size() == page) {
                due.more = detail::place_of(due.schedules.back());
                break;
            }
            due.schedules.push_back(one);
        }
        co_return due;
    }
    Task<bool> advance(Schedule schedule, std::optional<std::int64_t> planned) override {
        if (failures > 0) {
            --failures;
            throw cubepi::Error(cubepi::ErrorCode::storage, "the disk is gone");
        }
        const auto found = all.find(schedule.id);
        if (found == all.end() || found->second.next != planned) co_return false;
        found->second = std::move(schedule);
        co_return !is_late;
    }

    std::int64_t time() const {
        return std::chrono::duration_cast<std::chrono::seconds>(clock_->wall().time_since_epoch())
            .count();
    }

    std::map<std::string, Schedule> all;
    std::size_t page = 1'000;
    int failures = 0;      ///< of the next records of firings
    bool is_late = false;  ///< another gateway records the firings before

private:
    const std::shared_ptr<ManualClock> clock_;
};

/// The records of firings in the log.
class Firings final : public cubepi::LogSink {
public:
    void write(const cubepi::LogRecord& record) override {
        if (record.event == "schedule.fired") ++count;
    }
    std::atomic<int> count = 0;
};

class ScheduleChannelTest : public ::testing::Test {
protected:
    ScheduleChannelTest() {
        gateway.options.deliveries = std::make_shared<MemoryDeliveryLog>();
        gateway.channel->debounced = true;
        start = store->time();
    }
    /// A schedule that fires each minute, from a minute from now.
    Schedule schedule(const std::string& id, const std::string& text) const {
        Schedule made;
        made.id = id;
        made.session = "chat:1";
        made.text = text;
        made.times = schedule_times(every_minute(), start);
        made.next = start + 60;
        Envelope origin = from("chat", "1", "");
        origin.context["sender_id"] = "ann";
        made.origin = schedule_origin(origin);
        return made;
    }
    static ScheduleRequest every_minute() {
        ScheduleRequest request;
        request.every = "1m";
        request.zone = "UTC";
        return request;
    }
    Schedule once(const std::string& id, const std::string& text) const {
        Schedule made = schedule(id, text);
        made.times.kind = ScheduleKind::at;
        made.times.start = start + 60;
        return made;
    }
    void add(Schedule schedule) { (void)cubepi::run(store->add(std::move(schedule))); }

    /// Runs the script while the manager serves.
    void run(std::function<Task<>(Gateway&)> script) {
        Plugin source;
        source.name = "source";
        source.provide_channels = [this](ProvideChannelsCall& call) {
            ScheduleChannelOptions options;
            options.store = store;
            options.configured = configured;
            options.runtime = std::make_shared<const cubepi::Runtime>(
                cubepi::Runtime()
                    .with_clock(gateway.clock)
                    .with_log(cubepi::Logger(firings, cubepi::LogLevel::info)));
            options.on_warning = [this](const std::string& text) { warnings.push_back(text); };
            auto made = std::make_shared<ScheduleChannel>(std::move(options), call.handler);
            made->connect(*gateway.manager);
            return std::vector<std::shared_ptr<Channel>>{std::move(made)};
        };
        gateway.framework->add(std::move(source));
        gateway.furnish();
        gateway.framework->add(schedule_plugin(store));
        gateway.run(std::move(script));
    }
    static Task<> pass(Gateway& gateway, std::chrono::seconds time) {
        return gateway.clock->sleep_for(time);
    }
    /// The text of the turn that a firing begins.
    static std::string prompt(const std::string& id, const std::string& times,
                              const std::string& planned, const std::string& text,
                              const std::string& late = {}) {
        return "[Scheduled message, not typed now. Schedule " + id + ": " + times +
               "; planned for 2026-01-01 " + planned + " (UTC)" + late + "]\n" + text;
    }
    std::vector<std::string> prompts() const {
        std::vector<std::string> all;
        for (const std::string& one : gateway.begun) all.push_back(one.substr(one.find("]\n") + 2));
        return all;
    }

    Gateway gateway;
    const std::shared_ptr<MemoryStore> store = std::make_shared<MemoryStore>(gateway.clock);
    const std::shared_ptr<Firings> firings = std::make_shared<Firings>();
    std::vector<Schedule> configured;
    std::vector<std::string> warnings;
    std::int64_t start = 0;
};

using Texts = std::vector<std::string>;

Task<> two_minutes_and_a_half(Gateway& gateway) {
    co_await gateway.clock->sleep_for(std::chrono::seconds(150));
    co_await gateway.manager->idle();
}

Task<> drain(Gateway& gateway) { (void)co_await gateway.manager->drain(std::chrono::hours(1)); }

TEST_F(ScheduleChannelTest, D249_Firing_IsAnsweredInItsChat) {
    add(schedule("tea", "tea is ready"));
    run(two_minutes_and_a_half);
    const std::string first = prompt("tea", "every 1m", "00:01", "tea is ready");
    EXPECT_EQ(gateway.begun, (Texts{first, prompt("tea", "every 1m", "00:02", "tea is ready")}));
    ASSERT_EQ(gateway.channel->sent.size(), 2u);
    EXPECT_EQ(gateway.channel->sent[0].content_text(), "re: " + first);
    EXPECT_EQ(gateway.channel->sent[0].chat_id, "1");
    EXPECT_EQ(store->all.at("tea").last, start + 120);
    EXPECT_TRUE(warnings.empty()) << warnings.front();
}

TEST_F(ScheduleChannelTest, D249_Firing_IsLoggedWhereItIsRecorded) {
    add(schedule("tea", "tea"));
    run(two_minutes_and_a_half);
    EXPECT_EQ(firings->count, 2);
}

TEST_F(ScheduleChannelTest, D249_FiringOfAnotherGateway_IsNotLogged) {
    add(schedule("tea", "tea"));
    store->is_late = true;
    run(two_minutes_and_a_half);
    EXPECT_EQ(firings->count, 0);
}

TEST_F(ScheduleChannelTest, B11_B24_TextOfSchedule_IsNeitherCommandNorAnswer) {
    for (const char* text : {",quit", ",approve 12", "/stop", ",abandon", "/goal x"}) {
        const Envelope message = firing_message(schedule("x", text), start, false);
        Envelope noted = message;
        note_answer(noted);
        EXPECT_FALSE(noted.answer) << text;
        EXPECT_FALSE(message.is_operator());
        EXPECT_TRUE(message.content_text().starts_with("[Scheduled message")) << text;
        EXPECT_TRUE(message.rest.contains(before_question_key));
        EXPECT_EQ(sender_of(message), "ann");
    }
}

TEST_F(ScheduleChannelTest, D249_KilledBeforeTheRecord_FiresOnce) {
    add(schedule("tea", "tea"));
    store->failures = 3;
    run([](Gateway& running) -> Task<> {
        co_await pass(running, std::chrono::seconds(70));
        co_await running.manager->idle();
    });
    EXPECT_EQ(prompts(), Texts{"tea"});
    EXPECT_EQ(store->all.at("tea").next, start + 120);
    // A failure that lasts is reported once.
    EXPECT_EQ(warnings, Texts{"schedules: the disk is gone"});
}

TEST_F(ScheduleChannelTest, D249_BusySession_HasOneFiringQueued) {
    add(schedule("tea", "tea"));
    const std::string first = prompt("tea", "every 1m", "00:01", "tea");
    gateway.hold(first);
    run([this, first](Gateway& running) -> Task<> {
        co_await pass(running, std::chrono::seconds(310));
        EXPECT_EQ(store->all.at("tea").problem, "the firing before still waited for its turn");
        running.release(first);
        co_await running.manager->idle();
    });
    EXPECT_EQ(gateway.begun, (Texts{first, prompt("tea", "every 1m", "00:02", "tea")}));
}

TEST_F(ScheduleChannelTest, D249_MissedFirings_AreOneLateOne) {
    Schedule late = schedule("tea", "tea");
    late.next = start - 3600;
    add(late);
    Schedule skipped = late;
    skipped.id = "skipped";
    skipped.missed = MissedFirings::skip;
    add(skipped);
    run([this](Gateway& running) -> Task<> {
        co_await pass(running, std::chrono::seconds(10));
        co_await running.manager->idle();
        EXPECT_EQ(store->all.at("skipped").problem, "missed: no gateway was running");
    });
    ASSERT_EQ(gateway.begun.size(), 1u);
    EXPECT_NE(gateway.begun[0].find("planned for 2025-12-31 23:00 (UTC); late"), std::string::npos)
        << gateway.begun[0];
    EXPECT_EQ(store->all.at("tea").next, start + 60);
    EXPECT_EQ(store->all.at("skipped").next, start + 60);
}

TEST_F(ScheduleChannelTest, D249_UserNotAdmitted_IsNotFired) {
    add(schedule("tea", "tea"));
    add(once("egg", "egg"));
    gateway.channel->admit = [](const Envelope&) {
        AdmitDecision decision;
        decision.action = AdmitAction::drop;
        return std::optional(decision);
    };
    run(two_minutes_and_a_half);
    EXPECT_TRUE(gateway.begun.empty());
    EXPECT_EQ(store->all.at("tea").problem, "its user is not admitted any more");
    EXPECT_EQ(store->all.at("tea").next, start + 180);
    EXPECT_EQ(store->all.at("egg").problem, "its user is not admitted any more");
    EXPECT_FALSE(store->all.at("egg").next);
}

TEST_F(ScheduleChannelTest, D249_ChannelNotServed_IsLeftToOthers) {
    Schedule other = schedule("tea", "tea");
    other.origin["channel"] = "elsewhere";
    add(other);
    run(two_minutes_and_a_half);
    EXPECT_EQ(store->all.at("tea").next, start + 60);
    EXPECT_EQ(store->all.at("tea").problem, "");
}

TEST_F(ScheduleChannelTest, D249_ManyNotServed_HideNoOther) {
    store->page = 2;
    for (const char* id : {"a", "b", "c", "d"}) {
        Schedule other = schedule(id, id);
        other.origin["channel"] = "elsewhere";
        add(other);
    }
    add(schedule("tea", "tea"));
    run(two_minutes_and_a_half);
    EXPECT_EQ(prompts(), (Texts{"tea", "tea"}));
}

TEST_F(ScheduleChannelTest, D249_DrainingGateway_LeavesFirings) {
    add(schedule("tea", "tea"));
    gateway.hold("busy");
    run([this](Gateway& running) -> Task<> {
        Envelope busy = from("chat", "2", "busy");
        busy.rest[task_results_key] = true;  // not collected with others
        co_await running.handler(std::move(busy));
        co_await running.until_begun(1);
        auto end = [this, &running]() -> Task<> {
            co_await pass(running, std::chrono::seconds(150));
            EXPECT_EQ(store->all.at("tea").next, start + 60);
            EXPECT_FALSE(store->all.at("tea").last);
            running.release("busy");
        };
        std::vector<Task<>> both;
        both.push_back(end());
        both.push_back(drain(running));
        co_await cubepi::when_all(std::move(both));
    });
    EXPECT_EQ(gateway.begun, Texts{"busy"});
    EXPECT_EQ(store->all.at("tea").next, start + 60);
}

TEST_F(ScheduleChannelTest, D249_ClockSetBack_NextFiringIsPlanned) {
    Schedule ahead = schedule("tea", "tea");
    ahead.last = start + 86'400;
    ahead.next = start + 86'460;
    add(ahead);
    run(two_minutes_and_a_half);
    EXPECT_EQ(prompts(), (Texts{"tea", "tea"}));
    EXPECT_EQ(store->all.at("tea").next, start + 180);
}

TEST_F(ScheduleChannelTest, D249_SingleFiring_IsRemovedAfterItsTurn) {
    add(once("egg", "egg"));
    const std::string text = prompt("egg", "at 2026-01-01 00:01 (UTC)", "00:01", "egg");
    gateway.hold(text);
    run([this, text](Gateway& running) -> Task<> {
        co_await pass(running, std::chrono::seconds(90));
        // It can be listed while its turn runs, which another process may repeat.
        EXPECT_TRUE(store->all.contains("egg"));
        running.release(text);
        co_await running.manager->idle();
        co_await pass(running, std::chrono::seconds(5));
    });
    EXPECT_EQ(gateway.begun, Texts{text});
    EXPECT_TRUE(store->all.empty());
}

TEST_F(ScheduleChannelTest, D249_CancelledWhileQueued_HasNoTurn) {
    add(once("egg", "egg"));
    add(schedule("tea", "tea"));
    gateway.hold("busy");
    run([this](Gateway& running) -> Task<> {
        Envelope busy = from("chat", "1", "busy");
        busy.rest[task_results_key] = true;  // not collected with others
        co_await running.handler(std::move(busy));
        co_await pass(running, std::chrono::seconds(90));
        for (const char* id : {"egg", "tea"}) (void)co_await store->remove(id);
        running.release("busy");
        co_await running.manager->idle();
    });
    EXPECT_EQ(gateway.begun, Texts{"busy"});
    EXPECT_EQ(gateway.channel->texts(), Texts{"re: busy"});
}

TEST_F(ScheduleChannelTest, D249_ConfiguredSchedules_AreReplaced) {
    Schedule gone = schedule("gone", "gone");
    gone.configured = true;
    add(gone);
    configured.push_back(schedule("daily", "daily"));
    configured.back().configured = true;
    run(two_minutes_and_a_half);
    EXPECT_FALSE(store->all.contains("gone"));
    EXPECT_EQ(prompts(), (Texts{"daily", "daily"}));
}

}  // namespace
}  // namespace bub::channel_tests
