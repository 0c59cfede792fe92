#include <bub/tape/search/query_filter.hpp>

#include <algorithm>
#include <array>
#include <limits>

#include <utf8proc.h>

#include <bub/tape/prompt_context.hpp>
#include <bub/tape/support/encoding.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/json/utf8.hpp>
#include <cubepi/schema/python_json.hpp>

namespace bub::detail {

namespace {

constexpr auto folding =
    static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_CASEFOLD);

/// Appends the full case folding of a code point's canonical decomposition, decomposed again.
void append_folded(std::u32string& out, char32_t code) {
    if (code < 0x80) {
        out += code >= 'A' && code <= 'Z' ? code + 32 : code;
        return;
    }
    std::array<utf8proc_int32_t, 16> folded;  // Unicode has at most four for one code point
    const utf8proc_ssize_t size = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(code), folded.data(), folded.size(), folding, nullptr);
    if (size < 0 || size > static_cast<utf8proc_ssize_t>(folded.size())) {
        out += code;
        return;
    }
    for (utf8proc_ssize_t i = 0; i < size; ++i)
        out += static_cast<char32_t>(folded[static_cast<std::size_t>(i)]);
}

bool is_mark(char32_t code) { return code >= 0x300 && code <= 0x36F; }

/// A match that ends between a letter and its mark does not count: "o" is not in "ö".
bool contains(std::u32string_view text, std::u32string_view wanted) {
    for (std::size_t at = text.find(wanted); at != text.npos; at = text.find(wanted, at + 1)) {
        const std::size_t end = at + wanted.size();
        if (end == text.size() || !is_mark(text[end]) ||
            (!wanted.empty() && is_mark(wanted.back())))
            return true;
    }
    return false;
}

bool is_ascii(std::string_view text) {
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

char ascii_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

bool is_word_part(char32_t code) {
    if (code >= 0x80)
        return code < 0x2000 || (code > 0x206F && code != 0x3000 && code != 0x3001 &&
                                 code != 0x3002 && code != 0xFF0C);
    return (code >= 'a' && code <= 'z') || (code >= '0' && code <= '9') || code == '_';
}

std::vector<std::u32string_view> words_of(std::u32string_view text, std::size_t most) {
    std::vector<std::u32string_view> words;
    std::size_t at = 0;
    while (at < text.size() && words.size() < most) {
        while (at < text.size() && !is_word_part(text[at])) ++at;
        const std::size_t from = at;
        while (at < text.size() && is_word_part(text[at])) ++at;
        if (at > from) words.push_back(text.substr(from, at - from));
    }
    return words;
}

/// Returns 1 - edits / length; a swap of neighbors counts as one edit.
double similarity(std::u32string_view a, std::u32string_view b) {
    const std::size_t longer = std::max(a.size(), b.size());
    if (longer == 0) return 0;
    const std::size_t gap = longer - std::min(a.size(), b.size());
    if (gap * 4 > longer) return 0;
    std::vector<std::size_t> before(b.size() + 1);
    std::vector<std::size_t> row(b.size() + 1);
    std::vector<std::size_t> next(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        next[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t change = row[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            next[j] = std::min({change, row[j] + 1, next[j - 1] + 1});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                next[j] = std::min(next[j], before[j - 2] + 1);
        }
        std::swap(before, row);
        std::swap(row, next);
    }
    return 1.0 - static_cast<double>(row[b.size()]) / static_cast<double>(longer);
}

constexpr int deepest_text = 3;

}  // namespace

std::u32string folded(std::string_view text) {
    std::u32string out;
    out.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const cubepi::detail::Utf8Char character = cubepi::detail::utf8_char(text, at);
        append_folded(out, character.code);
        at += character.length;
    }
    return out;
}

TextSearch::TextSearch(std::string_view text) : wanted_(folded(text)) {
    if (!is_ascii(text)) return;
    plain_ = text;
    std::transform(plain_.begin(), plain_.end(), plain_.begin(), ascii_lower);
}

bool TextSearch::in_text(std::string_view text, int depth) const {
    if (!plain_.empty() && is_ascii(text)) {
        const auto same = [](char have, char want) { return ascii_lower(have) == want; };
        if (std::search(text.begin(), text.end(), plain_.begin(), plain_.end(), same) != text.end())
            return true;
    } else if (contains(folded(text), wanted_)) {
        return true;
    }
    const bool maybe_json = !text.empty() && (text.front() == '{' || text.front() == '[');
    if (!maybe_json || depth >= deepest_text || text.find('\\') == text.npos) return false;
    try {
        return in_value(cubepi::parse_lenient(text), depth + 1);
    } catch (const cubepi::Error&) {
        return false;
    }
}

