#include <algorithm>
#include <array>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>

#include <bub/tape/entry/entry_fields.hpp>
#include <bub/tape/file/tape_directory.hpp>
#include <bub/tape/search/query_filter.hpp>
#include <cubepi/core/error.hpp>

// Reads tapes: the index, the entries of a query, the end of a tape, and what the index answers.

namespace bub::detail {

namespace {

constexpr std::uint64_t records_start = 512;
static_assert(sizeof(IndexHeader) <= records_start);
constexpr std::uint64_t worth_writing = std::uint64_t{64} << 10U;
constexpr std::size_t most_fresh = 4096;

std::uint64_t checksum_of(IndexHeader header) {
    header.checksum = 0;
    std::array<char, sizeof header> bytes = {};
    std::memcpy(bytes.data(), &header, sizeof header);
    return hash_of(std::string_view(bytes.data(), bytes.size()));
}

std::optional<IndexHeader> read_header(const Descriptor& file, const Descriptor& tape) {
    IndexHeader header;
    std::array<char, sizeof header> bytes = {};
    if (!file || file.read_at(0, bytes.data(), bytes.size()) != bytes.size()) return std::nullopt;
    std::memcpy(&header, bytes.data(), sizeof header);
    const bool whole = header.version == IndexHeader::this_version &&
                       header.checksum == checksum_of(header) &&
                       file.size() >= records_start + header.records * sizeof(IndexRecord);
    if (!whole || !header.mark.holds(tape)) return std::nullopt;
    return header;
}

}  // namespace

std::uint64_t hash_of(std::string_view text) {
    std::uint64_t hash = 0xCBF29CE484222325U;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
    return hash;
}

TapeMark TapeMark::of(const Descriptor& tape, std::uint64_t covered) {
    struct stat info = {};
    ::fstat(tape.get(), &info);
    TapeMark mark;
    mark.device = info.st_dev;
    mark.inode = info.st_ino;
    mark.covered = covered;
    std::array<char, 256> bytes = {};
    const std::size_t size =
        covered < bytes.size() ? static_cast<std::size_t>(covered) : bytes.size();
    const std::size_t got = tape.read_at(covered - size, bytes.data(), size);
    mark.tail_hash = hash_of(std::string_view(bytes.data(), got));
    return mark;
}

bool TapeMark::holds(const Descriptor& tape) const {
    struct stat info = {};
    if (::fstat(tape.get(), &info) != 0) return false;
    if (info.st_dev != device || info.st_ino != inode) return false;
    if (static_cast<std::uint64_t>(info.st_size) < covered) return false;
    return of(tape, covered).tail_hash == tail_hash;
}

std::optional<IndexHeader> TapeIndexFile::stored(const std::filesystem::path& path,
                                                 const Descriptor& tape) {
    return read_header(Descriptor::open(path, O_RDONLY), tape);
}

TapeIndexFile::TapeIndexFile(std::filesystem::path path, const Descriptor& tape, std::uint64_t end)
    : path_(std::move(path)), tape_(tape), end_(end), file_(Descriptor::open(path_, O_RDONLY)) {
    read_sums();
}

void TapeIndexFile::read_sums() {
    sums_ = read_header(file_, tape_).value_or(IndexHeader());
    has_more_ = covered() > end_;
    if (has_more_) sums_ = IndexHeader();
}

TapeIndexFile& TapeIndexFile::complete() {
    const bool writes = !has_more_ && end_ > covered() && end_ - covered() >= worth_writing;
    bool can_write = false;
    if (writes) {
        try {
            Descriptor file = Descriptor::open(path_, O_RDWR | O_CREAT);
            // Another process is writing the index: new records are then held only in memory.
            can_write = file && try_lock(file);
            if (can_write) file_ = std::move(file);
        } catch (const cubepi::Error&) {
            can_write = false;
        }
        // Read again, now that no other process changes it.
        if (can_write) read_sums();
    }
    // Meanwhile another process may have written an index of more than this one reads.
    catch_up(can_write && !has_more_);
    return *this;
}

void TapeIndexFile::catch_up(bool can_write) {
    LineReader lines(tape_, covered(), end_);
    FileLine line;
    bool unended = false;
    std::uint64_t covered = this->covered();
    while (lines.next(line)) {
        // An entry whose line is incomplete may get more bytes: it is counted, but not permanently.
        unended = !line.ended;
        if (unended) break;
        add(line.text, line.offset);
        covered = line.end;
        if (can_write && fresh_.size() >= most_fresh) can_write = try_write_records();
    }
    if (can_write) save(covered);
    if (unended) add(line.text, line.offset);
}

/// False on a full disk: the index is a cache, and the rest of it stays in memory.
bool TapeIndexFile::try_write_records() {
    try {
        write_records();
        return true;
    } catch (const cubepi::Error&) {
        return false;
    }
}

void TapeIndexFile::add(std::string_view line, std::uint64_t offset) {
    const std::optional<LineFields> found = line_fields(line);
    if (!found) return;
    const EntryFields& fields = found->fields;
    const auto record = [&](IndexKind kind, std::string_view text) {
        fresh_.push_back({hash_of(text), offset << 4U | static_cast<std::uint64_t>(kind)});
    };
    ++sums_.entries;
    ++sums_.entries_since_anchor;
    sums_.last_id = found->id;
    sums_.messages = fields.position_after(sums_.messages);
    if (fields.anchor) {
        ++sums_.anchors;
        sums_.last_anchor_offset = static_cast<std::int64_t>(offset);
        sums_.entries_since_anchor = 0;
        record(IndexKind::anchor, fields.name);
    }
    if (fields.event) record(IndexKind::event, fields.name);
    for (const std::string& id : fields.message_ids) record(IndexKind::message, id);
    if (!fields.run_id.empty()) record(IndexKind::run, fields.run_id);
    if (fields.usage) {
        sums_.has_usage = 1;
        sums_.usage_total = fields.usage->total;
        sums_.usage_prompt = fields.usage->prompt.value_or(IndexHeader::none);
        sums_.usage_cached = fields.usage->cached.value_or(IndexHeader::none);
    }
}

void TapeIndexFile::write_records() {
    std::string bytes(fresh_.size() * sizeof(IndexRecord), '\0');
    if (!fresh_.empty()) std::memcpy(bytes.data(), fresh_.data(), bytes.size());
    file_.write_at(records_start + sums_.records * sizeof(IndexRecord), bytes);
    sums_.records += fresh_.size();
    fresh_.clear();
}

/// Records are written and synced first: a header never counts records that are missing, even after a power failure.
void TapeIndexFile::save(std::uint64_t covered) {
    try {
        write_records();
        file_.sync();
        sums_.mark = TapeMark::of(tape_, covered);
        sums_.checksum = checksum_of(sums_);
        std::string bytes(records_start, '\0');
        std::memcpy(bytes.data(), &sums_, sizeof sums_);
        file_.write_at(0, bytes);
    } catch (const cubepi::Error&) {
        // The disk is full: the index is only a cache, and the records are in memory.
    }
}

void TapeIndexFile::newest_first(IndexKind kind, std::optional<std::uint64_t> hash,
                                 const std::function<bool(std::uint64_t offset)>& wanted) const {
    const auto fits = [&](const IndexRecord& record) {
        return record.kind() == kind && (!hash || record.hash == *hash);
    };
    for (auto record = fresh_.rbegin(); record != fresh_.rend(); ++record) {
        if (fits(*record) && !wanted(record->offset())) return;
    }
    std::array<IndexRecord, 4096> some = {};
    for (std::uint64_t end = file_ ? sums_.records : 0; end > 0;) {
        const std::uint64_t count = end < some.size() ? end : some.size();
        const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(IndexRecord);
        const std::uint64_t from = records_start + (end - count) * sizeof(IndexRecord);
        if (file_.read_at(from, reinterpret_cast<char*>(some.data()), bytes) != bytes) return;
        for (std::uint64_t i = count; i > 0; --i) {
            const IndexRecord& record = some[static_cast<std::size_t>(i - 1)];
            if (fits(record) && !wanted(record.offset())) return;
        }
        end -= count;
    }
}

namespace {

/// Returns false only if no value of the line is this text. Faster than parsing the line.
bool may_have(std::string_view line, std::string_view text) {
    const bool is_plain = std::all_of(text.begin(), text.end(), [](char c) {
        return c >= ' ' && c <= '~' && c != '"' && c != '\\';
    });
    if (!is_plain || line.find(text) != line.npos) return true;
    // Other programs may write any character like this, and a slash.
    return line.find("\\u") != line.npos || line.find("\\/") != line.npos;
}

/// Returns false only if the line has no item of this kind, and of this value if there is one.
bool may_have(std::string_view line, IndexKind kind, const std::string* value) {
    const bool is_event = kind == IndexKind::event || kind == IndexKind::run;
    if (is_event && !may_have(line, "event")) return false;
    if (kind == IndexKind::anchor && !may_have(line, "anchor")) return false;
    return !value || may_have(line, *value);
}

bool may_be_of(std::string_view line, const std::vector<std::string>& kinds) {
    return kinds.empty() || std::any_of(kinds.begin(), kinds.end(), [&](const std::string& kind) {
               return may_have(line, kind);
           });
}

bool is_anchor_line(std::string_view line, const std::string* name) {
    if (!may_have(line, "anchor")) return false;
    const std::optional<LineFields> found = line_fields(line);
    return found && found->fields.anchor && (!name || found->fields.name == *name);
}

}  // namespace

/// Calls `wanted` for the lines that may have an item of this kind, and of this value if there is one, from the newest to the oldest
/// until it returns false.
void TapeDirectory::newest_first(const TapePaths& paths, const Descriptor& tape, std::uint64_t end,
                                 IndexKind kind, const std::string* value,
                                 const std::function<bool(const FileLine&)>& wanted) const {
    TapeIndexFile index(paths.index, tape, end);
    FileLine line;
    if (end - index.covered() >= worth_writing) {
        index.complete();
    } else {
        BackwardLineReader lines(tape, index.covered(), end);
        while (lines.next(line))
            if (may_have(line.text, kind, value) && !wanted(line)) return;
    }
    const auto hash = value ? std::optional(hash_of(*value)) : std::nullopt;
    index.newest_first(kind, hash, [&](std::uint64_t offset) {
        LineReader at(tape, offset, end);
        return !at.next(line) || wanted(line);
    });
}

std::optional<TapeDirectory::Range> TapeDirectory::find_anchor(const TapePaths& paths,
                                                               const Descriptor& tape,
                                                               std::uint64_t end,
                                                               const std::string* name) const {
    std::optional<Range> found;
    newest_first(paths, tape, end, IndexKind::anchor, name, [&](const FileLine& line) {
        if (is_anchor_line(line.text, name)) found = Range{line.offset, line.end};
        return !found;
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
    std::uint64_t end = 0;
    const Descriptor tape = open_visible(name, end);
    const Range range = slice(TapePaths(options_.directory, name), tape, end, query);
    if (!tape || filter.full()) return;
    FileLine line;
    const auto wanted = [&] {
        if (!may_be_of(line.text, query.kinds())) return true;
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
        const std::optional<LineFields> found = line_fields(line.text);
        if (!found) continue;
        if (!has_id) tail.last_id = found->id;
        has_id = true;
        if (found->fields.position) {
            tail.messages = *found->fields.position + since;
            return tail;
        }
        since += found->fields.messages;
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
    if (!tail.messages)
        tail.messages = TapeIndexFile(paths.index, tape, end).complete().sums().messages;
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
    const IndexHeader sums =
        TapeIndexFile(TapePaths(options_.directory, name).index, tape, end).complete().sums();
    info.entries = sums.entries;
    info.anchors = sums.anchors;
    info.entries_since_last_anchor = sums.entries_since_anchor;
    if (sums.last_anchor_offset != IndexHeader::none) {
        LineReader lines(tape, static_cast<std::uint64_t>(sums.last_anchor_offset), end);
        FileLine line;
        const auto found = lines.next(line) ? line_fields(line.text) : std::nullopt;
        info.last_anchor = found && !found->fields.name.empty() ? found->fields.name : "-";
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
    const TapePaths paths(options_.directory, name);
    newest_first(paths, tape, end, IndexKind::anchor, nullptr, [&](const FileLine& line) {
        if (!is_anchor_line(line.text, nullptr)) return true;
        if (auto entry = read_tape_line(line.text)) found.push_back(std::move(*entry));
        return found.size() < limit;
    });
    std::reverse(found.begin(), found.end());
    return found;
}

std::optional<TapeEntry> TapeDirectory::find(const std::string& name, TapeKey key,
                                             const std::string& value) {
    std::optional<TapeEntry> found;
    std::uint64_t end = 0;
    const Descriptor tape = open_visible(name, end);
    if (!tape) return found;
    const IndexKind kind = key == TapeKey::message ? IndexKind::message
                           : key == TapeKey::event ? IndexKind::event
                                                   : IndexKind::run;
    const TapePaths paths(options_.directory, name);
    newest_first(paths, tape, end, kind, &value, [&](const FileLine& line) {
        const std::optional<LineFields> fields = line_fields(line.text);
        if (fields && fields->fields.matches(key, value)) found = read_tape_line(line.text);
        return !found;
    });
    return found;
}

}  // namespace bub::detail
