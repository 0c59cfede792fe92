#include <bub/channel/delivery_log.hpp>

#include <utility>

#include <bub/channel/delivery/delivery_records.hpp>

namespace bub {

using detail::DeliveryRecords;

namespace {

constexpr std::size_t remembered = 1000;

}  // namespace

MemoryDeliveryLog::MemoryDeliveryLog() : records_(std::make_unique<DeliveryRecords>(remembered)) {}
MemoryDeliveryLog::~MemoryDeliveryLog() = default;

Task<std::optional<std::string>> MemoryDeliveryLog::receive(Envelope message) {
    std::optional<std::string> id;
    if (!records_->knows(message)) {
        id = records_->next_id();
        records_->apply(records_->received(message, {}));
    }
    co_return id;
}

Task<> MemoryDeliveryLog::begin(std::vector<std::string> ids) {
    records_->apply(DeliveryRecords::about("begun", ids));
    co_return;
}

Task<> MemoryDeliveryLog::put_back(std::vector<std::string> ids) {
    records_->apply(DeliveryRecords::about("back", ids));
    co_return;
}

Task<> MemoryDeliveryLog::finish(std::vector<std::string> ids) {
    records_->apply(DeliveryRecords::about("done", ids));
    co_return;
}

Task<std::vector<StoredInbound>> MemoryDeliveryLog::unfinished() {
    co_return records_->unfinished();
}

Task<std::string> MemoryDeliveryLog::intend(Envelope message, std::vector<std::string> answers) {
    TurnOutput output(std::move(message));
    return intend_output(std::move(output), std::move(answers));
}

Task<> MemoryDeliveryLog::plan(std::vector<TurnOutput> outputs, std::vector<std::string> answers) {
    records_->apply(DeliveryRecords::planned(outputs, answers));
    co_return;
}

Task<std::string> MemoryDeliveryLog::intend_output(TurnOutput output,
                                                   std::vector<std::string> answers) {
    std::string id = records_->next_id();
    records_->apply(records_->intended(output, answers, {}));
    co_return id;
}

Task<> MemoryDeliveryLog::resend(std::string id) {
    const std::vector<std::string> ids(1, std::move(id));
    records_->apply(DeliveryRecords::about("again", ids));
    co_return;
}

Task<> MemoryDeliveryLog::sent(std::string id) {
    const std::vector<std::string> ids(1, std::move(id));
    records_->apply(DeliveryRecords::about("sent", ids));
    co_return;
}

Task<> MemoryDeliveryLog::failed(std::string id, std::string) {
    const std::vector<std::string> ids(1, std::move(id));
    records_->apply(DeliveryRecords::about("failed", ids));
    co_return;
}

Task<std::vector<Delivery>> MemoryDeliveryLog::unsettled() { co_return records_->unsettled(); }

}  // namespace bub