bool TextSearch::in_value(const Json& value, int depth) const {
    if (const auto* text = value.if_string()) return in_text(without_context(*text), depth);
    if (const JsonArray* list = value.if_array()) {
        return std::any_of(list->begin(), list->end(),
                           [&](const Json& item) { return in_value(item, depth); });
    }
    if (const JsonObject* object = value.if_object()) {
        return std::any_of(object->begin(), object->end(),
                           [&](const auto& member) { return in_value(member.value(), depth); });
    }
    std::string text;
    append_json_text(text, value);
    return in_text(text, deepest_text);
}

bool TextSearch::found_in(const TapeEntry& entry) const {
    return std::any_of(entry.payload.begin(), entry.payload.end(),
                       [&](const auto& member) { return in_value(member.value(), 0); });
}

double TextSearch::near_value(const Json& value) const {
    double best = 0;
    if (const JsonArray* list = value.if_array()) {
        for (const Json& item : *list) best = std::max(best, near_value(item));
    } else if (const JsonObject* object = value.if_object()) {
        for (const auto& [key, item] : *object) best = std::max(best, near_value(item));
    } else if (const auto* text = value.if_string()) {
        constexpr std::size_t most_words = 4'000;
        const std::u32string lowered = folded(without_context(*text));
        const std::vector<std::u32string_view> words = words_of(lowered, most_words);
        const std::size_t together = words_of(wanted_, most_words).size();
        for (std::size_t i = 0; together > 0 && i + together <= words.size(); ++i) {
            const std::u32string_view last = words[i + together - 1];
            const std::u32string_view window(
                words[i].data(),
                static_cast<std::size_t>(last.data() + last.size() - words[i].data()));
            best = std::max(best, similarity(window, wanted_));
        }
    }
    return best;
}

double TextSearch::nearness(const TapeEntry& entry) const {
    if (wanted_.size() < 3 || wanted_.size() > 200) return 0;
    double best = 0;
    for (const auto& [key, value] : entry.payload) best = std::max(best, near_value(value));
    return best;
}

namespace {

std::int64_t date_bound(const std::string& text, bool end) {
    const std::optional<std::int64_t> time = parse_date(text, end);
    if (!time) {
        throw cubepi::Error(
            cubepi::ErrorCode::invalid_argument,
            "'" + text + "' is not a date: write 2026-03-01, or 2026-03-01T12:00:00+01:00");
    }
    return *time;
}

}  // namespace

QueryFilter::QueryFilter(const TapeQuery& query)
    : kinds_(query.kinds()),
      left_(query.limit().value_or(std::numeric_limits<std::size_t>::max())) {
    if (query.dates()) {
        dates_.emplace(date_bound(query.dates()->first, false),
                       date_bound(query.dates()->second, true));
        if (dates_->first > dates_->second) {
            throw cubepi::Error(cubepi::ErrorCode::invalid_argument,
                                "the range of dates is upside down: " + query.dates()->first +
                                    " is after " + query.dates()->second);
        }
    }
    if (!query.text().empty()) text_.emplace(query.text());
}

bool QueryFilter::fits(const TapeEntry& entry) const {
    if (!kinds_.empty() && std::find(kinds_.begin(), kinds_.end(), entry.kind) == kinds_.end())
        return false;
    if (dates_) {
        const std::optional<std::int64_t> date = parse_date(entry.date);
        if (!date || *date < dates_->first || *date > dates_->second) return false;
    }
    return !text_ || text_->found_in(entry);
}

bool is_anchor(const TapeEntry& entry) { return entry.kind == entry_kind::anchor; }
bool is_anchor(const TapeEntry& entry, std::string_view name) {
    return is_anchor(entry) && entry_name(entry) == name;
}

bool starts_slice(const TapeEntry& entry, const TapeQuery& query) {
    switch (query.slice()) {
        case TapeQuery::Slice::all: return false;
        case TapeQuery::Slice::last_anchor: return is_anchor(entry);
        default: return is_anchor(entry, query.first_anchor());
    }
}

void throw_no_anchor(std::string_view name) {
    throw cubepi::Error(cubepi::ErrorCode::not_found,
                        "Anchor '" + std::string(name) + "' was not found.");
}

void throw_no_start(const TapeQuery& query) {
    if (query.slice() != TapeQuery::Slice::last_anchor) throw_no_anchor(query.first_anchor());
    throw cubepi::Error(cubepi::ErrorCode::not_found, "No anchors found in tape.");
}

std::pair<std::size_t, std::size_t> slice_of(const std::vector<TapeEntry>& entries,
                                             const TapeQuery& query) {
    if (query.slice() == TapeQuery::Slice::all) return {0, entries.size()};
    std::size_t from = entries.size();
    while (from > 0 && !starts_slice(entries[from - 1], query)) --from;
    if (from == 0) throw_no_start(query);
    std::size_t end = entries.size();
    if (query.slice() == TapeQuery::Slice::between_anchors) {
        end = from;
        while (end < entries.size() && !is_anchor(entries[end], query.second_anchor())) ++end;
        if (end == entries.size()) throw_no_anchor(query.second_anchor());
    }
    return {query.with_anchor() ? from - 1 : from, end};
}

}  // namespace bub::detail
