#include <cubepi/workspace/workspace.hpp>

#include <filesystem>

#include <cubepi/core/error.hpp>

namespace cubepi {

Task<> Process::wait_all() { co_await wait(); }

Task<std::vector<SurvivingProcess>> Process::end() {
    kill();
    co_await wait();
    std::vector<SurvivingProcess> none;
    co_return none;
}

std::vector<SurvivingProcess> Process::end_now() noexcept {
    kill();
    return {};
}

std::string Workspace::read(const std::string& path, std::size_t max_bytes) {
    const auto file = open(path);
    std::string content;
    constexpr std::size_t step = 64 * 1024;
    for (;;) {
        const std::size_t old_size = content.size();
        content.resize(old_size + step);
        const std::size_t got = file->read(content.data() + old_size, step);
        content.resize(old_size + got);
        if (content.size() > max_bytes) {
            throw Error(ErrorCode::too_large, path + " has more than " + std::to_string(max_bytes) +
                                                  " bytes, which is too large.");
        }
        if (got == 0) return content;
    }
}

std::string Workspace::write_target(const std::string& path) {
    const std::filesystem::path resolved = std::filesystem::path(path).lexically_normal();
    return resolved.is_absolute() ? resolved.lexically_relative(root()).string()
                                  : resolved.string();
}

void Workspace::rewrite(const std::string& path, std::size_t max_bytes, const Rewrite& change) {
    FileBefore before;
    try {
        before.info = stat(path);
        before.exists = true;
    } catch (const Error& error) {
        if (error.code() != ErrorCode::not_found) throw;
    }
    if (before.exists && before.info.kind != FileKind::file) {
        throw Error(ErrorCode::invalid_argument,
                    path + " is not a regular file and cannot be replaced.");
    }
    if (before.exists && before.info.size <= max_bytes) before.content = read(path, max_bytes);
    if (const std::optional<std::string> content = change(before)) write(path, *content);
}

}  // namespace cubepi
