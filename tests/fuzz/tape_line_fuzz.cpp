// A line of a tape is an entry or skipped, equally by the fast reader and the full one; an entry is written as a line that is read
// as the same entry. A journal with any content can be closed.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bub/tape/entry/entry_fields.hpp>
#include <bub/tape/fork/turn_journal.hpp>
#include <bub/tape/search/query_filter.hpp>
#include <bub/tape/tape_context.hpp>
#include <bub/tape/tape_entry.hpp>

#include "fuzz_check.hpp"

namespace {

using namespace bub;

void check_line(std::string_view line) {
    const std::optional<TapeEntry> entry = read_tape_line(line);
    if (!entry) return;
    const std::string written = tape_line(*entry);
    CUBEPI_FUZZ_CHECK(written.find('\n') == written.size() - 1);
    const std::optional<TapeEntry> again = read_tape_line(written);
    CUBEPI_FUZZ_CHECK(again && *again == *entry);
    const std::optional<detail::LineFields> quick = detail::line_fields(written);
    CUBEPI_FUZZ_CHECK(quick.has_value());
    const detail::EntryFields full = detail::fields_of(*entry);
    CUBEPI_FUZZ_CHECK(quick->id == entry->id);
    CUBEPI_FUZZ_CHECK(quick->fields.anchor == full.anchor && quick->fields.event == full.event);
    CUBEPI_FUZZ_CHECK(quick->fields.messages == full.messages);
    CUBEPI_FUZZ_CHECK(quick->fields.position == full.position);
    CUBEPI_FUZZ_CHECK(quick->fields.message_ids == full.message_ids);
    const detail::TextSearch search(line.substr(0, 8));
    (void)search.found_in(*entry);
    (void)search.nearness(*entry);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    std::vector<TapeEntry> entries;
    for (std::size_t from = 0; from <= text.size();) {
        const std::size_t feed = std::min(text.find('\n', from), text.size());
        const std::string_view line = text.substr(from, feed - from);
        check_line(line);
        if (auto entry = read_tape_line(line)) entries.push_back(std::move(*entry));
        from = feed + 1;
    }
    (void)context_messages(entries);
    (void)agent_messages(entries);
    detail::JournaledTurn turn = detail::read_journal(text);
    detail::close_dead_turn(turn, size % 2 == 1);
    CUBEPI_FUZZ_CHECK(!turn.entries.empty());
    return 0;
}
