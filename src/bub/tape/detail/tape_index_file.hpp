#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bub/tape/detail/descriptor.hpp>
#include <bub/tape/detail/entry_facts.hpp>

namespace bub::detail {

/// Which file a tape is, and up to where it is known.
struct TapeMark {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t covered = 0;    ///< bytes, up to the end of a line
    std::uint64_t tail_hash = 0;  ///< of the bytes before `covered`

    static TapeMark of(const Descriptor& tape, std::uint64_t covered);
    /// Whether the tape is still this file and begins with what is known of it.
    bool holds(const Descriptor& tape) const;
};

/// The sums over a tape, as they are on the disk.
struct IndexHeader {
    static constexpr std::uint64_t this_version = 0x3130'5844'4942'5543;  // "CUBIDX01"
    static constexpr std::int64_t none = -1;

    std::uint64_t version = this_version;
    TapeMark mark = {};
    std::uint64_t records = 0;
    std::int64_t entries = 0;
    std::int64_t last_id = 0;
    std::int64_t messages = 0;
    std::int64_t anchors = 0;
    std::int64_t last_anchor_offset = none;
    std::int64_t entries_since_anchor = 0;
    std::int64_t usage_total = none;
    std::int64_t usage_prompt = none;
    std::int64_t usage_cached = none;
    std::uint64_t has_usage = 0;
    std::uint64_t checksum = 0;
};

enum class IndexKind : std::uint64_t { anchor = 1, event = 2, message = 3, run = 4 };

/// Where something is on a tape.
struct IndexRecord {
    std::uint64_t hash = 0;
    std::uint64_t place = 0;  ///< offset of the line * 16 + kind

    IndexKind kind() const { return static_cast<IndexKind>(place & 15U); }
    std::uint64_t offset() const { return place >> 4U; }
};

std::uint64_t hash_of(std::string_view text);

/// The index of a tape: sums over all of it, and where anchors, events, messages and runs are. It is a cache beside the
/// tape and can be deleted at any time. Memory does not grow with the tape (but where the index cannot be
/// written, on a read-only file system).
class TapeIndexFile {
public:
    /// Brings the index in `path` up to date with the first `end` bytes of `tape`. Short pieces that are new are not
    /// written to the disk.
    TapeIndexFile(std::filesystem::path path, const Descriptor& tape, std::uint64_t end);

    const IndexHeader& sums() const noexcept { return sums_; }
    /// Asks for records of this kind from the newest to the oldest until `wanted` returns false. With `hash`, only for
    /// those that have it.
    void newest_first(IndexKind kind, std::optional<std::uint64_t> hash,
                      const std::function<bool(std::uint64_t offset)>& wanted) const;

    /// The sums as far as they are on the disk, when that is of this tape; else nothing. Reads one block.
    static std::optional<IndexHeader> stored(const std::filesystem::path& path,
                                             const Descriptor& tape);

private:
    void catch_up(const Descriptor& tape, std::uint64_t end);
    void add(std::string_view line, std::uint64_t offset);
    void write_records();
    bool try_write_records();
    void save(const Descriptor& tape, std::uint64_t covered);

    std::filesystem::path path_;
    Descriptor file_;  ///< none: nothing can be written
    IndexHeader sums_;
    std::vector<IndexRecord> fresh_;  ///< behind sums_.records, not on the disk yet
};

}  // namespace bub::detail
