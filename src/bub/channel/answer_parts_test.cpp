// B18: a turn with several outputs, interrupted between them.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/delivery_test_support.hpp>

namespace bub::channel_tests {
namespace {

using Texts = std::vector<std::string>;

Task<> wait_until_idle(Gateway& gateway) { return gateway.manager->idle(); }

/// Returns a log with one received message.
std::shared_ptr<MemoryDeliveryLog> log_with_message() {
    auto log = std::make_shared<MemoryDeliveryLog>();
    Envelope message = from("chat", "1", "one");
    message.inbound_id = "u1";
    (void)cubepi::run(log->receive(std::move(message)));
    return log;
}

/// Sends each answer in three parts.
Plugin in_parts() {
    Plugin plugin;
    plugin.name = "in parts";
    plugin.render_outbound = [](RenderOutboundCall& call) {
        std::vector<Envelope> parts;
        for (const char* which : {"a", "b", "c"}) {
            Envelope part = from("chat", "1", call.model_output + " " + which);
            part.session_id = call.session_id;
            parts.push_back(std::move(part));
        }
        return EnvelopeBatch(std::move(parts));
    };
    return plugin;
}

TEST(Redelivery, D42_AnInterruptedAnswerOfSeveralOutputsIsCompletedWithoutDuplicates) {
    std::size_t marked = 0;
    std::size_t completed = 0;
    for (std::size_t at = 1;; ++at) {
        SCOPED_TRACE("the process ends at step " + std::to_string(at));
        const auto stored = log_with_message();
        std::map<std::string, int> plain;
        std::map<std::string, int> again;
        bool died = true;
        std::size_t turns = 0;
        for (const bool dies : {true, false}) {
            Gateway gateway;
            const auto log = std::make_shared<WatchedLog>(stored);
            log->dies_at = dies ? at : 0;
            gateway.options.deliveries = log;
            const auto channel = std::make_shared<DecidedChannel>("chat", UnsettledPolicy::resend);
            gateway.channels = {channel};
            gateway.framework->add(in_parts());
            gateway.run(wait_until_idle);
            for (const Envelope& message : channel->sent)
                ++(message.context.contains("resent") ? again : plain)[message.content_text()];
            turns += gateway.done.size();
            if (!dies) {
                EXPECT_TRUE(gateway.warnings.empty());
            }
            if (dies) died = log->dead();
        }
        for (const char* part : {"re: one a", "re: one b", "re: one c"}) {
            EXPECT_GE(plain[part] + again[part], 1) << part << " is lost";
            EXPECT_LE(plain[part], 1) << part << " was sent twice";
            marked += static_cast<std::size_t>(again[part]);
        }
        if (died && turns == 1) ++completed;
        EXPECT_TRUE(cubepi::run(stored->unfinished()).empty());
        EXPECT_TRUE(cubepi::run(stored->unsettled()).empty());
        if (!died) break;
        ASSERT_LT(at, 100u);
    }
    EXPECT_GE(marked, 3u);
    EXPECT_GE(completed, 6u) << "the model is not asked again once the answer is known";
}

TEST(Redelivery, B18_TheRemainingOutputsOfAnAnswerWaitForTheirChannel) {
    const auto log = log_with_message();
    cubepi::run(log->begin(Texts(1, "1")));
    std::vector<TurnOutput> outputs;
    for (const char* text : {"first", "second"}) {
        outputs.emplace_back(from("chat", "1", text), outputs.size(), 2).message.session_id =
            "chat:1";
    }
    cubepi::run(log->plan(outputs, Texts(1, "1")));
    for (const bool served : {false, true}) {
        Gateway gateway;
        gateway.options.deliveries = log;
        const auto other = std::make_shared<TestChannel>("other");
        if (!served) gateway.channels = {other};
        gateway.run(wait_until_idle);
        EXPECT_TRUE(gateway.begun.empty()) << "the model has answered already";
        EXPECT_EQ(gateway.warnings.size(), served ? 0u : 1u);
        EXPECT_EQ(gateway.channel->texts(), served ? Texts({"first", "second"}) : Texts());
    }
    EXPECT_TRUE(cubepi::run(log->unfinished()).empty());
}

}  // namespace
}  // namespace bub::channel_tests
