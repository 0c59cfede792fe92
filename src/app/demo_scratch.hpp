#pragma once

#include <filesystem>
#include <string>

#include <cubepi/workspace/temporary_directory.hpp>

namespace cubepi::app {

/// A directory of a few files for the tour to work on; removed with this object.
class ScratchDirectory {
public:
    /// Throws Error(io).
    ScratchDirectory();

    /// The directory of the tools.
    std::filesystem::path workspace() const { return root_.path() / "workspace"; }
    std::filesystem::path tapes() const { return root_.path() / "tapes"; }

private:
    TemporaryDirectory root_;
};

/// The content of a file, or an empty text.
std::string file_text(const std::filesystem::path& path);

}  // namespace cubepi::app
