#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cubepi/agent/claim_owner.hpp>
#include <cubepi/checkpoint/memory_checkpointer.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/testing/store_conformance.hpp>

namespace cubepi {

namespace {

TEST(MemoryCheckpointer, Store_ConformsToTheContract) {
    auto clock = std::make_shared<testing::ManualClock>();
    testing::StoreUnderTest subject;
    subject.make = [clock] {
        MemoryOptions options;
        options.clock = clock;
        return std::make_shared<MemoryCheckpointer>(std::move(options));
    };
    subject.advance = [clock](std::chrono::seconds amount) { clock->advance(amount); };
    for (const testing::StoreFailure& failure : testing::check_store(subject)) {
        ADD_FAILURE() << failure.check << ": " << failure.text;
    }
}

TEST(MemoryCheckpointer, D22_LoadedList_CanGrowIndependentlyOfTheStore) {
    MemoryCheckpointer store;
    MessageList first;
    first.push_back(user_message("one"));
    run(store.append("t", first, AppendOptions()));
    // Two lists that shared storage would write the same slot from two threads.
    std::thread other([&store] {
        for (int i = 0; i < 100; ++i) {
            MessageList more;
            more.push_back(user_message("more"));
            run(store.append("t", std::move(more), AppendOptions()));
        }
    });
    for (int i = 0; i < 100; ++i) {
        std::optional<CheckpointData> data = run(store.load("t"));
        for (int j = 0; j < 10; ++j) data->messages.push_back(user_message("mine"));
    }
    other.join();
    EXPECT_EQ(run(store.load("t"))->messages.size(), 101U);
}

/// A store that has only what every store must have, and one fault.
class Forgetful final : public Checkpointer {
public:
    Task<std::optional<CheckpointData>> load(std::string thread_id) override {
        return inner_.load(std::move(thread_id));
    }
    Task<std::int64_t> append(std::string thread_id, MessageList messages, AppendOptions) override {
        return inner_.append(std::move(thread_id), std::move(messages), AppendOptions());
    }
    Task<void> save_extra(std::string thread_id, JsonObject extra) override {
        return inner_.save_extra(std::move(thread_id), std::move(extra));
    }

private:
    MemoryCheckpointer inner_;
};

TEST(StoreConformance, D20_StoreThatIgnoresPosition_IsDetected) {
    testing::StoreUnderTest subject;
    subject.make = [] { return std::make_shared<Forgetful>(); };
    const std::vector<testing::StoreFailure> failures = testing::check_store(subject);
    ASSERT_FALSE(failures.empty());
    EXPECT_EQ(failures.front().check, "stale_append");
    EXPECT_GT(testing::store_checks().size(), 25U);
}

TEST(ClaimOwner, D50_CurrentProcess_HasAConstantOwner) {
    const ClaimOwner owner = current_process_owner();
    EXPECT_EQ(owner.pid, getpid());
    EXPECT_FALSE(owner.owner_id.empty());
    EXPECT_GT(owner.process_start, 0);
    EXPECT_EQ(owner.owner_id, current_process_owner().owner_id);
    EXPECT_NE(owner.description.find(std::to_string(getpid())), std::string::npos);
}

TEST(ClaimOwner, D50_RunningProcess_IsNotDead) {
    EXPECT_FALSE(is_dead_owner(current_process_owner()));
    ClaimOwner init = current_process_owner();
    init.pid = 1;
    EXPECT_TRUE(is_dead_owner(init)) << "another process has the id now, with another start";
}

TEST(ClaimOwner, D50_ProcessFromBeforeLastBoot_IsDead) {
    ClaimOwner owner = current_process_owner();
    owner.boot_id = "another boot";
    const bool is_known_machine = owner.host.find(" machine:") != std::string::npos &&
                                  owner.host.find(" pid:[") == std::string::npos;
    EXPECT_EQ(is_dead_owner(owner), is_known_machine);
    EXPECT_EQ(owner.description.find("machine:"), std::string::npos) << owner.description;
}

TEST(ClaimOwner, D50_OtherMachineWithSameName_IsNotDead) {
    ClaimOwner owner = current_process_owner();
    owner.boot_id = "another boot";
    const std::size_t end = owner.host.find(' ');
    const std::string space = owner.host.find("pid:[") == std::string::npos
                                  ? std::string()
                                  : owner.host.substr(owner.host.find(" pid:["));
    for (const std::string machine : {"", " machine:another"}) {
        owner.host = owner.host.substr(0, end) + machine + space;
        EXPECT_FALSE(is_dead_owner(owner)) << owner.host;
    }
}

TEST(ClaimOwner, D50_ProcessOfOtherHost_IsNotReportedDead) {
    ClaimOwner owner = current_process_owner();
    owner.host = "another host";
    owner.pid = 0x7ffffff0;
    EXPECT_FALSE(is_dead_owner(owner));
    EXPECT_FALSE(is_dead_owner(ClaimOwner()));
}

TEST(ClaimOwner, D50_EndedChild_IsAnotherDeadOwner) {
    const ClaimOwner parent = current_process_owner();
    const pid_t child = fork();
    if (child == 0) _exit(current_process_owner().owner_id != parent.owner_id ? 0 : 1);
    siginfo_t info{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
    EXPECT_EQ(info.si_status, 0);
    ClaimOwner owner = parent;
    owner.pid = child;
    EXPECT_TRUE(is_dead_owner(owner)) << "a zombie writes no more";
    waitpid(child, nullptr, 0);
    EXPECT_TRUE(is_dead_owner(owner));
}

}  // namespace

}  // namespace cubepi
