#include "control_server.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/scoped_test_directory.hpp>

namespace cubepi::app {
namespace {

class ControlTest : public ::testing::Test {
public:
    std::filesystem::path socket() const { return directory_.path() / "control.sock"; }

    static Task<JsonObject> echo(JsonObject request) {
        if (request.contains("fail")) throw Error(ErrorCode::not_found, "there is no such thing");
        JsonObject answer;
        answer["echo"] = std::move(request);
        co_return answer;
    }

    std::unique_ptr<ControlServer> server(const Executor& executor) const {
        return std::make_unique<ControlServer>(executor, socket(), echo);
    }

    /// Answers after three requests without a command.
    static Task<JsonObject> slow_reply(JsonObject request, std::shared_ptr<AsyncEvent> probed,
                                       std::size_t& probes) {
        JsonObject answer{{"done", true}};
        if (request.empty()) {
            if (++probes == 3) probed->set();
            co_return answer;
        }
        co_await probed->wait();
        co_return answer;
    }

    /// Sends a request from a thread, as another process would.
    Task<std::string> call(JsonObject request, GatewayPatience patience = {}) const {
        const std::shared_ptr<const Runtime> runtime = Runtime::standard();
        auto ask = [path = socket(), request = std::move(request), patience] {
            try {
                return boost::json::serialize(call_gateway(path, request, patience));
            } catch (const Error& error) {
                return std::string(error.what());
            }
        };
        Task<std::string> calling = offload(*runtime->workers, std::move(ask));
        co_return co_await std::move(calling);
    }

    ScopedTestDirectory directory_;
};

TEST_F(ControlTest, RequestsOfThisUser_AreAnswered) {
    std::string answer;
    std::string failure;
    mode_t mode = 0;
    run([](const ControlTest& test, std::string& good, std::string& bad, mode_t& found) -> Task<> {
        const auto control = test.server(co_await this_executor);
        control->listen();
        struct stat info = {};
        (void)::stat(test.socket().c_str(), &info);
        found = info.st_mode & 0777U;
        JsonObject request{{"command", "status"}};
        good = co_await test.call(std::move(request));
        JsonObject failing{{"fail", true}};
        bad = co_await test.call(std::move(failing));
        co_await control->stop();
    }(*this, answer, failure, mode));
    EXPECT_EQ(answer, R"({"echo":{"command":"status"}})");
    EXPECT_NE(failure.find("there is no such thing"), std::string::npos);
    EXPECT_EQ(mode, 0600u);
    EXPECT_FALSE(std::filesystem::exists(socket()));
}

TEST_F(ControlTest, IdleConnection_IsClosed) {
    std::size_t closed = 0;
    std::string answer;
    run([](const ControlTest& test, std::size_t& ended, std::string& good) -> Task<> {
        ControlServer control(co_await this_executor, test.socket(), echo,
                              std::chrono::milliseconds(20));
        control.listen();
        const std::shared_ptr<const Runtime> runtime = Runtime::standard();
        auto wait = [path = test.socket()] {
            boost::asio::io_context context;
            std::size_t count = 0;
            for (const std::string sent : {"", "{"}) {
                boost::asio::local::stream_protocol::socket client(context);
                client.connect(boost::asio::local::stream_protocol::endpoint(path.string()));
                (void)client.send(boost::asio::buffer(sent));
                char byte = 0;
                boost::system::error_code failed;
                (void)client.read_some(boost::asio::buffer(&byte, 1), failed);
                if (failed == boost::asio::error::eof) ++count;
            }
            return count;
        };
        Task<std::size_t> waiting = offload(*runtime->workers, std::move(wait));
        ended = co_await std::move(waiting);
        JsonObject request{{"command", "status"}};
        good = co_await test.call(std::move(request));
        co_await control.stop();
    }(*this, closed, answer));
    EXPECT_EQ(closed, 2u);
    EXPECT_NE(answer.find("status"), std::string::npos) << answer;
}

TEST_F(ControlTest, SecondServer_IsRefusedAndDeadSocketReplaced) {
    std::string refusal;
    std::string answer;
    run([](const ControlTest& test, std::string& refused, std::string& after) -> Task<> {
        const Executor executor = co_await this_executor;
        const auto first = test.server(executor);
        first->listen();
        const auto second = test.server(executor);
        try {
            second->listen();
        } catch (const Error& error) {
            refused = error.what();
        }
        // A process that was killed leaves its socket.
        std::filesystem::rename(test.socket(), test.socket().string() + ".dead");
        co_await first->stop();
        std::filesystem::rename(test.socket().string() + ".dead", test.socket());
        second->listen();
        JsonObject request{{"n", 1}};
        after = co_await test.call(std::move(request));
        co_await second->stop();
    }(*this, refusal, answer));
    EXPECT_NE(refusal.find("another gateway of this user is running"), std::string::npos);
    EXPECT_EQ(answer, R"({"echo":{"n":1}})");
}

/// Opens all file descriptors that the process may have.
class NoFreeFiles {
public:
    NoFreeFiles() {
        (void)::getrlimit(RLIMIT_NOFILE, &before_);
        struct rlimit few = before_;
        few.rlim_cur = std::min<rlim_t>(few.rlim_max, 256);
        (void)::setrlimit(RLIMIT_NOFILE, &few);
        for (int file = ::dup(STDERR_FILENO); file >= 0; file = ::dup(STDERR_FILENO))
            files_.push_back(file);
    }
    ~NoFreeFiles() {
        while (!files_.empty()) release_one();
        (void)::setrlimit(RLIMIT_NOFILE, &before_);
    }
    NoFreeFiles(const NoFreeFiles&) = delete;
    NoFreeFiles& operator=(const NoFreeFiles&) = delete;

