#include "standard_input.hpp"

#include <array>
#include <cerrno>
#include <string_view>

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/workspace/files/content.hpp>

namespace cubepi::app {

namespace {

constexpr std::size_t mebibyte = 1024 * 1024;
/// As much as decides whether data is binary.
constexpr std::size_t decisive = 8192;

void refuse_binary(std::string_view start) {
    if (!detail::looks_binary(start) && detail::image_type(start).empty()) return;
    throw Error(ErrorCode::invalid_argument,
                "standard input is binary data, not text.\n"
                "  Save it to a file in this directory and name the path in the prompt; the model "
                "opens text and images with its read tool:\n"
                "  cubepi run \"describe picture.png\"");
}

[[noreturn]] void refuse_size(std::size_t mebibytes) {
    throw Error(ErrorCode::invalid_argument,
                "standard input exceeds " + std::to_string(mebibytes) +
                    " MiB.\n  Raise the limit with --max-input MIB, or save the input to a file "
                    "in this directory and name the path in the prompt");
}

}  // namespace

std::string piped_input(std::size_t mebibytes) {
    struct stat info = {};
    if (fstat(STDIN_FILENO, &info) != 0) return {};
    if (!S_ISFIFO(info.st_mode) && !S_ISREG(info.st_mode) && !S_ISSOCK(info.st_mode)) return {};
    std::string text;
    std::array<char, 65536> block = {};
    bool checked = false;
    for (;;) {
        const ssize_t count = read(STDIN_FILENO, block.data(), block.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EAGAIN) {  // the pipe was made non-blocking by another process
            pollfd ready = {STDIN_FILENO, POLLIN, 0};
            (void)poll(&ready, 1, -1);
            continue;
        }
        if (count < 0 && errno == EBADF) return {};  // open for writing only
        if (count < 0) {
            throw Error(ErrorCode::io, "cannot read standard input: " + detail::errno_text(errno));
        }
        text.append(block.data(), static_cast<std::size_t>(count));
        if (!checked && (count == 0 || text.size() >= decisive)) {
            refuse_binary(text);
            checked = true;
        }
        if (count == 0) break;
        if (text.size() > mebibytes * mebibyte) refuse_size(mebibytes);
    }
    return is_utf8(text) ? text : replace_broken_utf8(text);
}

}  // namespace cubepi::app
