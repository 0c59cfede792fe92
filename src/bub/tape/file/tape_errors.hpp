#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <bub/tape/tape_entry.hpp>

namespace bub::detail {

/// Returns true if the name has exactly one "__", i.e. is not a sidecar's.
bool is_main_tape(std::string_view name);
/// Throws Error(invalid_argument) if the name is not a file name.
void check_tape_name(std::string_view name);
/// Throws CheckpointerError(invalid_argument) if an entry is nested so deeply that its line could not be read back.
void check_depth(const std::string& tape, const std::vector<TapeEntry>& entries);
void check_depth(const std::string& tape, const JsonObject& state);
[[noreturn]] void throw_stale(const std::string& tape, std::int64_t expected, std::int64_t found);
[[noreturn]] void throw_ids_at_end(const std::string& tape);
/// Throws CheckpointerError with the code for `error_number` and with `path`: "cannot VERB PATH: reason".
[[noreturn]] void throw_system(const std::string& verb, const std::filesystem::path& path,
                               int error_number);

}  // namespace bub::detail
