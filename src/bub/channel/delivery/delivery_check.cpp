#include <bub/channel/file_delivery_log.hpp>

#include <string>
#include <string_view>

#include <fcntl.h>

#include <bub/channel/delivery/delivery_records.hpp>
#include <bub/tape/file/descriptor.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/python_json.hpp>

namespace bub {

using cubepi::StoreReport;
using detail::DeliveryRecords;

namespace {

/// Applies a line to the records. Returns what is wrong with it.
std::string apply_line(std::string_view line, DeliveryRecords& records) {
    try {
        const Json json = cubepi::parse_lenient(line);
        const JsonObject* const record = json.if_object();
        if (!record || !records.apply(*record)) return "the line is not a record of this version";
    } catch (const cubepi::Error& error) {
        if (error.code() == cubepi::ErrorCode::schema_mismatch) throw;
        return error.what();
    }
    return {};
}

void check_lines(std::string_view text, DeliveryRecords& records, StoreReport& report) {
    for (std::size_t number = 1; !text.empty(); ++number) {
        const std::size_t feed = text.find('\n');
        if (feed == text.npos) {
            report.repair("line " + std::to_string(number),
                          "it has no line feed: it was cut off, or is being written",
                          "the next start of the gateway removes it; it was not acknowledged");
            return;
        }
        const std::string wrong = apply_line(text.substr(0, feed), records);
        if (!wrong.empty())
            report.damage("line " + std::to_string(number), wrong,
                          "a message may be missing; the next start of the gateway copies the log "
                          "to deliveries.damaged");
        text.remove_prefix(feed + 1);
    }
}

void count_records(const DeliveryRecords& records, StoreReport& report) {
    report.count("unfinished messages", 0);
    report.count("unsettled answers", 0);
    for (const StoredInbound& inbound : records.unfinished()) detail::note_inbound(inbound, report);
    for (const Delivery& delivery : records.unsettled()) detail::note_answer(delivery, report);
}

}  // namespace

void detail::note_inbound(const StoredInbound& inbound, StoreReport& report) {
    report.count("unfinished messages", 1);
    if (inbound.begun > 0 && !inbound.answered)
        report.note(
            "message " + inbound.id,
            "its turn has begun " + std::to_string(inbound.begun) + " times and is not finished",
            "the next start of the gateway continues it, unless one is running it");
}

void detail::note_answer(const Delivery& delivery, StoreReport& report) {
    report.count("unsettled answers", 1);
    report.note("answer " + delivery.id,
                delivery.waits ? "it waits to be sent" : "whether it arrived is not known",
                "see 'cubepi gateway held'");
}

StoreReport check_delivery_log(const std::filesystem::path& directory) {
    const std::filesystem::path path = directory / "deliveries.jsonl";
    StoreReport report("delivery log '" + path.string() + "'");
    const detail::Descriptor file = detail::Descriptor::open(path, O_RDONLY);
    if (!file)
        throw cubepi::CheckpointerError(cubepi::ErrorCode::not_found,
                                        report.store() + " does not exist; check the path");
    const std::string text = file.read_all();
    DeliveryRecords records(FileDeliveryLogOptions().remembered);
    try {
        check_lines(text, records, report);
    } catch (const cubepi::Error& error) {
        report.damage("line 1", error.what(), "update the program");
        return report;
    }
    count_records(records, report);
    return report;
}

}  // namespace bub
