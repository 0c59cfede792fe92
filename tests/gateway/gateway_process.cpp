#include "gateway_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <bub/channel.hpp>
#include <bub/framework.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/net/http_client.hpp>

#include "program.hpp"

namespace cubepi::gateway_tests {

namespace {

constexpr const char* token = "0123456789abcdef";

int status_of(int wait_status) {
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

/// Starts this program as `cubepi`; its output goes to `output`.
pid_t start(const GatewayHome& home, std::vector<std::string> words,
            std::vector<std::string> variables, int output) {
    words.insert(words.begin(), {home.program(), "--program"});
    // Model servers on the local machine must not influence the tests.
    variables.insert(variables.begin(),
                     {"HOME=" + home.path().string(), "LANG=C.UTF-8", "PATH=/usr/bin:/bin",
                      "CUBEPI_LOCAL_SERVERS=off", std::string("CUBEPI_HTTP_TOKEN=") + token});
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::vector<char*> envp;
    for (std::string& variable : variables) envp.push_back(variable.data());
    envp.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, 1);
    posix_spawn_file_actions_adddup2(&actions, output, 2);
    pid_t pid = -1;
    const int failed =
        posix_spawn(&pid, home.program().c_str(), &actions, nullptr, argv.data(), envp.data());
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) throw std::runtime_error("the program was not started");
    return pid;
}

std::pair<int, int> make_pipe() {
    int ends[2] = {-1, -1};
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    return {ends[0], ends[1]};
}

std::size_t read_some(int descriptor, char* buffer, std::size_t size) {
    for (;;) {
        const ssize_t count = read(descriptor, buffer, size);
        if (count >= 0) return static_cast<std::size_t>(count);
        if (errno != EINTR) return 0;
    }
}

void write_text(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
}

Task<HttpReply> send_request(HttpRequest request) {
    HttpClient client;
    HttpResponse response = co_await client.send(std::move(request));
    HttpReply reply;
    reply.status = response.status;
    for (bool more = true; more;) more = co_await response.body->read(reply.body);
    co_return reply;
}

/// A lost connection is a reply with status 0.
Task<HttpReply> reply_to(HttpRequest request) {
    Outcome<HttpReply> replied = co_await outcome_of(send_request(std::move(request)));
    if (replied.cancelled()) replied.rethrow();
    if (!replied) co_return HttpReply();
    co_return std::move(replied).value();
}

std::string url(std::uint16_t port, const std::string& path) {
    return "http://127.0.0.1:" + std::to_string(port) + path;
}

}  // namespace

GatewayHome::GatewayHome() {
    std::string name = (std::filesystem::temp_directory_path() / "cubepi-gateway-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary directory");
    path_ = name;
    configure(R"({http: {listen: "127.0.0.1:0", operators: [olga]}})");
}

GatewayHome::~GatewayHome() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

void GatewayHome::configure(const std::string& gateway) const {
    write_text(path_ / ".config/cubepi/config.yaml", "gateway: " + gateway + "\n");
}

std::string GatewayHome::script(const std::string& json) const {
    const std::filesystem::path path = path_ / "script.json";
    write_text(path, json);
    return path.string();
}

GatewayProcess::GatewayProcess(const GatewayHome& home, std::vector<std::string> arguments,
                               std::vector<std::string> environment, const std::string& command) {
    const std::size_t blank = command.find(' ');
    const bool has_model = blank == std::string::npos;
    if (!has_model) {
        arguments.insert(arguments.begin(), {command.substr(0, blank), command.substr(blank + 1)});
    } else {
        arguments.insert(arguments.begin(),
                         {command, "--log-format", "json", "--log-level", "info"});
    }
    const auto [reader, writer] = make_pipe();
    const std::vector<std::string> models = {"--script", "--base-url"};
    if (has_model && std::find_first_of(arguments.begin(), arguments.end(), models.begin(),
                                        models.end()) == arguments.end()) {
        arguments.emplace_back("--offline");
        environment.emplace_back("CUBEPI_TEST_ECHO=1");
    }
    pid_ = start(home, std::move(arguments), std::move(environment), writer);
    close(writer);
    reader_ = std::thread([this, end = reader] { read_output(end); });
}

GatewayProcess::~GatewayProcess() {
    kill();
    reader_.join();
}

void GatewayProcess::read_output(int descriptor) {
    std::string text;
    char buffer[4096];
    while (const std::size_t size = read_some(descriptor, buffer, sizeof buffer)) {
        text.append(buffer, size);
        const std::lock_guard lock(mutex_);
        for (std::size_t end = 0; (end = text.find('\n')) != std::string::npos;) {
            lines_.push_back(text.substr(0, end));
            text.erase(0, end + 1);
        }
        changed_.notify_all();
    }
    close(descriptor);
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
}

