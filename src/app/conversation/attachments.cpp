#include "attachments.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>

#include <bub/tape/file_tape_store.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/base64.hpp>
#include <cubepi/core/support/enclosed.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/workspace/files/content.hpp>
#include <cubepi/workspace/files/file_access.hpp>
#include <cubepi/workspace/standard_tools.hpp>

#include "../project/git.hpp"
#include "../terminal/terminal_text.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t max_text = 256 * 1024;
/// As much as decides whether data is binary.
constexpr std::size_t decisive = 8192;

/// "1.2 KB"
std::string size_of(std::size_t bytes) {
    if (bytes < 1000) return std::to_string(bytes) + " bytes";
    const double scaled = static_cast<double>(bytes) / (bytes < 1'000'000 ? 1000 : 1'000'000);
    const auto tenths = static_cast<std::size_t>(scaled * 10 + 0.5);
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) +
           (bytes < 1'000'000 ? " KB" : " MB");
}

std::filesystem::path path_of(const std::string& name) {
    if (name.starts_with("~/")) return bub::home_directory() / name.substr(2);
    return name;
}

bool is_file(const std::string& name) {
    std::error_code failed;
    return !name.empty() && name.find('\0') == std::string::npos &&
           std::filesystem::is_regular_file(path_of(name), failed);
}

/// The files that a prompt may name.
class NameableFiles {
public:
    /// `below`: those below this directory, also through links. Empty: all.
    explicit NameableFiles(const std::filesystem::path& below)
        : is_bound_(!below.empty()),
          root_(is_bound_ ? detail::open_file(below.c_str(), O_RDONLY | O_DIRECTORY)
                          : detail::UniqueFd()) {}

    bool has(const std::string& name) const {
        if (!is_bound_) return is_file(name);
        return static_cast<bool>(open(name));
    }
    /// Calls `use` with a path by which the file is read; the file cannot be replaced by a link meanwhile.
    template <class Use>
    void with_path(const std::string& name, const Use& use) const {
        if (!is_bound_) return use(path_of(name).string());
        const detail::UniqueFd file = open(name);
        if (file) use("/proc/self/fd/" + std::to_string(file.get()));
    }

private:
    /// Returns a regular file; empty: there is none of this name.
    detail::UniqueFd open(const std::string& name) const {
        detail::UniqueFd file;
        if (name.empty() || name.find('\0') != std::string::npos || !root_) return file;
        // A pipe is not waited for.
        file = detail::open_beneath(root_.get(), name, O_RDONLY | O_NONBLOCK);
        struct stat info = {};
        if (file && (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)))
            file = detail::UniqueFd();
        return file;
    }

    const bool is_bound_;
    const detail::UniqueFd root_;
};

/// Returns the name of the file at the beginning of `text`, which follows an `@`; empty: it does not name one.
std::string file_at(std::string_view text, const NameableFiles& files) {
    std::string name(name_after_at(text));
    if (text.starts_with('"')) return files.has(name) ? name : std::string();
    while (!name.empty() && !files.has(name)) {
        if (!ends_sentence(name.back())) return {};
        name.pop_back();
    }
    return name;
}

/// The names after `@` at the beginnings of words, each once.
std::vector<std::string> named_files(std::string_view prompt, const NameableFiles& files) {
    std::vector<std::string> names;
    for (const std::string_view rest : after_at_signs(prompt)) {
        std::string name = file_at(rest, files);
        if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) continue;
        names.push_back(std::move(name));
        if (names.size() == max_attached) break;
    }
    return names;
}

