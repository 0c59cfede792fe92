#include <cubepi/process/sandbox/bubblewrap.hpp>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <initializer_list>

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cubepi/core/error.hpp>

namespace cubepi::detail {

namespace {

class Options {
public:
    void add(std::initializer_list<std::string_view> words) {
        for (const std::string_view word : words) text_.append(word).push_back('\0');
    }
    void add(const MountStep& step) {
        using Kind = MountStep::Kind;
        const std::string_view path = step.path;
        switch (step.kind) {
            case Kind::open:
            case Kind::terminals: return;  // of begin()
            case Kind::seal:
                if (path != "/") add({"--remount-ro", path});
                return;
            case Kind::mask_directory: return add({"--tmpfs", path});
            case Kind::make_directory: return add({"--dir", path});
            case Kind::mask_file: return add({"--ro-bind", "/dev/null", path});
            case Kind::attach:
                // A device that the profile lists; /dev/null and the like are those of begin().
                if (!binds_place(step)) return add({"--dev-bind", path, path});
                return add({"--bind-fd", std::to_string(step.place), path});
            case Kind::pin: return add({"--bind-fd", std::to_string(step.place), path});
            case Kind::attach_read_only:
            case Kind::pin_read_only:
                return add({"--ro-bind-fd", std::to_string(step.place), path});
        }
    }
    /// Processes of others are neither seen nor signalled, so that their secrets and descriptors are out of reach.
    void begin(bool sealed, bool network) {
        // The supervisor cannot end what is below bubblewrap once it is killed itself.
        add({"--die-with-parent", "--unshare-pid", "--unshare-ipc"});
        if (!network) add({"--unshare-net"});
        // As in drop_capabilities(). A setuid bubblewrap leaves none, and takes these options from root alone.
        if (::geteuid() == 0) {
            add({"--cap-drop", "ALL"});
            for (const char* one : {"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID"})
                add({"--cap-add", one});
        }
        add({sealed ? "--ro-bind" : "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc"});
        add({"--remount-ro", "/proc"});
    }
    std::string& text() noexcept { return text_; }

private:
    std::string text_;
};

/// A program of another user, or one that others can change, would get the command and could leave the sandbox out.
bool belongs_to_system(const char* path) {
    struct stat info{};
    return ::stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == 0 &&
           (info.st_mode & (S_IWGRP | S_IWOTH)) == 0 && ::access(path, X_OK) == 0;
}

std::string first_line(int fd) {
    std::string text;
    char bytes[512];
    for (ssize_t got = 1; got != 0;) {
        got = ::read(fd, bytes, sizeof(bytes));
        if (got < 0 && errno != EINTR) break;
        if (got > 0 && text.size() < sizeof(bytes))
            text.append(bytes, static_cast<std::size_t>(got));
    }
    return text.substr(0, text.find('\n'));
}

/// Starts a program that does nothing, in a sandbox that has all that others have. Returns the reason if that fails.
std::string try_out(const std::string& path) {
    const UniqueFd place = open_place("/usr");
    if (!place) return "/usr: " + errno_text(errno);
    const MountStep steps[] = {{MountStep::Kind::seal, "/", 0},
                               {MountStep::Kind::mask_directory, "/tmp", 0},
                               {MountStep::Kind::attach, "/tmp", 0, place.get()}};
    const std::string options =
        bubblewrap_options({std::begin(steps), std::end(steps)}, false, "/");
    std::vector<std::string> words{path};
    for (std::size_t at = 0; at < options.size(); at += words.back().size() + 1)
        words.emplace_back(options.c_str() + at);
    words.insert(words.end(), {"--", "/bin/true"});
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return "pipe: " + errno_text(errno);
    const UniqueFd messages(ends[0]);
    UniqueFd output(ends[1]);
    char* variables[] = {nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, output.get(), STDERR_FILENO);
    // To itself: it is not closed on exec then.
    posix_spawn_file_actions_adddup2(&actions, place.get(), place.get());
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t pid = -1;
    const int error =
        ::posix_spawn(&pid, path.c_str(), &actions, nullptr, arguments.data(), variables);
    posix_spawn_file_actions_destroy(&actions);
    output = UniqueFd();
    if (error != 0) return errno_text(error);
    const std::string message = first_line(messages.get());
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) return errno_text(errno);
    }
    if (status == 0) return {};
    return message.empty() ? "it has failed" : message;
}

}  // namespace

const Bubblewrap& bubblewrap() {
    static const Bubblewrap found = [] {
        Bubblewrap made;
        for (const char* path : {"/usr/bin/bwrap", "/usr/local/bin/bwrap"}) {
            if (made.path.empty() && belongs_to_system(path)) made.path = path;
        }
        made.problem = made.path.empty() ? "bubblewrap is not installed" : try_out(made.path);
        return made;
    }();
    return found;
}

bool binds_place(const MountStep& step) {
    using Kind = MountStep::Kind;
    switch (step.kind) {
        case Kind::attach: return !std::string_view(step.path).starts_with("/dev/");
        case Kind::attach_read_only:
        case Kind::pin:
        case Kind::pin_read_only: return true;
        default: return false;
    }
}

UniqueFd open_place(const std::string& path) {
    UniqueFd place = open_file("/", O_PATH | O_DIRECTORY);
    for (const std::filesystem::path& name : std::filesystem::path(path).relative_path()) {
        // A link that this opens is not a directory, so nothing is found in it.
        if (place) place = open_file(name.c_str(), O_PATH | O_NOFOLLOW, 0, place.get());
    }
    struct stat info{};
    if (!place || ::fstat(place.get(), &info) != 0) return UniqueFd();
    if (!S_ISLNK(info.st_mode)) return UniqueFd(::fcntl(place.get(), F_DUPFD_CLOEXEC, 3));
    errno = ELOOP;
    return UniqueFd();
}

std::string bubblewrap_options(const std::vector<MountStep>& steps, bool network,
                               std::string_view directory) {
    Options options;
    const bool sealed = std::any_of(steps.begin(), steps.end(), [](const MountStep& step) {
        return step.kind == MountStep::Kind::seal && std::string_view(step.path) == "/";
    });
    options.begin(sealed, network);
    for (const MountStep& step : steps) options.add(step);
    // After the places of listed devices have been made.
    options.add({"--remount-ro", "/dev", "--chdir", directory});
    return std::move(options.text());
}

std::string bubblewrap_environment(const std::vector<std::string>& environment) {
    Options options;
    for (const std::string& variable : environment) {
        const std::size_t equals = variable.find('=');
        if (equals == 0 || equals == std::string::npos) continue;
        options.add({"--setenv", std::string_view(variable).substr(0, equals),
                     std::string_view(variable).substr(equals + 1)});
    }
    return std::move(options.text());
}

UniqueFd memory_file(std::string_view content) {
    const UniqueFd low(::memfd_create("cubepi-sandbox", MFD_CLOEXEC));
    UniqueFd file(low ? ::fcntl(low.get(), F_DUPFD_CLOEXEC, 3) : -1);
    if (!file || !write_all(file.get(), content) || ::lseek(file.get(), 0, SEEK_SET) != 0) {
        throw Error(ErrorCode::io, "The sandbox could not be prepared: a file in memory: " +
                                       errno_text(errno) + ".");
    }
    return file;
}

}  // namespace cubepi::detail