JsonObject GatewayProcess::wait_for(const std::string& event) {
    std::unique_lock lock(mutex_);
    for (;;) {
        while (seen_ < lines_.size()) {
            boost::system::error_code failed;
            const Json line = boost::json::parse(lines_[seen_++], failed);
            if (failed || !line.is_object()) continue;
            if (detail::string_member(line.get_object(), "event") == event)
                return line.get_object();
        }
        if (ended_) break;
        changed_.wait(lock);
    }
    lock.unlock();
    ADD_FAILURE() << "the gateway ended without the event " << event << ":\n" << output();
    return {};
}

std::uint16_t GatewayProcess::wait_until_running() {
    const JsonObject listening = wait_for("http_server.listening");
    (void)wait_for("gateway.running");
    return static_cast<std::uint16_t>(detail::integer_member(listening, "port").value_or(0));
}

void GatewayProcess::send(int signal) const { EXPECT_EQ(::kill(pid_, signal), 0); }

int GatewayProcess::wait() {
    if (status_ >= 0) return status_;
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    status_ = status_of(status);
    // Its last lines may not have been read yet.
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_; });
    return status_;
}

void GatewayProcess::kill() {
    if (status_ >= 0) return;
    (void)::kill(pid_, SIGKILL);
    (void)wait();
}

std::string GatewayProcess::output() {
    const std::lock_guard lock(mutex_);
    std::string all;
    for (const std::string& line : lines_) all += line + "\n";
    return all;
}

CommandResult run_command(const GatewayHome& home, std::vector<std::string> arguments) {
    const auto [reader, writer] = make_pipe();
    const pid_t pid = start(home, std::move(arguments), {}, writer);
    close(writer);
    CommandResult result;
    char buffer[4096];
    while (const std::size_t size = read_some(reader, buffer, sizeof buffer))
        result.output.append(buffer, size);
    close(reader);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    result.status = status_of(status);
    return result;
}

JsonObject HttpReply::json() const {
    boost::system::error_code failed;
    const Json value = boost::json::parse(body, failed);
    return !failed && value.is_object() ? value.get_object() : JsonObject();
}

std::string HttpReply::text(std::size_t output) const {
    const JsonObject object = json();
    const JsonArray* const outputs = detail::array_member(object, "outputs");
    if (!outputs || outputs->size() <= output) return {};
    return detail::text_member((*outputs)[output].get_object(), "text");
}

Task<HttpReply> post_message(std::uint16_t port, JsonObject message, std::string key,
                             std::string traceparent) {
    HttpRequest request("POST", url(port, "/v1/messages"));
    request.headers.set("authorization", std::string("Bearer ") + token);
    if (!key.empty()) request.headers.set("idempotency-key", std::move(key));
    if (!traceparent.empty()) request.headers.set("traceparent", std::move(traceparent));
    request.body = boost::json::serialize(message);
    Task<HttpReply> replying = reply_to(std::move(request));
    co_return co_await std::move(replying);
}

Task<HttpReply> post_update(std::uint16_t port, std::string update) {
    HttpRequest request("POST", url(port, "/telegram"));
    request.headers.set("x-telegram-bot-api-secret-token", webhook_secret);
    request.body = std::move(update);
    Task<HttpReply> replying = reply_to(std::move(request));
    co_return co_await std::move(replying);
}

Task<HttpReply> call_channel(std::uint16_t port, std::string method, std::string path,
                             std::string body) {
    return call_with_token(port, std::move(method), std::move(path), token, std::move(body));
}

Task<HttpReply> call_with_token(std::uint16_t port, std::string method, std::string path,
                                std::string bearer, std::string body) {
    HttpRequest request(std::move(method), url(port, path));
    if (!bearer.empty()) request.headers.set("authorization", "Bearer " + bearer);
    request.body = std::move(body);
    Task<HttpReply> replying = reply_to(std::move(request));
    co_return co_await std::move(replying);
}

Task<HttpReply> http_get(std::uint16_t port, std::string path) {
    Task<HttpReply> replying = reply_to(HttpRequest("GET", url(port, path)));
    co_return co_await std::move(replying);
}

class ScaledClock::Timer final : public ClockTimer {
public:
    Timer(const ScaledClock& clock, std::unique_ptr<ClockTimer> timer)
        : clock_(clock), timer_(std::move(timer)) {}

    void expires_at(time_point deadline, std::function<void()> callback) override {
        timer_->expires_after(clock_.real(deadline - clock_.now()), std::move(callback));
    }
    void expires_after(std::chrono::nanoseconds delay, std::function<void()> callback) override {
        timer_->expires_after(clock_.real(delay), std::move(callback));
    }
    void postpone(std::chrono::nanoseconds delay) override { timer_->postpone(clock_.real(delay)); }
    void cancel() noexcept override { timer_->cancel(); }

private:
    const ScaledClock& clock_;
    const std::unique_ptr<ClockTimer> timer_;
};

