#include <cubepi/middleware/compaction/run.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <variant>

#include <cubepi/provider/capability.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::detail {

namespace {

constexpr std::size_t most_calls = 8;
constexpr std::size_t fewest_calls = 3;
constexpr std::size_t most_learned = 200;  // messages before the request, read for the scale
constexpr std::int64_t image_tokens = 1'500;
constexpr std::int64_t smallest_window = 1'024;
constexpr double largest_scale = 4;

std::int64_t tokens_of(std::size_t bytes) { return static_cast<std::int64_t>(bytes / 2); }

std::int64_t block_tokens(const TextContent& block) { return tokens_of(block.text.size()); }
std::int64_t block_tokens(const ImageContent&) { return image_tokens; }
std::int64_t block_tokens(const ThinkingContent& block) { return tokens_of(block.thinking.size()); }
std::int64_t block_tokens(const ToolCall& call) {
    return tokens_of(call.name.str().size() + json_text(call.arguments).size());
}

template <class Blocks>
std::int64_t blocks_tokens(const Blocks& blocks) {
    std::int64_t sum = 0;
    for (const auto& block : blocks)
        sum += std::visit([](const auto& one) { return block_tokens(one); }, block);
    return sum;
}

std::int64_t thinking_tokens(const AssistantMessage& answer) {
    std::int64_t sum = 0;
    for (const AssistantContent& block : answer.content) {
        if (const auto* thinking = std::get_if<ThinkingContent>(&block))
            sum += block_tokens(*thinking);
    }
    return sum;
}

template <class Blocks>
std::int64_t pictures_tokens(const Blocks& blocks) {
    std::int64_t sum = 0;
    for (const auto& block : blocks) {
        if (const auto* picture = std::get_if<ImageContent>(&block)) sum += block_tokens(*picture);
    }
    return sum;
}

std::int64_t pictures_tokens(const Message& message) {
    if (const UserMessage* user = message.user()) return pictures_tokens(user->content);
    if (const AssistantMessage* answer = message.assistant())
        return pictures_tokens(answer->content);
    return pictures_tokens(message.tool_result()->content);
}

}  // namespace

std::int64_t estimated_tokens(const Message& message) {
    if (const UserMessage* user = message.user()) return blocks_tokens(user->content);
    if (const AssistantMessage* answer = message.assistant()) return blocks_tokens(answer->content);
    return blocks_tokens(message.tool_result()->content);
}

void RequestEstimate::restart(const MessageList& history, std::size_t first, std::size_t valid_from,
                              std::int64_t tokens) {
    *this = RequestEstimate();
    for (std::size_t i = valid_from - std::min(valid_from, most_learned); i < valid_from; ++i)
        count(history[i], i, history.size());
    forget_call();
    valid_from_ = valid_from;
    if (tokens > 0) {
        base_ = tokens;
        first = valid_from;
    }
    seen_ = first;
    if (seen_ > 0) last_ = history[seen_ - 1];
}

/// Forgets the last call, but not how the server counts.
void RequestEstimate::forget_call() {
    reported_.reset();
    cut_at_.reset();
    base_ = since_ = pictures_ = thinking_ = 0;
    missing_ = 0;
}

bool RequestEstimate::follows(const MessageList& history) const {
    return seen_ <= history.size() && (seen_ == 0 || history[seen_ - 1].is_same(last_));
}

std::optional<std::int64_t> RequestEstimate::follow(const MessageList& history,
                                                    std::size_t alike_from) {
    cut_at_.reset();
    for (; seen_ < history.size(); ++seen_) count(history[seen_], seen_, alike_from);
    if (seen_ > 0) last_ = history[seen_ - 1];
    return cut_at_;
}

