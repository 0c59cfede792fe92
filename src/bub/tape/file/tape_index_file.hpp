#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bub/tape/entry/entry_facts.hpp>
#include <bub/tape/file/descriptor.hpp>

namespace bub::detail {

/// The identity of a tape's file and the part of it that is known.
struct TapeMark {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t covered = 0;    ///< bytes, up to the end of a line
    std::uint64_t tail_hash = 0;  ///< of the bytes before `covered`

    static TapeMark of(const Descriptor& tape, std::uint64_t covered);
    /// Returns true if the tape is still this file and begins with the known part.
    bool holds(const Descriptor& tape) const;
};

/// The sums over a tape, as stored on disk.
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

/// The location of an item on a tape.
struct IndexRecord {
    std::uint64_t hash = 0;
    std::uint64_t place = 0;  ///< offset of the line * 16 + kind

    IndexKind kind() const { return static_cast<IndexKind>(place & 15U); }
    std::uint64_t offset() const { return place >> 4U; }
};

std::uint64_t hash_of(std::string_view text);

/// The index of a tape: sums over all of it, and the locations of anchors, events, messages and runs. It is a cache
/// that can be deleted at any time. Memory does not grow with the tape (unless the index cannot be written, e.g. on a
/// read-only file system).
class TapeIndexFile {
public:
    /// Updates the index in `path` for the first `end` bytes of `tape`. Short new parts are not written to disk.
    TapeIndexFile(std::filesystem::path path, const Descriptor& tape, std::uint64_t end);

    const IndexHeader& sums() const noexcept { return sums_; }
    /// Calls `wanted` for records of this kind from the newest to the oldest until it returns false. With `hash`, only
    /// for records with that hash.
    void newest_first(IndexKind kind, std::optional<std::uint64_t> hash,
                      const std::function<bool(std::uint64_t offset)>& wanted) const;

    /// Returns the sums stored on disk if they belong to this tape; else nothing. Reads one block.
    static std::optional<IndexHeader> stored(const std::filesystem::path& path,
                                             const Descriptor& tape);

private:
    void catch_up(const Descriptor& tape, std::uint64_t end);
    void add(std::string_view line, std::uint64_t offset);
    void write_records();
    bool try_write_records();
    void save(const Descriptor& tape, std::uint64_t covered);

    std::filesystem::path path_;
    Descriptor file_;  ///< none: not writable
    IndexHeader sums_;
    std::vector<IndexRecord> fresh_;  ///< after sums_.records, not on disk yet
};

}  // namespace bub::detail
