#include <bub/tape/file/tape_errors.hpp>

#include <cerrno>

#include <bub/tape/entry/entry_facts.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace bub::detail {

using cubepi::ErrorCode;

namespace {

[[noreturn]] void throw_too_deep(const std::string& tape, const std::string& what) {
    throw cubepi::CheckpointerError(ErrorCode::invalid_argument,
                                    what + " of tape '" + tape + "' is nested deeper than " +
                                        std::to_string(cubepi::max_stored_json_depth) +
                                        " levels and could not be read again; nothing was stored");
}

}  // namespace

bool is_main_tape(std::string_view name) {
    const std::size_t first = name.find("__");
    return first != name.npos && name.find("__", first + 2) == name.npos;
}

void check_tape_name(std::string_view name) {
    constexpr std::size_t longest = 200;
    const bool odd = name.empty() || name.size() > longest || name.front() == '.' ||
                     name.find('/') != name.npos || name.find('\0') != name.npos;
    if (!odd) return;
    throw cubepi::Error(ErrorCode::invalid_argument,
                        "'" + std::string(name) +
                            "' cannot be the name of a tape: it must be a file name of at most 200 "
                            "bytes that does not begin with a dot");
}

void check_depth(const std::string& tape, const std::vector<TapeEntry>& entries) {
    constexpr std::size_t inside = cubepi::max_stored_json_depth - 1;  // of the line
    for (const TapeEntry& entry : entries) {
        // It contains the entries of a turn, whose depth was checked when they were appended.
        if (entry_name(entry) == refused_event) continue;
        if (cubepi::is_nested_deeper(entry.payload, inside) ||
            cubepi::is_nested_deeper(entry.meta, inside))
            throw_too_deep(tape, "an entry (" + entry.kind + ")");
    }
}

void check_depth(const std::string& tape, const JsonObject& state) {
    if (cubepi::is_nested_deeper(state, cubepi::max_stored_json_depth))
        throw_too_deep(tape, "the side state");
}

void throw_stale(const std::string& tape, std::int64_t expected, std::int64_t found) {
    throw cubepi::StaleAppendError(ErrorCode::stale_append,
                                   "another writer has continued tape '" + tape + "' (it holds " +
                                       std::to_string(found) + " messages, expected " +
                                       std::to_string(expected) +
                                       "); nothing was stored, load the tape again",
                                   tape);
}

void throw_ids_at_end(const std::string& tape) {
    throw cubepi::CheckpointerError(
        ErrorCode::storage,
        "the ids of tape '" + tape +
            "' are at their end (its last entry has one near 2^63), so nothing was "
            "stored; correct the id of that entry, or empty the tape");
}

void throw_system(const std::string& verb, const std::filesystem::path& path, int error_number) {
    ErrorCode code = ErrorCode::storage;
    const char* advice = "; check the directory and its disk";
    if (cubepi::detail::is_out_of_space(error_number)) {
        code = ErrorCode::storage_full;
        advice = "; free some space and try again";
    }
    if (error_number == EACCES || error_number == EPERM || error_number == EROFS) {
        code = ErrorCode::permission_denied;
        advice = "; give this user access to it";
    }
    throw cubepi::CheckpointerError(code,
                                    "cannot " + verb + " " + path.string() + ": " +
                                        cubepi::detail::errno_text(error_number) + advice,
                                    std::string(), std::string(), path.string());
}

}  // namespace bub::detail