ScaledClock::ScaledClock(int factor, std::chrono::seconds ahead)
    : factor_(factor),
      ahead_(ahead),
      begin_(std::chrono::steady_clock::now()),
      system_(std::make_shared<SystemClock>()) {}

Clock::time_point ScaledClock::now() const noexcept {
    return begin_ + (system_->now() - begin_) * factor_;
}

std::chrono::system_clock::time_point ScaledClock::wall() const noexcept {
    return system_->wall() + ahead_;
}

Task<> ScaledClock::sleep_until(time_point deadline) {
    return system_->sleep_for(real(deadline - now()));
}

std::unique_ptr<ClockTimer> ScaledClock::timer(Executor executor) {
    return std::make_unique<Timer>(*this, system_->timer(std::move(executor)));
}

}  // namespace cubepi::gateway_tests

// The program that the tests start: `cubepi` with a plugin whose model echoes.

namespace {

/// Spreads the ends of turns that begin together.
constexpr std::size_t longest_turn_ms = 500;

/// Answers "re: TEXT" with the last line of the prompt, after a time that depends on it. A text that begins with "wait" is never
/// answered.
cubepi::Task<std::string> echo(bub::RunModelCall& call) {
    std::string text = call.prompt.text();
    text.erase(0, text.rfind('\n') + 1);
    if (text.starts_with("wait")) {
        cubepi::AsyncEvent never;
        co_await never.wait();
    }
    if (std::getenv("CUBEPI_TEST_SPREAD")) {
        const std::chrono::milliseconds time(std::hash<std::string>()(text) % longest_turn_ms);
        co_await cubepi::Runtime::standard()->clock->sleep_for(time);
    }
    co_return "re: " + text;
}

/// A channel that does not start if a file exists, which it removes.
class BreakingChannel final : public bub::Channel {
public:
    explicit BreakingChannel(std::string file) : file_(std::move(file)) {}
    const std::string& name() const noexcept override { return name_; }
    cubepi::Task<> start(std::stop_token stopping) override {
        (void)stopping;
        if (std::filesystem::remove(file_)) throw std::runtime_error("the channel is broken");
        co_return;
    }
    cubepi::Task<> stop() override { co_return; }

private:
    const std::string name_ = "breaking";
    const std::string file_;
};

/// A tool whose calls are counted in a file, by their keys. A call with the key "held" ends when there is a file FILE.go.
struct EffectArguments {
    std::string key;
};

void wait_for_file(const std::string& file) {
    while (!std::filesystem::exists(file))
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

void add_effects(bub::Framework& framework, const std::string& file) {
    bub::Plugin plugin;
    plugin.name = "effects";
    plugin.tools.push_back(cubepi::tool<EffectArguments>("effect", "Has an effect.",
                                                         [file](const EffectArguments& arguments) {
                                                             std::ofstream(file, std::ios::app)
                                                                 << arguments.key + "\n";
                                                             if (arguments.key == "held")
                                                                 wait_for_file(file + ".go");
                                                             return std::string("done");
                                                         })
                               .risk(cubepi::ToolRisk::read_only));
    framework.add(std::move(plugin));
}

/// Holds each turn before its run begins, until there is a file FILE.go.
void add_hold(bub::Framework& framework, const std::string& file) {
    bub::Plugin plugin;
    plugin.name = "hold";
    plugin.load_state = [file](bub::LoadStateCall&) {
        std::ofstream(file) << "";
        wait_for_file(file + ".go");
        return std::optional<bub::JsonObject>();
    };
    framework.add(std::move(plugin));
}

void add_echo(bub::Framework& framework) {
    if (const char* const file = std::getenv("CUBEPI_TEST_HOLD")) add_hold(framework, file);
    if (const char* const file = std::getenv("CUBEPI_TEST_EFFECTS")) add_effects(framework, file);
    if (!std::getenv("CUBEPI_TEST_ECHO")) return;
    bub::Plugin plugin;
    plugin.name = "echo";
    plugin.run_model = echo;
    if (const char* const file = std::getenv("CUBEPI_TEST_BREAKS")) {
        plugin.provide_channels = [file](bub::ProvideChannelsCall&) {
            return std::vector<std::shared_ptr<bub::Channel>>{
                std::make_shared<BreakingChannel>(file)};
        };
    }
    framework.add(std::move(plugin));
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1 && std::string_view(argv[1]) == "--program") {
        argv[1] = argv[0];
        const char* const factor = std::getenv("CUBEPI_TEST_CLOCK");
        const char* const ahead = std::getenv("CUBEPI_TEST_CLOCK_AHEAD");
        if (factor || ahead)
            cubepi::detail::set_standard_clock(std::make_shared<cubepi::gateway_tests::ScaledClock>(
                factor ? std::atoi(factor) : 1,
                std::chrono::seconds(ahead ? std::atoi(ahead) : 0)));
        return cubepi::app::run_program(argc - 1, argv + 1, add_echo);
    }
    ::testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
