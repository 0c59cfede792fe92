#include <cubepi/testing/hitl_channels.hpp>

#include <gtest/gtest.h>

#include <cubepi/core/run.hpp>

namespace cubepi::testing {
namespace {

HitlQuestion question(std::string key) {
    HitlQuestion one;
    one.key = std::move(key);
    return one;
}

TEST(ScriptedChannel, ScriptedAnswers_ComeInOrderThenThrow) {
    ScriptedChannel channel({Json(true), [](const HitlRequest& request) {
                                 return Json(JsonObject{{request.question_id, "x"}});
                             }});
    EXPECT_TRUE(run(channel.confirm("Sure?")));
    EXPECT_EQ(run(channel.ask({question("q2")})), (JsonObject{{"q2", "x"}}));
    EXPECT_THROW(run(channel.confirm("Again?")), HitlError);
    EXPECT_EQ(channel.history().size(), 3U);
    EXPECT_THROW(run(channel.answer("q1", Json(true))), Error);
}

TEST(ScriptedChannel, InvalidAnswer_IsRefused) {
    ScriptedChannel channel({Json("yes")});
    EXPECT_THROW(run(channel.confirm("Sure?")), Error);
}

TEST(NoopChannel, EveryRequest_IsAccepted) {
    NoopChannel channel;
    EXPECT_TRUE(run(channel.confirm("Sure?")));
    EXPECT_EQ(run(channel.approve("rm", "c1", {})).decision, ApproveDecision::approve);
    HitlQuestion choice = question("color");
    choice.options.emplace(1);
    choice.options->front().value = "red";
    EXPECT_EQ(run(channel.ask({choice, question("note")})),
              (JsonObject{{"color", "red"}, {"note", ""}}));
}

}  // namespace
}  // namespace cubepi::testing
