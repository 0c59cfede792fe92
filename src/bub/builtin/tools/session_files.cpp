#include <bub/builtin/tools/session_files.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bub/channel.hpp>
#include <bub/channel/sent_file.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/net/utf8.hpp>

namespace bub::detail {

namespace {

using cubepi::Error;
using cubepi::ErrorCode;
using cubepi::Outcome;
using cubepi::outcome_of;
using cubepi::detail::UniqueFd;

constexpr std::size_t longest_name = 100;
constexpr std::size_t longest_extension = 16;

/// Names that programs look for: of instructions, repositories and devices.
constexpr std::array<std::string_view, 10> reserved_names = {
    "agents.md", "skill.md", "claude.md", "head", "config", "makefile", "con", "prn", "aux", "nul"};

/// Lists the characters beyond ASCII that are neither seen nor letters: C1 controls, joiners, directions, line separators, tags.
bool is_visible(std::uint32_t c) {
    return c > 0xA0 && c != 0xAD && !(c >= 0x200B && c <= 0x200F) &&
           !(c >= 0x2028 && c <= 0x202E) && !(c >= 0x2060 && c <= 0x206F) && c != 0x61C &&
           c != 0x180E && c != 0xFEFF && !(c >= 0xFFF0 && c <= 0xFFFF) &&
           !(c >= 0xE0000 && c <= 0xE0FFF) && !(c >= 0xE000 && c <= 0xF8FF) && c < 0xF0000;
}

bool is_plain(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._-+ ,()").find(c) != std::string_view::npos;
}

/// Reads a character of valid UTF-8, and moves `text` behind it.
std::string_view take_character(std::string_view& text, std::uint32_t& code) {
    const auto lead = static_cast<unsigned char>(text.front());
    const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    const std::string_view character = text.substr(0, size);
    code = size == 1 ? lead : lead & (0xFFU >> (size + 1));
    for (const char c : character.substr(1))
        code = code << 6U | (static_cast<unsigned char>(c) & 0x3FU);
    text.remove_prefix(character.size());
    return character;
}

std::string readable(std::string_view given) {
    const std::string valid = cubepi::replace_broken_utf8(given);
    std::string name;
    for (std::string_view rest = valid; !rest.empty();) {
        std::uint32_t code = 0;
        const std::string_view character = take_character(rest, code);
        const bool stays = code < 0x80 ? is_plain(character.front()) : is_visible(code);
        name += stays ? character : std::string_view("_");
    }
    return name;
}

/// Cuts a text at a character.
void cut(std::string& text, std::size_t size) {
    if (text.size() <= size) return;
    while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80) --size;
    text.resize(size);
}

/// A name as a stem and an extension with its dot, which may be empty.
std::pair<std::string, std::string> parts_of(const std::string& name) {
    const std::size_t dot = name.rfind('.');
    if (dot == std::string::npos || dot == 0 || name.size() - dot > longest_extension)
        return {name, {}};
    return {name.substr(0, dot), name.substr(dot)};
}

/// Distinguishes what commands of the session have done to the directory from failures of the storage.
ErrorCode code_of(int number) {
    if (number == EACCES || number == EPERM || number == ELOOP || number == ENOTDIR)
        return ErrorCode::permission_denied;
    return cubepi::detail::is_out_of_space(number) ? ErrorCode::storage_full : ErrorCode::io;
}

[[noreturn]] void fail(const char* action, int number) {
    const ErrorCode code = code_of(number);
    throw Error(code, std::string("cannot ") + action + " the directory '" +
                          std::string(attachments_directory) +
                          "' of the session: " + cubepi::detail::errno_text(number));
}

/// Opens `attachments`, which is created if it is missing and must not be a link.
UniqueFd open_attachments(const std::filesystem::path& workspace) {
    const UniqueFd root = cubepi::detail::open_file(workspace.c_str(), O_RDONLY | O_DIRECTORY);
    if (!root) fail("open", errno);
    const std::string name(attachments_directory);
    if (::mkdirat(root.get(), name.c_str(), S_IRWXU) != 0 && errno != EEXIST) fail("create", errno);
    UniqueFd directory =
        cubepi::detail::open_file(name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, root.get());
    if (!directory) fail("open", errno);
    return directory;
}

struct DirectoryUse {
    std::size_t files = 0;
    std::uint64_t bytes = 0;
};

DirectoryUse use_of(int directory) {
    UniqueFd copy = cubepi::detail::open_file(".", O_RDONLY | O_DIRECTORY, 0, directory);
    DIR* const entries = copy ? ::fdopendir(copy.get()) : nullptr;
    if (!entries) fail("read", errno);
    (void)copy.release();
    DirectoryUse use;
    while (const dirent* const entry = ::readdir(entries)) {
        struct stat info = {};
        const std::string_view name = entry->d_name;
        if (name == "." || name == "..") continue;
        if (::fstatat(directory, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
        ++use.files;
        use.bytes += static_cast<std::uint64_t>(std::max<off_t>(info.st_size, 0));
    }
    ::closedir(entries);
    return use;
}

bool has_content(int directory, const std::string& name, const std::string& bytes) {
    const UniqueFd file =
        cubepi::detail::open_file(name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, directory);
    struct stat info = {};
    if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
        static_cast<std::uint64_t>(info.st_size) != bytes.size())
        return false;
    std::string stored(bytes.size(), '\0');
    const auto size = cubepi::detail::read_at(file.get(), 0, stored.data(), stored.size());
    return size == bytes.size() && stored == bytes;
}

void check_limits(int directory, std::size_t size, const SessionFiles& limits) {
    const DirectoryUse use = use_of(directory);
    if (use.files >= limits.max_files)
        throw Error(ErrorCode::limit, "the conversation has " + std::to_string(use.files) +
                                          " files, and may not have more");
    if (use.bytes + size > limits.max_total_bytes)
        throw Error(ErrorCode::limit, "the files of the conversation would have more than " +
                                          std::to_string(limits.max_total_bytes) + " bytes");
}

bool is_image_for_models(const MediaItem& item) {
    constexpr std::array<std::string_view, 4> types = {"image/jpeg", "image/png", "image/gif",
                                                       "image/webp"};
    return item.type == MediaType::image &&
           std::find(types.begin(), types.end(), item.mime_type) != types.end();
}

std::string name_of(const MediaItem& item) {
    if (!item.filename.empty()) return safe_file_name(item.filename);
    const std::size_t slash = item.mime_type.find('/');
    const std::string extension =
        slash == std::string::npos ? "" : "." + item.mime_type.substr(slash + 1);
    return safe_file_name(std::string(to_string(item.type)) + extension);
}

Task<std::optional<std::string>> given_bytes(std::optional<std::string> bytes) { co_return bytes; }

struct SendFileArgs {
    std::string path;

    static void describe_fields(cubepi::FieldNotes& fields) {
        fields.describe("path", "The file, relative to the working directory.");
    }
};

Task<std::string> send_file(std::shared_ptr<BuiltinCore> core, Envelope output) {
    const std::size_t limit = core->options().files->max_file_bytes;
    const JsonObject& place = output.rest.at(file_key).as_object();
    const std::string name(place.at("name").as_string());
    // Fails before anything is recorded as being sent.
    const std::optional<SentFile> file =
        co_await read_sent_file(core->framework().runtime(), output, limit);
    const std::size_t size = file->bytes.size();
    if (size == 0) throw Error(ErrorCode::invalid_argument, "the file is empty");
    const std::shared_ptr<OutboundChannelRouter> router = core->framework().router();
    bool sent = false;
    TurnOutput notice(std::move(output));
    if (router) sent = co_await router->dispatch_output(std::move(notice));
    if (!sent) throw Error(ErrorCode::unsupported, "the chat cannot receive files");
    co_return "Sent " + name + " (" + std::to_string(size) + " bytes) to the chat.";
}

}  // namespace

std::string safe_file_name(std::string_view given) {
    given = given.substr(given.find_last_of("/\\") + 1);
    std::string name = readable(given);
    name.erase(0, name.find_first_not_of(". -"));
    name.erase(name.find_last_not_of(". ") + 1);
    if (name.empty()) return "file";
    auto [stem, extension] = parts_of(name);
    const std::string lower = cubepi::detail::lower_case(name);
    const std::string lower_stem = cubepi::detail::lower_case(stem);
    const auto is_reserved = [&](std::string_view reserved) {
        return lower == reserved || (reserved.size() <= 4 && lower_stem == reserved);
    };
    const bool is_port =
        lower_stem.size() == 4 && (lower_stem.starts_with("com") || lower_stem.starts_with("lpt"));
    if (is_port || std::any_of(reserved_names.begin(), reserved_names.end(), is_reserved))
        stem.insert(0, "file-");
    cut(stem, longest_name - extension.size());
    return stem + extension;
}

std::string store_attachment(const std::filesystem::path& workspace, std::string_view name,
                             const std::string& bytes, const SessionFiles& limits) {
    const UniqueFd directory = open_attachments(workspace);
    const auto [stem, extension] = parts_of(safe_file_name(name));
    for (std::size_t number = 1; number <= limits.max_files + 1; ++number) {
        const std::string candidate =
            stem + (number == 1 ? "" : "-" + std::to_string(number)) + extension;
        const std::string path = std::string(attachments_directory) + "/" + candidate;
        if (has_content(directory.get(), candidate, bytes)) return path;
        if (number == 1) check_limits(directory.get(), bytes.size(), limits);
        const UniqueFd file = cubepi::detail::open_file(
            candidate.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, directory.get());
        if (!file && errno == EEXIST) continue;
        if (!file) fail("write to", errno);
        if (cubepi::detail::write_all(file.get(), bytes)) return path;
        const int number_of_error = errno;
        (void)::unlinkat(directory.get(), candidate.c_str(), 0);
        fail("write to", number_of_error);
    }
    throw Error(ErrorCode::limit, "the conversation has too many files of this name");
}

Task<std::vector<std::string>> take_attachments(std::shared_ptr<BuiltinCore> core,
                                                std::shared_ptr<Envelope> message,
                                                std::filesystem::path workspace) {
    const SessionFiles limits = *core->options().files;
    std::vector<std::string> problems;
    std::vector<MediaItem> images;
    std::string notes;
    for (MediaItem& item : std::exchange(message->media, {})) {
        const std::string name = name_of(item);
        std::string problem;
        const bool is_too_large = item.url.empty() && !item.fetch;
        Task<std::optional<std::string>> fetching = item.get_bytes();
        Outcome<std::optional<std::string>> fetched = co_await outcome_of(std::move(fetching));
        if (fetched.cancelled()) fetched.rethrow();
        if (is_too_large) {
            problem = "is larger than the limit";
        } else if (!fetched || !fetched.value()) {
            problem = "could not be downloaded";
        } else if (fetched.value()->size() > limits.max_file_bytes) {
            problem = "is larger than the limit";
        } else if (is_image_for_models(item)) {
            item.fetch = [bytes = std::move(fetched).value()] { return given_bytes(bytes); };
            images.push_back(std::move(item));
        } else {
            auto store = [workspace, name, bytes = std::move(*fetched.value()), limits] {
                return store_attachment(workspace, name, bytes, limits);
            };
            Task<std::string> storing = cubepi::offload(*core->runtime().workers, std::move(store));
            Outcome<std::string> stored = co_await outcome_of(std::move(storing));
            const std::string_view error = stored ? "" : cubepi::logged_error(stored.failure());
            // Any other failure is one of the storage: the turn is tried again (D90).
            const bool is_refused = error == to_string(ErrorCode::limit) ||
                                    error == to_string(ErrorCode::permission_denied);
            if (!stored && !is_refused) stored.rethrow();
            if (stored) {
                notes += "\n[The file is stored as " + stored.value() + "]";
            } else {
                problem = error == to_string(ErrorCode::limit)
                              ? "exceeds the number or the size of the files of a conversation"
                              : "could not be stored";
            }
        }
        if (problem.empty()) continue;
        problems.push_back("The file " + name + " " + problem + ".");
        notes += "\n[The file " + name + " " + problem + "]";
    }
    message->media = std::move(images);
    if (!notes.empty()) {
        std::string text = message->content_text();
        message->content = text.empty() ? notes.substr(1) : text + notes;
    }
    co_return problems;
}

cubepi::AgentTool send_file_tool(std::shared_ptr<BuiltinCore> core, std::string session_id,
                                 const Envelope& message, std::filesystem::path workspace) {
    Envelope output;
    output.session_id = std::move(session_id);
    output.channel = message.channel;
    output.chat_id = message.chat_id;
    output.inbound_id = message.inbound_id;
    output.output_channel = message.output_channel;
    output.kind = std::string(envelope_kind::file);
    return cubepi::tool<SendFileArgs>(
               "send_file", "Sends a file of the working directory to the user's chat.",
               [core = std::move(core), output = std::move(output),
                root = workspace.string()](SendFileArgs args) {
                   Envelope file = output;
                   file.rest[file_key] = JsonObject{{"workspace", root},
                                                    {"path", args.path},
                                                    {"name", safe_file_name(args.path)}};
                   return send_file(core, std::move(file));
               })
        .risk(cubepi::ToolRisk::network);
}

}  // namespace bub::detail
