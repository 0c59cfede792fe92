// The tool of the model: schedules of the own session only, within limits, and none of turns that no user has begun.

#include <bub/schedule/schedule_tool.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/questions.hpp>
#include <bub/schedule/file_schedule_store.hpp>
#include <cubepi/agent/run_account.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace bub {
namespace {

using cubepi::AgentTool;
using cubepi::AgentToolResult;
using cubepi::Error;
using cubepi::ErrorCode;

class ScheduleToolTest : public ::testing::Test {
protected:
    ~ScheduleToolTest() override { std::filesystem::remove_all(directory); }

    static Envelope message_of(const std::string& user) {
        Envelope message("remind me");
        message.channel = "telegram";
        message.chat_id = user;
        message.context["sender_id"] = user;
        message.context[date_key] = "2026-01-01 00:00:00";
        return message;
    }
    AgentTool tool(const std::string& session, const Envelope& message,
                   bool may_reschedule = false) const {
        ScheduleToolOptions options;
        options.store = store;
        options.zone = "UTC";
        options.may_reschedule = may_reschedule;
        return schedule_tool(std::move(options), session, message);
    }
    static Task<std::string> call(AgentTool tool, JsonObject arguments) {
        auto account = std::make_shared<cubepi::RunAccount>(cubepi::RunInfo());
        cubepi::ToolContext context(
            "call_1", tool.name, {}, cubepi::Runtime::standard(),
            [](Json) -> Task<void> { co_return; }, {}, std::move(account));
        cubepi::MaybeTask<AgentToolResult> outcome = tool.execute(std::move(arguments), context);
        if (!outcome.is_pending()) co_return std::move(outcome).value().text();
        const AgentToolResult result = co_await std::move(outcome).task();
        co_return result.text();
    }
    std::string answer(const AgentTool& tool, JsonObject arguments) const {
        return cubepi::run(call(tool, std::move(arguments)));
    }
    ErrorCode refusal(const AgentTool& tool, JsonObject arguments) const {
        try {
            (void)answer(tool, std::move(arguments));
        } catch (const Error& error) {
            return error.code();
        }
        return ErrorCode::unknown;
    }
    std::vector<Schedule> all() const { return cubepi::run(store->list("")); }

