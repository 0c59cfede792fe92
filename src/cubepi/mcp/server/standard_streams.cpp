#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/blocked_signals.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/mcp/server.hpp>

namespace cubepi {

namespace {

namespace asio = boost::asio;

constexpr std::size_t read_size = 64 * 1024;

/// Standard input and output. The event loop makes them nonblocking while it watches them. It cannot watch files, which never block
/// for long.
class StandardStreams final : public McpByteStream {
public:
    explicit StandardStreams(const Executor& executor) : input_(executor), output_(executor) {
        adopt(input_, STDIN_FILENO);
        adopt(output_, STDOUT_FILENO);
    }

    Task<bool> read(std::string& out) override {
        if (input_.is_open()) co_await ready(input_, asio::posix::descriptor_base::wait_read);
        const std::size_t old_size = out.size();
        out.resize(old_size + read_size);
        const ssize_t got = ::read(STDIN_FILENO, out.data() + old_size, read_size);
        out.resize(old_size + (got > 0 ? static_cast<std::size_t>(got) : 0));
        if (got < 0 && errno != EINTR && errno != EAGAIN)
            throw Error(ErrorCode::io, "Standard input: " + detail::errno_text(errno));
        co_return got != 0;
    }

    Task<> write(std::string bytes) override {
        for (std::string_view rest = bytes; !rest.empty();) {
            if (output_.is_open())
                co_await ready(output_, asio::posix::descriptor_base::wait_write);
            ssize_t put = -1;
            int code = 0;
            {
                const detail::NoSigpipe guard;
                put = ::write(STDOUT_FILENO, rest.data(), rest.size());
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
    using Descriptor = asio::posix::stream_descriptor;

    /// Watches a duplicate, so that this object does not close the standard stream.
    static void adopt(Descriptor& stream, int fd) {
        detail::UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
        if (!copy)
            throw Error(ErrorCode::io,
                        "A standard stream is not open: " + detail::errno_text(errno));
        boost::system::error_code failed;
        (void)stream.assign(copy.get(), failed);
        if (!failed) (void)copy.release();
    }

    static Task<> ready(Descriptor& stream, asio::posix::descriptor_base::wait_type what) {
        co_await stream.async_wait(what, asio::use_awaitable);
    }

    Descriptor input_;
    Descriptor output_;
};

}  // namespace

std::unique_ptr<McpByteStream> mcp_standard_streams(Executor executor) {
    return std::make_unique<StandardStreams>(executor);
}

}  // namespace cubepi
