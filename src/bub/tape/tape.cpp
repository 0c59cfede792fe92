#include <bub/tape/tape.hpp>

#include <algorithm>
#include <regex>
#include <utility>

#include <bub/tape/entry/entry_facts.hpp>
#include <bub/tape/file/tape_errors.hpp>
#include <bub/tape/search/query_filter.hpp>
#include <bub/tape/search/text_search.hpp>

namespace bub {

namespace {

const std::string bootstrap_anchor(detail::bootstrap_anchor);

std::vector<TapeEntry> handoff_entries(std::string name, std::optional<JsonObject> state,
                                       JsonObject meta) {
    JsonObject data;
    data["name"] = name;
    data["state"] = state.value_or(JsonObject());
    std::vector<TapeEntry> entries;
    entries.push_back(anchor_entry(std::move(name), std::move(state), meta));
    entries.push_back(event_entry("handoff", std::move(data), std::move(meta)));
    return entries;
}

JsonObject human() {
    JsonObject state;
    state["owner"] = "human";
    return state;
}

TapeQuery search_query(const TapeSearch& search) {
    TapeQuery query = TapeQuery().newest_first().kinds(search.kinds);
    if (search.from.empty() && search.to.empty()) return query;
    return std::move(query).between_dates(search.from.empty() ? "0001-01-01" : search.from,
                                          search.to.empty() ? "9999-12-31" : search.to);
}

/// The most similar entries found so far; of equally similar ones, the newest.
class NearestEntries {
public:
    explicit NearestEntries(std::size_t most) : most_(most) {}

