#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <sys/types.h>

#include "virtual_screen.hpp"

namespace cubepi::terminal_tests {

/// A home, a directory to work in, and an environment without the machine's own settings.
class Home {
public:
    Home();
    ~Home();
    Home(const Home&) = delete;
    Home& operator=(const Home&) = delete;

    std::filesystem::path root() const { return root_; }
    std::filesystem::path work() const { return root_ / directory_; }
    /// Programs are started in another directory from now on, which is made.
    void work_in(const std::string& directory);
    /// Where older versions saved their sessions.
    std::filesystem::path database() const {
        return root_ / "home/.local/share/cubepi/sessions.db";
    }
    std::filesystem::path tapes() const { return root_ / "home/.bub/tapes"; }
    std::filesystem::path config() const { return root_ / "home/.config/cubepi/config.yaml"; }
    /// Writes a script for the offline model; returns its path.
    std::string script(const std::string& json) const;
    void set(const std::string& name, const std::string& value);

    std::vector<std::string> environment;

private:
    std::filesystem::path root_;
    std::string directory_ = "work";
};

std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, const std::string& text);

/// Another program than cubepi, by its path: a shell, for example.
struct OtherProgram {
    std::string path;
};

/// The program at a pseudo-terminal.
class Terminal {
public:
    Terminal(const Home& home, const OtherProgram& program, std::vector<std::string> arguments);
    Terminal(const Home& home, std::vector<std::string> arguments, unsigned short columns = 110,
             unsigned short rows = 50);
    ~Terminal();
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;

    /// Waits until `text` is shown behind what was waited for before; false when the program ended, or after minutes.
    bool expect(const std::string& text);
    /// Waits until the screen (with what has scrolled off it) has `text`.
    bool expect_on_screen(const std::string& text);
    /// The same as expect() and expect_on_screen(), and then types `keys`.
    bool answer(const std::string& text, const std::string& keys);
    bool answer_on_screen(const std::string& text, const std::string& keys);
    /// Waits until the screen has it no more.
    bool expect_gone(const std::string& text);
    void type(const std::string& keys);
    void resize(unsigned short columns, unsigned short rows);
    void send(int signal);
    /// The window is closed. Returns the exit status as wait() does; a program that does not end in a minute is killed.
    int hang_up();
    /// Reads until the program ends, and returns its exit status (128 + signal if it was killed).
    int wait();
    /// All that was shown, without escape sequences and carriage returns.
    std::string shown() const;
    const std::string& raw() const { return raw_; }
    const VirtualScreen& screen() const { return screen_; }

private:
    bool read_more(int milliseconds);

    int master_ = -1;
    pid_t pid_ = -1;
    int status_ = -1;
    std::string raw_;
    VirtualScreen screen_;
    std::size_t matched_ = 0;
};

struct Piped {
    int status = -1;
    std::string out;
    std::string err;
};

/// The program without a terminal, `input` on a pipe as its standard input.
Piped run_piped(const Home& home, std::vector<std::string> arguments,
                const std::string& input = {});

/// The same with a file as standard input; an empty path: without any.
Piped run_with_stdin(const Home& home, std::vector<std::string> arguments,
                     const std::filesystem::path& source);

/// The same where no file may grow beyond `bytes`.
Piped run_with_file_limit(const Home& home, std::vector<std::string> arguments, std::size_t bytes);

/// The same with a file as standard output.
Piped run_into(const Home& home, std::vector<std::string> arguments,
               const std::filesystem::path& out);

/// The same with a standard output whose reader is closed; returns the exit status.
int run_with_closed_output(const Home& home, std::vector<std::string> arguments);

}  // namespace cubepi::terminal_tests