/// Returns whether a word is meant as a file: it ends like one. Names of users and packages follow an `@` as well.
bool looks_like_file(std::string_view name) {
    constexpr std::size_t longest_extension = 5;
    const std::size_t dot = name.rfind('.');
    if (dot == std::string_view::npos || dot == 0 || name[dot - 1] == '/' ||
        name.find(':') != std::string_view::npos)
        return false;
    const std::string_view extension = name.substr(dot + 1);
    return !extension.empty() && extension.size() <= longest_extension &&
           std::all_of(extension.begin(), extension.end(),
                       [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
}

/// Returns the names of files after `@` that do not exist, each once.
std::vector<std::string> missing_files(std::string_view prompt, const NameableFiles& files) {
    std::vector<std::string> names;
    for (const std::string_view rest : after_at_signs(prompt)) {
        if (names.size() == max_attached) break;
        std::string_view name = name_after_at(rest);
        while (!rest.starts_with('"') && !name.empty() && ends_sentence(name.back()))
            name.remove_suffix(1);
        if (!looks_like_file(name) || !file_at(rest, files).empty()) continue;
        if (std::find(names.begin(), names.end(), name) == names.end()) names.emplace_back(name);
    }
    return names;
}

std::string beginning_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string bytes(decisive, '\0');
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    bytes.resize(static_cast<std::size_t>(file.gcount()));
    return bytes;
}

/// Returns at most `bytes` of a file. Throws Error(invalid_argument) if it cannot be read.
std::string read_beginning(const std::string& path, std::size_t bytes) {
    std::ifstream file(path, std::ios::binary);
    std::string read;
    if (file) {
        read.resize(bytes);
        file.read(read.data(), static_cast<std::streamsize>(bytes));
        read.resize(static_cast<std::size_t>(file.gcount()));
    }
    if (!file.eof() && read.size() < bytes)
        throw Error(ErrorCode::invalid_argument,
                    "cannot read " + visible(path) + ": " + detail::errno_text(errno));
    return read;
}

void attach(Attachments& made, const std::string& name, const std::string& path) {
    const std::string start = beginning_of(path);
    if (!detail::image_type(start).empty()) {
        try {
            bub::MediaItem picture = picture_in(path);
            picture.filename = std::filesystem::path(name).filename().string();
            std::error_code failed;
            made.add_picture(name, std::move(picture), std::filesystem::file_size(path, failed));
        } catch (const Error& error) {
            made.add_remark(name, "was not attached: " + std::string(error.what()));
        }
    } else if (detail::looks_binary(start)) {
        made.add_remark(name, "is not a text or a picture, not attached");
    } else {
        std::ifstream file(path, std::ios::binary);
        std::string content(made.text_left() + 1, '\0');
        file.read(content.data(), static_cast<std::streamsize>(content.size()));
        content.resize(static_cast<std::size_t>(file.gcount()));
        made.add_text("file", name, {}, std::move(content));
    }
}

constexpr std::size_t most_names = 50'000;
constexpr std::size_t most_bytes = std::size_t{8} << 20;
constexpr std::chrono::seconds git_timeout(5);
constexpr int deepest = 12;

/// Throws what the start or the limits throw.
Task<std::string> ask_git(std::string directory) {
    GitProcess git(std::move(directory), EnvironmentPolicy());
    git.set_timeout(git_timeout);
    git.set_max_output(most_bytes);
    std::vector<std::string> arguments = {"ls-files", "-z", "--cached", "--others",
                                          "--exclude-standard"};
    GitOutput output = co_await git.run(std::move(arguments));
    if (!output.ok) throw Error(ErrorCode::unsupported, "not a git repository");
    co_return std::move(output.text);
}

std::vector<std::string> names_in(const std::string& output) {
    std::vector<std::string> names;
    for (std::size_t at = 0; at < output.size() && names.size() < most_names;) {
        const std::size_t end = output.find('\0', at);
        if (end == std::string::npos) break;
        std::string name = output.substr(at, end - at);
        if (!name.empty() && is_utf8(name)) names.push_back(std::move(name));
        at = end + 1;
    }
    return names;
}

std::vector<std::string> walk(const std::filesystem::path& directory) {
    std::vector<std::string> names;
    std::error_code failed;
    using Walk = std::filesystem::recursive_directory_iterator;
    Walk entry(directory, std::filesystem::directory_options::skip_permission_denied, failed);
    for (std::size_t seen = 0; !failed && entry != Walk() && seen < most_names;
         entry.increment(failed), ++seen) {
        const std::string name = entry->path().filename().string();
        std::error_code ignored;
        const bool is_directory = entry->is_directory(ignored);
        const bool hidden = name.starts_with('.') || name == "node_modules";
        if (is_directory && (hidden || entry.depth() >= deepest)) entry.disable_recursion_pending();
        if (is_directory || hidden || !is_utf8(name)) continue;
        names.push_back(entry->path().lexically_relative(directory).string());
    }
    return names;
}

void sort_by_depth(std::vector<std::string>& names) {
    const auto depth = [](const std::string& name) {
        return std::count(name.begin(), name.end(), '/');
    };
    std::sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
        const auto left = depth(a);
        const auto right = depth(b);
        return left != right ? left < right : a < b;
    });
    names.erase(std::unique(names.begin(), names.end()), names.end());
}

}  // namespace

std::vector<std::string_view> after_at_signs(std::string_view prompt) {
    std::vector<std::string_view> rests;
    for (std::size_t at = prompt.find('@'); at != std::string_view::npos;
         at = prompt.find('@', at + 1)) {
        if (at == 0 || std::string_view(" \t\n(\"'").find(prompt[at - 1]) != std::string_view::npos)
            rests.push_back(prompt.substr(at + 1));
    }
    return rests;
}

std::string_view name_after_at(std::string_view rest) {
    if (!rest.starts_with('"')) return rest.substr(0, rest.find_first_of(" \t\r\n"));
    const std::size_t end = rest.find('"', 1);
    return end == std::string_view::npos ? std::string_view() : rest.substr(1, end - 1);
}

bool ends_sentence(char c) noexcept {
    return std::string_view(".,;:!?)]}'\"").find(c) != std::string_view::npos;
}

std::size_t Attachments::text_left() const noexcept { return max_text - text_bytes; }

