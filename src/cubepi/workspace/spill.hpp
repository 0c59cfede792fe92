#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/agent/tool.hpp>

namespace cubepi {

struct FileSpillOptions {
    /// The directory of the files: created with mode 0700 if missing, refused if others can access it. The files remain, and
    /// count towards the limit of the next sink in that directory.
    /// Empty: a new directory in the system's directory for temporary files, removed with the sink.
    std::filesystem::path directory;
    /// The limit of all files together; the oldest files are removed when a new one does not fit.
    std::uint64_t max_total_bytes = 256 * 1024 * 1024;
    /// The limit of one file; further text is discarded, and the last line of the file states that.
    std::uint64_t max_file_bytes = 64 * 1024 * 1024;

    FileSpillOptions() {}
    FileSpillOptions&& in(std::filesystem::path path) && {
        directory = std::move(path);
        return std::move(*this);
    }
};

/// A spill file that grows. One thread at a time.
class SpillFile {
public:
    virtual ~SpillFile() = default;
    /// The path for reading the file.
    virtual const std::string& path() const noexcept = 0;
    /// Blocks. Discards text that does not fit or cannot be written.
    virtual void append(std::string_view text) noexcept = 0;

    SpillFile(const SpillFile&) = delete;
    SpillFile& operator=(const SpillFile&) = delete;

protected:
    SpillFile() = default;
};

/// Stores texts that are too long for the model (D24) in a private directory. Add that directory to the workspace as a
/// read-only root, so that the read tool can access it. Any thread may call any member.
class FileSpillSink final : public SpillSink {
public:
    /// Throws Error: io, permission_denied.
    explicit FileSpillSink(FileSpillOptions options = FileSpillOptions());
    ~FileSpillSink() override;

    const std::filesystem::path& directory() const noexcept;

    /// Writes a file and returns a sentence with its path and how to read it. Throws Error: storage_full, io.
    std::string spill(std::string_view tool_name, std::string_view tool_call_id,
                      std::string_view text) override;

    /// Returns a file for text that arrives in pieces; it is created with the first piece. Keeps the sink's directory alive.
    std::shared_ptr<SpillFile> create(std::string_view tool_name);

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace cubepi
