#include <cubepi/middleware/compaction/run.hpp>

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

#include <cubepi/agent/transcript.hpp>
#include <cubepi/provider/answer_end.hpp>

namespace cubepi::detail {

namespace {

constexpr std::size_t longest_old_result = 120;       // bytes, of a result that stays whole
constexpr std::size_t longest_recent_result = 2'000;  // the same at an overflow, for every result
constexpr std::int64_t most_failures = 3;             // then fallback summaries
constexpr std::int64_t most_fallback_runs = 5;        // then the model is tried once
constexpr std::int64_t most_low_savings = 2;
constexpr std::size_t worthwhile_advance = 8;  // messages, after low savings
constexpr double low_saving = 0.1;
constexpr double shortened_share = 0.75;  // of the limit, below which shortened results suffice
constexpr double long_share = 0.25;  // of a request, above which few messages are worth a summary
constexpr std::int64_t fewest_noted_tokens = 2'000;
constexpr std::int64_t fewest_tokens_to_find = 3'000;  // every window has more
constexpr std::int64_t most_verbatim = 64'000;         // bytes
constexpr std::size_t never_alike =
    std::numeric_limits<std::int32_t>::max();  // CompactionRecord::alike_from
constexpr std::int64_t negligible_tokens =
    200;  // a summary of this size is not too long for any history

using Reason = CompactionReason;

std::string_view to_string(Reason reason) {
    if (reason == Reason::limit) return "limit";
    return reason == Reason::overflow ? "overflow" : "manual";
}

/// Returns the latest index up to `limit` at which the history can be divided: no result after it belongs to a call
/// before it. Zero: there is none.
std::size_t safe_boundary(const MessageList& history, std::size_t limit) {
    std::multiset<std::string_view> open;  // results whose call was not passed yet
    for (std::size_t i = history.size(); i > 0; --i) {
        const Message& message = history[i - 1];
        if (const ToolResultMessage* result = message.tool_result()) {
            open.insert(result->tool_call_id.str());
        } else if (const AssistantMessage* answer = message.assistant()) {
            for (const ToolCall* call : answer->tool_calls()) {
                const auto found = open.find(call->id.str());
                if (found != open.end()) open.erase(found);
            }
        }
        if (i - 1 <= limit && open.empty()) return i - 1;
    }
    return 0;
}

bool marked_as_preserved(const Message& message) {
    const Json* mark = message.metadata().find("preserve");
    return mark && mark->is_bool() && mark->get_bool();
}

/// Returns the object that copies of a message share.
const void* object_of(const Message& message) {
    if (const UserMessage* user = message.user()) return user;
    if (const AssistantMessage* answer = message.assistant()) return answer;
    return message.tool_result();
}

/// The messages of a list from `first` on, by object and by id.
class MessageIndex {
public:
    MessageIndex(const MessageList& list, std::size_t first) {
        for (std::size_t i = first; i < list.size(); ++i) {
            objects_.emplace(object_of(list[i]), i);
            if (!list[i].id().empty()) ids_.emplace(list[i].id(), i);
        }
    }
    std::optional<std::size_t> find(const Message& message) const {
        if (const auto same = objects_.find(object_of(message)); same != objects_.end())
            return same->second;
        const auto found = message.id().empty() ? ids_.end() : ids_.find(message.id());
        return found == ids_.end() ? std::nullopt : std::optional(found->second);
    }

private:
    std::unordered_map<const void*, std::size_t> objects_;
    std::unordered_map<std::string_view, std::size_t> ids_;
};

}  // namespace

void CompactionRun::resume(const MessageList& history, const JsonObject& extra) {
    if (is_loaded_ || !CompactionRecord::load(extra, history).is_as_stored) return;
    // The messages of the last request: no hook has seen those after them.
    std::size_t size = history.size();
    while (size > 0 && !history[size - 1].assistant()) --size;
    if (size > 0) --size;
    resumed_.emplace(history.begin(), history.begin() + static_cast<std::ptrdiff_t>(size));
}

std::optional<MessageList> CompactionRun::readable() const {
    if (!is_loaded_) return resumed_;
    std::vector<Message> at(history_.size(), user_message("[This message is not available.]"));
    for (std::size_t i = 0; i < given_.size(); ++i) {
        const std::size_t place = place_of(i);
        if (place < at.size()) at[place] = given_[i];
    }
    return MessageList(at.begin(), at.end());
}

std::vector<std::size_t> places_in(const MessageList& list, const MessageList& origin) {
    std::vector<std::size_t> places;
    places.reserve(list.size());
    const std::size_t shorter = std::min(list.size(), origin.size());
    std::size_t same = 0;
    while (same < shorter && list[same].is_same(origin[same])) places.push_back(same++);
    if (same == list.size()) return places;
    const MessageIndex known(origin, same);
    const MessageIndex present(list, same);
    std::size_t next = same;
    for (std::size_t i = same; i < list.size(); ++i) {
        std::optional<std::size_t> place = known.find(list[i]);
        if (place && *place < next) place = no_place;
        for (std::size_t at = next; !place && at < origin.size() && !present.find(origin[at]);
             ++at) {
            if (origin[at].role() == list[i].role()) place = at;
        }
        places.push_back(place.value_or(no_place));
        if (places.back() != no_place) next = places.back() + 1;
    }
    return places;
}

void CompactionRun::set_model(std::string id, std::optional<std::int64_t> window) {
    model_id_ = std::move(id);
    model_window_ = window;
}

std::optional<std::int64_t> CompactionRun::follow(MessageList history, MessageList given,
                                                  JsonObject& extra) {
    history_ = std::move(history);
    given_ = std::move(given);
    places_.clear();
    const bool is_unchanged = given_.size() >= history_.size() &&
                              (history_.empty() || given_.begin() == history_.begin());
    if (!is_unchanged) places_ = places_in(given_, history_);
    if (!is_loaded_ || !record_.is_in(extra) || !estimate_.follows(history_)) {
        record_ = CompactionRecord::load(extra, history_);
        // The next process must not read a record of another history either.
        if (!record_.is_in(extra)) record_.save(extra);
        is_loaded_ = true;
        prompt_.restore(record_.prompt);
        restart();
    }
    const std::optional<std::int64_t> cut = estimate_.follow(history_, record_.alike_from);
    const bool is_refuted = record_.window > 0 && estimate_.reported() > record_.window &&
                            estimate_.model() == record_.window_model;
    if (is_refuted && !cut) {
        record_.window = 0;
        record_.save(extra);
    }
    return cut;
}

void CompactionRun::note_call(const ModelRequest& request, JsonObject& extra) {
    ModelRequest prompt;
    prompt.model = request.model;
    prompt.system_prompt = request.system_prompt;
    prompt.tools = request.tools;
    const bool is_other = prompt_.check(prompt).has_value();
    const bool is_known = !record_.prompt.is_null();
    // A request from which hooks have left out messages is smaller than the history says.
    const std::size_t whole = history_.size() - record_.until + (record_.state ? 1 : 0);
    const bool is_whole = request.messages.size() == whole;
    const bool is_alike = is_known && !is_other && is_whole == (record_.alike_from != never_alike);
    const bool is_as_stored = places_.empty();
    if (is_alike && record_.is_as_stored == is_as_stored) return;
    if (!is_alike) {
        record_.alike_from = is_whole ? history_.size() : never_alike;
        record_.prompt = prompt_.digest();
    }
    record_.is_as_stored = is_as_stored;
    // Nothing is learned from short requests, whose threads need no record.
    const bool has_record = is_known || record_.made_at > 0;
    if (has_record || estimate_.tokens() >= fewest_noted_tokens) record_.save(extra);
}

void CompactionRun::undo(JsonObject& extra) {
    const std::int64_t estimated = estimated_view();
    record_.state.reset();
    record_.until = record_.shortened_until = 0;
    record_.low_savings = 0;
    record_.tokens = tokens_after(estimate_.tokens(), estimated);
    record_.made_at = history_.size();
    record_.raised = record_.tokens + record_.tokens / 10;
    record_.save(extra);
}

void CompactionRun::restart() {
    is_seen_ = false;
    std::size_t valid = record_.made_at;
    std::int64_t tokens = record_.tokens;
    // A record of CubePi does not say when it was made: before the last answer, which has followed its request.
    if (record_.state && valid == 0) {
        valid = history_.size();
        while (valid > record_.until && !history_[valid - 1].assistant()) --valid;
        const AssistantMessage* last = valid > 0 ? history_[valid - 1].assistant() : nullptr;
        if (last && last->usage && last->usage->input_tokens.value_or(0) > 0) {
            --valid;
        } else {
            valid = history_.size();
            tokens = estimated_view();
        }
    }
    estimate_.restart(history_, record_.until, valid, tokens);
}

std::optional<std::int64_t> CompactionRun::window() const {
    std::optional<std::int64_t> window = options_->context_window;
    if (!window) window = model_window_;
    if (!window) window = found_window_;
    const bool is_learned =
        record_.window > 0 && (model_id_.empty() || model_id_ == record_.window_model);
    if (is_learned && (!window || record_.window < *window)) window = record_.window;
    return window;
}

bool CompactionRun::begin_finding() {
    if (!options_->find_window || window() || estimate_.tokens() < fewest_tokens_to_find)
        return false;
    return !std::exchange(has_tried_to_find_, true);
}

/// Returns the tokens of a request from which on the history is compacted; zero: there is no limit.
std::int64_t CompactionRun::limit() const {
    std::int64_t limit = std::max<std::int64_t>(options_->max_tokens_before_compact, 0);
    const std::optional<std::int64_t> size = window();
    if (size && *size > 0 && options_->window_share > 0) {
        const auto share =
            static_cast<std::int64_t>(static_cast<double>(*size) * options_->window_share);
        if (limit == 0 || share < limit) limit = std::max<std::int64_t>(share, 1);
    }
    if (limit > 0) limit = std::max(limit, record_.raised);
    return limit;
}

bool CompactionRun::is_full() const {
    if (options_->window_share <= 0 && options_->max_tokens_before_compact <= 0) return false;
    for (std::size_t i = history_.size(); i > record_.made_at; --i) {
        if (const AssistantMessage* answer = history_[i - 1].assistant())
            return answer_end(*answer) == AnswerEnd::context_window;
    }
    return false;
}

std::int64_t CompactionRun::provider_limit() const {
    const std::int64_t size = window().value_or(0);
    if (size <= 0 || options_->provider_share <= 0) return 0;
    return std::max<std::int64_t>(
        static_cast<std::int64_t>(static_cast<double>(size) * options_->provider_share), 1);
}

void CompactionRun::learn_window(std::int64_t tokens, std::string model, JsonObject& extra) {
    if (tokens <= 0) return;
    for (std::size_t i = history_.size(); i > 0 && model.empty(); --i) {
        if (const AssistantMessage* answer = history_[i - 1].assistant())
            model = answer->model_id.str();
    }
    record_.window = tokens;
    record_.window_model = std::move(model);
    record_.save(extra);
}

// The view.

std::size_t CompactionRun::place_of(std::size_t index) const {
    if (!places_.empty()) return places_[index];
    return index < history_.size() ? index : no_place;
}

/// Returns a part of the history as earlier hooks have left it, which is what may be sent to a model.
MessageList CompactionRun::between(std::size_t first, std::size_t last) const {
    MessageList part;
    for (std::size_t i = 0; i < given_.size(); ++i) {
        const std::size_t place = place_of(i);
        if (place >= first && place < last) part.push_back(given_[i]);
    }
    return part;
}

std::optional<std::string> CompactionRun::preserved_text(const ToolResultMessage& result) const {
    const std::vector<std::string>& tools = options_->preserved_tools;
    if (std::find(tools.begin(), tools.end(), result.tool_name.str()) != tools.end())
        return Message(result).text();
    if (options_->tool_result_compressor) return options_->tool_result_compressor(result);
    return std::nullopt;
}

/// Returns the message at a place of the history as the model receives it.
Message CompactionRun::shown(std::size_t place, const Message& message) const {
    const ToolResultMessage* result = message.tool_result();
    const bool is_recent = place >= record_.shortened_until;
    if (!result || is_recent) return message;
    const std::string text = message.text();
    const std::size_t longest =
        record_.shortened_until == record_.made_at ? longest_recent_result : longest_old_result;
    const std::optional<std::string> preserved = preserved_text(*result);
    if (text.size() <= longest || (preserved && *preserved == text)) return message;
    std::string shorter = preserved ? *preserved
                                    : "[" + result->tool_name.str() + ": " +
                                          std::to_string(text.size()) + " bytes, left out here";
    if (!preserved && options_->with_recall)
        shorter += "; recall with message " + std::to_string(place + 1) + " reads them";
    if (!preserved) shorter += "]";
    ToolResultMessage copy = *result;
    copy.content = ContentList<Content>();
    copy.content.emplace_back(TextContent{std::move(shorter)});
    return copy;
}

MessageList CompactionRun::messages() {
    if (!record_.state && record_.shortened_until == 0) return given_;
    if (!places_.empty()) return view().messages;
    if (!is_seen_) {
        seen_ = MessageList();
        if (record_.state) seen_.push_back(summary_message(*record_.state));
        seen_until_ = record_.until;
        is_seen_ = true;
    }
    for (; seen_until_ < history_.size(); ++seen_until_)
        seen_.push_back(shown(seen_until_, history_[seen_until_]));
    MessageList sent = seen_;
    for (std::size_t i = history_.size(); i < given_.size(); ++i) sent.push_back(given_[i]);
    return sent;
}

CompactionRun::View CompactionRun::view() const {
    View view;
    const auto add = [&view](Message message, std::size_t place) {
        view.messages.push_back(std::move(message));
        view.places.push_back(place);
    };
    bool has_summary = !record_.state;
    for (std::size_t i = 0; i < given_.size(); ++i) {
        const std::size_t place = place_of(i);
        if (place != no_place && !has_summary) {
            add(summary_message(*record_.state), summary_place);
            has_summary = true;
        }
        if (place == no_place) {
            add(given_[i], place);
        } else if (place >= record_.until) {
            add(shown(place, given_[i]), place);
        }
    }
    return view;
}

std::optional<MessageList> CompactionRun::continued(const MessageList& messages,
                                                    const View& sent) const {
    const std::vector<std::size_t> places = places_in(messages, sent.messages);
    std::unordered_map<std::size_t, std::size_t> given;  // by place
    for (std::size_t i = 0; i < given_.size(); ++i) given.emplace(place_of(i), i);
    MessageList made;
    bool has_summary = !record_.state;
    bool is_changed = false;
    for (std::size_t i = 0; i < messages.size(); ++i) {
        const std::size_t place = places[i] == no_place ? no_place : sent.places[places[i]];
        if (place == no_place) {
            made.push_back(messages[i]);
            continue;
        }
        if (!has_summary) made.push_back(summary_message(*record_.state));
        is_changed = is_changed || !has_summary || place == summary_place || place < record_.until;
        has_summary = true;
        if (place == summary_place || place < record_.until) continue;
        // A result that was shortened before is shortened from its whole text.
        const bool is_own = messages[i].is_same(sent.messages[places[i]]);
        made.push_back(shown(place, is_own ? given_[given.at(place)] : messages[i]));
        is_changed = is_changed || !made.back().is_same(messages[i]);
    }
    if (!is_changed) return std::nullopt;
    return std::move(repair_request(made).messages);
}

// The compaction.

/// Returns the estimate of what the model receives of the history.
std::int64_t CompactionRun::estimated_view() const {
    std::int64_t sum = record_.state ? estimated_tokens(summary_message(*record_.state)) : 0;
    for (std::size_t i = record_.until; i < history_.size(); ++i)
        sum += estimated_tokens(shown(i, history_[i]));
    return sum;
}

/// Returns the tokens of a request that had `before` tokens when the view had that estimate.
std::int64_t CompactionRun::tokens_after(std::int64_t before, std::int64_t estimated_before) const {
    // The smaller of two guesses: the first does not know what is not part of the history, the second overestimates before
    // there is a scale.
    const auto less = static_cast<double>(estimated_before - estimated_view());
    const double share = static_cast<double>(before) * less /
                         static_cast<double>(std::max<std::int64_t>(estimated_before, 1));
    const double scaled = estimate_.scale() * less;
    const auto saved =
        static_cast<std::int64_t>(std::abs(share) < std::abs(scaled) ? share : scaled);
    return std::max<std::int64_t>(before - saved, 1);
}

/// Returns true if the messages before `until` are worth a summary, however few they are.
bool CompactionRun::is_long(std::size_t until) const {
    // Messages that the server has not counted yet are estimated at twice the tokens of most texts.
    const std::int64_t tokens = estimate_.tokens();
    if ((tokens + estimate_.reported()) / 2 < limit()) return false;
    std::int64_t sum = 0;
    for (std::size_t i = record_.until; i < until; ++i)
        sum += estimated_tokens(shown(i, history_[i]));
    return estimate_.scale() * static_cast<double>(sum) > long_share * static_cast<double>(tokens);
}

/// Returns the size of everything that a summary keeps word for word: a quarter of the limit, if a token has four bytes.
std::size_t CompactionRun::most_verbatim_bytes() const {
    const std::int64_t most = limit();
    return most > 0 ? static_cast<std::size_t>(std::min(most, most_verbatim)) : most_verbatim;
}

/// Returns the index of the first message that stays unchanged. Messages of the framework at the end do not count as
/// a tail.
std::size_t CompactionRun::tail_start(Reason reason) const {
    std::int64_t budget = options_->keep_tail_tokens;
    if (const std::int64_t most = limit(); most > 0 && budget >= most) budget = most / 2;
    // Tools and system prompt may be most of the request, and stay: a part of the messages must go.
    if (reason != Reason::limit)
        budget =
            std::min(budget, static_cast<std::int64_t>(estimate_.scale() *
                                                       static_cast<double>(estimated_view()) / 4));
    std::int64_t sum = 0;
    bool has_message = false;
    std::size_t start = history_.size();
    for (; start > record_.until; --start) {
        const Message& message = history_[start - 1];
        sum += static_cast<std::int64_t>(estimate_.scale() *
                                         static_cast<double>(estimated_tokens(message)));
        if (has_message && sum > budget) break;
        has_message = has_message || !is_synthetic_message(message);
    }
    return start;
}

std::size_t CompactionRun::shortened_results(std::size_t first, std::size_t last) const {
    std::size_t count = 0;
    for (std::size_t i = first; i < last; ++i) {
        if (!history_[i].is_same(shown(i, history_[i]))) ++count;
    }
    return count;
}

/// Shortens tool results before `until` if no summary is needed then.
bool CompactionRun::shorten(Reason reason, std::size_t until, CompactionReport& report) {
    if (!options_->prune_tool_outputs || reason == Reason::manual) return false;
    const CompactionRecord before = record_;
    const std::int64_t estimated = estimated_view();
    const std::size_t first = std::max(record_.until, record_.shortened_until);
    record_.shortened_until = until;
    record_.made_at = history_.size();
    report.shortened = shortened_results(first, until);
    record_.tokens = tokens_after(report.before, estimated);
    // After a refusal, only a limit says whether that is enough.
    report.compacted =
        report.shortened > 0 && limit() > 0 &&
        static_cast<double>(record_.tokens) < shortened_share * static_cast<double>(limit());
    if (!report.compacted) {
        record_ = before;
        report.shortened = 0;
    }
    return report.compacted;
}

/// Shortens long tool results at the end of the history too, because one of them may be what does not fit.
bool CompactionRun::shorten_all(CompactionReport& report) {
    const std::size_t first = std::max(record_.until, record_.shortened_until);
    const std::int64_t before =
        record_.tokens > 0 && report.compacted ? record_.tokens : report.before;
    const std::int64_t estimated = estimated_view();
    record_.shortened_until = record_.made_at = history_.size();
    report.shortened = shortened_results(first, history_.size());
    record_.tokens = tokens_after(before, estimated);
    report.compacted = report.compacted || report.shortened > 0;
    return report.compacted;
}

SummaryCall CompactionRun::summary_call(const CompactionWork& work, std::size_t until) const {
    std::string earlier;
    if (record_.state)
        earlier = "Earlier notes:\n" + without_verbatim_part(record_.state->summary) + "\n";
    const MessageList part = between(record_.until, until);
    std::int64_t replaced = 0;
    for (const Message& message : part) replaced += estimated_tokens(message);
    const std::int64_t most = options_->max_summary_tokens
                                  ? *options_->max_summary_tokens
                                  : std::clamp<std::int64_t>(replaced * 15 / 100, 1'024, 4'096);
    // A server that cuts requests silently would cut that for the summary, too.
    const bool is_learned =
        record_.window > 0 && options_->summary_model.spec().id == record_.window_model;
    return SummaryCall{
        options_->summary_model,
        options_->summary_prompt.empty() ? default_summary_prompt() : options_->summary_prompt,
        work.instructions,
        ConversationDigest(earlier, part.begin(), part.end()),
        std::max<std::int64_t>(most, 1),
        is_learned ? std::optional(record_.window) : std::nullopt,
        options_->summary_timeout,
        work.call,
        work.account};
}

/// Stores the record.
CompactionReport CompactionRun::finish(CompactionReport report, JsonObject& extra) {
    record_.raised = 0;
    record_.save(extra);
    restart();
    (void)estimate_.follow(history_, record_.alike_from);
    report.after = record_.tokens;
    return report;
}

Task<CompactionReport> CompactionRun::compact(std::shared_ptr<CompactionRun> run,
                                              CompactionWork work, JsonObject& extra) {
    CompactionRun& my = *run;
    const CompactionOptions& options = *my.options_;
    CompactionRecord& record = my.record_;
    const MessageList all = my.history_;
    CompactionReport report;
    report.reason = to_string(work.reason);
    report.before = report.after = my.estimate_.tokens();
    report.retained = all.size() - record.until;
    const std::size_t until = safe_boundary(all, my.tail_start(work.reason));
    if (my.shorten(work.reason, until, report)) {
        report = my.finish(std::move(report), extra);
        co_return report;
    }
    const bool takes_few = work.reason != Reason::limit || my.is_long(until);
    const std::size_t fewest = takes_few ? 1 : options.min_compact_messages;
    const bool is_thrashing = work.reason == Reason::limit &&
                              record.low_savings >= most_low_savings &&
                              until < record.until + worthwhile_advance;
    if (until < std::max(fewest, record.until + 1) || is_thrashing) {
        report.error = "there are no earlier messages to summarize";
        if (work.reason == Reason::overflow && my.shorten_all(report))
            report = my.finish(std::move(report), extra);
        co_return report;
    }

    CompactionState next;
    const std::int64_t estimated = my.estimated_view();
    std::int64_t replaced = estimated;
    for (std::size_t i = until; i < all.size(); ++i)
        replaced -= estimated_tokens(my.shown(i, all[i]));
    const bool is_open =
        record.failures >= most_failures && record.fallback_runs < most_fallback_runs;
    if (!is_open || work.reason == Reason::manual) {
        SummaryCall call = my.summary_call(work, until);
        call.reserves = work.reason != Reason::overflow;
        SummaryAnswer answer = co_await write_summary(std::move(call));
        if (work.call.stop_token().stop_requested()) {
            report.error = "aborted";
            co_return report;
        }
        report.usage = answer.usage;
        report.cost = answer.cost;
        report.error = std::move(answer.error);
        // The model has not failed.
        if (answer.is_limited) co_return report;
        next.summary = std::move(answer.text);
        const auto size = static_cast<std::int64_t>(next.summary.size() / 2);
        if (report.error.empty() && size >= std::max(replaced, negligible_tokens))
            report.error = "the summary is not shorter than what it replaces";
        if (record.fallback_runs >= most_fallback_runs) record.fallback_runs = 0;
    } else {
        report.error =
            "the summary model has failed " + std::to_string(record.failures) + " times in a row";
    }
    const MessageList replaced_part = my.between(record.until, until);
    if (report.error.empty()) {
        record.failures = record.fallback_runs = 0;
    } else {
        if (!is_open) record.failures = std::min(record.failures + 1, most_failures);
        // Before that many failures, a request that can still be sent is sent as it is.
        const bool may_wait = record.failures < most_failures && work.reason != Reason::overflow;
        if (may_wait) {
            record.save(extra);
            co_return report;
        }
        ++record.fallback_runs;
        next.is_fallback = report.is_fallback = true;
        next.summary = fallback_summary(replaced_part, record.state);
    }

    const auto preserve = options.preserve ? options.preserve : marked_as_preserved;
    if (record.state) {
        next.preserved_tool_results = std::move(record.state->preserved_tool_results);
        next.summarized_message_refs = std::move(record.state->summarized_message_refs);
    }
    for (const Message& message : replaced_part) {
        const ToolResultMessage* result = message.tool_result();
        std::optional<std::string> text = result ? my.preserved_text(*result) : std::nullopt;
        if (!text) continue;
        preserve_result(next, PreservedToolResult{result->tool_name.str(),
                                                  result->tool_call_id.str(), std::move(*text)});
    }
    add_verbatim_part(next, my.between(0, until), my.between(until, all.size()), extra, preserve,
                      my.most_verbatim_bytes());
    record.state = std::move(next);
    record.refer_to(all, until, options.all_message_refs);
    record.made_at = all.size();
    record.tokens = my.tokens_after(report.before, estimated);
    const bool is_low = static_cast<double>(report.before - record.tokens) <
                        low_saving * static_cast<double>(report.before);
    record.low_savings = is_low ? record.low_savings + 1 : 0;
    report.compacted = true;
    report.summarized = until;
    report.retained = all.size() - until;
    if (work.reason == Reason::overflow) (void)my.shorten_all(report);
    report = my.finish(std::move(report), extra);
    co_return report;
}

}  // namespace cubepi::detail
