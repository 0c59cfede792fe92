#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/agent/transcript.hpp>
#include <cubepi/hitl/suspension_test_support.hpp>

namespace cubepi {
namespace {

using namespace hitl_test;

struct Cleanup {
    int files;
};

Task<RunResult> untyped(Task<TypedResult<Cleanup>> task) {
    RunResult result = co_await std::move(task);
    co_return result;
}

AssistantMessage answer(int files) {
    return calling({faux_tool_call("structured_output", {{"files", files}}, "a1")});
}

/// Runs prompt<Cleanup>() in a process that ends while its first call waits for the user.
RunResult suspend(std::shared_ptr<Checkpointer> store, FauxProvider& faux,
                  std::vector<std::string>& effects) {
    Process process(std::move(store), faux, effects);
    return process.run_with(untyped(process.agent->prompt<Cleanup>("hi")),
                            [&](const HitlRequest&) { (void)process.agent->detach(); });
}

TEST(TypedAnswerSuspension, D80_ASuspendedRunContinuesToItsValue) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    std::vector<std::string> effects;
    faux.set_responses({calling({rm_call("/a", "c1")}), answer(1)});
    EXPECT_EQ(suspend(store, faux, effects).outcome, RunOutcome::suspended);
    Process second(store, faux, effects);
    const TypedResult<Cleanup> result = run(second.agent->respond<Cleanup>("c1", approve()));
    ASSERT_TRUE(result);
    EXPECT_EQ(result->files, 1);
    EXPECT_EQ(effects, std::vector<std::string>{"/a"});
    EXPECT_TRUE(is_legal_transcript(run(store->load("t"))->messages));
}

TEST(TypedAnswerSuspension, D80_AValueBeforeTheQuestionIsTheAnswer) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    std::vector<std::string> effects;
    const auto one_by_one = [](AgentOptions& options, const std::shared_ptr<HitlChannel>&) {
        options.tool_execution = ExecutionMode::sequential;
    };
    faux.set_responses({calling(
        {faux_tool_call("structured_output", {{"files", 1}}, "a1"), rm_call("/a", "c1")})});
    {
        Process process(store, faux, effects, {}, one_by_one);
        const RunResult first =
            process.run_with(untyped(process.agent->prompt<Cleanup>("hi")),
                             [&](const HitlRequest&) { (void)process.agent->detach(); });
        EXPECT_EQ(first.outcome, RunOutcome::suspended);
    }
    Process second(store, faux, effects, {}, one_by_one);
    const TypedResult<Cleanup> result = run(second.agent->respond<Cleanup>("c1", approve()));
    ASSERT_TRUE(result);
    EXPECT_EQ(result->files, 1);
    EXPECT_EQ(effects, std::vector<std::string>{"/a"});
    EXPECT_EQ(faux.call_count(), 1u) << "the model is not called again";
}

TEST(TypedAnswerSuspension, D80_AnotherAnswerToTheUserKeepsTheOutcome) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    std::vector<std::string> effects;
    faux.set_responses({calling({rm_call("/a", "c1"), rm_call("/b", "c2")}), answer(1)});
    {
        Process process(store, faux, effects);
        int asked = 0;
        const RunResult first = process.run_with(untyped(process.agent->prompt<Cleanup>("hi")),
                                                 [&](const HitlRequest&) {
                                                     if (++asked == 2)
                                                         (void)process.agent->detach();
                                                 });
        EXPECT_EQ(first.pending_requests.size(), 2u);
    }
    Process second(store, faux, effects);
    const TypedResult<Cleanup> waiting = run(second.agent->respond<Cleanup>("c1", approve()));
    EXPECT_EQ(waiting.outcome, RunOutcome::suspended);
    EXPECT_FALSE(waiting.value);
    const TypedResult<Cleanup> result = run(second.agent->respond<Cleanup>("c2", deny("no")));
    ASSERT_TRUE(result);
    EXPECT_EQ(result->files, 1);
    EXPECT_EQ(effects, std::vector<std::string>{"/a"});
}

}  // namespace
}  // namespace cubepi
