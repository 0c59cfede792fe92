#include <algorithm>

#include <bub/tape/entry/entry_facts.hpp>
#include <bub/tape/file/tape_directory.hpp>
#include <bub/tape/search/query_filter.hpp>

// Reads tapes: their entries, their end, and what the index answers.

namespace bub::detail {

namespace {

/// A filter that skips lines that cannot be of the requested kinds without parsing them.
class KindGuess {
public:
    explicit KindGuess(const std::vector<std::string>& kinds) {
        for (const std::string& kind : kinds) {
            const bool plain = !kind.empty() && std::all_of(kind.begin(), kind.end(), [](char c) {
                return (c >= 'a' && c <= 'z') || c == '_';
            });
            if (!plain) return;
        }
        kinds_ = kinds;
    }
    bool may_fit(std::string_view line) const {
        if (kinds_.empty()) return true;
        for (const std::string& kind : kinds_) {
            if (line.find(kind) != line.npos) return true;
        }
        return line.find("\\u") != line.npos;
    }

private:
    std::vector<std::string> kinds_;
};

bool is_anchor_line(std::string_view line, const std::string* name) {
    if (line.find("anchor") == line.npos && line.find("\\u") == line.npos) return false;
    const std::optional<LineFacts> found = line_facts(line);
    return found && found->facts.anchor && (!name || found->facts.name == *name);
}

}  // namespace

std::optional<TapeDirectory::Range> TapeDirectory::find_anchor(const TapePaths& paths,
                                                               const Descriptor& tape,
                                                               std::uint64_t end,
                                                               const std::string* name) const {
    constexpr std::uint64_t near = std::uint64_t{1} << 20U;
    BackwardLineReader lines(tape, 0, end);
    FileLine line;
    bool all = true;
    while (lines.next(line)) {
        if (is_anchor_line(line.text, name)) return Range{line.offset, line.end};
        if (end - line.offset > near) {
            all = false;
            break;
        }
    }
    if (all) return std::nullopt;
    const TapeIndexFile index(paths.index, tape, end);
    std::optional<Range> found;
    const auto hash = name ? std::optional(hash_of(*name)) : std::nullopt;
    index.newest_first(IndexKind::anchor, hash, [&](std::uint64_t offset) {
        LineReader at(tape, offset, end);
        if (!at.next(line) || !is_anchor_line(line.text, name)) return true;
        found = Range{line.offset, line.end};
        return false;
    });
    return found;
}

TapeDirectory::Range TapeDirectory::slice(const TapePaths& paths, const Descriptor& tape,
                                          std::uint64_t end, const TapeQuery& query) const {
    using Slice = TapeQuery::Slice;
    Range range{0, end};
    if (query.slice() == Slice::all) return range;
    const std::string* name = query.slice() == Slice::last_anchor ? nullptr : &query.first_anchor();
    const std::optional<Range> anchor =
        tape ? find_anchor(paths, tape, end, name) : std::optional<Range>();
    if (!anchor) throw_no_start(query);
    range.from = query.with_anchor() ? anchor->from : anchor->to;
    if (query.slice() != Slice::between_anchors) return range;
    LineReader lines(tape, anchor->to, end);
    FileLine line;
    while (lines.next(line)) {
        if (!is_anchor_line(line.text, &query.second_anchor())) continue;
        range.to = line.offset;
        return range;
    }
    throw_no_anchor(query.second_anchor());
}

void TapeDirectory::visit(const std::string& name, const TapeQuery& query,
                          const std::function<bool(const TapeEntry&)>& visit) {
    QueryFilter filter(query);
    const KindGuess guess(query.kinds());
    std::uint64_t end = 0;
    const Descriptor tape = open_visible(name, end);
    const Range range = slice(TapePaths(options_.directory, name), tape, end, query);
    if (!tape || filter.full()) return;
    FileLine line;
    const auto wanted = [&] {
        if (!guess.may_fit(line.text)) return true;
        const std::optional<TapeEntry> entry = read_tape_line(line.text);
        if (!entry || !filter.fits(*entry)) return true;
        return filter.take() && visit(*entry) && !filter.full();
    };
    if (query.newest_first()) {
        BackwardLineReader lines(tape, range.from, range.to);
        while (lines.next(line) && wanted()) {
        }
    } else {
        LineReader lines(tape, range.from, range.to);
        while (lines.next(line) && wanted()) {
        }
    }
}

TapeDirectory::Tail TapeDirectory::tail_of(const Descriptor& tape, std::uint64_t end) const {
    constexpr std::uint64_t far_enough = std::uint64_t{1} << 20U;
    Tail tail;
    tail.modified = tape.modified();
    tail.mark = TapeMark::of(tape, end);
    BackwardLineReader lines(tape, 0, end);
    FileLine line;
    bool has_id = false;
    std::int64_t since = 0;
    bool begun = false;
    while (lines.next(line)) {
        if (!begun) tail.ended = line.ended;
        begun = true;
        if (has_id && end - line.offset > far_enough) return tail;
        const std::optional<LineFacts> found = line_facts(line.text);
        if (!found) continue;
        if (!has_id) tail.last_id = found->id;
        has_id = true;
        if (found->facts.position) {
            tail.messages = *found->facts.position + since;
            return tail;
        }
        since += found->facts.messages;
    }
    tail.messages = since;
    return tail;
}

TapeDirectory::Tail TapeDirectory::current_tail(CachedTape& known, const Descriptor& tape,
                                                std::uint64_t end) const {
    const bool same = known.tail && known.tail->mark.covered == end &&
                      known.tail->modified == tape.modified() && known.tail->mark.holds(tape);
    if (!same) known.tail = tail_of(tape, end);
    return *known.tail;
}

void TapeDirectory::count_messages(Tail& tail, const TapePaths& paths, const Descriptor& tape,
                                   std::uint64_t end) const {
    if (!tail.messages) tail.messages = TapeIndexFile(paths.index, tape, end).sums().messages;
}

TapePosition TapeDirectory::position(const std::string& name) {
    std::uint64_t end = 0;
    const Descriptor tape = open_visible(name, end);
    TapePosition found;
    if (!tape) return found;
    Tail tail = tail_of(tape, end);
    count_messages(tail, TapePaths(options_.directory, name), tape, end);
    found.last_id = tail.last_id;
    found.messages = *tail.messages;
    return found;
}

TapeInfo TapeDirectory::info(const std::string& name) {
    TapeInfo info;
    std::uint64_t end = 0;
    const Descriptor tape = open_visible(name, end);
    if (!tape) return info;
    const TapeIndexFile index(TapePaths(options_.directory, name).index, tape, end);
    const IndexHeader& sums = index.sums();
    info.entries = sums.entries;
    info.anchors = sums.anchors;
    info.entries_since_last_anchor = sums.entries_since_anchor;
    if (sums.last_anchor_offset != IndexHeader::none) {
        LineReader lines(tape, static_cast<std::uint64_t>(sums.last_anchor_offset), end);
        FileLine line;
        const auto found = lines.next(line) ? line_facts(line.text) : std::nullopt;
        info.last_anchor = found && !found->facts.name.empty() ? found->facts.name : "-";
    }
    if (sums.has_usage != 0) {
        RunUsage usage;
        usage.total = sums.usage_total;
        if (sums.usage_prompt != IndexHeader::none) usage.prompt = sums.usage_prompt;
        if (sums.usage_cached != IndexHeader::none) usage.cached = sums.usage_cached;
        info.last_token_usage = usage.total;
        info.last_token_cache_hit_rate = usage.hit_rate();
    }
    return info;
}

std::vector<TapeEntry> TapeDirectory::anchors(const std::string& name, std::size_t limit) {
    std::vector<TapeEntry> found;
    std::uint64_t end = 0;
    const Descriptor tape = open_visible(name, end);
    if (!tape || limit == 0) return found;
    const TapeIndexFile index(TapePaths(options_.directory, name).index, tape, end);
    index.newest_first(IndexKind::anchor, std::nullopt, [&](std::uint64_t offset) {
        LineReader lines(tape, offset, end);
        FileLine line;
        if (!lines.next(line)) return true;
        if (auto entry = read_tape_line(line.text)) found.push_back(std::move(*entry));
        return found.size() < limit;
    });
    std::reverse(found.begin(), found.end());
    return found;
}

std::optional<TapeEntry> TapeDirectory::find(const std::string& name, IndexKind kind,
                                             const std::string& key) {
    std::optional<TapeEntry> found;
    std::uint64_t end = 0;
    const Descriptor tape = open_visible(name, end);
    if (!tape) return found;
    const TapeIndexFile index(TapePaths(options_.directory, name).index, tape, end);
    index.newest_first(kind, hash_of(key), [&](std::uint64_t offset) {
        LineReader lines(tape, offset, end);
        FileLine line;
        const auto facts = lines.next(line) ? line_facts(line.text) : std::nullopt;
        if (!facts) return true;
        const EntryFacts& have = facts->facts;
        const bool same = kind == IndexKind::message
                              ? std::find(have.message_ids.begin(), have.message_ids.end(), key) !=
                                    have.message_ids.end()
                          : kind == IndexKind::run ? have.run_id == key
                                                   : have.name == key;
        if (same) found = read_tape_line(line.text);
        return !same;
    });
    return found;
}

}  // namespace bub::detail
