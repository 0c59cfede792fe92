#include "external_editor.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/net/utf8.hpp>

#include "../terminal/terminal_text.hpp"
#include "attachments.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t largest_text = std::size_t{8} << 20;

/// A file of mode 0600 that is removed at the end.
class TemporaryFile {
public:
    explicit TemporaryFile(const std::string& text) {
        path_ = (std::filesystem::temp_directory_path() / "cubepi-prompt-XXXXXX.md").string();
        const detail::UniqueFd file(mkostemps(path_.data(), 3, O_CLOEXEC));
        if (!file)
            throw Error(ErrorCode::io,
                        "cannot write a temporary file: " + detail::errno_text(errno));
        if (!detail::write_all(file.get(), text)) {
            const std::string reason = detail::errno_text(errno);
            remove();
            throw Error(ErrorCode::io, "cannot write a temporary file: " + reason);
        }
    }
    ~TemporaryFile() { remove(); }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;

    const std::string& path() const noexcept { return path_; }
    void remove() const noexcept { (void)::unlink(path_.c_str()); }

private:
    std::string path_;
};

std::string editor() {
    for (const char* name : {"VISUAL", "EDITOR"}) {
        const char* value = std::getenv(name);
        if (value && *value) return value;
    }
    return "vi";
}

/// Makes `group` the foreground job. The kernel would stop this process for it unless the signal is blocked.
void give_terminal(int terminal, pid_t group) {
    sigset_t blocked = {};
    sigset_t before = {};
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTTOU);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    (void)tcsetpgrp(terminal, group);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

/// Starts the editor as a job of its own, so that Ctrl-C in it is not for this program.
pid_t start(const std::string& path, int terminal) {
    const std::string command = editor() + " \"$1\"";
    const char* const arguments[] = {"sh", "-c", command.c_str(), "sh", path.c_str(), nullptr};
    posix_spawn_file_actions_t actions = {};
    posix_spawnattr_t attributes = {};
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    sigset_t none = {};
    sigset_t defaults = {};
    sigemptyset(&none);
    sigemptyset(&defaults);
    for (const int signal : {SIGINT, SIGQUIT, SIGTSTP, SIGPIPE}) sigaddset(&defaults, signal);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    pid_t child = -1;
    const int failed = posix_spawn(&child, "/bin/sh", &actions, &attributes,
                                   const_cast<char* const*>(arguments), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0)
        throw Error(ErrorCode::io, "cannot start the editor: " + detail::errno_text(failed));
    give_terminal(terminal, child);
    // It may have read the terminal before it was the foreground job.
    (void)::kill(-child, SIGCONT);
    return child;
}

/// Returns the status as waitpid() does. A stopped editor could not be continued by the user, so it continues at once.
int wait_for(pid_t child, int terminal) {
    for (;;) {
        int status = 0;
        const pid_t ended = waitpid(child, &status, WUNTRACED);
        if (ended < 0 && errno == EINTR) continue;
        if (ended < 0 || !WIFSTOPPED(status)) return status;
        give_terminal(terminal, child);
        (void)::kill(-child, SIGCONT);
    }
}

}  // namespace

std::string edit_in_editor(const std::string& text, int terminal, std::stop_token stopping) {
    const TemporaryFile file(text + "\n");
    const pid_t group = getpgrp();
    const pid_t child = start(file.path(), terminal);
    // The program may end before the editor does.
    const std::stop_callback stop(stopping, [&file, child] {
        file.remove();
        (void)::kill(-child, SIGHUP);
        (void)::kill(-child, SIGCONT);
    });
    const int status = wait_for(child, terminal);
    give_terminal(terminal, group);
    if (status != 0) {
        throw Error(ErrorCode::unsupported,
                    "the editor '" + visible(editor()) +
                        "' failed; the text is unchanged. Set VISUAL or EDITOR");
    }
    std::string edited = read_whole(file.path(), largest_text);
    if (edited.ends_with('\n')) edited.pop_back();
    if (!is_utf8(edited)) edited = replace_broken_utf8(edited);
    return edited;
}

}  // namespace cubepi::app