    void add(double nearness, const TapeEntry& entry) {
        if (most_ == 0) return;
        const auto place = std::find_if(found_.begin(), found_.end(),
                                        [&](const auto& one) { return one.first < nearness; });
        if (place == found_.end() && found_.size() >= most_) return;
        found_.emplace(place, nearness, entry);
        if (found_.size() > most_) found_.pop_back();
    }
    void move_to(std::vector<TapeEntry>& to) {
        for (auto& [nearness, entry] : found_) to.push_back(std::move(entry));
    }

private:
    std::size_t most_;
    std::vector<std::pair<double, TapeEntry>> found_;
};

}  // namespace

Tape::Tape(std::shared_ptr<TapeStore> store, std::string name)
    : store_(std::move(store)), name_(std::move(name)) {
    detail::check_tape_name(name_);
}

Tape::Tape(std::shared_ptr<TapeStore> store, std::string name, std::vector<std::string> sidecars)
    : Tape(std::move(store), std::move(name)) {
    sidecars_ = std::move(sidecars);
}

std::shared_ptr<TurnTransaction> Tape::fork(TurnTransactionOptions options) const {
    return std::make_shared<TurnTransaction>(store_, name_, std::move(options));
}

Tape Tape::in(std::shared_ptr<TurnTransaction> fork) const {
    return Tape(std::move(fork), name_, sidecars_);
}

Task<TapePosition> Tape::append(TapeEntry entry) const {
    std::vector<TapeEntry> entries;
    entries.push_back(std::move(entry));
    return append(std::move(entries));
}

Task<TapePosition> Tape::append(std::vector<TapeEntry> entries) const {
    return store_->append(name_, std::move(entries), TapeAppend());
}

Task<void> Tape::handoff(std::string name, std::optional<JsonObject> state, JsonObject meta) const {
    const Tape tape = *this;
    std::vector<TapeEntry> entries =
        handoff_entries(std::move(name), std::move(state), std::move(meta));
    co_await tape.append(std::move(entries));
}

Task<void> Tape::bootstrap(JsonObject meta) const {
    const Tape tape = *this;
    const std::vector<TapeEntry> there = co_await tape.store_->anchors(tape.name_, 1);
    if (!there.empty()) co_return;
    std::optional<JsonObject> state = human();
    std::vector<TapeEntry> entries =
        handoff_entries(bootstrap_anchor, std::move(state), std::move(meta));
    TapeAppend options = TapeAppend().first_anchor(entries.size());
    (void)co_await tape.store_->append(tape.name_, std::move(entries), std::move(options));
}

Task<void> Tape::overflow_handoff(std::string error, std::string summary) const {
    JsonObject state;
    if (!summary.empty()) state["summary"] = std::move(summary);
    state["reason"] = "context_length_exceeded";
    state["error"] = std::move(error);
    return handoff("auto_handoff/context_overflow", std::move(state));
}

Task<void> Tape::restart(std::string archived) const {
    const Tape tape = *this;
    JsonObject state = human();
    if (!archived.empty()) state["archived"] = std::move(archived);
    std::optional<JsonObject> first = std::move(state);
    JsonObject meta;
    std::vector<TapeEntry> entries =
        handoff_entries(bootstrap_anchor, std::move(first), std::move(meta));
    TapeAppend options = TapeAppend().reset();
    co_await tape.store_->append(tape.name_, std::move(entries), std::move(options));
}

Task<std::vector<TapeEntry>> Tape::query(TapeQuery query) const {
    return store_->fetch(name_, std::move(query));
}

Task<std::vector<TapeEntry>> Tape::search(TapeSearch search) const {
    const Tape tape = *this;
    TapeQuery query = search_query(search);
    // Checked here, so that an invalid date is an error instead of an empty result.
    (void)detail::QueryFilter(query);
    struct Finds {
        std::vector<TapeEntry> exact;
        NearestEntries near;
        detail::TextSearch text;
    };
    auto finds = std::make_shared<Finds>(Finds{
        {}, NearestEntries(search.fuzzy ? search.limit : 0), detail::TextSearch(search.text)});
    const std::size_t limit = search.limit;
    const bool fuzzy = search.fuzzy;
    std::function<bool(const TapeEntry&)> look = [finds, limit, fuzzy](const TapeEntry& entry) {
        if (finds->text.found_in(entry)) {
            finds->exact.push_back(entry);
        } else if (fuzzy) {
            const double nearness = finds->text.nearness(entry);
            if (nearness >= detail::TextSearch::near_enough) finds->near.add(nearness, entry);
        }
        return finds->exact.size() < limit;
    };
    if (limit > 0) co_await tape.store_->visit(tape.name_, std::move(query), std::move(look));
    finds->near.move_to(finds->exact);
    if (finds->exact.size() > limit) finds->exact.resize(limit);
    co_return std::move(finds->exact);
}

Task<std::vector<TapeAnchor>> Tape::anchors(std::size_t limit) const {
    const Tape tape = *this;
    std::vector<TapeAnchor> anchors;
    const std::vector<TapeEntry> entries = co_await tape.store_->anchors(tape.name_, limit);
    for (const TapeEntry& entry : entries) {
        TapeAnchor anchor;
        const std::string_view name = entry_name(entry);
        if (!name.empty()) anchor.name = name;
        const Json* state = entry.payload.if_contains("state");
        if (state && state->is_object()) anchor.state = state->get_object();
        anchors.push_back(std::move(anchor));
    }
    co_return anchors;
}

Task<TapeInfo> Tape::info() const { return store_->info(name_); }

Task<JsonArray> Tape::context(ContextStart start) const {
    const Tape tape = *this;
    TapeQuery query = start.query();
    const std::vector<TapeEntry> entries =
        co_await tape.store_->fetch(tape.name_, std::move(query));
    co_return context_messages(entries);
}

bool is_context_overflow(std::string_view error_text) {
    static const std::regex overflow(
        R"(context.{0,20}(length|window)|maximum.{0,20}context|token.{0,10}limit|)"
        R"(prompt.{0,10}too long|tokens?\s*>\s*\d+\s*maximum)",
        std::regex::icase | std::regex::optimize);
    // An endpoint's message may be long; the reason is in its first lines.
    const std::string text(error_text.substr(0, 2'000));
    return std::regex_search(text, overflow);
}

}  // namespace bub
