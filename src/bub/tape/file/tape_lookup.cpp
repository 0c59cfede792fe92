#include <algorithm>

#include <sys/stat.h>

#include <bub/tape/entry/entry_facts.hpp>
#include <bub/tape/file/line_reader.hpp>
#include <bub/tape/file/tape_directory.hpp>

// The end of a tape, and what its index answers.

namespace bub::detail {

TapeDirectory::Tail TapeDirectory::tail_of(const Descriptor& tape, std::uint64_t end) const {
    constexpr std::uint64_t far_enough = std::uint64_t{1} << 20U;
    Tail tail;
    struct stat info = {};
    ::fstat(tape.get(), &info);
    tail.modified = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
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
    struct stat info = {};
    ::fstat(tape.get(), &info);
    const std::int64_t modified = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
    const bool same = known.tail && known.tail->mark.covered == end &&
                      known.tail->modified == modified && known.tail->mark.holds(tape);
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
