#include <bub/tape/detail/tape_errors.hpp>

#include <cerrno>
#include <system_error>

#include <cubepi/core/error.hpp>

namespace bub::detail {

using cubepi::ErrorCode;

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
            "stored; mend the id of that entry, or empty the tape");
}

void throw_system(const std::string& what, int error_number) {
    ErrorCode code = ErrorCode::storage;
    if (error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG)
        code = ErrorCode::storage_full;
    if (error_number == EACCES || error_number == EPERM || error_number == EROFS)
        code = ErrorCode::permission_denied;
    throw cubepi::CheckpointerError(
        code, "cannot " + what + ": " + std::generic_category().message(error_number));
}

}  // namespace bub::detail
