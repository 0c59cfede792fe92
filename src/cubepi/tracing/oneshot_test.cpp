#include <chrono>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/tracing/traced_test.hpp>
#include <cubepi/tracing/tracer.hpp>

namespace cubepi {
namespace {

using namespace tracing_test;

TEST(Oneshot, IsARunWithOneCall) {
    TracerOptions tracing;
    tracing.record_content = true;
    Traced it(std::move(tracing));
    FauxProvider faux = answering({"A title"});
    OneshotOptions options;
    options.operation = "title";
    options.trace.metadata["conversation_id"] = "conv-1";
    const AssistantMessage answer =
        run(it.tracer->oneshot(faux.model("m"), "Make a title.",
                               MessageList{user_message("Long talk")}, std::move(options)));
    EXPECT_EQ(answer.text(), "A title");
    const auto root = it.span("invoke_agent");
    EXPECT_EQ(text(*root, "cubepi.oneshot.operation"), "title");
    EXPECT_EQ(text(*root, "cubepi.metadata.oneshot_operation"), "title");
    EXPECT_EQ(text(*root, "gen_ai.output.messages"),
              R"([{"role":"assistant","parts":[{"type":"text","content":"A title"}]}])");
    EXPECT_EQ(it.span("chat m")->parent, root->context.span_id);
}

Task<AssistantMessage> answer_much_later(ModelRequest) {
    SystemClock clock;
    co_await clock.sleep_for(std::chrono::hours(1));
    co_return faux_assistant_message("late");
}

TEST(Oneshot, IsExportedIfItsEventLoopEndsFirst) {
    Traced it;
    FauxProvider faux = answering({FauxStep(answer_much_later)});
    {
        boost::asio::io_context context;
        Task<AssistantMessage> call =
            it.tracer->oneshot(faux.model("m"), "Make a title.",
                               MessageList{user_message("Long talk")}, OneshotOptions());
        boost::asio::co_spawn(context, std::move(call), boost::asio::detached);
        context.poll();
        EXPECT_TRUE(it.spans("invoke_agent").empty());
    }
    EXPECT_EQ(text(*it.span("invoke_agent"), "cubepi.aborted"), "true");
}

}  // namespace
}  // namespace cubepi
