#include "terminal.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "source_tree.hpp"

namespace cubepi::terminal_tests {

namespace {

using Deadline = std::chrono::steady_clock::time_point;

// So long that only something that hangs reaches it.
Deadline patience() { return std::chrono::steady_clock::now() + std::chrono::minutes(1); }

/// Pointers for exec; made before the fork, since the child must not allocate.
struct ExecArguments {
    ExecArguments(const Home& home, std::vector<std::string> arguments,
                  std::string path = cubepi::testing::built_program("cubepi"))
        : program(std::move(path)),
          words(std::move(arguments)),
          environment(home.environment),
          directory(home.work().string()) {
        words.insert(words.begin(), program);
        for (std::string& word : words) argv.push_back(word.data());
        for (std::string& variable : environment) envp.push_back(variable.data());
        argv.push_back(nullptr);
        envp.push_back(nullptr);
    }
    [[noreturn]] void exec() const {
        if (chdir(directory.c_str()) == 0) execve(program.c_str(), argv.data(), envp.data());
        _exit(127);
    }
    std::string program;
    std::vector<std::string> words;
    std::vector<std::string> environment;
    std::string directory;
    std::vector<char*> argv;
    std::vector<char*> envp;
};

int wait_for(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string without_escapes(const std::string& raw) {
    std::string text;
    for (std::size_t i = 0; i < raw.size(); ++i) {
        if (raw[i] == '\r') continue;
        if (raw[i] != '\x1b') {
            text += raw[i];
            continue;
        }
        if (i + 1 >= raw.size()) break;
        if (raw[i + 1] != '[') {
            ++i;
            continue;
        }
        i += 2;
        while (i < raw.size() && (raw[i] < '@' || raw[i] > '~')) ++i;
    }
    return text;
}

}  // namespace

Home::Home() {
    std::string name = (std::filesystem::temp_directory_path() / "cubepi-terminal-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary directory");
    root_ = name;
    std::filesystem::create_directories(work());
    std::filesystem::create_directories(root_ / "home");
    std::filesystem::create_directories(root_ / "tmp");
    // Model servers on the local machine must not influence the tests.
    environment = {"HOME=" + (root_ / "home").string(),
                   "TMPDIR=" + (root_ / "tmp").string(),
                   "TERM=xterm",
                   "LANG=C.UTF-8",
                   "PATH=/usr/bin:/bin",
                   "CUBEPI_LOCAL_SERVERS=off"};
}

Home::~Home() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
}

void Home::work_in(const std::string& directory) {
    directory_ = directory;
    std::filesystem::create_directories(work());
}

void Home::set(const std::string& name, const std::string& value) {
    std::erase_if(environment, [&](const std::string& one) { return one.starts_with(name + "="); });
    environment.push_back(name + "=" + value);
}

std::string Home::script(const std::string& json) const {
    const std::filesystem::path path = root_ / "script.json";
    write_file(path, json);
    return path.string();
}

std::string read_file(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

void write_file(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
}

namespace {

pid_t start_at_terminal(const ExecArguments& exec, int& master, unsigned short columns,
                        unsigned short rows) {
    winsize size = {};
    size.ws_col = columns;
    size.ws_row = rows;
    const pid_t pid = forkpty(&master, nullptr, nullptr, &size);
    if (pid < 0) throw std::runtime_error("no pseudo-terminal");
    if (pid == 0) exec.exec();
    return pid;
}

}  // namespace

Terminal::Terminal(const Home& home, std::vector<std::string> arguments, unsigned short columns,
                   unsigned short rows)
    : screen_(columns, rows) {
    const ExecArguments exec(home, std::move(arguments));
    pid_ = start_at_terminal(exec, master_, columns, rows);
}

Terminal::Terminal(const Home& home, const OtherProgram& program,
                   std::vector<std::string> arguments)
    : screen_(110, 50) {
    const ExecArguments exec(home, std::move(arguments), program.path);
    pid_ = start_at_terminal(exec, master_, 110, 50);
}

Terminal::~Terminal() {
    if (status_ < 0) {
        kill(pid_, SIGKILL);
        wait_for(pid_);
    }
    if (master_ >= 0) close(master_);
}

void Terminal::send(int signal) { kill(pid_, signal); }

int Terminal::hang_up() {
    close(std::exchange(master_, -1));
    const int process = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
    pollfd ended{process, POLLIN, 0};
    if (poll(&ended, 1, 60'000) != 1) kill(pid_, SIGKILL);
    close(process);
    status_ = wait_for(pid_);
    return status_;
}

bool Terminal::read_more(int milliseconds) {
    pollfd ready{master_, POLLIN, 0};
    if (poll(&ready, 1, milliseconds) <= 0) return true;
    char bytes[4096];
    const ssize_t count = read(master_, bytes, sizeof bytes);
    if (count > 0) {
        const std::string_view read(bytes, static_cast<std::size_t>(count));
        raw_ += read;
        screen_.write(read);
    }
    return count > 0 || (count < 0 && errno == EINTR);
}

std::string Terminal::shown() const { return without_escapes(raw_); }

bool Terminal::expect(const std::string& text) {
    const Deadline end = patience();
    bool open = true;
    for (;;) {
        const std::string all = shown();
        const std::size_t at = all.find(text, matched_);
        if (at != std::string::npos) {
            matched_ = at + text.size();
            return true;
        }
        if (!open || std::chrono::steady_clock::now() > end) return false;
        open = read_more(1000);
    }
}

bool Terminal::expect_on_screen(const std::string& text) {
    const Deadline end = patience();
    bool open = true;
    while (screen_.updating() || screen_.text().find(text) == std::string::npos) {
        if (!open || std::chrono::steady_clock::now() > end) return false;
        open = read_more(1000);
    }
    return true;
}

bool Terminal::answer(const std::string& text, const std::string& keys) {
    const bool shown = expect(text);
    if (shown) type(keys);
    return shown;
}

bool Terminal::answer_on_screen(const std::string& text, const std::string& keys) {
    const bool shown = expect_on_screen(text);
    if (shown) type(keys);
    return shown;
}

bool Terminal::expect_gone(const std::string& text) {
    const Deadline end = patience();
    bool open = true;
    while (screen_.updating() || screen_.text().find(text) != std::string::npos) {
        if (!open || std::chrono::steady_clock::now() > end) return false;
        open = read_more(1000);
    }
    return true;
}

void Terminal::resize(unsigned short columns, unsigned short rows) {
    screen_.resize(columns, rows);
    winsize size = {};
    size.ws_col = columns;
    size.ws_row = rows;
    if (ioctl(master_, TIOCSWINSZ, &size) != 0) throw std::runtime_error("no new size");
}

void Terminal::type(const std::string& keys) {
    std::size_t sent = 0;
    while (sent < keys.size()) {
        const ssize_t count = write(master_, keys.data() + sent, keys.size() - sent);
        if (count <= 0) throw std::runtime_error("the terminal takes no more keys");
        sent += static_cast<std::size_t>(count);
    }
}

int Terminal::wait() {
    const Deadline end = patience();
    while (read_more(1000)) {
        if (std::chrono::steady_clock::now() > end) kill(pid_, SIGKILL);
    }
    if (status_ < 0) status_ = wait_for(pid_);
    return status_;
}

namespace {

/// `source`: standard input instead of `input`; an empty one: none at all. `out`: where standard output goes.
Piped run_limited(const Home& home, std::vector<std::string> arguments, const std::string& input,
                  rlim_t file_limit, const std::filesystem::path* source,
                  const std::filesystem::path& out) {
    const std::filesystem::path in = home.root() / "stdin";
    const std::filesystem::path err = home.root() / "stderr";
    const ExecArguments exec(home, std::move(arguments));
    int feed[2];
    if (pipe2(feed, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    const pid_t pid = fork();
    if (pid < 0) throw std::runtime_error("no process");
    if (pid == 0) {
        if (!source) {
            dup2(feed[0], STDIN_FILENO);
        } else if (source->empty()) {
            close(STDIN_FILENO);
        } else {
            dup2(open(source->c_str(), O_RDONLY | O_CLOEXEC), STDIN_FILENO);
        }
        dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
        dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
        const rlimit limit{file_limit, file_limit};
        setrlimit(RLIMIT_FSIZE, &limit);
        setsid();
        exec.exec();
    }
    close(feed[0]);
    // A small input fits into the pipe, whether it is read or not.
    const ssize_t count = write(feed[1], input.data(), input.size());
    close(feed[1]);
    Piped result;
    result.status = wait_for(pid);
    if (count != static_cast<ssize_t>(input.size())) result.status = -1;
    if (std::filesystem::is_regular_file(out)) result.out = read_file(out);
    result.err = read_file(err);
    return result;
}

}  // namespace

Piped run_piped(const Home& home, std::vector<std::string> arguments, const std::string& input) {
    return run_limited(home, std::move(arguments), input, RLIM_INFINITY, nullptr,
                       home.root() / "stdout");
}

Piped run_with_stdin(const Home& home, std::vector<std::string> arguments,
                     const std::filesystem::path& source) {
    return run_limited(home, std::move(arguments), {}, RLIM_INFINITY, &source,
                       home.root() / "stdout");
}

Piped run_with_file_limit(const Home& home, std::vector<std::string> arguments, std::size_t bytes) {
    return run_limited(home, std::move(arguments), {}, bytes, nullptr, home.root() / "stdout");
}

Piped run_into(const Home& home, std::vector<std::string> arguments,
               const std::filesystem::path& out) {
    return run_limited(home, std::move(arguments), {}, RLIM_INFINITY, nullptr, out);
}

int run_with_closed_output(const Home& home, std::vector<std::string> arguments) {
    const ExecArguments exec(home, std::move(arguments));
    int pipe_ends[2];
    if (pipe2(pipe_ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    const pid_t pid = fork();
    if (pid < 0) throw std::runtime_error("no process");
    if (pid == 0) {
        dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
        dup2(pipe_ends[1], STDOUT_FILENO);
        setsid();
        close(pipe_ends[0]);
        close(pipe_ends[1]);
        exec.exec();
    }
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    return wait_for(pid);
}

}  // namespace cubepi::terminal_tests
