#include <algorithm>

#include <bub/tape/entry/entry_facts.hpp>
#include <bub/tape/file/line_reader.hpp>
#include <bub/tape/file/tape_directory.hpp>
#include <bub/tape/search/query_filter.hpp>

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
    if (!anchor) {
        if (!name) throw_no_anchor();
        throw_no_anchor(*name);
    }
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

}  // namespace bub::detail
