#include "delivery_place.hpp"

#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include <bub/channel/file_delivery_log.hpp>
#include <bub/channel/postgres_delivery_log.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/log.hpp>
#include <cubepi/core/outcome.hpp>

#include "../config/gateway_settings.hpp"
#include "../config/paths.hpp"
#include "../config/tape_place.hpp"

namespace cubepi::app {

namespace {

using LogPtr = std::shared_ptr<bub::DeliveryLog>;
using Ids = std::vector<std::string>;

LogPtr open_files(const bub::WarningHandler& warn) {
    bub::FileDeliveryLogOptions options;
    options.on_warning = warn;
    return std::make_shared<bub::FileDeliveryLog>(std::move(options));
}

std::filesystem::path files_directory() {
    return bub::default_tape_directory().parent_path() / "deliveries";
}

bool has_files() {
    std::error_code unknown;
    return std::filesystem::exists(files_directory() / "deliveries.jsonl", unknown);
}

/// Records that a message was answered, as its record in the other log says.
Task<> mark_answered(LogPtr to, bub::StoredInbound inbound, std::string id) {
    bub::Envelope nothing;
    nothing.channel = inbound.message.channel;
    nothing.chat_id = inbound.message.chat_id;
    nothing.session_id = inbound.message.session_id;
    bub::TurnOutput output(std::move(nothing));
    output.count = inbound.all_sent ? 1 : 0;
    Ids answered(1, std::move(id));
    Task<std::string> intending = to->intend_output(std::move(output), std::move(answered));
    std::string answer = co_await std::move(intending);
    co_await to->sent(std::move(answer));
}

Task<> move_inbound(LogPtr from, LogPtr to, bub::StoredInbound inbound,
                    std::map<std::string, Ids>& turns) {
    std::optional<std::string> id = co_await to->receive(inbound.message);
    Ids old(1, inbound.id);
    if (id) {
        const std::string turn = inbound.turn.empty() ? inbound.id : inbound.turn;
        turns[turn].push_back(*id);
        const Ids merged = turns[turn];
        for (std::uint64_t begun = 0; begun < inbound.begun; ++begun) co_await to->begin(merged);
        Ids planned(1, *id);
        if (!inbound.planned.empty())
            co_await to->plan(std::move(inbound.planned), std::move(planned));
        if (inbound.answered) co_await mark_answered(to, std::move(inbound), std::move(*id));
    }
    co_await from->finish(std::move(old));
}

Task<> move_answer(LogPtr from, LogPtr to, bub::Delivery delivery) {
    Ids none;
    const std::string id = co_await to->intend(std::move(delivery.message), std::move(none));
    for (std::uint64_t times = 0; times < delivery.resent; ++times) co_await to->resend(id);
    if (delivery.waits) co_await to->wait(id, true);
    std::string reason = "moved to the database";
    co_await from->failed(std::move(delivery.id), std::move(reason));
}

}  // namespace

Task<std::size_t> move_deliveries(LogPtr from, LogPtr to) {
    bub::UnfinishedRecords records = co_await from->take();
    std::map<std::string, Ids> turns;
    for (bub::StoredInbound& inbound : records.inbounds)
        co_await move_inbound(from, to, std::move(inbound), turns);
    for (bub::Delivery& answer : records.answers) co_await move_answer(from, to, std::move(answer));
    co_await to->release();
    co_return records.inbounds.size() + records.answers.size();
}

DeliveryPlace delivery_place() {
    DeliveryPlace place;
    place.database = tape_place().database;
    if (!place.database.empty())
        place.account = gateway_settings(config_values(config_path())).tape_namespace;
    return place;
}

Task<LogPtr> open_deliveries(DeliveryPlace place, bub::WarningHandler warn) {
    LogPtr files;
    if (place.database.empty() || has_files()) files = open_files(warn);
    if (place.database.empty()) co_return files;
    bub::PostgresDeliveryLogOptions options;
    options.database.connection = std::move(place.database);
    options.account = std::move(place.account);
    auto log = std::make_shared<bub::PostgresDeliveryLog>(std::move(options));
    Task<> opening = log->open();
    Outcome<> opened = co_await outcome_of(std::move(opening));
    if (opened && files) {
        Task<std::size_t> moving = move_deliveries(files, log);
        Outcome<std::size_t> done = co_await outcome_of(std::move(moving));
        if (done.cancelled()) done.rethrow();
        if (!done)
            warn("the messages and answers in " + files_directory().string() +
                 " could not be moved to the database, which is tried again at the next start: " +
                 exception_text(done.failure()));
    }
    if (opened.cancelled()) opened.rethrow();
    if (logged_error(opened.failure()) == to_string(ErrorCode::schema_mismatch)) opened.rethrow();
    if (!opened)
        warn("the database of the messages cannot be used yet: " +
             exception_text(opened.failure()));
    co_return log;
}

}  // namespace cubepi::app
