#include <cubepi/hitl/in_memory_channel.hpp>

#include <utility>

#include <cubepi/hitl/channel/request_table.hpp>

namespace cubepi {

InMemoryChannel::InMemoryChannel(InMemoryChannelOptions options) {
    detail::RequestTable::Settings settings;
    settings.default_timeout = options.default_timeout;
    settings.thread_id = std::move(options.thread_id);
    settings.clock = std::move(options.clock);
    table_ = std::make_shared<detail::RequestTable>(std::move(settings), nullptr);
}

InMemoryChannel::~InMemoryChannel() { table_->close("the channel was closed"); }

void InMemoryChannel::connect(std::shared_ptr<HitlRun> run) {
    HitlChannel::connect(std::move(run));
    table_->restart_ids();
}

Task<Json> InMemoryChannel::request(HitlPayload payload, HitlOptions options) {
    return detail::RequestTable::ask(table_, run(), std::move(payload), std::move(options));
}

std::vector<HitlRequest> InMemoryChannel::pending() const { return table_->pending(); }

HitlRequestStream InMemoryChannel::subscribe() { return table_->subscribe(); }

Task<> InMemoryChannel::answer(std::string question_id, Json value, AnswerOrigin origin) {
    return detail::RequestTable::answer(table_, std::move(question_id), std::move(value),
                                        std::move(origin));
}

Task<> InMemoryChannel::cancel(std::string question_id, std::string reason) {
    const std::shared_ptr<detail::RequestTable> table = table_;
    table->cancel(question_id, std::move(reason));
    co_return;
}

}  // namespace cubepi
