#pragma once

#include <stdlib.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <cubepi/core/run.hpp>

namespace bub {

using cubepi::run;

/// A directory for tapes that is removed with the test.
class TestDirectory {
public:
    TestDirectory() {
        std::string name = (std::filesystem::temp_directory_path() / "cubepi-tape-XXXXXX").string();
        if (!mkdtemp(name.data())) throw std::system_error(errno, std::generic_category(), name);
        path_ = name;
    }
    ~TestDirectory() {
        std::error_code failed;
        std::filesystem::remove_all(path_, failed);
    }
    TestDirectory(const TestDirectory&) = delete;
    TestDirectory& operator=(const TestDirectory&) = delete;

    const std::filesystem::path& path() const { return path_; }
    /// Not synced: that protects against a power failure and makes no difference for a killed process.
    FileTapeOptions options() const {
        FileTapeOptions options;
        options.directory = path_;
        options.sync = TapeSync::never;
        return options;
    }
    std::string read(const std::string& name) const {
        std::ifstream in(path_ / name, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    }
    void write(const std::string& name, std::string_view text) const {
        std::ofstream out(path_ / name, std::ios::binary | std::ios::trunc);
        out << text;
    }
    void add(const std::string& name, std::string_view text) const {
        std::ofstream out(path_ / name, std::ios::binary | std::ios::app);
        out << text;
    }
    bool has(const std::string& name) const { return std::filesystem::exists(path_ / name); }
    std::size_t count(const std::string& name) const {
        std::error_code failed;
        std::size_t files = 0;
        for (std::filesystem::directory_iterator file(path_ / name, failed), end;
             !failed && file != end; ++file)
            ++files;
        return files;
    }

private:
    std::filesystem::path path_;
};

/// A tape of a new store in the directory.
inline Tape tape_in(const TestDirectory& directory, std::string name = "w__s") {
    return Tape(std::make_shared<FileTapeStore>(directory.options()), std::move(name));
}

inline void say(const Tape& tape, std::string text) {
    run(tape.append(message_entry("user", std::move(text))));
}

/// The options of a turn with this id.
inline TurnTransactionOptions turn(std::string id) {
    TurnTransactionOptions options;
    options.turn_id = std::move(id);
    return options;
}

/// A limit of `bytes` for every file during its lifetime, to simulate a full disk.
class FullDisk {
public:
    explicit FullDisk(std::size_t bytes = 0) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
        getrlimit(RLIMIT_FSIZE, &before_);
        rlimit limit = before_;
        limit.rlim_cur = bytes;
        setrlimit(RLIMIT_FSIZE, &limit);
    }
    ~FullDisk() {
        setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, handler_);
    }
    FullDisk(const FullDisk&) = delete;
    FullDisk& operator=(const FullDisk&) = delete;

private:
    void (*handler_)(int);
    rlimit before_ = {};
};

}  // namespace bub
