#include <cubepi/mcp/server/connection.hpp>

#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <boost/asio/error.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/blocked_signals.hpp>
#include <cubepi/core/support/posix_file.hpp>

namespace cubepi {

namespace {

namespace asio = boost::asio;

constexpr std::size_t read_size = 64 * 1024;

/// A descriptor that the event loop watches, as long as it can: it watches pipes, sockets and terminals. Files and devices such as
/// /dev/null, for which epoll refuses to wait, are always ready.
class Watched {
public:
    Watched(const Executor& executor, int fd, const char* name) : fd_(fd), descriptor_(executor) {
        // A duplicate, so that this object does not close the stream.
        detail::UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
        if (!copy) {
            throw Error(ErrorCode::io, std::string(name) + " is not open (" +
                                           detail::errno_text(errno) +
                                           "); an MCP server needs both streams of its client");
        }
        boost::system::error_code failed;
        (void)descriptor_->assign(copy.get(), failed);
        if (failed) {
            descriptor_.reset();
        } else {
            (void)copy.release();
        }
    }

    int fd() const noexcept { return fd_; }

    Task<> ready(asio::posix::descriptor_base::wait_type what) {
        if (!descriptor_) co_return;
        boost::system::error_code failed;
        co_await descriptor_->async_wait(what, asio::redirect_error(asio::use_awaitable, failed));
        if (!failed) co_return;
        // Asio accepts descriptors that it cannot watch, and refuses to wait for them.
        if (failed == asio::error::operation_not_supported) {
            descriptor_.reset();
            co_return;
        }
        throw boost::system::system_error(failed);
    }

private:
    int fd_;
    std::optional<asio::posix::stream_descriptor> descriptor_;
};

class Descriptors final : public McpByteStream {
public:
    Descriptors(const Executor& executor, int input, int output)
        : input_(executor, input, "standard input"), output_(executor, output, "standard output") {}

    Task<bool> read(std::string& out) override {
        co_await input_.ready(asio::posix::descriptor_base::wait_read);
        const std::size_t old_size = out.size();
        out.resize(old_size + read_size);
        const ssize_t got = ::read(input_.fd(), out.data() + old_size, read_size);
        const int code = errno;
        out.resize(old_size + (got > 0 ? static_cast<std::size_t>(got) : 0));
        if (got < 0 && code != EINTR && code != EAGAIN)
            throw Error(ErrorCode::io, "cannot read standard input: " + detail::errno_text(code));
        co_return got != 0;
    }

    Task<> write(std::string bytes) override {
        for (std::string_view rest = bytes; !rest.empty();) {
            co_await output_.ready(asio::posix::descriptor_base::wait_write);
            ssize_t put = -1;
            int code = 0;
            {
                const detail::NoSigpipe guard;
                put = ::write(output_.fd(), rest.data(), rest.size());
                code = errno;
            }
            if (put > 0) {
                rest.remove_prefix(static_cast<std::size_t>(put));
            } else if (code != EINTR && code != EAGAIN) {
                throw Error(ErrorCode::disconnected, "The client does not read standard output: " +
                                                         detail::errno_text(code));
            }
        }
    }

private:
    Watched input_;
    Watched output_;
};

}  // namespace

std::unique_ptr<McpByteStream> detail::mcp_descriptors(const Executor& executor, int input,
                                                       int output) {
    return std::make_unique<Descriptors>(executor, input, output);
}

std::unique_ptr<McpByteStream> mcp_standard_streams(Executor executor) {
    return detail::mcp_descriptors(executor, STDIN_FILENO, STDOUT_FILENO);
}

}  // namespace cubepi
