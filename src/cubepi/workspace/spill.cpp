#include <cubepi/workspace/spill.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <list>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/ids.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/workspace/files/file_access.hpp>
#include <cubepi/workspace/temporary_directory.hpp>

namespace cubepi {

namespace {

constexpr std::string_view cut_notice =
    "\n[further text was discarded: the file has reached its size limit]\n";

std::string safe_name(std::string_view tool_name) {
    std::string name;
    for (const char c : tool_name.substr(0, 40)) {
        const bool plain =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
        name += plain ? c : '_';
    }
    return (name.empty() ? "text" : name) + "-" + RandomIds().next() + ".txt";
}

}  // namespace

struct FileSpillSink::State {
    struct File {
        std::string path = {};
        std::uint64_t size = 0;
        bool growing = false;
    };

    FileSpillOptions options;
    std::filesystem::path directory;
    std::optional<TemporaryDirectory> temporary;
    std::mutex mutex;
    std::list<File> files;  ///< oldest first
    std::uint64_t total = 0;

    /// Files of earlier sinks count towards the limit and are removed first.
    void adopt() {
        std::vector<std::pair<std::filesystem::file_time_type, File>> found;
        std::error_code failed;
        for (std::filesystem::directory_iterator one(directory, failed), end; !failed && one != end;
             one.increment(failed)) {
            std::error_code gone;
            if (one->path().extension() != ".txt" || !one->is_regular_file(gone)) continue;
            const auto size = one->file_size(gone);
            const auto written = one->last_write_time(gone);
            if (!gone) found.emplace_back(written, File{one->path().string(), size, false});
        }
        std::sort(found.begin(), found.end(),
                  [](const auto& a, const auto& b) { return a.first < b.first; });
        for (auto& [written, file] : found) {
            total += file.size;
            files.push_back(std::move(file));
        }
    }

    /// Returns how many of `wanted` further bytes fit into `file`; removes older files to free space.
    std::uint64_t reserve(File& file, std::uint64_t wanted) {
        const std::uint64_t one = std::min(options.max_file_bytes, options.max_total_bytes);
        wanted = std::min(wanted, one - std::min(one, file.size));
        for (auto old = files.begin();
             old != files.end() && total + wanted > options.max_total_bytes;) {
            if (old->growing || &*old == &file) {
                ++old;
                continue;
            }
            ::unlink(old->path.c_str());
            total -= old->size;
            old = files.erase(old);
        }
        wanted =
            std::min(wanted, options.max_total_bytes - std::min(options.max_total_bytes, total));
        file.size += wanted;
        total += wanted;
        return wanted;
    }
};

namespace {

/// Returns 0 or the errno.
int write_to(const std::string& path, std::string_view text, bool first) {
    const int flags = O_WRONLY | O_NOFOLLOW | (first ? O_CREAT | O_EXCL : O_APPEND);
    const detail::UniqueFd fd = detail::open_file(path.c_str(), flags);
    return fd && detail::write_all(fd.get(), text) ? 0 : errno;
}

}  // namespace

FileSpillSink::FileSpillSink(FileSpillOptions options) : state_(std::make_shared<State>()) {
    if (options.directory.empty()) {
        state_->directory = state_->temporary.emplace("spill").path();
    } else {
        state_->directory = std::filesystem::absolute(options.directory);
        detail::make_private_directory(state_->directory);
        state_->adopt();
    }
    state_->options = std::move(options);
}

FileSpillSink::~FileSpillSink() = default;

const std::filesystem::path& FileSpillSink::directory() const noexcept { return state_->directory; }

std::string FileSpillSink::spill(std::string_view tool_name, std::string_view,
                                 std::string_view text) {
    const std::lock_guard lock(state_->mutex);
    State::File& file = state_->files.emplace_back();
    file.path = (state_->directory / safe_name(tool_name)).string();
    const auto space = state_->reserve(file, text.size());
    int code = write_to(file.path, text.substr(0, space), true);
    if (code == 0 && space < text.size()) code = write_to(file.path, cut_notice, false);
    if (code != 0) {
        const std::string path = file.path;
        ::unlink(path.c_str());
        state_->total -= file.size;
        state_->files.pop_back();
        detail::throw_file_error("write", path, code);
    }
    return "The whole text is in " + file.path +
           "; use the read tool (start_line and line_count select a part).";
}

std::shared_ptr<SpillFile> FileSpillSink::create(std::string_view tool_name) {
    class Growing final : public SpillFile {
    public:
        Growing(std::shared_ptr<State> state, std::string path)
            : state_(std::move(state)), path_(std::move(path)) {}
        ~Growing() override {
            const std::lock_guard lock(state_->mutex);
            if (file_ != nullptr) file_->growing = false;
        }

        const std::string& path() const noexcept override { return path_; }

        void append(std::string_view text) noexcept override {
            const std::lock_guard lock(state_->mutex);
            if (full_) return;
            const bool first = file_ == nullptr;
            if (first) {
                file_ = &state_->files.emplace_back();
                file_->path = path_;
                file_->growing = true;
            }
            const auto space = state_->reserve(*file_, text.size());
            const int code = write_to(path_, text.substr(0, space), first);
            full_ = code != 0 || space < text.size();
            if (code == 0 && full_) write_to(path_, cut_notice, false);
        }

    private:
        const std::shared_ptr<State> state_;
        const std::string path_;
        State::File* file_ = nullptr;  ///< in the list; growing files are not removed from it
        bool full_ = false;
    };
    return std::make_shared<Growing>(state_, (state_->directory / safe_name(tool_name)).string());
}

}  // namespace cubepi
