#include "job_control.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/net/utf8.hpp>

#include "../conversation/attachments.hpp"
#include "terminal_text.hpp"

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

bool in_foreground(int terminal) noexcept {
    const pid_t foreground = tcgetpgrp(terminal);
    return foreground < 0 || foreground == getpgrp();
}

bool stop_in_background() noexcept {
    struct sigaction action = {};
    if (sigaction(SIGTTIN, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) return false;
    // A shell that can continue the job is the parent, in the same session.
    if (getsid(getppid()) != getsid(0)) return false;
    return kill(0, SIGTTIN) == 0;
}

Task<bool> wait_for_foreground(int terminal) {
    while (!in_foreground(terminal)) {
        // A signal that has arrived already is handled first: a shell does not continue a job that stops after it was killed.
        co_await Runtime::standard()->clock->sleep_for(pause_between_stops);
        if (!in_foreground(terminal) && !stop_in_background()) co_return false;
    }
    co_return true;
}

RawMode::RawMode(int input, int output) {
    input_ = input;
    output_ = output;
    known_ = tcgetattr(input, &before_) == 0;
    enter();
}

void RawMode::leave() noexcept {
    if (!raw_ || !in_foreground(input_)) return;
    if (alternate_) send("\x1b[?1049l");
    if (focus_reports_) send("\x1b[?1004l");
    if (cursor_shapes_) send("\x1b[0 q");
    send("\x1b[?2004l\x1b[?25h");
    tcsetattr(input_, TCSANOW, &before_);
    raw_ = false;
}

bool RawMode::lost() noexcept {
    termios now = {};
    if (!raw_ || !in_foreground(input_) || tcgetattr(input_, &now) != 0) return false;
    raw_ = (now.c_lflag & ICANON) == 0;
    return !raw_;
}

void RawMode::enter() noexcept {
    if (!known_ || raw_ || !in_foreground(input_)) return;
    termios keys = before_;
    // Output processing is unchanged: a line feed moves to the beginning of the next line.
    keys.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR | IXON | ISTRIP | BRKINT);
    keys.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | IEXTEN | ISIG);
    keys.c_cc[VMIN] = 1;
    keys.c_cc[VTIME] = 0;
    raw_ = tcsetattr(input_, TCSANOW, &keys) == 0;
    if (!raw_) return;
    send("\x1b[?2004h");
    if (focus_reports_) send("\x1b[?1004h");
}

void RawMode::set_focus_reports(bool used) noexcept {
    if (used == focus_reports_) return;
    focus_reports_ = used;
    if (raw_ && in_foreground(input_)) send(used ? "\x1b[?1004h" : "\x1b[?1004l");
}

void RawMode::send(std::string_view text) noexcept {
    // A full terminal buffer would block even the end of the process.
    pollfd ready{output_, POLLOUT, 0};
    if (poll(&ready, 1, 1000) != 1) return;
    // A failed write to the terminal has no remedy.
    [[maybe_unused]] const ssize_t sent = write(output_, text.data(), text.size());
}

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