void RequestEstimate::count(const Message& message, std::size_t index, std::size_t alike_from) {
    const AssistantMessage* answer = message.assistant();
    if (answer && has_compacted(*answer)) {
        // The server has counted what it will not read any more. The next answer says how much is left.
        forget_call();
    } else if (answer && answer->usage && index >= valid_from_) {
        const Usage& usage = *answer->usage;
        const std::int64_t input = usage.input_tokens.value_or(0);
        const std::int64_t written = usage.cache_write_tokens.value_or(0);
        // CubePi's scripted model counts tokens that it writes to its cache as input, too, and rounds each of the two counts.
        const bool is_same = std::abs(input - written) <= 1;
        const std::int64_t prompt =
            usage.cache_read_tokens.value_or(0) + (is_same ? written : input + written);
        if (prompt > 0) {
            // The endpoint has left out a part of this request or of the one before: they cannot be compared.
            const bool is_edited = answer->extra.find("context_management") != nullptr;
            if (is_edited || is_edited_) forget_call();
            is_edited_ = is_edited;
            note_call(prompt, answer->model_id, reported_at_ >= alike_from);
            reported_at_ = index;
        }
    }
    if (answer) thinking_ += thinking_tokens(*answer);
    since_ += estimated_tokens(message);
    pictures_ += pictures_tokens(message);
}

void RequestEstimate::note_call(std::int64_t reported, const SharedString& model, bool is_alike) {
    cut_at_.reset();
    // More than any text has between two calls: at least one of the two counts is not that of the request.
    const bool is_leap =
        reported_ && static_cast<double>(reported - *reported_) >
                         largest_scale * static_cast<double>(since_) + smallest_window;
    if (!reported_ || model_ != model || !is_alike || is_leap) {
        lowest_ = highest_ = reported;
        rise_ = 0;
    }
    lowest_ = std::min(lowest_, reported);
    highest_ = std::max(highest_, reported);
    rise_ = std::max(rise_, reported - lowest_);
    if (reported_ && model_ == model && since_ > 0) {
        const std::int64_t grown = reported - *reported_;
        // A picture may cost a tenth of the estimate, or more than it: it neither misses nor says how the server counts text.
        const double expected = scale() * static_cast<double>(since_ - pictures_);
        const double explained = static_cast<double>(grown + thinking_);
        const bool is_missing = calls_ >= fewest_calls && explained < 0.5 * expected;
        missing_ = is_missing && is_alike ? missing_ + expected - explained : 0;
        // A request that is much smaller than the one before was made so by the caller.
        const bool falls = is_alike && grown + thinking_ < 0 && 2 * reported > *reported_;
        const bool is_suspect = falls || missing_ > 0.1 * static_cast<double>(reported);
        if (const std::int64_t at = std::max(reported, *reported_); is_suspect && may_be_cut(at)) {
            cut_at_ = at;
            missing_ = 0;
        } else if (!is_missing && grown > 0 && pictures_ == 0) {
            growth_.push_back({grown, since_});
            if (growth_.size() > most_calls) growth_.pop_front();
        }
    }
    reported_ = reported;
    model_ = model;
    base_ = reported;
    since_ = pictures_ = 0;
    ++calls_;
}

/// Returns whether the counts may be those of a server that cuts requests at that size: it is a size that windows have, no request
/// was larger, and counts have grown to it. There are servers that report the same count, or any, for each request.
bool RequestEstimate::may_be_cut(std::int64_t at) const {
    // As numbers that do not overflow: a server may report any.
    const auto size = static_cast<double>(at);
    return at >= smallest_window && size >= 0.9 * static_cast<double>(highest_) &&
           static_cast<double>(rise_) >= 0.1 * size;
}

double RequestEstimate::scale() const {
    if (calls_ < fewest_calls || growth_.empty()) return 1;
    double reported = 0;
    double estimated = 0;
    for (const Growth& one : growth_) {
        reported += static_cast<double>(one.reported);
        estimated += static_cast<double>(one.estimated);
    }
    return std::clamp(reported / estimated, 0.1, largest_scale);
}

std::int64_t RequestEstimate::tokens() const {
    const double text = scale() * static_cast<double>(since_ - pictures_);
    return base_ + static_cast<std::int64_t>(std::llround(text)) + pictures_;
}

}  // namespace cubepi::detail
