#include <string>

#include <gtest/gtest.h>

#include <cubepi/agent/agent_test_support.hpp>

namespace cubepi {
namespace {

using namespace agent_test;

ErrorCode code_of(Task<void> task) {
    try {
        run(std::move(task));
    } catch (const Error& error) {
        return error.code();
    }
    ADD_FAILURE() << "there was no error";
    return ErrorCode::unknown;
}

TEST(Rewind, D81_CutsTheHistoryInMemory) {
    FauxProvider faux;
    faux.set_responses({"one", calling({echo_call("x")}), "two", "other"});
    Agent agent({.model = faux.model(), .tools = {echo_tool()}});
    EXPECT_TRUE(run(agent.prompt("first")));
    EXPECT_TRUE(run(agent.prompt(user_message("second", "m2"))));
    const std::string result_id = agent.state().messages[4].id();
    EXPECT_EQ(code_of(agent.rewind(result_id)), ErrorCode::invalid_argument);
    EXPECT_EQ(code_of(agent.rewind("none")), ErrorCode::invalid_argument);
    EXPECT_EQ(agent.state().messages.size(), 6u);
    run(agent.rewind("m2"));
    EXPECT_EQ(texts(agent.state().messages), (std::vector<std::string>{"first", "one"}));
    EXPECT_EQ(run(agent.prompt("second, edited")).text(), "other");
    EXPECT_EQ(agent.state().messages.size(), 4u);
}

TEST(Rewind, D81_AStoredThreadIsForkedAndNotChanged) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    faux.set_responses({"one", "two", "other"});
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    EXPECT_TRUE(run(agent.prompt("first")));
    EXPECT_TRUE(run(agent.prompt(user_message("second", "m2"))));
    EXPECT_EQ(code_of(agent.rewind("m2")), ErrorCode::invalid_argument);
    run(agent.rewind("m2", "t-2"));
    EXPECT_EQ(agent.thread_id(), "t-2");
    EXPECT_EQ(texts(agent.state().messages), (std::vector<std::string>{"first", "one"}));
    EXPECT_TRUE(run(agent.prompt("second, edited")));
    EXPECT_EQ(stored(*store, "t").size(), 4u);
    EXPECT_EQ(texts(stored(*store, "t-2")),
              (std::vector<std::string>{"first", "one", "second, edited", "other"}));
    // Another agent finds the same.
    Agent again({.model = faux.model(), .checkpointer = store, .thread_id = "t-2"});
    faux.set_responses({"more"});
    EXPECT_TRUE(run(again.prompt("third")));
    EXPECT_EQ(again.state().messages.size(), 6u);
}

TEST(Rewind, D81_BeforeTheFirstMessageTheNewThreadIsEmpty) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    faux.set_responses({"one", "other", "third"});
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    EXPECT_TRUE(run(agent.prompt(user_message("first", "m1"))));
    EXPECT_THROW(run(agent.rewind("m1", "t")), ThreadAlreadyExistsError);
    EXPECT_EQ(agent.state().messages.size(), 2u);
    run(agent.rewind("m1", "t-2"));
    EXPECT_TRUE(agent.state().messages.empty());
    EXPECT_TRUE(run(agent.prompt("first, edited")));
    EXPECT_EQ(stored(*store, "t-2").size(), 2u);
}

TEST(Rewind, D81_LoadsTheThreadFirst) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    faux.set_responses({"one", "two"});
    {
        Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
        EXPECT_TRUE(run(agent.prompt("first")));
        EXPECT_TRUE(run(agent.prompt(user_message("second", "m2"))));
    }
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    run(agent.rewind("m2", "t-2"));
    EXPECT_EQ(agent.state().messages.size(), 2u);
}

TEST(Rewind, D81_InsideOfARunIsRefused) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    faux.set_responses({"one"});
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    EXPECT_TRUE(run(agent.prompt("first")));
    const std::string answer = agent.state().messages[1].id();
    EXPECT_EQ(code_of(agent.rewind(answer, "t-2")), ErrorCode::invalid_argument);
    EXPECT_EQ(agent.thread_id(), "t");
}

TEST(Rewind, D81_RunsThatWereNotCompletedCannotBeForked) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    faux.set_responses({"one", faux_failure("down"), "three", "four"});
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    EXPECT_TRUE(run(agent.prompt("first")));
    EXPECT_FALSE(run(agent.prompt("second")));
    EXPECT_TRUE(run(agent.prompt("third")));
    EXPECT_TRUE(run(agent.prompt(user_message("fourth", "m4"))));
    EXPECT_EQ(code_of(agent.rewind("m4", "t-2")), ErrorCode::invalid_argument);
    EXPECT_EQ(agent.thread_id(), "t");
    EXPECT_EQ(agent.state().messages.size(), 8u);
}

TEST(Rewind, D81_AStoreWithoutForks) {
    auto store = std::make_shared<FailingStore>(std::make_shared<MemoryCheckpointer>(), 1000);
    FauxProvider faux;
    faux.set_responses({"one"});
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    EXPECT_TRUE(run(agent.prompt(user_message("first", "m1"))));
    EXPECT_EQ(code_of(agent.rewind("m1", "t-2")), ErrorCode::unsupported);
}

}  // namespace
}  // namespace cubepi
