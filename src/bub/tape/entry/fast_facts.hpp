#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <bub/tape/entry/entry_facts.hpp>

namespace bub::detail {

struct LineFacts {
    std::int64_t id = 0;
    EntryFacts facts = {};
};

/// Equivalent to facts_of(read_tape_line(line)) without creating the entry. Returns nothing if the line is not an
/// entry.
std::optional<LineFacts> line_facts(std::string_view line);

}  // namespace bub::detail
