#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace cubepi {

/// Returns the directory in memory if the files of several test programs fit into it, else that of temporary files. For tests that
/// write much, or wait for the disk often: it makes no difference for processes that are killed.
inline std::filesystem::path memory_directory() {
    constexpr std::uintmax_t enough = std::uintmax_t{4} << 30U;
    const std::filesystem::path memory = "/dev/shm";
    std::error_code failed;
    const std::filesystem::space_info space = std::filesystem::space(memory, failed);
    return !failed && space.available >= enough ? memory : std::filesystem::temp_directory_path();
}

/// A directory that is removed after the test.
class ScopedTestDirectory {
public:
    explicit ScopedTestDirectory(
        const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
        std::string name = (parent / "cubepi-test-XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
        path_ = std::filesystem::canonical(name);
    }
    ~ScopedTestDirectory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    ScopedTestDirectory(const ScopedTestDirectory&) = delete;
    ScopedTestDirectory& operator=(const ScopedTestDirectory&) = delete;

    const std::filesystem::path& path() const { return path_; }
    std::string operator/(const char* name) const { return (path_ / name).string(); }

    void put(const char* name, std::string_view content) const {
        std::filesystem::create_directories((path_ / name).parent_path());
        std::ofstream(path_ / name, std::ios::binary) << content;
    }
    std::string get(const char* name) const {
        std::ifstream file(path_ / name, std::ios::binary);
        std::stringstream content;
        content << file.rdbuf();
        return content.str();
    }

private:
    std::filesystem::path path_;
};

}  // namespace cubepi
