#pragma once

#include <filesystem>
#include <string_view>

namespace cubepi {

/// A directory of this process in the system's directory for temporary files, for this user only (0700). Removed with its
/// content by the destructor. A process that is killed leaves its directory behind; the next process that makes one of the
/// same kind removes it.
class TemporaryDirectory {
public:
    /// `kind` is part of the name: "cubepi-KIND-XXXXXX". Throws Error(io and others) when none can be made.
    explicit TemporaryDirectory(std::string_view kind);
    ~TemporaryDirectory();
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

    const std::filesystem::path& path() const noexcept { return path_; }

private:
    std::filesystem::path path_;
    int lock_ = -1;  // the open directory, locked as long as it is in use
};

}  // namespace cubepi
