#include <bub/channel/delivery_log.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/channel_test_support.hpp>

namespace bub::channel_tests {
namespace {

using Texts = std::vector<std::string>;

class DecidedChannel final : public TestChannel, public SettlesDeliveries {
public:
    DecidedChannel(std::string name, UnsettledPolicy policy)
        : TestChannel(std::move(name)), policy_(policy) {}
    UnsettledPolicy unsettled_policy() const noexcept override { return policy_; }

private:
    UnsettledPolicy policy_;
};

/// Remembers in which order things were written down.
class WatchedLog final : public DeliveryLog {
public:
    Task<std::string> intend(Envelope message) override {
        order.push_back("intend " + message.content_text());
        return inner.intend(std::move(message));
    }
    Task<> sent(std::string id) override {
        order.push_back("sent");
        return inner.sent(std::move(id));
    }
    Task<> failed(std::string id, std::string reason) override {
        order.push_back("failed");
        return inner.failed(std::move(id), std::move(reason));
    }
    Task<std::vector<Delivery>> unsettled() override { return inner.unsettled(); }

    Texts order;
    MemoryDeliveryLog inner;
};

TEST(Delivery, B18_IsRecordedAsIntendedThenAsSent) {
    House house;
    const auto log = std::make_shared<WatchedLog>();
    house.options.deliveries = log;
    house.run([](House& h) -> Task<> {
        co_await h.handler(from("chat", "1", "one"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(log->order, (Texts{"intend re: one", "sent"}));
    EXPECT_TRUE(cubepi::run(log->unsettled()).empty());
}

TEST(Delivery, B18_ARefusedOneIsSettledAndACancelledOneIsNot) {
    for (const Trouble trouble : {Trouble::fails, Trouble::hangs}) {
        House house;
        const auto log = std::make_shared<WatchedLog>();
        house.options.deliveries = log;
        house.channel->on_send = trouble;
        house.run([trouble](House& h) -> Task<> {
            co_await h.handler(from("chat", "1", "one"));
            co_await h.until_begun(1);
            if (trouble == Trouble::hangs) h.manager->cancel_turn("chat:1");
            co_await h.manager->idle();
        });
        EXPECT_EQ(cubepi::run(log->unsettled()).size(), trouble == Trouble::hangs ? 1u : 0u);
    }
}

TEST(Delivery, B18_AnUnknownFateGoesByTheChannelsPolicy) {
    const auto log = std::make_shared<MemoryDeliveryLog>();
    for (const char* channel : {"again", "held", "chat", "gone"})
        cubepi::run(log->intend(from(channel, "1", std::string("to ") + channel)));
    House house;
    const auto again = std::make_shared<DecidedChannel>("again", UnsettledPolicy::resend);
    const auto held = std::make_shared<DecidedChannel>("held", UnsettledPolicy::hold);
    house.channels.push_back(again);
    house.channels.push_back(held);
    house.options.deliveries = log;
    house.run([](House& h) -> Task<> {
        co_await h.handler(from("chat", "1", "one"));
        co_await h.manager->idle();
    });
    EXPECT_EQ(again->texts(), Texts{"to again"});
    EXPECT_EQ(again->sent.front().context["resent"], true);
    EXPECT_TRUE(held->sent.empty());
    EXPECT_EQ(house.channel->texts(), Texts{"re: one"});
    EXPECT_EQ(cubepi::run(log->unsettled()).size(), 3u) << "held until somebody decides";
    ASSERT_EQ(house.warnings.size(), 1u);
    EXPECT_NE(house.warnings.front().find("3 answers"), std::string::npos);
}

}  // namespace
}  // namespace bub::channel_tests
