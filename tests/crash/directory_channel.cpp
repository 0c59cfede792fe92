#include "directory_channel.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>

#include "worker_process.hpp"

namespace cubepi::crash_tests {

namespace {

void add_line(const std::filesystem::path& file, std::string line) {
    line += '\n';
    const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    step();
    write_without_step(fd, line);
    step();
    close(fd);
}

/// A platform in a directory: it delivers updates until they are confirmed, and shows sent messages.
class DirectoryChannel final : public bub::Channel, public bub::SettlesDeliveries {
public:
    DirectoryChannel(std::filesystem::path directory, bub::MessageHandler handler,
                     std::shared_ptr<AsyncEvent> brought, std::vector<std::string> given)
        : directory_(std::move(directory)),
          handler_(std::move(handler)),
          brought_(std::move(brought)),
          updates_(std::move(given)) {}

    const std::string& name() const noexcept override { return name_; }
    Task<> start(std::stop_token) override {
        const Executor executor = co_await this_executor;
        work_ = std::make_unique<BackgroundScope>(executor);
        work_->spawn(poll());
    }
    Task<> stop() override { return work_->close(); }
    Task<> send(bub::Envelope message) override {
        std::string line = message.content_text();
        std::replace(line.begin(), line.end(), '\n', ' ');
        if (message.context.contains("resent")) line += " (again)";
        add_line(sent_file(directory_), std::move(line));
        co_return;
    }
    bub::UnsettledPolicy unsettled_policy() const noexcept override {
        return bub::UnsettledPolicy::resend;
    }

private:
    Task<> poll() {
        const std::vector<std::string> confirmed = lines_of(confirmed_file(directory_));
        for (const std::string& text : updates_) {
            if (std::find(confirmed.begin(), confirmed.end(), text) != confirmed.end()) continue;
            bub::Envelope message(text);
            message.channel = name_;
            message.chat_id = text.size() > 3 ? "long" : "short";
            message.inbound_id = text;
            co_await handler_(std::move(message));
            add_line(confirmed_file(directory_), text);
        }
        brought_->set();
    }

    const std::string name_ = "platform";
    const std::filesystem::path directory_;
    const bub::MessageHandler handler_;
    const std::shared_ptr<AsyncEvent> brought_;
    const std::vector<std::string> updates_;
    std::unique_ptr<BackgroundScope> work_;
};

Task<> end_when_idle(bub::ChannelManager& manager, std::shared_ptr<AsyncEvent> brought) {
    co_await brought->wait();
    co_await manager.idle();
    manager.request_stop();
}

}  // namespace

std::shared_ptr<bub::Channel> directory_channel(const std::filesystem::path& directory,
                                                bub::MessageHandler handler,
                                                std::shared_ptr<AsyncEvent> brought,
                                                std::vector<std::string> given) {
    return std::make_shared<DirectoryChannel>(directory, std::move(handler), std::move(brought),
                                              std::move(given));
}

std::shared_ptr<bub::FileDeliveryLog> deliveries_in(const std::filesystem::path& directory) {
    bub::FileDeliveryLogOptions options;
    options.directory = delivery_directory(directory);
    options.sync = bub::DeliverySync::never;
    options.compact_bytes = 1000;
    return std::make_shared<bub::FileDeliveryLog>(std::move(options));
}

Task<> serve_until_idle(bub::ChannelManager& manager, std::shared_ptr<AsyncEvent> brought) {
    const Executor executor = co_await this_executor;
    TaskScope scope(executor);
    scope.spawn(manager.run());
    scope.spawn(end_when_idle(manager, std::move(brought)));
    co_await scope.join();
}

std::vector<std::string> lines_of(const std::filesystem::path& file) {
    std::vector<std::string> lines;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

Count expect_dealt_with(const std::filesystem::path& directory,
                        const std::function<std::string(const std::string& update)>& answer,
                        std::shared_ptr<bub::DeliveryLog> log) {
    Count count;
    const std::vector<std::string> sent = lines_of(sent_file(directory));
    std::vector<std::string> held;
    if (!log) log = deliveries_in(directory);
    const bub::UnfinishedRecords records = run(log->take());
    for (const bub::StoredInbound& inbound : records.inbounds)
        held.push_back(inbound.message.content_text());
    EXPECT_TRUE(records.answers.empty());
    auto others = std::ssize(sent);
    for (const std::string& update : updates) {
        const auto plain = std::count(sent.begin(), sent.end(), answer(update));
        const auto again = std::count(sent.begin(), sent.end(), answer(update) + " (again)");
        const auto held_count = std::count(held.begin(), held.end(), update);
        EXPECT_LE(plain, 1) << update << " was answered twice";
        EXPECT_GE(plain + again + held_count, 1) << update << " is lost";
        EXPECT_LE(held_count, 1);
        others -= plain + again;
        count.again += static_cast<std::size_t>(again);
        count.held += static_cast<std::size_t>(held_count);
    }
    EXPECT_EQ(others, 0) << "something else was sent";
    return count;
}

}  // namespace cubepi::crash_tests
