#include <cubepi/mcp/server/connection.hpp>

#include <array>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/core/run.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/mcp/mcp_server_test.hpp>

namespace cubepi {
namespace {

using namespace mcp_test;
using detail::UniqueFd;
using ::testing::HasSubstr;

Task<> serve(int input, int output) {
    const TestServer settings;
    const auto server = settings.make();
    const Executor executor = co_await this_executor;
    co_await server->serve(detail::mcp_descriptors(executor, input, output));
}

std::string rest_of(int fd) {
    std::string text;
    std::array<char, 4096> part = {};
    for (ssize_t got = 0; (got = ::read(fd, part.data(), part.size())) > 0;)
        text.append(part.data(), static_cast<std::size_t>(got));
    return text;
}

TEST(McpStandardStreams, Files_AreServed) {
    const std::string line = modern(1, "tools/list");
    UniqueFd requests(::memfd_create("requests", MFD_CLOEXEC));
    ASSERT_EQ(::write(requests.get(), line.data(), line.size()), ssize_t(line.size()));
    ASSERT_EQ(::lseek(requests.get(), 0, SEEK_SET), 0);
    UniqueFd output(::memfd_create("answers", MFD_CLOEXEC));
    run(serve(requests.get(), output.get()));
    ASSERT_EQ(::lseek(output.get(), 0, SEEK_SET), 0);
    EXPECT_THAT(rest_of(output.get()), HasSubstr(R"("name":"echo")"));
}

TEST(McpStandardStreams, Devices_AreServed) {
    UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    run(serve(null.get(), null.get()));
}

TEST(McpStandardStreams, OneSocket_IsServed) {
    std::array<int, 2> pair = {};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
    UniqueFd client(pair[0]);
    UniqueFd server(pair[1]);
    const std::string line = modern(1, "tools/list");
    ASSERT_EQ(::write(client.get(), line.data(), line.size()), ssize_t(line.size()));
    ASSERT_EQ(::shutdown(client.get(), SHUT_WR), 0);
    run(serve(server.get(), server.get()));
    ASSERT_EQ(::close(server.release()), 0);
    EXPECT_THAT(rest_of(client.get()), HasSubstr(R"("name":"echo")"));
}

TEST(McpStandardStreams, ClosedStream_IsNamed) {
    UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    try {
        run(serve(null.get(), 1'000'000));
        FAIL() << "served a descriptor that is not open";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("standard output is not open"));
    }
}

TEST(McpStandardStreams, Directory_IsRefused) {
    UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    UniqueFd directory(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    EXPECT_THROW(run(serve(directory.get(), null.get())), Error);
}

}  // namespace
}  // namespace cubepi
