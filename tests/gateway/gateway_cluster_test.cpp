// The commands of an operator at one of several gateways that share their messages (D237).

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/core/support/json_member.hpp>

#include "echo_model.hpp"
#include "gateway/control_server.hpp"
#include "gateway_process.hpp"
#include "two_gateways.hpp"
#include "wait_until.hpp"

namespace cubepi::gateway_tests {
namespace {

TEST_F(TwoGateways, D237_Status_ShowsAllOfThem) {
    start_first();
    start_second();
    const JsonObject status = wait_for_status();
    EXPECT_EQ(status.at("configurations_differ"), false) << boost::json::serialize(status);
    const std::string shown = operate({"status"}).output;
    EXPECT_NE(shown.find("Gateways that share the messages:"), std::string::npos) << shown;
    EXPECT_NE(shown.find("(this one)"), std::string::npos) << shown;
    configure(one, ", drain_timeout: 7");
    EXPECT_EQ(run_command(one, {"gateway", "reload"}).status, 0);
    wait_until([&] { return call(two, "status").at("configurations_differ") == true; });
    EXPECT_NE(operate({"status"}).output.find("Their configuration files differ."),
              std::string::npos);
}

TEST_F(TwoGateways, D237_TurnElsewhere_IsListedAndStopped) {
    start_first();
    start_second();
    model.hold("a");
    const auto waiting = post_later(port, "a");
    (void)model.wait_for("a");
    const std::string listed = operate({"sessions"}).output;
    EXPECT_NE(listed.find("http:s1\trunning\t0 messages waiting\tat "), std::string::npos)
        << listed;
    const CommandResult stopped = operate({"stop", "http:s1"});
    EXPECT_EQ(stopped.status, 0) << stopped.output;
    wait_until_idle(one);
    EXPECT_EQ(model.count("a"), 1u);
    const CommandResult again = operate({"stop", "http:s1"});
    EXPECT_NE(again.status, 0);
    EXPECT_NE(again.output.find("no turn is running in the session"), std::string::npos)
        << again.output;
}

TEST_F(TwoGateways, B14_OverflowElsewhere_IsRefused) {
    configure(two, ", max_waiting: 1");
    start_first();
    start_second();
    model.hold("a");
    const auto running = post_later(port, "a");
    (void)model.wait_for("a");
    auto waiting = post_later(second_port, "b");
    RawPostgres server(database);
    wait_until(
        [&] { return server.query("SELECT count(*) FROM bub_delivery_inbound").front() == "2"; });
    const HttpReply refused = post(second_port, "c");
    EXPECT_EQ(refused.status, 429) << refused.body;
    model.release();
    EXPECT_EQ(waiting.get().text(), "re: b");
    EXPECT_EQ(post(second_port, "c").text(), "re: c");
}

TEST_F(TwoGateways, D237_HeldElsewhere_IsDecidedHere) {
    model.hold("a");
    for (int kills = 1; kills <= 2; ++kills) {
        start_first();
        if (kills == 1) {
            const auto lost = post_later(port, "a");
            (void)model.wait_for("a");
            first->kill();
        } else {
            (void)model.wait_for("a", 2);
            first->kill();
        }
    }
    start_first();
    start_second();
    const JsonObject held = call(two, "held");
    const JsonArray& messages = held.at("messages").as_array();
    ASSERT_EQ(messages.size(), 1u) << boost::json::serialize(held);
    EXPECT_TRUE(messages[0].as_object().contains("gateway"));
    const std::string id(messages[0].at("id").as_string());
    model.release();
    const CommandResult released = operate({"release", id});
    EXPECT_EQ(released.status, 0) << released.output;
    (void)model.wait_for("a", 3);
    EXPECT_EQ(post(port, "a").text(), "re: a");
    const CommandResult again = operate({"discard", id});
    EXPECT_NE(again.output.find("no held message or answer has the id"), std::string::npos)
        << again.output;
}

TEST_F(TwoGateways, D237_FrozenGateway_IsNamed) {
    start_first();
    // It waits for the other one twice.
    start_second({"CUBEPI_TEST_CLOCK=5"});
    (void)wait_for_status();
    const std::string number = id_of_first();
    first->send(SIGSTOP);
    RawPostgres server(database);
    (void)server.query(
        "UPDATE bub_delivery_gateways SET lease_until = now() + interval '1 hour'"
        " WHERE pid = " +
        std::to_string(first->pid()));
    const CommandResult listed = operate({"sessions"});
    EXPECT_EQ(listed.status, 0);
    EXPECT_NE(listed.output.find("gateways that did not answer"), std::string::npos)
        << listed.output;
    EXPECT_NE(listed.output.find("/" + number), std::string::npos) << listed.output;
    const CommandResult stopped = operate({"stop", "http:s1"});
    EXPECT_NE(stopped.output.find("have not answered within 5 s"), std::string::npos)
        << stopped.output;
    EXPECT_EQ(server.query("SELECT count(*) FROM bub_delivery_calls").front(), "0");

    CommandResult begun;
    std::thread stopping([&] { begun = operate({"stop", "http:s1"}); });
    const std::string begin = "UPDATE bub_delivery_calls SET begun = true RETURNING id";
    wait_until([&] { return !server.query(begin).empty(); });
    stopping.join();
    EXPECT_NE(begun.output.find("has begun, and may still do it"), std::string::npos)
        << begun.output;
    first->send(SIGCONT);
}

/// Rows of a gateway that has no process: the test answers its calls.
class FakeGateway {
public:
    FakeGateway(const std::string& database, const std::string& host)
        : server_(database), host_(host) {
        number_ = server_
                      .query(
                          "INSERT INTO bub_delivery_gateways (number, account, host, boot_id,"
                          " pid, process_start, lease_until) SELECT"
                          " nextval('bub_delivery_ids'), account, '" +
                          host +
                          "', 'b', 1, 1, now() + interval '1 hour' FROM bub_delivery_gateways"
                          " LIMIT 1 RETURNING number")
                      .front();
        thread_ = std::jthread([this](const std::stop_token& ended) { serve(ended); });
    }
    /// As lists name it.
    std::string name() const { return host_ + "/" + number_; }
    void answer_with(std::string result) {
        const std::lock_guard lock(mutex_);
        result_ = std::move(result);
    }

private:
    void serve(const std::stop_token& ended) {
        while (!ended.stop_requested()) {
            {
                // Until the row is written: a call after answer_with() does not get the result from before.
                const std::lock_guard lock(mutex_);
                (void)server_.query("UPDATE bub_delivery_calls SET begun = true, result = '" +
                                    result_ + "' WHERE result IS NULL AND gateway = " + number_);
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
    }

    RawPostgres server_;
    const std::string host_;
    std::string number_;
    std::mutex mutex_;
    std::string result_ = "{}";
    std::jthread thread_;
};

TEST_F(TwoGateways, D237_DamagedResult_IsThatOfOneGateway) {
    start_second();
    FakeGateway damaged(database, "damaged");
    FakeGateway other(database, "other");
    for (const char* const result :
         {R"({"result": {"sessions": 5}})", R"({"result": {"sessions": [{"session": []}]}})", "[[",
          R"({"result": []})", "7"}) {
        damaged.answer_with(result);
        other.answer_with(R"({"result": {"sessions": [{"session": "x:y"}]}})");
        const JsonObject listed = call(two, "sessions");
        EXPECT_EQ(listed.at("unanswered"), Json(JsonArray{damaged.name()})) << result;
        EXPECT_EQ(listed.at("sessions").at(0).at("gateway"), Json("other")) << result;
    }
    damaged.answer_with(R"({"result": {"messages": {}}})");
    other.answer_with(R"({"result": {"messages": [{"id": "m"}]}})");
    const JsonObject held = call(two, "held");
    EXPECT_EQ(held.at("unanswered"), Json(JsonArray{damaged.name()}));
    EXPECT_EQ(held.at("messages").at(0).at("id"), Json("m"));
}

/// A gateway that has done it counts more than one that has failed, and this one more than one without an answer.
TEST_F(TwoGateways, D237_Operation_ReportsTheStrongestAnswer) {
    start_second();
    FakeGateway first_fake(database, "fake-1");
    FakeGateway second_fake(database, "fake-2");
    const std::string not_here = R"({"not_here": true})";
    const std::string failed = R"({"error": "it has failed"})";
    const std::string done = R"({"result": {"ok": true}})";
    const auto stop = [&](const std::string& one, const std::string& other) {
        first_fake.answer_with(one);
        second_fake.answer_with(other);
        return operate({"stop", "http:s1"});
    };
    EXPECT_EQ(stop(failed, done).status, 0);
    EXPECT_EQ(stop(done, "[").status, 0);
    EXPECT_NE(stop("[", failed).output.find("fake-2: it has failed"), std::string::npos);
    EXPECT_NE(stop(failed, not_here).output.find("fake-1: it has failed"), std::string::npos);
    EXPECT_NE(stop(not_here, "[").output.find("have not answered within"), std::string::npos);
    EXPECT_NE(stop(not_here, not_here).output.find("no turn is running"), std::string::npos);
}

TEST_F(TwoGateways, D237_CallsWithoutTheirTable_AreReported) {
    RawPostgres server(database);
    (void)server.query("ALTER TABLE bub_delivery_calls RENAME TO bub_other");
    start_first();
    (void)first->wait_for("gateway.peers_failed");
    const JsonObject status = call(one, "status");
    const std::string problem = detail::text_member(status, "problem");
    EXPECT_NE(problem.find("other gateways cannot see or operate this one"), std::string::npos)
        << problem;
    (void)server.query("ALTER TABLE bub_other RENAME TO bub_delivery_calls");
    wait_until([&] { return !call(one, "status").contains("problem"); });
}

TEST_F(TwoGateways, D238_OtherNotifyDatabase_IsShown) {
    start_first();
    configure(two, ", notify_database: \"" + new_database(two) + "\"");
    start_second({"CUBEPI_TEST_CLOCK=5"});
    (void)second->wait_for("store.notifications_failed");
    const std::string shown = operate({"status"}).output;
    EXPECT_NE(shown.find("see notify_database"), std::string::npos) << shown;
    EXPECT_FALSE(call(one, "status").contains("problem"));
    // Messages are found in the tables.
    model.hold("a");
    auto running = post_later(port, "a");
    (void)model.wait_for("a");
    auto elsewhere = post_later(second_port, "b");
    model.release();
    EXPECT_EQ(running.get().text(), "re: a");
    EXPECT_EQ(elsewhere.get().text(), "re: b");
    EXPECT_EQ(post(port, "c").text(), "re: c");
}

TEST_F(TwoGateways, D237_ChangedNotifyDatabase_IsNamed) {
    start_first();
    configure(one, ", notify_database: \"" + database + "?application_name=x\"");
    const CommandResult reloaded = run_command(one, {"gateway", "reload"});
    EXPECT_NE(reloaded.status, 0);
    EXPECT_NE(reloaded.output.find("a change of 'gateway.notify_database' needs a restart"),
              std::string::npos)
        << reloaded.output;
}

TEST_F(TwoGateways, D237_Drain_EndsNamedOrAll) {
    start_first();
    start_second();
    const CommandResult unknown = operate({"drain", "elsewhere"});
    EXPECT_NE(unknown.status, 0);
    EXPECT_NE(unknown.output.find("no gateway is named 'elsewhere'"), std::string::npos)
        << unknown.output;
    const CommandResult drained = operate({"drain", id_of_first()});
    EXPECT_EQ(drained.status, 0) << drained.output;
    EXPECT_EQ(first->wait(), 0) << first->output();
    start_first();
    (void)wait_for_status();
    model.hold("a");
    auto waiting = post_later(port, "a");
    (void)model.wait_for("a");
    // A repeated request does not cut off the turn.
    const std::string id = id_of_first();
    for (int i = 0; i < 2; ++i) EXPECT_EQ(operate({"drain", id}).status, 0);
    (void)first->wait_for("gateway.draining");
    (void)call(one, "drain");
    model.release();
    EXPECT_EQ(waiting.get().text(), "re: a");
    EXPECT_EQ(first->wait(), 0) << first->output();
    EXPECT_EQ(model.count("a"), 1u);
    start_first();
    (void)wait_for_status();
    const CommandResult all = operate({"drain", "--all"});
    EXPECT_EQ(all.status, 0) << all.output;
    EXPECT_EQ(first->wait(), 0) << first->output();
    EXPECT_EQ(second->wait(), 0) << second->output();
}

}  // namespace
}  // namespace cubepi::gateway_tests
