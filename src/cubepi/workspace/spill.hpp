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
    /// Where the files go: made with mode 0700 when missing, refused when others can get in. The files stay, and count
    /// for the next sink there.
    /// Empty: a new directory in the system's place for temporary files, removed with the sink.
    std::filesystem::path directory;
    /// All files together; the oldest go when there is no room for a new one.
    std::uint64_t max_total_bytes = 256 * 1024 * 1024;
    /// One file; what comes after is dropped, and the file's last line says so.
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
    /// The path under which it can be read.
    virtual const std::string& path() const noexcept = 0;
    /// Blocks. What does not fit, or cannot be written, is dropped.
    virtual void append(std::string_view text) noexcept = 0;

    SpillFile(const SpillFile&) = delete;
    SpillFile& operator=(const SpillFile&) = delete;

protected:
    SpillFile() = default;
};

/// Keeps texts that are too long for the model (D24) in a private directory. Give that directory to the workspace as a
/// read-only root, so that the read tool reaches it. Any thread may call any member.
class FileSpillSink final : public SpillSink {
public:
    /// Throws Error: io, permission_denied.
    explicit FileSpillSink(FileSpillOptions options = FileSpillOptions());
    ~FileSpillSink() override;

    const std::filesystem::path& directory() const noexcept;

    /// Writes a file and returns a sentence that says where it is and how to read it. Throws Error: storage_full, io.
    std::string spill(std::string_view tool_name, std::string_view tool_call_id,
                      std::string_view text) override;

    /// A file for text that comes in pieces; it is made with the first one. Keeps the sink's directory alive.
    std::shared_ptr<SpillFile> create(std::string_view tool_name);

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace cubepi
