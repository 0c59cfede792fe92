#include <cubepi/checkpoint/server/versions.hpp>

#include <cubepi/core/error.hpp>

namespace cubepi::detail {

namespace {

[[noreturn]] void throw_mismatch(const std::string& text) {
    throw CheckpointerError(ErrorCode::schema_mismatch, text);
}

std::string version_text(std::optional<int> version) {
    return version ? "of version " + std::to_string(*version) : std::string("not there");
}

void refuse_newer_ones(const std::string& where, const char* tables, std::optional<int> found,
                       std::optional<int> known) {
    if (found.value_or(0) <= known.value_or(0)) return;
    throw_mismatch(where + ": the tables " + tables + " are of version " + std::to_string(*found) +
                   ", which is newer than this program knows (" +
                   std::to_string(known.value_or(0)) + "); update the program");
}

}  // namespace

std::optional<int> version_of(const ServerResult& result) {
    std::optional<int> version;
    if (result.rows() > 0 && !result.is_null(0, 0))
        version = static_cast<int>(result.integer(0, 0));
    return version;
}

void refuse_newer_tables(const std::string& where, const TableVersions& found,
                         const TableVersions& known) {
    refuse_newer_ones(where, "cubepi_*", found.shared, known.shared);
    refuse_newer_ones(where, "cubepi_native_*", found.native, known.native);
}

void throw_old_tables(const std::string& where, const TableVersions& found,
                      const TableVersions& known, const std::string& remedy) {
    throw_mismatch(where + ": the tables cubepi_* are " + version_text(found.shared) +
                   " (needed: " + std::to_string(known.shared.value_or(0)) +
                   "), cubepi_native_* are " + version_text(found.native) +
                   " (needed: " + std::to_string(known.native.value_or(0)) + "); " + remedy);
}

}  // namespace cubepi::detail