void Attachments::add_text(std::string_view tag, const std::string& name, std::string_view note,
                           std::string content) {
    const bool cut = content.size() > text_left();
    if (cut) content.resize(text_left());
    text_bytes += content.size();
    add_remark(name, (cut ? "the first " : "") + size_of(content.size()));
    if (!is_utf8(content)) content = replace_broken_utf8(content);
    const std::string attributes =
        "name=\"" + visible(name) + "\"" + std::string(note) + (cut ? " only the beginning" : "");
    text += "\n\n" + detail::enclosed(tag, attributes, content);
}

void Attachments::add_picture(const std::string& name, bub::MediaItem picture, std::size_t bytes) {
    media.push_back(std::move(picture));
    add_remark(name, size_of(bytes));
}

void Attachments::add_remark(const std::string& name, const std::string& about) {
    remark += (remark.empty() ? "" : ", ") + visible(name) + " " + about;
}

std::string without_attachments(const std::string& prompt) {
    for (std::size_t at = prompt.find("\n\n<"); at != std::string::npos;
         at = prompt.find("\n\n<", at + 1)) {
        std::string_view rest = std::string_view(prompt).substr(at + 3);
        for (const std::string_view kind : {"file-", "resource-"}) {
            if (!rest.starts_with(kind)) continue;
            rest.remove_prefix(kind.size());
            const std::size_t digits = rest.find_first_not_of("0123456789");
            if (digits != 0 && digits != rest.npos && rest.substr(digits).starts_with(" name=\""))
                return prompt.substr(0, at);
        }
    }
    return prompt;
}

std::string read_whole(const std::string& path, std::size_t limit) {
    std::string bytes = read_beginning(path, limit + 1);
    if (bytes.size() > limit)
        throw Error(ErrorCode::invalid_argument,
                    "cannot read " + visible(path) + ": it is too large");
    return bytes;
}

bub::MediaItem picture_in(const std::string& path) {
    const std::uint64_t limit = FileToolOptions().max_image_bytes;
    const std::string bytes = read_beginning(path, limit + 1);
    bub::MediaItem item;
    item.mime_type = detail::image_type(bytes);
    if (item.mime_type.empty())
        throw Error(ErrorCode::invalid_argument,
                    visible(path) + " is not a picture that models take: PNG, JPEG, GIF or WebP");
    std::error_code failed;
    const std::uint64_t size = std::filesystem::file_size(path, failed);
    // A pipe has no size.
    const std::string problem = detail::image_problem(
        bytes, failed ? bytes.size() : std::max<std::uint64_t>(size, bytes.size()), limit);
    if (!problem.empty()) throw Error(ErrorCode::invalid_argument, visible(path) + ": " + problem);
    item.filename = std::filesystem::path(path).filename().string();
    item.url = "data:" + item.mime_type + ";base64," + detail::base64(bytes);
    return item;
}

std::string picture_word(const std::string& pasted) {
    constexpr std::size_t longest = 1000;
    std::string path(detail::trimmed(pasted));
    if (path.empty() || path.size() > longest || path.find_first_of("\n\"") != std::string::npos)
        return {};
    if (path.starts_with("file://")) path.erase(0, 7);
    if (path.size() > 2 && path.front() == '\'' && path.back() == '\'')
        path = path.substr(1, path.size() - 2);
    if (!is_file(path)) {
        std::string plain;
        for (std::size_t i = 0; i < path.size(); ++i) {
            if (path[i] == '\\' && i + 1 < path.size()) ++i;
            plain += path[i];
        }
        path = std::move(plain);
    }
    if (!is_file(path) || detail::image_type(beginning_of(path_of(path).string())).empty())
        return {};
    return path.find_first_of(" \t'") == std::string::npos ? "@" + path : "@\"" + path + "\"";
}

Attachments attach_pictures(const std::vector<std::string>& paths) {
    Attachments made;
    for (const std::string& path : paths) {
        bub::MediaItem picture = picture_in(path);
        const std::string name = picture.filename;
        std::error_code failed;
        made.add_picture(name, std::move(picture), std::filesystem::file_size(path, failed));
    }
    return made;
}

Attachments attach_files(const std::string& prompt, const std::filesystem::path& below) {
    const NameableFiles files(below);
    Attachments made;
    made.text = prompt;
    for (const std::string& name : named_files(prompt, files)) {
        files.with_path(name,
                        [&made, &name](const std::string& path) { attach(made, name, path); });
    }
    constexpr std::size_t longest_name = 200;
    for (const std::string& name : missing_files(prompt, files))
        made.add_remark(std::string(detail::cut_text(name, longest_name)),
                        "is not a file, not attached");
    return made;
}

Task<std::vector<std::string>> project_names(std::shared_ptr<const Runtime> runtime,
                                             std::filesystem::path directory) {
    Outcome<std::string> listed = co_await outcome_of(ask_git(directory.string()));
    if (!listed && listed.cancelled()) listed.rethrow();
    std::vector<std::string> names;
    if (listed) {
        names = names_in(std::move(listed).value());
    } else {
        auto work = [directory] { return walk(directory); };
        names = co_await offload(*runtime->workers, std::move(work));
    }
    sort_by_depth(names);
    co_return names;
}

}  // namespace cubepi::app
