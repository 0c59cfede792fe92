#pragma once

#include <filesystem>
#include <string>

namespace cubepi::app {

/// A folder of a few files for the tour to work on; removed with this object.
class ScratchFolder {
public:
    /// Throws Error(io).
    ScratchFolder();
    ~ScratchFolder();
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;

    /// What the tools see.
    std::filesystem::path workspace() const { return root_ / "workspace"; }
    std::filesystem::path tapes() const { return root_ / "tapes"; }

private:
    std::filesystem::path root_;
};

/// The content of a file, or an empty text.
std::string file_text(const std::filesystem::path& path);

}  // namespace cubepi::app
