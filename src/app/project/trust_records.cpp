#include "trust_records.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bub/tape/support/encoding.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

#include "../config/paths.hpp"

namespace cubepi::app {

namespace {

constexpr std::uint64_t max_record_bytes = 1'000'000;

std::filesystem::path record_path(const std::filesystem::path& root) {
    return trust_directory() / (cubepi::detail::sha256_hex(root.string()) + ".json");
}

/// Reads a file that only this user can have written.
std::optional<std::string> read_own_file(const std::filesystem::path& path) {
    const detail::UniqueFd fd = detail::open_file(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    struct stat info = {};
    if (!fd || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
    if (info.st_uid != geteuid() || (info.st_mode & 022) != 0) return std::nullopt;
    const auto size = static_cast<std::uint64_t>(info.st_size);
    if (size > max_record_bytes) return std::nullopt;
    std::string text(size, '\0');
    const std::optional<std::size_t> read = detail::read_at(fd.get(), 0, text.data(), text.size());
    if (!read) return std::nullopt;
    text.resize(*read);
    return text;
}

std::optional<TrustRecord> record_of(const std::string& text) {
    JsonTextError error;
    const Json json = parse_json(text, error);
    const JsonObject* object = error ? nullptr : json.if_object();
    const Json* directory = object ? object->if_contains("directory") : nullptr;
    const Json* files = object ? object->if_contains("files") : nullptr;
    const Json* made = object ? object->if_contains("made") : nullptr;
    if (!directory || !directory->is_string() || !files || !files->is_object()) return std::nullopt;
    TrustRecord record;
    record.directory = std::string(directory->get_string());
    for (const auto& file : files->get_object()) {
        if (!file.value().is_string()) return std::nullopt;
        record.files.emplace(file.key(), std::string(file.value().get_string()));
    }
    if (made && made->is_int64())
        record.made = std::chrono::system_clock::from_time_t(made->get_int64());
    return record;
}

/// Reads a record, which must be that of its own name.
std::optional<TrustRecord> read_record(const std::filesystem::path& path) {
    const std::optional<std::string> text = read_own_file(path);
    std::optional<TrustRecord> record = text ? record_of(*text) : std::nullopt;
    if (record && record_path(record->directory) != path) record.reset();
    return record;
}

}  // namespace

std::optional<TrustRecord> find_trust(const std::filesystem::path& root) {
    return read_record(record_path(root));
}

void save_trust(const TrustRecord& record) {
    const std::filesystem::path path = record_path(record.directory);
    make_private_directory(path, "XDG_STATE_HOME");
    JsonObject files;
    for (const auto& [name, digest] : record.files) files[name] = digest;
    JsonObject object;
    object["directory"] = record.directory.string();
    object["files"] = std::move(files);
    object["made"] = std::chrono::system_clock::to_time_t(record.made);
    std::string fresh = path.string() + ".XXXXXX";
    detail::UniqueFd fd(mkostemp(fresh.data(), O_CLOEXEC));  // 0600
    detail::ReplacementFile file(std::move(fd), fresh);
    const bool is_saved = file && detail::write_all(file.get(), json_text(object) + "\n") &&
                          detail::sync_file(file.get()) && file.replace(path);
    if (!is_saved)
        throw Error(ErrorCode::io,
                    "cannot write " + path.string() + ": " + detail::errno_text(errno));
}

bool remove_trust(const std::filesystem::path& root) {
    const std::filesystem::path path = record_path(root);
    if (unlink(path.c_str()) == 0) return true;
    if (errno == ENOENT) return false;
    throw Error(ErrorCode::io, "cannot remove " + path.string() + ": " + detail::errno_text(errno));
}

std::vector<TrustRecord> trust_records() {
    std::vector<TrustRecord> records;
    std::error_code failed;
    for (const auto& entry : std::filesystem::directory_iterator(trust_directory(), failed)) {
        if (std::optional<TrustRecord> record = read_record(entry.path()))
            records.push_back(std::move(*record));
    }
    std::sort(records.begin(), records.end(),
              [](const TrustRecord& left, const TrustRecord& right) {
                  return left.directory < right.directory;
              });
    return records;
}

}  // namespace cubepi::app