    const std::filesystem::path directory =
        std::filesystem::temp_directory_path() /
        ("cubepi-schedule-tool-" + cubepi::Runtime::standard()->ids->next());
    const std::shared_ptr<cubepi::testing::ManualClock> clock =
        std::make_shared<cubepi::testing::ManualClock>();
    const std::shared_ptr<ScheduleStore> store = std::make_shared<FileScheduleStore>(
        directory, std::make_shared<const cubepi::Runtime>(cubepi::Runtime().with_clock(clock)));
};

const JsonObject weekdays{{"action", "add"}, {"cron", "0 9 * * 1-5"}, {"text", "plan"}};

TEST_F(ScheduleToolTest, D250_Add_AnswersTheNextFiring) {
    const AgentTool ann = tool("telegram:1", message_of("1"));
    EXPECT_EQ(ann.risk_level, cubepi::ToolRisk::read_only);
    const std::string text = answer(ann, weekdays);
    EXPECT_NE(text.find("cron 0 9 * * 1-5 (UTC); next 2026-01-01 09:00 (UTC)"), std::string::npos)
        << text;
    ASSERT_EQ(all().size(), 1u);
    const Envelope origin{JsonObject(all()[0].origin)};
    EXPECT_EQ(origin.channel, "telegram");
    EXPECT_EQ(sender_of(origin), "1");
    EXPECT_FALSE(origin.context.contains(date_key));
    const std::string list = answer(ann, {{"action", "list"}});
    EXPECT_NE(list.find(all()[0].id), std::string::npos) << list;
    EXPECT_EQ(answer(ann, {{"action", "cancel"}, {"id", all()[0].id}}), "Cancelled.");
    EXPECT_EQ(answer(ann, {{"action", "list"}}), "(no schedules)");
}

TEST_F(ScheduleToolTest, D250_OtherSession_IsNotShownOrCancelled) {
    (void)answer(tool("telegram:1", message_of("1")), weekdays);
    const AgentTool bob = tool("telegram:2", message_of("2"));
    EXPECT_EQ(answer(bob, {{"action", "list"}}), "(no schedules)");
    for (const std::string& id : {all()[0].id, std::string("../.."), std::string()})
        EXPECT_EQ(refusal(bob, {{"action", "cancel"}, {"id", id}}), ErrorCode::not_found);
    EXPECT_EQ(all().size(), 1u);
}

TEST_F(ScheduleToolTest, D250_ConfiguredSchedule_IsNotCancelled) {
    Schedule configured;
    configured.id = "config.daily";
    configured.session = "telegram:1";
    configured.text = "daily";
    configured.configured = true;
    EXPECT_TRUE(cubepi::run(store->add(configured)));
    const AgentTool ann = tool("telegram:1", message_of("1"));
    EXPECT_EQ(refusal(ann, {{"action", "cancel"}, {"id", "config.daily"}}),
              ErrorCode::permission_denied);
}

TEST_F(ScheduleToolTest, D250_TurnOfSchedule_AddsNoneWithoutRule) {
    (void)answer(tool("telegram:1", message_of("1")), weekdays);
    const Envelope firing = firing_message(all()[0], 1'767'258'000, false);
    Envelope results = message_of("1");
    results.rest[task_results_key] = true;
    for (const Envelope& message : {firing, results}) {
        EXPECT_EQ(refusal(tool("telegram:1", message), weekdays), ErrorCode::permission_denied);
        // It may end its own.
        EXPECT_NE(answer(tool("telegram:1", message), {{"action", "list"}}), "(no schedules)");
    }
    (void)answer(tool("telegram:1", firing, true), weekdays);
    EXPECT_EQ(all().size(), 2u);
}

TEST_F(ScheduleToolTest, D249_CancelledByItsTurn_StaysUntilTheEnd) {
    (void)answer(tool("telegram:1", message_of("1")), weekdays);
    const Envelope firing = firing_message(all()[0], 1'767'258'000, false);
    const JsonObject cancels{{"action", "cancel"}, {"id", all()[0].id}};
    EXPECT_EQ(answer(tool("telegram:1", firing), cancels), "Cancelled.");
    // A process that repeats the turn finds it; the source of firings removes it.
    ASSERT_EQ(all().size(), 1u);
    EXPECT_FALSE(all()[0].next);
    EXPECT_TRUE(detail::is_due(all()[0], cubepi::run(store->now())));
}

/// A store of which another firing is recorded when a schedule was found.
class FiringStore final : public ScheduleStore {
public:
    explicit FiringStore(std::shared_ptr<ScheduleStore> store) : store_(std::move(store)) {}

    Task<std::int64_t> now() override { return store_->now(); }
    Task<bool> add(Schedule schedule) override { return store_->add(std::move(schedule)); }
    Task<std::vector<Schedule>> list(std::string session) override {
        return store_->list(std::move(session));
    }
    Task<std::optional<Schedule>> find(std::string id) override {
        const std::optional<Schedule> found = co_await store_->find(std::move(id));
        if (std::exchange(fires_, false)) {
            Schedule fired = *found;
            fired.last = found->next;
            *fired.next += 60;
            (void)co_await store_->advance(std::move(fired), found->next);
        }
        co_return found;
    }
    Task<bool> remove(std::string id) override { return store_->remove(std::move(id)); }
    Task<DueSchedules> due(DuePlace after) override { return store_->due(std::move(after)); }
    Task<bool> advance(Schedule schedule, std::optional<std::int64_t> planned) override {
        return store_->advance(std::move(schedule), planned);
    }

private:
    const std::shared_ptr<ScheduleStore> store_;
    bool fires_ = true;
};

TEST_F(ScheduleToolTest, D249_CancelDuringFiring_EndsTheSchedule) {
    (void)answer(tool("telegram:1", message_of("1")), weekdays);
    const Envelope firing = firing_message(all()[0], 1'767'258'000, false);
    ScheduleToolOptions options;
    options.store = std::make_shared<FiringStore>(store);
    options.zone = "UTC";
    const AgentTool of_firing = schedule_tool(std::move(options), "telegram:1", firing);
    EXPECT_EQ(answer(of_firing, {{"action", "cancel"}, {"id", all()[0].id}}), "Cancelled.");
    EXPECT_FALSE(all()[0].next);
}

TEST_F(ScheduleToolTest, D250_Limits_AreNamed) {
    const AgentTool ann = tool("telegram:1", message_of("1"));
    for (std::size_t i = 0; i < max_session_schedules; ++i) (void)answer(ann, weekdays);
    EXPECT_EQ(refusal(ann, weekdays), ErrorCode::limit);
    (void)answer(tool("telegram:2", message_of("2")), weekdays);
    const JsonObject often{{"action", "add"}, {"every", "30s"}, {"text", "x"}};
    EXPECT_EQ(refusal(ann, often), ErrorCode::invalid_argument);
    const JsonObject silent{{"action", "add"}, {"every", "30m"}};
    EXPECT_EQ(refusal(tool("telegram:3", message_of("3")), silent), ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace bub
