#include <bub/tape/postgres/tape_pages.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <bub/tape/postgres/tape_rows.hpp>
#include <bub/tape/search/query_filter.hpp>
#include <cubepi/core/error.hpp>

namespace bub::detail {

using cubepi::detail::SqlResults;
using cubepi::detail::SqlStore;

namespace {

constexpr std::int64_t page_size = 1000;
constexpr int most_attempts = 10;

/// The end of a tape, and the transaction that wrote its oldest entry: another one if the tape was reset in between.
struct TapeMoment {
    std::optional<std::string> first = {};
    std::int64_t last_id = 0;
};

void select_moment(SqlBatch& batch, const std::string& tape) {
    batch
        .add(
            "SELECT (SELECT xmin::text FROM bub_entries WHERE tape = $1 ORDER BY id LIMIT 1),"
            " coalesce((SELECT last_id FROM bub_tapes WHERE tape = $1), 0)")
        .text(tape);
}

TapeMoment read_moment(const SqlResult& result) {
    TapeMoment moment;
    moment.first = result.optional_string(0, 0);
    moment.last_id = result.integer(0, 1);
    return moment;
}

/// The progress of one read of a tape.
class PageReader {
public:
    PageReader(std::string tape, TapeQuery query)
        : tape_(std::move(tape)), query_(std::move(query)), filter_(query_) {
        range_.high = std::numeric_limits<std::int64_t>::max();
    }

    bool has_slice() const { return query_.slice() != TapeQuery::Slice::all; }
    void select_slice(SqlBatch& reads) const {
        select_moment(reads, tape_);
        select_bounds(reads, tape_, query_);
    }
    void read_slice(const SqlResults& results) {
        range_ = read_bounds(results[1], query_);
        begin(read_moment(results[0]));
    }

    bool is_full() const { return filter_.full(); }
    void select(SqlBatch& reads) {
        limit_ = page_size;
        // The database applies the limit only if it knows which entries match.
        const bool is_plain = !query_.dates() && query_.text().empty();
        if (is_plain && query_.limit() && *query_.limit() < static_cast<std::size_t>(page_size))
            limit_ = static_cast<std::int64_t>(*query_.limit());
        select_moment(reads, tape_);
        select_page(reads, tape_, range_, query_, limit_);
    }
    /// Returns false if the tape was reset.
    bool is_same_tape(const SqlResults& results) {
        TapeMoment now = read_moment(results[0]);
        if (moment_) return now.first == moment_->first;
        begin(std::move(now));
        return true;
    }
    /// Returns false after the last page.
    bool visit_page(const SqlResults& results, const std::function<bool(const TapeEntry&)>& visit) {
        const std::vector<TapeEntry> entries = read_entries(results[1]);
        for (const TapeEntry& entry : entries) {
            if (!filter_.fits(entry)) continue;
            if (!filter_.take() || !visit(entry)) return false;
        }
        if (results[1].rows() < limit_ || entries.empty()) return false;
        (query_.newest_first() ? range_.high : range_.low) = entries.back().id;
        return true;
    }

private:
    void begin(TapeMoment moment) {
        range_.high = std::min(range_.high, moment.last_id + 1);
        moment_ = std::move(moment);
    }

    const std::string tape_;
    const TapeQuery query_;
    QueryFilter filter_;
    IdRange range_;
    std::int64_t limit_ = page_size;
    std::optional<TapeMoment> moment_;
};

/// Returns false if the tape was reset in between.
Task<bool> read_pages(std::shared_ptr<SqlStore> store, std::string tape, TapeQuery query,
                      std::function<bool(const TapeEntry&)> visit) {
    PageReader reader(std::move(tape), std::move(query));
    if (reader.has_slice()) {
        SqlBatch bounds;
        reader.select_slice(bounds);
        const SqlResults results = co_await store->read(std::move(bounds));
        reader.read_slice(results);
    }
    while (!reader.is_full()) {
        SqlBatch reads;
        reader.select(reads);
        const SqlResults results = co_await store->read(std::move(reads));
        if (!reader.is_same_tape(results)) co_return false;
        if (!reader.visit_page(results, visit)) co_return true;
    }
    co_return true;
}

}  // namespace

Task<void> visit_pages(std::shared_ptr<SqlStore> store, std::string tape, TapeQuery query,
                       std::function<bool(const TapeEntry&)> visit, std::function<bool()> restart) {
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
        TapeQuery copy = query;
        const bool whole = co_await read_pages(store, tape, std::move(copy), visit);
        if (whole) co_return;
        if (!restart()) break;
    }
    throw cubepi::CheckpointerError(
        cubepi::ErrorCode::storage,
        "tape '" + tape + "' was emptied while it was read; read it again");
}

}  // namespace bub::detail