    void release_one() {
        ::close(files_.back());
        files_.pop_back();
    }

private:
    struct rlimit before_ = {};
    std::vector<int> files_;
};

TEST_F(ControlTest, FileDescriptorsFreedAgain_ConnectionsAreAccepted) {
    std::string answer;
    run([](const ControlTest& test, std::string& after) -> Task<> {
        const Executor executor = co_await this_executor;
        const auto control = test.server(executor);
        control->listen();
        boost::asio::local::stream_protocol::socket waiting(executor);
        {
            NoFreeFiles none;
            none.release_one();
            waiting.connect(test.socket().string());
            for (int i = 0; i < 100; ++i) co_await yield_now();
        }
        JsonObject request{{"n", 1}};
        after = co_await test.call(std::move(request));
        co_await control->stop();
    }(*this, answer));
    EXPECT_EQ(answer, R"({"echo":{"n":1}})");
}

TEST_F(ControlTest, NoGateway_ClientNamesTheRemedy) {
    try {
        (void)call_gateway(socket(), JsonObject());
        ADD_FAILURE() << "there is no gateway";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("To start one: cubepi gateway"),
                  std::string::npos);
    }
}

TEST_F(ControlTest, FrozenGateway_ClientEnds) {
    boost::asio::io_context context;
    // Like a stopped process: the kernel accepts the connection, and nothing is read.
    const boost::asio::local::stream_protocol::acceptor frozen(
        context, boost::asio::local::stream_protocol::endpoint(socket().string()));
    const std::chrono::milliseconds short_time(1);
    try {
        (void)call_gateway(socket(), JsonObject{{"command", "status"}}, {short_time, short_time});
        ADD_FAILURE() << "nothing has answered";
    } catch (const Error& error) {
        const std::string expected = "the gateway (process " + std::to_string(::getpid()) +
                                     ") does not respond: it is stopped or blocked";
        EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
}

TEST_F(ControlTest, SlowAnswer_IsAwaitedWhileOthersAreAnswered) {
    std::string answer;
    std::size_t probes = 0;
    run([](const ControlTest& test, std::string& answered, std::size_t& others) -> Task<> {
        const Executor executor = co_await this_executor;
        const auto probed = std::make_shared<AsyncEvent>();
        auto reply = [probed, &others](JsonObject request) -> Task<JsonObject> {
            return slow_reply(std::move(request), probed, others);
        };
        ControlServer control(executor, test.socket(), std::move(reply));
        control.listen();
        JsonObject request{{"command", "reload"}};
        const GatewayPatience patience{std::chrono::milliseconds(1), std::chrono::minutes(5)};
        answered = co_await test.call(std::move(request), patience);
        co_await control.stop();
    }(*this, answer, probes));
    EXPECT_EQ(answer, R"({"done":true})");
    EXPECT_GE(probes, 3u);
}

}  // namespace
}  // namespace cubepi::app
