// The limits of a turn hold when its gateway was killed and the next one continues it (D222).

#include <gtest/gtest.h>

#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <cubepi/core/run.hpp>

#include "../joints/model_server.hpp"
#include "gateway_process.hpp"
#include "wait_until.hpp"

namespace cubepi::gateway_tests {
namespace {

using joint_tests::chat_answer;
using joint_tests::ModelServer;

/// A model that calls a tool in each answer. One request can be held until release().
class CallingModel {
public:
    explicit CallingModel(std::size_t held) : held_(held) {}
    ~CallingModel() { release(); }

    std::vector<std::string> flags() const {
        return {"--provider", "openai", "--base-url", server_.url(), "-m", "local"};
    }
    void wait_for(std::size_t requests) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return count_ >= requests; });
    }
    void release() {
        const std::lock_guard lock(mutex_);
        released_ = true;
        changed_.notify_all();
    }
    std::size_t requests() {
        const std::lock_guard lock(mutex_);
        return count_;
    }

private:
    std::string answer() {
        std::unique_lock lock(mutex_);
        const std::size_t number = ++count_;
        changed_.notify_all();
        if (number == held_) changed_.wait(lock, [this] { return released_; });
        return chat_answer("", {{"list", R"({"path":"."})", "call_" + std::to_string(number)}});
    }

    const std::size_t held_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t count_ = 0;
    bool released_ = false;
    ModelServer server_{[this](const boost::json::object&) { return answer(); }};
};

TEST(GatewayLimits, D222_MaxTurns_HoldsAfterAKill) {
    const GatewayHome home;
    home.configure("{http: {listen: \"127.0.0.1:0\"}}\nmax_turns: 3");
    CallingModel model(2);
    const JsonObject message{{"session", "s1"}, {"text", "go"}, {"user", "ann"}};
    {
        GatewayProcess gateway(home, model.flags());
        const std::uint16_t port = gateway.wait_until_running();
        std::thread client([&] { (void)run(post_message(port, message, "key")); });
        model.wait_for(2);
        gateway.kill();
        client.join();
    }
    model.release();
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    // The message that was accepted before the kill has a turn in this process. The answer to the second request is lost.
    model.wait_for(4);
    wait_until_idle(home);
    EXPECT_EQ(model.requests(), 4u) << gateway.output();
    // The next message has the whole limit.
    const JsonObject next{{"session", "s1"}, {"text", "again"}, {"user", "ann"}};
    const HttpReply reply = run(post_message(port, next));
    EXPECT_NE(reply.body.find("a limit of this service was reached"), std::string::npos)
        << reply.body;
    EXPECT_EQ(model.requests(), 7u);
    gateway.send(SIGTERM);
    EXPECT_EQ(gateway.wait(), 0) << gateway.output();
}

}  // namespace
}  // namespace cubepi::gateway_tests
