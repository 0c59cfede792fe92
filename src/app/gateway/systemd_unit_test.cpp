#include "gateway_command.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include <cubepi/core/scoped_test_directory.hpp>

namespace cubepi::app {
namespace {

UnitOptions options() {
    UnitOptions options;
    options.program = "/bin/true";
    options.environment = "/srv/cubepi/.config/cubepi/gateway.env";
    return options;
}

/// Returns the exit status of `systemd-analyze verify`, which also fails for warnings.
int verify(const std::string& unit, const ScopedTestDirectory& directory) {
    const std::filesystem::path path = directory.path() / "cubepi-gateway.service";
    std::ofstream(path) << unit;
    const std::string output = (directory.path() / "output").string();
    const std::string command = "XDG_RUNTIME_DIR=" + directory.path().string() +
                                " systemd-analyze verify --user " + path.string() + " >" + output +
                                " 2>&1";
    const int status = std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe)
    std::ifstream file(output);
    const std::string text((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    EXPECT_EQ(text, "");
    return status;
}

TEST(GatewayUnit, IsAcceptedBySystemd) {
    const ScopedTestDirectory directory;
    EXPECT_EQ(verify(gateway_unit(options()), directory), 0);
    UnitOptions other = options();
    other.channels = {"http", "my channel"};
    other.environment = "/home/50% off/$x/gateway.env";
    EXPECT_EQ(verify(gateway_unit(other), directory), 0);
}

TEST(GatewayUnit, LeavesTheGatewayTimeToDrain) {
    UnitOptions slow = options();
    slow.drain_timeout = std::chrono::minutes(5);
    EXPECT_NE(gateway_unit(slow).find("TimeoutStopSec=330\n"), std::string::npos);
}

TEST(GatewayUnit, QuotesTheProgramAndItsChannels) {
    UnitOptions other = options();
    other.program = "/opt/a \"b\" $c %d/cubepi";
    other.channels = {"http"};
    EXPECT_NE(gateway_unit(other).find(
                  R"(ExecStart="/opt/a \"b\" $$c %%d/cubepi" gateway --enable-channel "http")"),
              std::string::npos)
        << gateway_unit(other);
}

}  // namespace
}  // namespace cubepi::app
