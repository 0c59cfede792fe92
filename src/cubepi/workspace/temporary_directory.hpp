#pragma once

#include <filesystem>
#include <string_view>

namespace cubepi {

/// A directory of this process in the system's directory for temporary files, accessible to this user only (0700). The
/// destructor removes it with its content. If the process is killed, the directory remains until the next process that
/// creates one of the same kind removes it.
class TemporaryDirectory {
public:
    /// `kind` is part of the name: "cubepi-KIND-XXXXXX". Throws Error(io and others) if the directory cannot be created.
    explicit TemporaryDirectory(std::string_view kind);
    ~TemporaryDirectory();
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

    const std::filesystem::path& path() const noexcept { return path_; }

private:
    std::filesystem::path path_;
    int lock_ = -1;  // the open directory, locked while it is in use
};

}  // namespace cubepi
