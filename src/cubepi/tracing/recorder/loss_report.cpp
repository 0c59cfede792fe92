#include <cubepi/tracing/recorder/loss_report.hpp>

#include <utility>

namespace cubepi::detail {

namespace {

struct LossText {
    const char* code;
    const char* first;   ///< text of the first notice
    const char* detail;  ///< key of the count
    const char* items;   ///< in the text of the totals
};

/// In the order of Loss.
constexpr std::array<LossText, 4> texts{
    LossText{"redact_failed", "The function redact failed, so a value was not recorded",
             "redacted_values", "values that redact failed for"},
    LossText{"held_spans_dropped", "Spans of a failed run that was not sampled are missing",
             "held_spans", "spans of failed runs"},
    LossText{"stream_file_failed", "A stream file is incomplete", "stream_lines",
             "lines of stream files"},
    LossText{"tracing_failed", "Tracing failed to record", "events", "events of runs"}};

}  // namespace

void LossReport::add(Loss kind, std::string_view why, std::uint64_t count) noexcept {
    if (count == 0 || counts_[index_of(kind)].fetch_add(count) != 0) return;
    try {
        const LossText& known = texts.at(index_of(kind));
        const char* separator = kind == Loss::event ? " " : ": ";
        std::string text = known.first;
        if (!why.empty()) text += separator + std::string(why);
        send(known.code, std::move(text), JsonObject());
    } catch (...) {
        // No memory for a notice: the totals report the loss.
    }
}

void LossReport::end() noexcept {
    if (ended_.exchange(true)) return;
    try {
        std::string text;
        JsonObject details;
        for (std::size_t i = 0; i < kinds; ++i) {
            const std::uint64_t lost = counts_.at(i);
            if (lost == 0) continue;
            details[texts.at(i).detail] = lost;
            text += (text.empty() ? "" : ", ") + std::to_string(lost) + " " + texts.at(i).items;
        }
        if (!text.empty())
            send("recording_incomplete", "Not recorded: " + text, std::move(details));
    } catch (...) {
        // Recording must not fail a program.
    }
}

void LossReport::send(std::string code, std::string text, JsonObject details) const {
    if (!report_) return;
    Notice notice;
    notice.code = std::move(code);
    notice.text = std::move(text);
    notice.details = std::move(details);
    report_(notice);
}

}  // namespace cubepi::detail
